"""Scalars in the order of their steps, in whatever order they were logged."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.profiler.past_runs.series import ScalarSeries


def make_series(*points: tuple[int, float], max_points: int = 1000) -> ScalarSeries:
    """A series of steps and timestamps; the value is the timestamp."""
    series = ScalarSeries(max_points)
    for step, timestamp in points:
        series.add(step, timestamp, timestamp)
    return series


def seconds_per_step(series: ScalarSeries) -> list[float]:
    return [pair.seconds / pair.steps for pair in series.timed_steps()[0]]


def test_each_pair_of_points_gives_the_time_of_a_step() -> None:
    assert seconds_per_step(make_series((0, 10.0), (1, 11.0), (2, 13.0))) == [1.0, 2.0]


def test_time_between_sparse_points_is_divided_by_the_steps() -> None:
    assert seconds_per_step(make_series((0, 0.0), (10, 5.0), (20, 11.0))) == [0.5, 0.6]


def test_steps_logged_again_replace_the_earlier_ones_and_leave_a_gap() -> None:
    series = make_series((0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0), (2, 102.0), (3, 103.0))
    assert list(series.steps) == [0, 1, 2, 3]
    assert list(series.values) == [0.0, 1.0, 102.0, 103.0]
    assert seconds_per_step(series) == [1.0, 1.0]
    assert series.restarts == 1


def test_repeated_value_is_not_a_restart() -> None:
    series = ScalarSeries()
    series.add(5, 1.0, 10.0)
    series.add(5, 1.0, 10.5)
    assert (len(series), series.restarts) == (1, 0)


def test_clock_that_goes_backwards_gives_no_time() -> None:
    timed_steps, backwards = make_series((0, 10.0), (1, 11.0), (2, 5.0), (3, 6.0)).timed_steps()
    assert [pair.seconds for pair in timed_steps] == [1.0, 1.0]
    assert backwards == 1


def test_coarse_clock_gives_the_mean_time() -> None:
    assert seconds_per_step(make_series((0, 1.0), (1, 1.0), (2, 1.0), (3, 1.003))) == [pytest.approx(0.001)]


def test_value_that_is_not_finite_is_unknown() -> None:
    series = ScalarSeries()
    series.add(0, math.inf)
    series.add(1, 0.5)
    assert list(series.points) == [(1, 0.5)]
    assert series.timed_steps() == ([], 0)


def test_memory_is_bounded_and_the_last_step_is_remembered() -> None:
    series = make_series(*((step, float(step)) for step in range(50)), max_points=10)
    assert len(series) == 10
    assert series.is_truncated
    assert series.last_step == 49


@pytest.mark.parametrize(
    ("steps", "first"),
    [((0, 1, 2), 0), ((1, 2, 3), 1), ((49, 99, 149), 0), ((50, 100, 150), 1), ((0, 50, 100), 0), ((7, 8), 1)],
)
def test_first_iteration_is_step_0_or_1(steps: tuple[int, ...], first: int) -> None:
    assert make_series(*((step, float(step)) for step in steps)).first_iteration == first


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1e6)), max_size=60))
def test_steps_rise_and_times_are_positive_in_any_log(points: list[tuple[int, float]]) -> None:
    series = make_series(*points)
    steps = list(series.steps)
    assert steps == sorted(set(steps))
    timed_steps, _ = series.timed_steps()
    assert all(pair.steps > 0 and pair.seconds > 0 for pair in timed_steps)
    assert sum(pair.steps for pair in timed_steps) <= (steps[-1] - steps[0] if steps else 0)
