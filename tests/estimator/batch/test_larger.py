import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_gpu
from trainfare.estimator.batch.larger import (
    SHIPPED,
    Curve,
    KnownBatch,
    LargerBatchFit,
    curves_of,
    fit_larger_batch,
    fit_seconds_alone,
    held_share,
    known_batch,
    larger_batch,
    without_operators,
)
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


def synthetic(families: int = 8) -> list[Curve]:
    """Floors of each family's own below a line: T = max(floor, a + b·B), smoothly."""
    curves = []
    for i in range(families):
        for floor in (0.01, 0.03, 0.1):
            for per_sample in (0.0002, 0.0005, 0.001):

                def seconds(batch: float, floor: float = floor, b: float = per_sample, i: int = i) -> float:
                    return math.hypot(floor * (1 + 0.1 * i), b * batch + 0.002)

                points = [KnownBatch(batch_size=b, seconds=seconds(b)) for b in (16, 32, 64)]
                curves.append(
                    Curve(
                        program=f"net{i}",
                        family=f"family{i}",
                        known=tuple(points),
                        batch_size=256,
                        seconds=seconds(256),
                    )
                )
    return curves


def test_proportional_times_stay_proportional() -> None:
    assert larger_batch(known(0.1, 0.2, 0.4), 256, SHIPPED).value == pytest.approx(1.6)


def test_flat_times_begin_to_grow() -> None:
    """A device with room to spare fills up: a line through a floor would never rise."""
    assert 0.1 < larger_batch(known(0.1, 0.1, 0.1), 256, SHIPPED).value < 0.2


def test_two_known_batches_are_enough_and_one_is_not() -> None:
    assert larger_batch(known(0.1, 0.2), 128, SHIPPED).value == pytest.approx(0.8)
    with pytest.raises(ValueError, match="two known"):
        larger_batch(known(0.1), 128, SHIPPED)
    with pytest.raises(ValueError, match="beyond"):
        larger_batch(known(0.1, 0.2), 24, SHIPPED)


def test_crowded_memory_takes_longer_and_is_less_sure() -> None:
    plenty, crowded = (larger_batch(known(0.1, 0.2, 0.4), 256, SHIPPED, held_share=x) for x in (0.3, 0.9))
    assert crowded.value > 1.1 * plenty.value
    assert crowded.high / crowded.low > plenty.high / plenty.low


def test_slopes_that_disagree_are_less_sure() -> None:
    straight = larger_batch(known(0.10, 0.12, 0.16), 256, SHIPPED)
    jumped = larger_batch(known(0.10, 0.10, 0.16), 256, SHIPPED)
    assert jumped.high / jumped.low > straight.high / straight.low


def test_waiting_of_the_device_hides_its_growth_no_longer_when_operators_are_timed() -> None:
    """The host rules all three, the device doubles each time: only the operators tell."""
    split = [
        KnownBatch(batch_size=16 * 2**i, seconds=0.10, product_seconds=0.015 * 2**i, other_seconds=0.0)
        for i in range(3)
    ]
    assert larger_batch(split, 256, SHIPPED).value > 1.5 * larger_batch(known(0.1, 0.1, 0.1), 256, SHIPPED).value


@given(st.lists(st.floats(1e-4, 10), min_size=2, max_size=3), st.floats(1, 64), st.floats(1, 64))
def test_more_samples_never_take_less_time(times: list[float], r: float, more: float) -> None:
    last = 16 * 2 ** (len(times) - 1)
    near, far = (larger_batch(known(*times), last * factor, SHIPPED).value for factor in (r, r * more))
    assert times[-1] * (1 - 1e-9) <= near <= far * (1 + 1e-9)
    assert far <= times[-1] * r * more * (1 + 1e-9)


def test_a_profiler_that_slows_kernels_does_not_make_them_longer_than_the_step() -> None:
    found = known_batch(make_operators(seconds=0.1, device_seconds={"Conv2D": 0.15, "Relu": 0.05}))
    assert found.product_seconds == pytest.approx(0.075)
    assert found.other_seconds == pytest.approx(0.025)


