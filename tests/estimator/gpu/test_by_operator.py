"""Steps transferred to another machine operator by operator."""

import math
from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_gpu
from trainfare.estimator.gpu.by_operator import TransferFit, fit_transfer, transfer_step, with_runs
from trainfare.estimator.gpu.operator_breakdown import IDLE, break_down_step, prior_log_ratio
from trainfare.estimator.gpu.operator_classes import CLASSES, class_of, seconds_by_class
from trainfare.model.measurement import OperatorProfile

OLD = make_gpu(name="Old", fp32_tflops=5.0, memory_gb_per_second=200.0)
NEW = make_gpu(name="New", fp32_tflops=20.0, memory_gb_per_second=800.0)
THIRD = make_gpu(name="Third", fp32_tflops=10.0, memory_gb_per_second=400.0)
GPUS = {gpu.name: gpu for gpu in (OLD, NEW, THIRD)}
WORK = {"Conv2D": 0.04, "Conv2DBackpropFilter": 0.03, "Conv2DBackpropInput": 0.02, "Relu": 0.01, "Softmax": 1e-5}
NOTHING = TransferFit(pairs={}, gpu_offsets={})


def profile(
    gpu: str = "Old",
    *,
    program: str = "net",
    batch: float = 32,
    operators: Mapping[str, float] = WORK,
    idle: float = 0.002,
    seconds: float | None = None,
) -> OperatorProfile:
    return OperatorProfile(
        program=program,
        family=program,
        vm_type=f"{gpu}.large",
        gpu=gpu,
        batch_size=batch,
        image_side=32,
        optimizer="SGD",
        seconds=seconds or sum(operators.values()) + idle,
        device_seconds=operators,
    )


def world(names: Mapping[str, float], programs: int = 6) -> list[OperatorProfile]:
    """Programs of many sizes on machines whose GPU takes the given multiple of Old's time."""
    return [
        profile(gpu, program=f"net{i}", batch=batch, operators={k: v * size * slow for k, v in WORK.items()})
        for gpu, slow in names.items()
        for i in range(programs)
        for batch in (16, 64)
        for size in [(1 + i / 3) * batch / 32]
    ]


def test_tensorflow_and_pytorch_names_have_the_same_classes() -> None:
    assert class_of("MatMul") == class_of("aten::addmm") == "matmul"
    assert class_of("FusedBatchNormV3") == class_of("aten::cudnn_batch_norm") == "normalisation"
    assert class_of("DepthwiseConv2dNativeBackpropInput") == "depthwise_backward"
    assert class_of("my::kernel") == "other"


def test_no_operator_has_two_classes() -> None:
    names = [name for own in CLASSES.values() for name in own]
    assert len(names) == len(set(names))


def test_classes_add_up_to_the_operators() -> None:
    assert sum(seconds_by_class({**WORK, "my::kernel": 0.5}).values()) == pytest.approx(sum(WORK.values()) + 0.5)


def test_classes_and_waiting_add_up_to_the_step() -> None:
    own = break_down_step(profile(idle=0.01))
    assert sum(own.by_class.values()) == pytest.approx(own.seconds)
    assert own.by_class[IDLE] == pytest.approx(0.01)


def test_overlap_of_kernels_is_subtracted_from_convolutions() -> None:
    own = break_down_step(profile(seconds=0.09))
    assert sum(own.by_class.values()) == pytest.approx(0.09)
    assert own.by_class["pointwise"] == pytest.approx(0.01)
    assert own.by_class["convolution"] < 0.04


def test_device_time_far_above_wall_time_still_gives_a_step() -> None:
    own = break_down_step(profile(operators={"Relu": 1.0}, seconds=0.1))
    assert sum(own.by_class.values()) == pytest.approx(0.1)
    assert min(own.by_class.values()) > 0


@pytest.mark.parametrize("kind", [*CLASSES, "other", IDLE])
def test_prior_ratio_is_antisymmetric(kind: str) -> None:
    assert prior_log_ratio(kind, OLD, NEW) == pytest.approx(-prior_log_ratio(kind, NEW, OLD))
    assert prior_log_ratio(kind, OLD, NEW) <= 0


def test_host_time_is_the_same_on_every_machine_by_facts() -> None:
    waiting = profile(operators={"Softmax": 1e-5, "_Send": 0.01}, idle=0.09)
    assert transfer_step([waiting], 32, OLD, NEW, NOTHING).value == pytest.approx(waiting.seconds)


def test_work_without_measurements_follows_facts() -> None:
    answer = transfer_step([profile(operators={"Relu": 1.0}, idle=1e-9, seconds=1.0)], 32, OLD, NEW, NOTHING)
    assert answer.value == pytest.approx(0.25, rel=0.05)  # a hundredth of the step is waiting
    assert answer.high / answer.value == pytest.approx(NOTHING.factor_by_facts)


def test_fit_learns_how_a_measured_machine_differs_from_its_facts() -> None:
    fit = fit_transfer(world({"Old": 1.0, "New": 0.5}), GPUS)  # facts say 0.25
    asked = profile(program="another", operators={k: 2 * v for k, v in WORK.items()})
    truth = 0.5 * 2 * sum(WORK.values()) + 0.002
    answer = transfer_step([asked], 32, OLD, NEW, fit)
    assert answer.value == pytest.approx(truth, rel=0.05)
    assert answer.low <= truth <= answer.high
    assert answer.high / answer.value < NOTHING.factor_by_facts


