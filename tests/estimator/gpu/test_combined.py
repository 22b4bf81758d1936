"""The combination of a prediction by operations with one by times."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.gpu.combined import combine_intervals, predict_by_operations, predict_combined
from trainfare.estimator.gpu.physics import SIMILAR, PhysicsFit, StepSeconds
from trainfare.model.interval import Interval

STEP = StepSeconds(
    seconds=0.2, classes=(), device_seconds=0.2, host_seconds=0.01, limited_by="compute", unfamiliar=0.0, similarity=0.0
)
FIT = PhysicsFit(coefficients={}, launches={}, launch_seconds=1e-5, factor_new_gpu=1.5, factor_new_program=1.2)

intervals = st.builds(Interval.within_factor, st.floats(1e-4, 1e3), st.floats(1.01, 5.0))


def width(interval: Interval) -> float:
    return interval.high / interval.low


@given(intervals, intervals)
def test_combined_value_and_width_lie_between_both(one: Interval, other: Interval) -> None:
    found = combine_intervals(one, other)
    slack = 1 + 1e-9
    assert min(one.value, other.value) / slack <= found.value <= max(one.value, other.value) * slack
    assert min(width(one), width(other)) / slack <= width(found) <= max(width(one), width(other)) * slack


@given(intervals, intervals)
def test_combining_is_symmetric(one: Interval, other: Interval) -> None:
    assert combine_intervals(one, other).value == pytest.approx(combine_intervals(other, one).value)
    assert width(combine_intervals(one, other)) == pytest.approx(width(combine_intervals(other, one)))


def test_equally_wide_intervals_meet_in_the_middle() -> None:
    found = combine_intervals(Interval.within_factor(1.0, 1.5), Interval.within_factor(4.0, 1.5))
    assert found.value == pytest.approx(2.0)
    assert found.high == pytest.approx(3.0)


def test_narrower_interval_has_more_weight() -> None:
    """Twice the logarithmic width has a quarter of the weight: a fifth of the way."""
    found = combine_intervals(Interval.within_factor(1.0, 1.2), Interval.within_factor(32.0, 1.44))
    assert found.value == pytest.approx(2.0)


def test_exact_value_wins() -> None:
    assert combine_intervals(Interval.exactly(3.0), Interval.within_factor(1.0, 2.0)) == Interval.exactly(3.0)
    assert combine_intervals(Interval.within_factor(1.0, 2.0), Interval.exactly(3.0)) == Interval.exactly(3.0)


def test_interval_that_includes_zero_is_an_error() -> None:
    with pytest.raises(ValueError, match="no logarithm"):
        combine_intervals(Interval(value=1.0, low=0.0, high=2.0), Interval.exactly(1.0))


def test_model_error_elsewhere_mostly_recurs() -> None:
    """Twice as long as predicted on one GPU: nearly twice as long on the other."""
    elsewhere = replace(STEP, seconds=0.4)
    assert 0.3 < predict_by_operations(STEP, "unknown", [(elsewhere, 0.8)], FIT).value < 0.4


def test_unfamiliar_operations_have_less_weight() -> None:
    times = Interval.within_factor(0.8, 1.5)
    strange = replace(STEP, unfamiliar=0.5)
    known = [(STEP, 0.2)]
    familiar, unfamiliar = (predict_combined(step, "unknown", known, FIT, times).value for step in (STEP, strange))
    assert 0.2 < familiar < unfamiliar < 0.8


def test_similar_program_is_predicted_by_its_operations_alone() -> None:
    times = Interval.within_factor(0.8, 1.01)
    relative = replace(STEP, similarity=SIMILAR)
    assert predict_combined(relative, "unknown", [(STEP, 0.2)], FIT, times).value == pytest.approx(0.2)
