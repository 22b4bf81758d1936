import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_gpu
from trainfare.estimator.batch.larger import (
    DEFAULT_LARGER_BATCH_FIT,
    BatchCurve,
    KnownBatch,
    LargerBatchFit,
    batch_curves,
    fit_larger_batch,
    fit_seconds_only,
    known_batch,
    memory_share,
    predict_larger_batch,
    without_operators,
)
from trainfare.model.interval import Interval
from trainfare.model.measurement import OperatorProfile


def known(*times: float, first: int = 16) -> list[KnownBatch]:
    return [KnownBatch(batch_size=first * 2**i, seconds=t) for i, t in enumerate(times)]


def make_operators(**changes: Any) -> OperatorProfile:
    fields: dict[str, Any] = {
        "program": "VGG11",
        "family": "VGG",
        "vm_type": "g4dn.xlarge",
        "gpu": "T4",
        "batch_size": 64,
        "image_side": 64,
        "optimizer": "SGD",
        "seconds": 0.1,
        "device_seconds": {"Conv2D": 0.05, "MatMul": 0.01, "ReluGrad": 0.02},
    }
    return OperatorProfile(**(fields | changes))


def synthetic(families: int = 8) -> list[BatchCurve]:
    """T is the smooth maximum of a lower bound, which differs by family, and a line a + b·B."""
    curves = []
    for i in range(families):
        for floor in (0.01, 0.03, 0.1):
            for per_sample in (0.0002, 0.0005, 0.001):

                def seconds(batch: float, floor: float = floor, b: float = per_sample, i: int = i) -> float:
                    return math.hypot(floor * (1 + 0.1 * i), b * batch + 0.002)

                points = [KnownBatch(batch_size=b, seconds=seconds(b)) for b in (16, 32, 64)]
                curves.append(
                    BatchCurve(
                        program=f"net{i}",
                        family=f"family{i}",
                        known=tuple(points),
                        batch_size=256,
                        seconds=seconds(256),
                    )
                )
    return curves


def test_proportional_times_stay_proportional() -> None:
    assert predict_larger_batch(known(0.1, 0.2, 0.4), 256, DEFAULT_LARGER_BATCH_FIT).value == pytest.approx(1.6)


def test_flat_times_begin_to_grow() -> None:
    """A device with unused capacity fills up; a line through constant times would never rise."""
    assert 0.1 < predict_larger_batch(known(0.1, 0.1, 0.1), 256, DEFAULT_LARGER_BATCH_FIT).value < 0.2


def test_two_known_batches_are_enough_and_one_is_not() -> None:
    assert predict_larger_batch(known(0.1, 0.2), 128, DEFAULT_LARGER_BATCH_FIT).value == pytest.approx(0.8)
    with pytest.raises(ValueError, match="two known"):
        predict_larger_batch(known(0.1), 128, DEFAULT_LARGER_BATCH_FIT)
    with pytest.raises(ValueError, match="larger than"):
        predict_larger_batch(known(0.1, 0.2), 24, DEFAULT_LARGER_BATCH_FIT)


def test_nearly_full_memory_is_slower_and_less_certain() -> None:
    plenty, scarce = (
        predict_larger_batch(known(0.1, 0.2, 0.4), 256, DEFAULT_LARGER_BATCH_FIT, memory_share=x) for x in (0.3, 0.9)
    )
    assert scarce.value > 1.1 * plenty.value
    assert scarce.high / scarce.low > plenty.high / plenty.low


def test_different_slopes_widen_the_interval() -> None:
    straight = predict_larger_batch(known(0.10, 0.12, 0.16), 256, DEFAULT_LARGER_BATCH_FIT)
    jumped = predict_larger_batch(known(0.10, 0.10, 0.16), 256, DEFAULT_LARGER_BATCH_FIT)
    assert jumped.high / jumped.low > straight.high / straight.low


def test_operator_times_show_growth_that_the_waiting_device_hides() -> None:
    """The host limits all three steps while the device time doubles: only the operators show it."""
    split = [
        KnownBatch(batch_size=16 * 2**i, seconds=0.10, product_seconds=0.015 * 2**i, other_seconds=0.0)
        for i in range(3)
    ]
    assert (
        predict_larger_batch(split, 256, DEFAULT_LARGER_BATCH_FIT).value
        > 1.5 * predict_larger_batch(known(0.1, 0.1, 0.1), 256, DEFAULT_LARGER_BATCH_FIT).value
    )


@given(st.lists(st.floats(1e-4, 10), min_size=2, max_size=3), st.floats(1, 64), st.floats(1, 64))
def test_more_samples_never_take_less_time(times: list[float], r: float, more: float) -> None:
    last = 16 * 2 ** (len(times) - 1)
    near, far = (
        predict_larger_batch(known(*times), last * factor, DEFAULT_LARGER_BATCH_FIT).value for factor in (r, r * more)
    )
    assert times[-1] * (1 - 1e-9) <= near <= far * (1 + 1e-9)
    assert far <= times[-1] * r * more * (1 + 1e-9)