def test_offset_of_the_source_also_applies_to_unmeasured_targets() -> None:
    """Old turned out slower than its facts relative to Third, so New is faster than the facts from Old say."""
    fit = fit_transfer(world({"Old": 1.0, "Third": 0.25}), GPUS)  # facts say 0.5
    by_facts = transfer_step([profile()], 32, OLD, NEW, NOTHING).value
    assert transfer_step([profile()], 32, OLD, NEW, fit).value < by_facts


def test_one_run_on_a_new_machine_improves_the_next_program() -> None:
    everywhere = world({"Old": 1.0, "Third": 0.5, "New": 0.6})  # facts say 0.25 of New
    fit = fit_transfer([p for p in everywhere if p.gpu != "New"], GPUS)
    one = [p for p in everywhere if p.program == "net2" and p.batch_size == 64]
    asked = profile(program="another")
    truth = 0.6 * sum(WORK.values()) + 0.002
    before, after = (transfer_step([asked], 32, OLD, NEW, f) for f in (fit, with_runs(fit, one, GPUS)))
    assert abs(math.log(after.value / truth)) < 0.3 * abs(math.log(before.value / truth))
    assert after.high / after.low <= before.high / before.low


def test_unmeasured_operators_widen_the_interval() -> None:
    fit = fit_transfer(world({"Old": 1.0, "New": 0.5}), GPUS)
    known = transfer_step([profile()], 32, OLD, NEW, fit)
    odd = transfer_step([profile(operators={**WORK, "DepthwiseConv2dNative": 0.05})], 32, OLD, NEW, fit)
    rare = transfer_step([profile(operators={**WORK, "DepthwiseConv2dNative": 0.001})], 32, OLD, NEW, fit)
    assert odd.high / odd.low > known.high / known.low
    assert rare.high / rare.low == pytest.approx(known.high / known.low, rel=0.01)


def test_waiting_on_a_busy_gpu_widens_the_interval_on_a_faster_one() -> None:
    """How long the host needs is hidden while the GPU is busy; a GPU that waits most of the time shows it."""
    fit = replace(FIT, factors={"Old>New": 1.2})
    busy, waiting, idle = (transfer_step([profile(idle=seconds)], 32, OLD, NEW, fit) for seconds in (1e-4, 0.02, 2.0))
    assert waiting.high / waiting.low > 1.2 * busy.high / busy.low
    assert idle.high / idle.low < waiting.high / waiting.low


def test_other_batch_size_lies_on_the_line_of_the_transferred_ones() -> None:
    profiles = [profile(batch=b, operators={k: v * b / 32 for k, v in WORK.items()}) for b in (16, 64)]
    small, middle, large = (transfer_step(profiles, b, OLD, NEW, NOTHING).value for b in (16, 40, 64))
    assert middle == pytest.approx((small + large) / 2, rel=0.01)


def test_other_batch_size_needs_two_profiles() -> None:
    with pytest.raises(ValueError, match="two batch sizes"):
        transfer_step([profile(batch=32)], 64, OLD, NEW, NOTHING)


def test_profile_without_operators_is_all_waiting() -> None:
    assert transfer_step([profile(operators={}, seconds=0.1)], 32, OLD, NEW, NOTHING).value == pytest.approx(0.1)


def test_fit_round_trips_through_json() -> None:
    fit = fit_transfer(world({"Old": 1.0, "New": 0.5, "Third": 0.7}), GPUS)
    assert msgspec.json.decode(msgspec.json.encode(fit), type=TransferFit) == fit


@pytest.mark.parametrize("rows", [[], world({"Old": 1.0}), world({"Old": 1.0, "Unknown": 0.5})])
def test_fit_without_two_known_machines_follows_facts(rows: list[OperatorProfile]) -> None:
    fit = fit_transfer(rows, GPUS)
    assert fit.pairs == {}
    assert transfer_step([profile()], 32, OLD, NEW, fit) == transfer_step([profile()], 32, OLD, NEW, NOTHING)


def test_interval_from_one_program_is_wide() -> None:
    one, many = (fit_transfer(world({"Old": 1.0, "New": 0.5}, programs=n), GPUS) for n in (1, 6))
    narrow, wide = (transfer_step([profile(program="x")], 32, OLD, NEW, fit) for fit in (many, one))
    assert wide.high / wide.low > narrow.high / narrow.low


FIT = fit_transfer(world({"Old": 1.0, "New": 0.5}), GPUS)


@given(st.floats(1e-5, 10.0), st.floats(1e-6, 1.0), st.booleans())
def test_ratio_is_bounded_at_any_size(size: float, idle: float, back: bool) -> None:
    """No class gains or loses much more than was ever measured."""
    source, target = (NEW, OLD) if back else (OLD, NEW)
    here = profile(source.name, operators={k: v * size for k, v in WORK.items()}, idle=idle)
    ratio = transfer_step([here], 32, source, target, FIT).value / here.seconds
    assert 0.3 < ratio < 3.0


@given(st.floats(0.01, 1.0), st.floats(1.0, 3.0))
def test_more_waiting_never_takes_less_time(idle: float, more: float) -> None:
    less, longer = (transfer_step([profile(idle=i)], 32, OLD, NEW, FIT).value for i in (idle, idle * more))
    assert longer >= less * (1 - 1e-9)


def test_fit_does_not_depend_on_the_order_of_rows() -> None:
    rows = world({"Old": 1.0, "New": 0.5})
    assert fit_transfer(rows[::-1], GPUS).factors == pytest.approx(FIT.factors, rel=1e-3)
