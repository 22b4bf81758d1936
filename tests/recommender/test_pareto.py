import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recommender.test_choose import estimate, some_estimates
from trainfare.model.estimate import Estimate
from trainfare.recommender.options import Options
from trainfare.recommender.pareto import difference, front, knee

Point = tuple[float, float]


def point(one: Estimate) -> Point:
    return one.seconds.value, one.usd.value


def dominates(one: Point, other: Point) -> bool:
    return one != other and one[0] <= other[0] and one[1] <= other[1]


@given(some_estimates)
def test_the_front_agrees_with_brute_force(estimates: list[Estimate]) -> None:
    """Each pair compared: O(n²)."""
    points = {point(e) for e in estimates}
    undominated = {p for p in points if not any(dominates(other, p) for other in points)}
    assert [point(e) for e in front(estimates)] == sorted(undominated)


@given(some_estimates, st.randoms(use_true_random=False))
def test_the_front_does_not_depend_on_the_order_of_the_estimates(estimates: list[Estimate], random: object) -> None:
    shuffled = list(estimates)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    names = [[(e.candidate, point(e)) for e in front(each)] for each in (estimates, shuffled)]
    assert names[0] == names[1]


def test_only_the_first_by_name_of_equal_estimates_is_on_the_front() -> None:
    a, b = estimate("a"), estimate("b")
    assert front([b, a]) == (a,)


def test_no_estimates_have_an_empty_front() -> None:
    assert front([]) == ()


def on_a_curve(*points: Point) -> Options[Estimate]:
    return front([estimate(f"m{i}", seconds=seconds, usd=usd) for i, (seconds, usd) in enumerate(points)])


def test_the_knee_is_where_more_speed_starts_to_cost_much_more() -> None:
    """Down to 20 min speed is nearly free, beyond that it is expensive."""
    found = knee(on_a_curve((600, 64), (900, 16), (1200, 4.4), (2400, 4.2), (4800, 4)))
    assert found is not None
    assert found.seconds.value == 1200


def test_a_front_with_a_constant_exchange_rate_has_no_knee() -> None:
    assert knee(on_a_curve(*((2.0**n, 2.0**-n) for n in range(6)))) is None


def test_a_front_above_its_chord_has_no_knee() -> None:
    assert knee(on_a_curve((1, 10), (9, 9), (10, 1))) is None


@pytest.mark.parametrize("points", [(), ((1.0, 1.0),), ((1.0, 2.0), (2.0, 1.0))])
def test_fewer_than_three_points_have_no_knee(points: tuple[Point, ...]) -> None:
    assert knee(on_a_curve(*points)) is None


@given(some_estimates, st.floats(0.01, 100), st.floats(0.01, 100))
def test_the_knee_does_not_depend_on_the_units(estimates: list[Estimate], a: float, b: float) -> None:
    """In minutes and cents it is the same machine, except for points of equal depth."""
    before = front(estimates)
    found = knee(before)
    scaled = on_a_curve(*((a * seconds, b * usd) for seconds, usd in map(point, before)))
    if found is None or len(scaled) < len(before):
        return
    again = knee(scaled)
    assert again is not None
    place = scaled.index(again)

    def depth(seconds: float, usd: float) -> float:
        (t0, c0), (t1, c1) = point(before[0]), point(before[-1])
        return 1 - math.log(seconds / t0) / math.log(t1 / t0) - math.log(usd / c1) / math.log(c0 / c1)

    assert depth(*point(before[place])) == pytest.approx(depth(*point(found)), abs=1e-6)


@given(some_estimates)
def test_the_knee_is_on_the_front_and_not_an_end(estimates: list[Estimate]) -> None:
    found = front(estimates)
    bend = knee(found)
    assert bend is None or bend in found[1:-1]


def test_a_difference_is_relative_to_the_first_estimate() -> None:
    found = difference(estimate(usd=2, seconds=100), estimate(usd=3, seconds=50))
    assert (found.seconds, found.usd, found.time_ratio, found.cost_ratio) == (-50, 1, 0.5, 1.5)


def test_a_point_that_equals_another_in_one_coordinate_is_dominated() -> None:
    points = {"a": (1.0, 5.0), "b": (2.0, 3.0), "c": (2.0, 3.0), "d": (3.0, 3.0), "e": (2.0, 4.0), "f": (9.0, 1.0)}
    found = front([estimate(name, seconds=seconds, usd=usd) for name, (seconds, usd) in points.items()])
    assert [e.candidate.offer.vm_type.name for e in found] == ["a", "b", "f"]
