"""A measured iteration carried over to another CPU machine."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfare.estimator.cpu.machine import GENERIC_CPU, CpuMachine
from trainfare.estimator.cpu.step import CpuStepModel
from trainfare.estimator.cpu.transfer import CpuMeasurement, transfer_step
from trainfare.model.interval import Interval
from trainfare.model.profile import Operation

MODEL = CpuStepModel(
    [
        Operation(kind="matmul", dtype="float32", flops=2e9, bytes=1e6, count=20),
        Operation(kind="pointwise", dtype="float32", flops=0, bytes=1e5, count=100),
    ]
)
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
OTHER_CPU = replace(GENERIC_CPU, name="other", clock_ghz=3.5, simd_bits=512)


def machine(cores: float = 2, **changes: object) -> CpuMachine:
    return CpuMachine(**({"cpu": GENERIC_CPU, "cores": cores} | changes))  # type: ignore[arg-type] # fields by name, of several types


def measured(cores: float = 2, seconds: float = 0.2) -> CpuMeasurement:
    return CpuMeasurement(machine=machine(cores), seconds=Interval.within_factor(seconds, 1.05))


def factor(found: Interval) -> float:
    return found.high / found.low


@pytest.mark.parametrize("model", [MODEL, None])
def test_the_same_machine_has_the_measured_time(model: CpuStepModel | None) -> None:
    found = transfer_step(model, [measured()], machine()).seconds
    assert found.value == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.2 / 1.05, 0.2 * 1.05))


@pytest.mark.parametrize("model", [MODEL, None])
@unhurried
@given(one=st.floats(0.5, 128), other=st.floats(0.5, 128))
def test_more_cores_are_never_slower(model: CpuStepModel | None, one: float, other: float) -> None:
    fewer, more = sorted((one, other))
    slow, fast = (transfer_step(model, [measured()], machine(cores)).seconds.value for cores in (fewer, more))
    assert fast <= slow * (1 + 1e-9)


@unhurried
@given(cores=st.floats(0.5, 128), clock=st.floats(1.5, 4))
def test_the_interval_contains_the_value(cores: float, clock: float) -> None:
    target = machine(cores, cpu=replace(OTHER_CPU, clock_ghz=clock))
    found = transfer_step(MODEL, [measured()], target).seconds
    assert 0 < found.low <= found.value <= found.high < math.inf


def test_a_faster_cpu_is_faster() -> None:
    assert transfer_step(MODEL, [measured()], machine(cpu=OTHER_CPU)).seconds.value < 0.2


def test_the_interval_widens_with_the_distance() -> None:
    near, far, elsewhere = (
        transfer_step(MODEL, [measured()], target).seconds
        for target in (machine(4), machine(32), machine(32, cpu=OTHER_CPU))
    )
    assert factor(near) < factor(far) < factor(elsewhere)


def test_unknown_facts_widen_the_interval() -> None:
    known, assumed = (
        transfer_step(MODEL, [measured()], machine(8, cpu=OTHER_CPU, facts=facts)).seconds for facts in (True, False)
    )
    assert factor(known) < factor(assumed)


def test_a_slice_that_gained_nothing_lowers_the_expected_gain() -> None:
    alone = transfer_step(MODEL, [measured(2, 0.2)], machine(8)).seconds.value
    with_slice = transfer_step(MODEL, [measured(2, 0.2), measured(1, 0.21)], machine(8)).seconds.value
    assert alone < with_slice <= 0.2


def test_a_slice_that_gained_everything_raises_the_expected_gain() -> None:
    alone = transfer_step(MODEL, [measured(2, 0.2)], machine(8)).seconds
    with_slice = transfer_step(MODEL, [measured(2, 0.2), measured(1, 0.4)], machine(8)).seconds
    assert with_slice.value < alone.value


def test_another_batch_size_has_its_own_operations() -> None:
    twice = CpuStepModel([Operation(kind="matmul", dtype="float32", flops=8e9, bytes=2e6, count=20)])
    assert transfer_step(MODEL, [measured()], machine(), asked=twice).seconds.value > 0.3


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        transfer_step(MODEL, [], machine())
