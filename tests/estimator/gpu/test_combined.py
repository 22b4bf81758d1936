"""Two beliefs about one time: what lies between them, and when there is only one."""

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

beliefs = st.builds(Interval.within_factor, st.floats(1e-4, 1e3), st.floats(1.01, 5.0))


def width(belief: Interval) -> float:
    return belief.high / belief.low


@given(beliefs, beliefs)
def test_the_answer_lies_between_both_and_is_as_sure_as_between_both(one: Interval, other: Interval) -> None:
    found = combine_intervals(one, other)
    slack = 1 + 1e-9
    assert min(one.value, other.value) / slack <= found.value <= max(one.value, other.value) * slack
    assert min(width(one), width(other)) / slack <= width(found) <= max(width(one), width(other)) * slack


@given(beliefs, beliefs)
def test_which_is_named_first_does_not_matter(one: Interval, other: Interval) -> None:
    assert combine_intervals(one, other).value == pytest.approx(combine_intervals(other, one).value)
    assert width(combine_intervals(one, other)) == pytest.approx(width(combine_intervals(other, one)))


def test_two_that_are_equally_sure_meet_in_the_middle() -> None:
    found = combine_intervals(Interval.within_factor(1.0, 1.5), Interval.within_factor(4.0, 1.5))
    assert found.value == pytest.approx(2.0)
    assert found.high == pytest.approx(3.0)


def test_the_surer_one_pulls_more() -> None:
    """Twice as far off in logarithms weighs a quarter: a fifth of the way."""
    found = combine_intervals(Interval.within_factor(1.0, 1.2), Interval.within_factor(32.0, 1.44))
    assert found.value == pytest.approx(2.0)


def test_who_knows_exactly_is_believed() -> None:
    assert combine_intervals(Interval.exactly(3.0), Interval.within_factor(1.0, 2.0)) == Interval.exactly(3.0)
    assert combine_intervals(Interval.within_factor(1.0, 2.0), Interval.exactly(3.0)) == Interval.exactly(3.0)


def test_a_time_that_may_be_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="may be nothing"):
        combine_intervals(Interval(value=1.0, low=0.0, high=2.0), Interval.exactly(1.0))


def test_what_operations_missed_elsewhere_they_mostly_miss_here() -> None:
    """Twice as long as foretold on the one GPU: nearly twice as long on the other."""
    elsewhere = replace(STEP, seconds=0.4)
    assert 0.3 < predict_by_operations(STEP, "of nobody", [(elsewhere, 0.8)], FIT).value < 0.4


def test_operations_that_nobody_measured_are_believed_less() -> None:
    times = Interval.within_factor(0.8, 1.5)
    strange = replace(STEP, unfamiliar=0.5)
    known = [(STEP, 0.2)]
    believed, doubted = (predict_combined(step, "of nobody", known, FIT, times).value for step in (STEP, strange))
    assert 0.2 < believed < doubted < 0.8


def test_a_program_that_resembles_a_measured_one_goes_by_its_operations() -> None:
    times = Interval.within_factor(0.8, 1.01)
    relative = replace(STEP, similarity=SIMILAR)
    assert predict_combined(relative, "of nobody", [(STEP, 0.2)], FIT, times).value == pytest.approx(0.2)
