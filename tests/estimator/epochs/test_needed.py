import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.estimator.epochs.needed import epochs_needed

EXPONENTIAL = [0.1 * 0.0133 ** (k / 100) for k in range(100)]
THIRDS = [0.1 * 0.1 ** (k // 30) for k in range(90)]
RISING = [0.9 - 0.5 * k**-0.5 for k in range(1, 101)]


def test_complete_run_is_measured() -> None:
    """The median of the first two is 0.25, so 2% of the improvement is 0.015: 0.5^7 is less."""
    values = [1 - 0.5**k for k in range(30)]
    answer = epochs_needed(values, higher=True, run_epochs=30)
    assert (answer.rule, answer.value) == ("settled", 8)


def test_schedule_goes_before_the_curve() -> None:
    answer = epochs_needed(RISING[:10], higher=True, run_epochs=100, plan=EXPONENTIAL)
    assert answer.rule == "schedule"
    assert answer.value == pytest.approx(65, rel=0.15)


def test_schedule_alone_answers_without_epochs() -> None:
    assert epochs_needed([], higher=True, run_epochs=100, plan=EXPONENTIAL).value == 65


def test_curve_that_agrees_with_its_smooth_schedule_narrows_the_interval() -> None:
    unseen = epochs_needed([], higher=True, run_epochs=100, plan=EXPONENTIAL)
    seen = epochs_needed(RISING[:25], higher=True, run_epochs=100, plan=EXPONENTIAL)
    assert seen.low is not None
    assert seen.high is not None
    assert unseen.low is not None
    assert unseen.high is not None
    assert unseen.low < seen.low
    assert seen.high < unseen.high


def test_curve_that_flattens_early_keeps_the_low_end_of_the_schedule() -> None:
    quick = [0.9 - 0.5 * k**-3.0 for k in range(1, 13)]
    seen, unseen = (epochs_needed(values, higher=True, run_epochs=100, plan=EXPONENTIAL) for values in (quick, []))
    assert seen.rule == "schedule"
    assert seen.low is not None
    assert seen.low == unseen.low


def test_cycle_that_still_rises_does_not_narrow_the_interval() -> None:
    cycle = [0.1 * (1 + min(k, 100 - k)) for k in range(100)]
    seen, unseen = (epochs_needed(values, higher=True, run_epochs=100, plan=cycle) for values in (RISING[:20], []))
    assert unseen.high is not None
    assert seen.high is not None
    assert seen.high >= unseen.high


def test_settled_curve_goes_before_a_smooth_schedule() -> None:
    values = [1 - math.exp(-k / 2) for k in range(40)]
    answer = epochs_needed(values, higher=True, run_epochs=100, plan=EXPONENTIAL)
    assert answer.rule == "settled"
    assert answer.value is not None
    assert answer.value < 12


def test_settled_curve_before_a_drop_waits_for_the_drop_and_lowers_the_low_end() -> None:
    values = [1 - math.exp(-k / 2) for k in range(28)]
    answer = epochs_needed(values, higher=True, run_epochs=90, plan=THIRDS)
    assert answer.rule == "schedule"
    assert answer.value == pytest.approx(61, abs=1)
    assert answer.low is not None
    assert answer.low < 12


def test_curve_that_overfits_does_not_wait_for_a_drop() -> None:
    values = [*[0.1 * k for k in range(1, 9)], *[0.8 - 0.02 * k for k in range(20)]]
    answer = epochs_needed(values, higher=True, run_epochs=90, plan=THIRDS)
    assert answer.rule == "settled"
    assert answer.value == pytest.approx(8, abs=1)


def test_constant_rate_leaves_the_answer_to_the_curve() -> None:
    assert epochs_needed(RISING[:25], higher=True, run_epochs=100, plan=[0.1] * 100).rule == "curve"


def test_refusal_states_both_reasons() -> None:
    answer = epochs_needed([0.5, 0.4], higher=False, run_epochs=100, plan=[0.1] * 100)
    assert answer.refused
    assert "2 epochs were seen" in answer.why
    assert "stays the same" in answer.why


def test_plan_is_limited_to_the_run() -> None:
    assert epochs_needed([], higher=True, run_epochs=40, plan=EXPONENTIAL).value == pytest.approx(37, abs=1)


@settings(deadline=None)
@given(
    st.lists(st.floats(-10, 10), max_size=40),
    st.none() | st.integers(1, 60),
    st.lists(st.floats(0, 1), max_size=60),
    st.booleans(),
)
def test_any_input_gets_an_answer_within_its_interval(
    values: list[float], run: int | None, plan: list[float], higher: bool
) -> None:
    answer = epochs_needed(values[:run], higher=higher, run_epochs=run, plan=plan)
    if not answer.refused and answer.value is not None:
        assert answer.low is not None
        assert answer.high is not None
        assert 1 <= answer.low <= answer.value <= answer.high