def test_kernels_slowed_by_a_profiler_are_scaled_to_the_step() -> None:
    known_times = known_batch(make_operators(seconds=0.1, device_seconds={"Conv2D": 0.15, "Relu": 0.05}))
    assert known_times.product_seconds == pytest.approx(0.075)
    assert known_times.other_seconds == pytest.approx(0.025)


def test_products_are_convolutions_and_matrix_products() -> None:
    known_times = known_batch(make_operators())
    assert known_times.product_seconds == pytest.approx(0.06)
    assert known_times.other_seconds == pytest.approx(0.02)


def test_memory_share_of_activations_grows_with_the_batch_and_that_of_weights_does_not() -> None:
    operators = make_operators(device_seconds={"ReluGrad": 0.02, "ResourceApplyGradientDescent": 0.01})
    alone = make_operators(device_seconds={"ResourceApplyGradientDescent": 0.01})
    gpu = make_gpu()
    weights = memory_share(alone, 64, gpu)
    assert memory_share(alone, 256, gpu) == weights
    assert memory_share(operators, 256, gpu) - weights == pytest.approx(
        4 * (memory_share(operators, 64, gpu) - weights)
    )


def test_fit_learns_the_growth_above_a_lower_bound() -> None:
    curves = synthetic()
    fit = fit_larger_batch(curves)
    answers = [predict_larger_batch(curve.known, 256, fit) for curve in curves]
    default = [predict_larger_batch(curve.known, 256, DEFAULT_LARGER_BATCH_FIT) for curve in curves]

    def error(predicted: list[Interval]) -> float:
        errors = [abs(math.log(p.value / curve.seconds)) for p, curve in zip(predicted, curves, strict=True)]
        return sum(errors) / len(errors)

    assert error(answers) < 0.5 * error(default)
    inside = sum(p.low <= curve.seconds <= p.high for p, curve in zip(answers, curves, strict=True))
    assert inside >= 0.85 * len(curves)


def test_one_family_is_enough_for_a_fit() -> None:
    assert fit_larger_batch(synthetic(1)).spread.q > 0
    with pytest.raises(ValueError, match="needs curves"):
        fit_larger_batch([])


def test_fit_survives_json() -> None:
    assert (
        msgspec.json.decode(msgspec.json.encode(DEFAULT_LARGER_BATCH_FIT), type=LargerBatchFit)
        == DEFAULT_LARGER_BATCH_FIT
    )


def test_without_operators_only_seconds_are_left() -> None:
    (plain,) = without_operators(
        [
            BatchCurve(
                program="p",
                family="f",
                known=(known_batch(make_operators()), known_batch(make_operators(batch_size=128))),
                batch_size=256,
                seconds=1.0,
                memory_share=0.8,
            )
        ]
    )
    assert plain.memory_share is None
    assert all(known.product_seconds is None and known.other_seconds is None for known in plain.known)


def profiles_of(program: str, *sizes: int, vm_type: str = "g4dn.xlarge") -> list[OperatorProfile]:
    return [
        make_operators(
            program=program,
            family=program,
            vm_type=vm_type,
            batch_size=size,
            seconds=0.01 + 0.001 * size,
            device_seconds={"Conv2D": 0.0008 * size, "ReluGrad": 0.0001 * size},
        )
        for size in sizes
    ]


def test_curves_go_from_the_three_smallest_to_the_largest_and_end_before_it() -> None:
    curves = batch_curves(profiles_of("net", 16, 32, 64, 128, 256), {"T4": make_gpu()})
    assert [(curve.known[0].batch_size, curve.batch_size, curve.weight) for curve in curves] == [
        (16, 256, 1.0),
        (16, 128, 0.5),
        (32, 256, 0.5),
    ]
    assert all(curve.memory_share for curve in curves)


def test_programs_and_machines_are_not_mixed_in_a_curve() -> None:
    profiles = [*profiles_of("a", 16, 32), *profiles_of("b", 64, 128), *profiles_of("a", 64, 128, vm_type="p2.xlarge")]
    assert batch_curves(profiles, {}) == []


def test_memory_share_on_an_unknown_gpu_is_unknown() -> None:
    (curve,) = batch_curves(profiles_of("net", 16, 32, 64, 128), {})
    assert curve.memory_share is None


def test_fit_without_operators_predicts_from_two_and_from_three_sizes() -> None:
    curves = batch_curves(
        [p for name in ("a", "b") for p in profiles_of(name, 16, 32, 64, 128, 256)], {"T4": make_gpu()}
    )
    fit = fit_seconds_only(curves)
    for times in ((0.042, 0.074), (0.026, 0.042, 0.074)):
        first = 32 if len(times) == 2 else 16
        assert predict_larger_batch(known(*times, first=first), 256, fit).value == pytest.approx(0.266, rel=0.1)


def test_full_memory_slows_each_doubling() -> None:
    def slower(batch_size: float) -> float:
        scarce, plenty = (
            predict_larger_batch(known(0.1, 0.2, 0.4), batch_size, DEFAULT_LARGER_BATCH_FIT, memory_share=x)
            for x in (0.9, 0.0)
        )
        return scarce.value / plenty.value

    assert slower(256) == pytest.approx(slower(128) ** 2)