def test_products_are_convolutions_and_those_of_matrices() -> None:
    found = known_batch(make_operators())
    assert found.product_seconds == pytest.approx(0.06)
    assert found.other_seconds == pytest.approx(0.02)


def test_held_memory_grows_with_the_batch_and_not_with_the_weights() -> None:
    operators = make_operators(device_seconds={"ReluGrad": 0.02, "ResourceApplyGradientDescent": 0.01})
    alone = make_operators(device_seconds={"ResourceApplyGradientDescent": 0.01})
    gpu = make_gpu()
    weights = held_share(alone, 64, gpu)
    assert held_share(alone, 256, gpu) == weights
    assert held_share(operators, 256, gpu) - weights == pytest.approx(4 * (held_share(operators, 64, gpu) - weights))


def test_a_fit_learns_how_floors_give_way() -> None:
    curves = synthetic()
    fit = fit_larger_batch(curves)
    answers = [larger_batch(curve.known, 256, fit) for curve in curves]
    shipped = [larger_batch(curve.known, 256, SHIPPED) for curve in curves]

    def error(found: list[Any]) -> float:
        off = [abs(math.log(one.value / curve.seconds)) for one, curve in zip(found, curves, strict=True)]
        return sum(off) / len(off)

    assert error(answers) < 0.5 * error(shipped)
    inside = sum(one.low <= curve.seconds <= one.high for one, curve in zip(answers, curves, strict=True))
    assert inside >= 0.85 * len(curves)


def test_a_fit_of_one_family_answers() -> None:
    assert fit_larger_batch(synthetic(1)).spread.q > 0
    with pytest.raises(ValueError, match="needs curves"):
        fit_larger_batch([])


def test_a_fit_goes_to_json_and_back() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SHIPPED), type=LargerBatchFit) == SHIPPED


def test_without_operators_only_seconds_are_left() -> None:
    (plain,) = without_operators(
        [
            Curve(
                program="p",
                family="f",
                known=(known_batch(make_operators()), known_batch(make_operators(batch_size=128))),
                batch_size=256,
                seconds=1.0,
                held_share=0.8,
            )
        ]
    )
    assert plain.held_share is None
    assert all(one.product_seconds is None and one.other_seconds is None for one in plain.known)


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
    curves = curves_of(profiles_of("net", 16, 32, 64, 128, 256), {"T4": make_gpu()})
    assert [(curve.known[0].batch_size, curve.batch_size, curve.weight) for curve in curves] == [
        (16, 256, 1.0),
        (16, 128, 0.5),
        (32, 256, 0.5),
    ]
    assert all(curve.held_share for curve in curves)


def test_programs_and_machines_are_not_mixed_in_a_curve() -> None:
    profiles = [*profiles_of("a", 16, 32), *profiles_of("b", 64, 128), *profiles_of("a", 64, 128, vm_type="p2.xlarge")]
    assert curves_of(profiles, {}) == []


def test_of_an_unknown_gpu_nobody_knows_what_is_held() -> None:
    (curve,) = curves_of(profiles_of("net", 16, 32, 64, 128), {})
    assert curve.held_share is None


def test_a_fit_for_plain_profiles_answers_from_two_and_from_three() -> None:
    curves = curves_of([p for name in ("a", "b") for p in profiles_of(name, 16, 32, 64, 128, 256)], {"T4": make_gpu()})
    fit = fit_seconds_alone(curves)
    for times in ((0.042, 0.074), (0.026, 0.042, 0.074)):
        first = 32 if len(times) == 2 else 16
        assert larger_batch(known(*times, first=first), 256, fit).value == pytest.approx(0.266, rel=0.1)


def test_crowding_slows_each_doubling() -> None:
    def slower(batch_size: float) -> float:
        crowded, plenty = (larger_batch(known(0.1, 0.2, 0.4), batch_size, SHIPPED, held_share=x) for x in (0.9, 0.0))
        return crowded.value / plenty.value

    assert slower(256) == pytest.approx(slower(128) ** 2)
