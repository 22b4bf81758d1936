"""Iteration time from operations: physical properties of any fit, and fits that recover made-up coefficients."""

import math
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.errors import NotFiniteError, TrainfareError
from trainfare.estimator.gpu.kernels import FEATURES, HOST
from trainfare.estimator.gpu.physics import (
    GpuEfficiency,
    PhysicsFit,
    interval_factor,
    scaled_seconds,
    step_seconds,
)
from trainfare.estimator.gpu.physics_fit import fit_physics, with_measurements
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.profile import Convolution, Operation

GPUS = load_gpus()
AT_PRIOR = PhysicsFit(
    coefficients={feature.name: feature.prior for feature in FEATURES},
    launches={feature.name: feature.prior for feature in HOST},
    launch_seconds=10e-6,
    familiar=tuple(feature.name for feature in FEATURES if feature.kind != "attention"),
)


def network(width: int, batch: int, blocks: int = 4, *, dtype: str = "float16") -> tuple[Operation, ...]:
    """Convolutions with batch norms and activations, as our tracer reports them."""
    itemsize = 2 if dtype == "float16" else 4
    plane = 28
    tensor = batch * width * plane**2 * itemsize
    shape = Convolution(channels_in=width, channels_out=width, kernel=(3, 3), stride=(1, 1), plane=(plane, plane))
    flops = 2.0 * batch * plane**2 * 9 * width**2
    row = batch * plane**2

    def of(kind: str, size: float, name: str, part: str, **more: object) -> Operation:
        fields = {"kind": kind, "dtype": dtype, "bytes": size, "count": blocks, "name": f"aten.{name}", "part": part}
        return Operation(**{"flops": 0.0, **fields, **more})  # type: ignore[arg-type] # fields by name, of several types; the noun checks them

    return (
        of("convolution", 2 * tensor, "convolution", "forward", flops=flops, convolution=shape),
        of("convolution", 3 * tensor, "convolution_backward", "backward", flops=2 * flops, convolution=shape),
        of("norm", 2 * tensor, "native_batch_norm", "forward", norm="batch", row=row),
        of("norm", 3 * tensor, "native_batch_norm_backward", "backward", norm="batch", row=row),
        of("pointwise", 2 * tensor, "relu", "forward"),
        of("pointwise", 3 * tensor, "threshold_backward", "backward"),
    )


def seconds(operations: Sequence[Operation], gpu: str, fit: PhysicsFit = AT_PRIOR) -> float:
    return step_seconds(operations, [GPUS[gpu]], fit)[0].seconds


def measured(gpu: str, *, factor: float = 1.0, fit: PhysicsFit = AT_PRIOR) -> list[MeasuredIteration]:
    sizes = [(width, batch) for width in (32, 64, 128, 256) for batch in (8, 64, 256)]
    return [
        MeasuredIteration(
            source="made",
            program=f"{'ab'[i % 2]}{i}",
            family="ab"[i % 2],
            gpu=gpu,
            dtype="float16",
            batch_size=batch,
            seconds=factor * seconds(operations, gpu, fit),
            operations=operations,
        )
        for i, (width, batch) in enumerate(sizes)
        for operations in [network(width, batch)]
    ]


@given(width=st.sampled_from([16, 48, 64, 256]), batch=st.integers(1, 512), gpu=st.sampled_from(sorted(GPUS)))
@settings(max_examples=40, deadline=None)
def test_more_work_never_takes_less_time(width: int, batch: int, gpu: str) -> None:
    less = network(width, batch)
    assert seconds(less, gpu) <= seconds(network(width, batch, blocks=5), gpu)
    assert seconds(less, gpu) <= seconds((*less, replace(less[0], kind="attention", convolution=None)), gpu)


@given(factor=st.floats(1.1, 8), gpu=st.sampled_from(sorted(GPUS)))
@settings(max_examples=40, deadline=None)
def test_faster_memory_never_makes_it_slower(factor: float, gpu: str) -> None:
    known = GPUS[gpu]
    faster = replace(known, memory_gb_per_second=factor * known.memory_gb_per_second)
    before, after = step_seconds(network(64, 32), [known, faster], AT_PRIOR)
    assert after.seconds <= before.seconds * (1 + 1e-9)


def test_time_is_never_below_arithmetic_at_the_peak() -> None:
    product = Operation(kind="matmul", dtype="float16", flops=1e12, bytes=1e6)
    tiny = replace(AT_PRIOR, coefficients={feature.name: 1e-3 for feature in FEATURES})
    for gpu, step in zip(GPUS.values(), step_seconds([product], list(GPUS.values()), tiny), strict=True):
        assert step.seconds >= 1e12 / max(gpu.peak_flops_per_second("float16"), gpu.fp32_tflops * 1e12)


def test_gpus_rank_by_generation() -> None:
    names = ["H100", "A100", "A10G", "T4", "K80"]
    times = [step.seconds for step in step_seconds(network(128, 256), [GPUS[n] for n in names], AT_PRIOR)]
    assert times == sorted(times)


def test_many_small_kernels_wait_for_the_host() -> None:
    small = [Operation(kind="pointwise", dtype="float32", flops=0.0, bytes=4096.0, count=5000)]
    (step,) = step_seconds(small, [GPUS["A100"]], AT_PRIOR)
    assert step.limited_by == "launches"
    assert step.seconds >= step.host_seconds == pytest.approx(5000 * 10e-6)


def test_classes_add_up_to_the_device_time_without_gaps() -> None:
    (step,) = step_seconds(network(64, 64), [GPUS["V100"]], AT_PRIOR)
    assert {one.kind for one in step.classes} == {"convolution", "norm", "pointwise"}
    assert sum(one.seconds for one in step.classes) < step.device_seconds < 1.2 * sum(o.seconds for o in step.classes)


