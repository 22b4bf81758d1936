"""The modelled time of an iteration on a CPU."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfare.estimator.cpu.machine import GENERIC_CPU, CpuMachine
from trainfare.estimator.cpu.step import CpuStepModel
from trainfare.model.profile import Operation, OperationKind

KINDS: tuple[OperationKind, ...] = ("matmul", "convolution", "pointwise", "rnn", "optimizer")
OPERATIONS = st.lists(
    st.builds(
        Operation,
        kind=st.sampled_from(KINDS),
        dtype=st.sampled_from(("float32", "bfloat16", "float64")),
        flops=st.floats(0, 1e12),
        bytes=st.floats(0, 1e9),
        count=st.integers(1, 50),
    ),
    min_size=1,
    max_size=6,
)
CORES = st.floats(0.25, 200)
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def machine(cores: float = 4, **changes: object) -> CpuMachine:
    return CpuMachine(cpu=replace(GENERIC_CPU, **changes), cores=cores)  # type: ignore[arg-type] # fields by name, of several types


def matmul(dtype: str = "float32", flops: float = 1e10) -> CpuStepModel:
    return CpuStepModel([Operation(kind="matmul", dtype=dtype, flops=flops, bytes=1e6)])


@unhurried
@given(OPERATIONS, CORES, CORES)
def test_more_cores_are_never_slower(operations: list[Operation], one: float, other: float) -> None:
    model = CpuStepModel(operations)
    fewer, more = sorted((one, other))
    assert model.step(machine(more)).seconds <= model.step(machine(fewer)).seconds * (1 + 1e-9)


@unhurried
@given(OPERATIONS, CORES, st.floats(1, 5), st.floats(1, 5))
def test_a_faster_clock_is_never_slower(operations: list[Operation], cores: float, one: float, other: float) -> None:
    model = CpuStepModel(operations)
    slow, fast = (model.step(machine(cores, clock_ghz=clock)).seconds for clock in sorted((one, other)))
    assert fast <= slow * (1 + 1e-9)


@unhurried
@given(OPERATIONS, CORES)
def test_wider_vectors_are_never_slower(operations: list[Operation], cores: float) -> None:
    model = CpuStepModel(operations)
    narrow, wide = (model.step(machine(cores, simd_bits=bits)).seconds for bits in (256, 512))
    assert wide <= narrow * (1 + 1e-9)


def test_small_operations_gain_nothing_from_many_cores() -> None:
    small = CpuStepModel([Operation(kind="pointwise", dtype="float32", flops=0, bytes=1e4, count=100)])
    assert small.step(machine(64)).seconds == small.step(machine(1)).seconds
    assert small.step(machine(1)).limited_by == "launches"


def test_large_products_gain_from_many_cores() -> None:
    large = matmul(flops=1e12)
    assert large.step(machine(16)).seconds < large.step(machine(1)).seconds / 3
    assert large.step(machine(16)).limited_by == "compute"


def test_half_a_core_takes_twice_as_long() -> None:
    assert matmul().step(machine(0.5)).seconds == pytest.approx(2 * matmul().step(machine(1)).seconds)


def test_a_program_that_limits_its_threads_gains_no_more_cores() -> None:
    large = matmul(flops=1e12)
    assert large.step(machine(16), threads=2).seconds == large.step(machine(2)).seconds


def test_bfloat16_is_slow_without_a_matrix_unit_and_fast_with_one() -> None:
    float32 = matmul().step(machine()).parallel
    assert matmul("bfloat16").step(machine()).parallel > 3 * float32
    assert matmul("bfloat16").step(machine(bf16_matrix_unit=True)).parallel < float32


def test_tf32_is_a_setting_of_gpus() -> None:
    assert matmul("tf32").step(machine()) == matmul().step(machine())


def test_communication_is_not_computing() -> None:
    with_sync = CpuStepModel([Operation(kind="communication", dtype="float32", flops=0, bytes=1e9)])
    assert with_sync.step(machine()).seconds == 0


def test_parts_add_up_to_the_iteration() -> None:
    step = matmul().step(machine())
    assert sum(part.seconds for part in step.parts(0.3)) == pytest.approx(0.3)
