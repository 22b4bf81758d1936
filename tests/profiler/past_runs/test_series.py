"""Scalars in the order of their steps, however they were logged."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.profiler.past_runs.series import Series


def make_series(*points: tuple[int, float], most_points: int = 1000) -> Series:
    """Steps and moments; the value is the moment."""
    series = Series(most_points)
    for step, moment in points:
        series.add(step, moment, moment)
    return series


def seconds_per_step(series: Series) -> list[float]:
    return [stretch.seconds / stretch.steps for stretch in series.stretches()[0]]


def test_each_pair_of_points_says_how_long_a_step_took() -> None:
    assert seconds_per_step(make_series((0, 10.0), (1, 11.0), (2, 13.0))) == [1.0, 2.0]


def test_where_every_tenth_step_is_logged_the_time_is_divided() -> None:
    assert seconds_per_step(make_series((0, 0.0), (10, 5.0), (20, 11.0))) == [0.5, 0.6]


def test_steps_logged_again_replace_the_earlier_ones_and_the_rest_between_is_no_time() -> None:
    series = make_series((0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0), (2, 102.0), (3, 103.0))
    assert list(series.steps) == [0, 1, 2, 3]
    assert list(series.values) == [0.0, 1.0, 102.0, 103.0]
    assert seconds_per_step(series) == [1.0, 1.0]
    assert series.restarts == 1


def test_a_value_said_twice_is_no_restart() -> None:
    series = Series()
    series.add(5, 1.0, 10.0)
    series.add(5, 1.0, 10.5)
    assert (len(series), series.restarts) == (1, 0)


def test_a_clock_that_goes_backwards_gives_no_time_there() -> None:
    stretches, backwards = make_series((0, 10.0), (1, 11.0), (2, 5.0), (3, 6.0)).stretches()
    assert [stretch.seconds for stretch in stretches] == [1.0, 1.0]
    assert backwards == 1


def test_a_clock_coarser_than_the_steps_gives_their_mean() -> None:
    assert seconds_per_step(make_series((0, 1.0), (1, 1.0), (2, 1.0), (3, 1.003))) == [pytest.approx(0.001)]


def test_what_is_not_finite_is_unknown() -> None:
    series = Series()
    series.add(0, math.inf)
    series.add(1, 0.5)
    assert list(series.points) == [(1, 0.5)]
    assert series.stretches() == ([], 0)


def test_memory_is_bounded_and_the_last_step_is_remembered() -> None:
    series = make_series(*((step, float(step)) for step in range(50)), most_points=10)
    assert len(series) == 10
    assert series.is_cut
    assert series.last_step == 49


@pytest.mark.parametrize(
    ("steps", "first"),
    [((0, 1, 2), 0), ((1, 2, 3), 1), ((49, 99, 149), 0), ((50, 100, 150), 1), ((0, 50, 100), 0), ((7, 8), 1)],
)
def test_the_first_iteration_is_step_0_or_1(steps: tuple[int, ...], first: int) -> None:
    assert make_series(*((step, float(step)) for step in steps)).first_iteration == first


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1e6)), max_size=60))
def test_whatever_is_logged_steps_rise_and_every_time_is_positive(points: list[tuple[int, float]]) -> None:
    series = make_series(*points)
    steps = list(series.steps)
    assert steps == sorted(set(steps))
    stretches, _ = series.stretches()
    assert all(stretch.steps > 0 and stretch.seconds > 0 for stretch in stretches)
    assert sum(stretch.steps for stretch in stretches) <= (steps[-1] - steps[0] if steps else 0)