def test_unfamiliar_operators_are_reported_and_widen_the_interval() -> None:
    attention = Operation(kind="attention", dtype="float16", flops=1e12, bytes=1e9)
    plain, unfamiliar = (step_seconds(ops, [GPUS["T4"]], AT_PRIOR)[0] for ops in (network(64, 64), [attention]))
    assert plain.unfamiliar < 0.01 < 0.9 < unfamiliar.unfamiliar
    assert interval_factor(unfamiliar, "T4", AT_PRIOR) > interval_factor(plain, "T4", AT_PRIOR)


def test_new_program_on_a_new_gpu_has_a_wider_interval() -> None:
    (plain,) = step_seconds(network(64, 64), [GPUS["T4"]], AT_PRIOR)
    known, unknown = replace(plain, similarity=1.0), replace(plain, similarity=0.0)
    fit = replace(AT_PRIOR, factor_known_family=1.1, factor_new_program=1.5, factor_new_gpu=1.5)
    assert 1.5 < interval_factor(known, "T4", fit) < interval_factor(unknown, "T4", fit) < 1.5 * 1.5


def test_empty_iteration_takes_no_time() -> None:
    (step,) = step_seconds([], [GPUS["T4"]], AT_PRIOR)
    assert (step.seconds, step.classes, step.unfamiliar) == (0.0, (), 0.0)


def test_fit_finds_the_efficiency_of_a_gpu() -> None:
    rows = [*measured("RTX 3090"), *measured("A100", factor=1.3), *measured("T4")]
    fit = fit_physics(rows, GPUS)
    for row in rows:
        assert seconds(row.operations, row.gpu, fit) == pytest.approx(row.seconds, rel=0.08)


def test_fit_round_trips_through_json_even_with_one_row() -> None:
    for rows in (measured("T4"), measured("T4")[:1]):
        fit = fit_physics(rows, GPUS)
        assert msgspec.json.decode(msgspec.json.encode(fit), type=PhysicsFit) == fit


def test_unusable_rows_are_ignored() -> None:
    rows = measured("T4")
    several = replace(rows[0], gpus=4)
    unknown = replace(rows[0], gpu="unknown")
    assert fit_physics([*rows, several, unknown], GPUS) == fit_physics(rows, GPUS)
    with pytest.raises(ValueError, match="no measured iteration"):
        fit_physics([several, unknown], GPUS)


def test_one_measured_program_improves_the_others_on_its_gpu() -> None:
    slow_host = replace(AT_PRIOR, gpus={"A100": GpuEfficiency(launch_seconds=60e-6)})
    truth = measured("A100", fit=slow_host)
    after = with_measurements(AT_PRIOR, truth[:1], GPUS)
    others = [row for row in truth[1:] if row.batch_size == 8]
    for row in others:
        before, now = (abs(math.log(seconds(row.operations, "A100", f) / row.seconds)) for f in (AT_PRIOR, after))
        assert now < before


def test_model_error_on_one_gpu_mostly_recurs_on_another() -> None:
    here, there = step_seconds(network(64, 64), [GPUS["T4"], GPUS["V100"]], AT_PRIOR)
    assert scaled_seconds(here, []) == here.seconds
    assert here.seconds * 1.3 < scaled_seconds(here, [(there, 1.5 * there.seconds)]) < here.seconds * 1.5


def of_families(factors: Sequence[float], programs: int, gpu: str = "RTX 3090") -> list[MeasuredIteration]:
    """Dissimilar families of similar programs, each family slower or faster by its own factor."""
    return [
        MeasuredIteration(
            source="made",
            program=f"family {number}, {batch}",
            family=f"family {number}",
            gpu=gpu,
            dtype="float16",
            batch_size=batch,
            seconds=factor * seconds(operations, gpu),
            operations=operations,
        )
        for number, factor in enumerate(factors)
        for batch in range(64, 64 + programs)
        for operations in [network(8 * 3**number, batch)]
    ]


def test_program_similar_to_a_measured_one_has_a_narrower_interval() -> None:
    efficiency = fit_physics(of_families([0.93, 1.08, 0.93, 1.08], 10), GPUS).gpus["RTX 3090"]
    assert efficiency.factor_known_family is not None
    assert efficiency.factor_new_program is not None
    assert 1 <= efficiency.factor_known_family < 1.1 < efficiency.factor_new_program


def test_each_program_weighs_the_same_in_an_interval() -> None:
    """A family of one is one program in thirty-one, not one family in four."""
    wild = of_families([1.0, 1.0, 1.0, 2.5], 10)[:31]
    assert fit_physics(wild, GPUS).factor_new_program < 1.3


def test_gpu_with_few_programs_uses_the_interval_of_all() -> None:
    fit = fit_physics([*of_families([0.8, 1.25, 0.8, 1.25], 10), *of_families([1.0], 3, "T4")], GPUS)
    assert fit.gpus["T4"].factor_new_program is None
    (step,) = step_seconds(network(3000, 8), [GPUS["T4"]], fit)
    assert interval_factor(step, "T4", fit) == pytest.approx(fit.factor_new_program)


def test_time_that_is_not_finite_is_an_error_that_names_the_gpu() -> None:
    broken = replace(AT_PRIOR, launch_seconds=math.inf)
    with pytest.raises(NotFiniteError, match="The time of an iteration on T4 came out as inf") as caught:
        step_seconds(network(8, 1), [GPUS["T4"]], broken)
    assert isinstance(caught.value, TrainfareError)
    assert caught.value.exit_code == 5
