import math
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trainfare.estimator.epochs.convergence import (
    FORMS,
    Form,
    epochs_by_curve,
    epochs_if_settled,
    epochs_to_reach,
    fit_form,
    still_improves,
    unusable_reason,
)
from trainfare.estimator.epochs.needed import epochs_needed

FALLING = [1 / (0.3 * k + 0.5) + 0.2 for k in range(1, 21)]


def test_optimus_recovers_its_coefficients() -> None:
    fit = fit_form("optimus", FALLING, higher=False, run_epochs=60)
    assert fit is not None
    assert fit.coefficients == pytest.approx((0.3, 0.5, 0.2), rel=0.1)
    assert fit.values[39] == pytest.approx(1 / (0.3 * 40 + 0.5) + 0.2, rel=0.02)


def test_pow3_recovers_its_coefficients() -> None:
    fit = fit_form("pow3", [0.9 - 0.5 * k**-0.7 for k in range(1, 21)], higher=True, run_epochs=60)
    assert fit is not None
    assert fit.coefficients == pytest.approx((0.9, -0.5, 0.7), rel=0.05)


def test_vapour_recovers_its_coefficients() -> None:
    fit = fit_form(
        "vapour", [math.exp(-0.3 - 0.8 / k + 0.05 * math.log(k)) for k in range(1, 21)], higher=True, run_epochs=60
    )
    assert fit is not None
    assert fit.coefficients == pytest.approx((-0.3, -0.8, 0.05), rel=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", [1e-6, 7.3, 1e6])
def test_unit_of_the_loss_does_not_change_a_form(form: Form, unit: float) -> None:
    plain = fit_form(form, FALLING, higher=False, run_epochs=60)
    scaled = fit_form(form, [value * unit for value in FALLING], higher=False, run_epochs=60)
    assert plain is not None
    assert scaled is not None
    assert scaled.epoch == plain.epoch


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "no epoch was seen"),
        ([1.0], "one epoch was seen"),
        ([1.0, 0.9], "2 epochs were seen"),
        ([0.5] * 20, "does not change"),
        ([0.0] * 20, "does not change"),
        ([1.0, 0.9, math.nan, 0.7, 0.6], "epoch 3 is not a number"),
        ([1.0, 0.9, math.inf, 0.7, 0.6], "epoch 3 is not a number"),
        ([1.0, 1.5, 2.5, 4.0, 9.0, 30.0], "gets worse from the first epoch on"),
        ([1.0, 0.9, 0.8, 5.0, 9.0, 30.0], "is getting worse"),
        ([1.0, 0.5, 1.01, 0.5, 1.0, 0.51, 1.0, 0.5], "up and down"),
    ],
)
def test_unusable_curve_is_refused_with_the_reason(values: list[float], reason: str) -> None:
    answer = epochs_by_curve(values, higher=False, run_epochs=60)
    assert answer.refused
    assert reason in answer.why


@example([6.761895059894297e307, 6.761895059894289e307, 0.0, 0.0], None)
@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=25), st.none() | st.integers(1, 100))
def test_any_values_get_an_answer_without_an_exception(values: list[float], run: int | None) -> None:
    answer = epochs_by_curve(values, higher=False, run_epochs=run)
    if not answer.refused and run is not None and len(values) <= run:
        assert answer.high is not None
        assert answer.high <= run


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.integers(4, 40), st.integers(0, 60), st.booleans())
def test_value_lies_in_its_interval(seed: int, seen: int, more: int, higher: bool) -> None:
    dice = random.Random(seed)
    values = [dice.uniform(0.5, 2) / k + dice.gauss(0, 0.05) for k in range(1, seen + 1)]
    answer = epochs_by_curve([-v for v in values] if higher else values, higher=higher, run_epochs=seen + more)
    if not answer.refused:
        assert answer.value is not None
        assert answer.low is not None
        assert answer.high is not None
        assert 1 <= answer.low <= answer.value <= answer.high <= seen + more


def test_settled_curve_has_an_answer() -> None:
    values = [1 + math.exp(-k / 2) for k in range(30)]
    answer = epochs_if_settled(values, higher=False, run_epochs=60)
    assert answer is not None
    assert answer.value == pytest.approx(9, abs=1)


def test_curve_past_its_best_settled_at_its_best() -> None:
    values = [*[1 - 0.1 * k for k in range(6)], *[0.5 + 0.02 * k for k in range(1, 20)]]
    answer = epochs_by_curve(values, higher=False, run_epochs=60)
    assert answer.rule == "settled"
    assert answer.value == 6


def test_curve_that_still_falls_is_not_settled() -> None:
    assert epochs_if_settled([1 - 0.01 * k for k in range(40)], higher=False, run_epochs=60) is None


def test_slow_curve_of_unknown_length_is_refused_and_a_fast_one_is_not() -> None:
    slow = epochs_by_curve([10 - 0.1 * k for k in range(12)], higher=False)
    assert slow.refused
    assert "State the number of epochs" in slow.why
    quick = epochs_by_curve([0.2 + 2 * k**-2.5 for k in range(1, 8)], higher=False)
    assert quick.value is not None
    assert 3 < quick.value < 28


def test_extreme_losses_are_fitted_without_a_warning() -> None:
    assert fit_form("optimus", [10.0, 1e-300, 1.0, 1e-308, 0.5], higher=False, run_epochs=20) is not None


def test_usable_curve_has_no_reason_against_it() -> None:
    assert unusable_reason(FALLING, higher=False) is None


def optimus(epoch: int) -> float:
    return 1 / (0.5 * epoch + 1) + 0.1


def test_target_that_was_reached_is_exact() -> None:
    answer = epochs_to_reach([optimus(k) for k in range(1, 9)], 0.4, higher=False)
    first = next(k for k in range(1, 9) if optimus(k) <= 0.4)
    assert (answer.rule, answer.value, answer.low, answer.high) == ("target", first, first, first)


@given(st.floats(0.13, 0.25))
def test_target_ahead_lies_within_the_predicted_range(target: float) -> None:
    true = next(k for k in range(1, 1000) if optimus(k) <= target)
    answer = epochs_to_reach([optimus(k) for k in range(1, 9)], target, higher=False, run_epochs=200)
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low <= true <= answer.high


def test_accuracy_rises_to_its_target() -> None:
    answer = epochs_to_reach([1 - 1 / k for k in range(1, 9)], 0.8, higher=True)
    assert answer.value == 5


def test_target_that_the_curve_does_not_show_is_refused_without_a_claim_that_it_is_never_reached() -> None:
    answer = epochs_to_reach([optimus(k) for k in range(1, 30)], 0.01, higher=False, run_epochs=100)
    assert answer.refused
    assert "do not show when it reaches 0.01" in answer.why
    assert "Profile more epochs" in answer.why


def test_loss_that_falls_exponentially_reaches_its_target_within_the_range_or_the_answer_is_a_refusal() -> None:
    """Epoch 30 is the first below 0.05, nine epochs after those that were seen."""
    curve = [0.7 * math.exp(-k / 11.2) + 0.002 * math.sin(5 * k) for k in range(1, 60)]
    truth = next(k for k, value in enumerate(curve, start=1) if value <= 0.05)
    answer = epochs_to_reach(curve[: truth - 9], 0.05, higher=False, run_epochs=40)
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low <= truth <= answer.high


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(["exponential", "power", "logarithm"]), st.integers(8, 40), st.floats(1.1, 2.5), st.floats(0.3, 3.0)
)
def test_target_passed_later_lies_in_the_range_of_every_cut(kind: str, seen: int, ahead: float, rate: float) -> None:
    def loss(k: int) -> float:
        if kind == "exponential":
            return math.exp(-rate * k / 20)
        return float(k**-rate) if kind == "power" else 5 - rate * math.log(k)

    truth = math.ceil(seen * ahead)
    answer = epochs_to_reach([loss(k) for k in range(1, seen + 1)], loss(truth), higher=False)
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low <= truth <= answer.high


def test_drop_of_the_learning_rate_ahead_is_within_the_range() -> None:
    values = [0.3 + 0.5 * k**-0.5 for k in range(1, 21)]
    answer = epochs_to_reach(values, 0.38, higher=False, drops=(30,))
    assert answer.low is not None
    assert answer.low <= 31


def test_refusal_names_a_drop_of_the_learning_rate_that_may_reach_the_target() -> None:
    answer = epochs_to_reach([0.3 + 0.5 / k for k in range(1, 21)], 0.1, higher=False, drops=(30,))
    assert answer.refused
    assert "after epoch 30" in answer.why


HALVING = [2.3 * 0.75**k for k in range(20)]
"""A loss that falls by a quarter in each epoch: after the 14th it is within 2% of its total gain, and still halves."""


@pytest.mark.parametrize("run", [None, 20, 60])
def test_no_number_of_epochs_is_enough_within_those_seen_while_the_loss_still_falls(run: int | None) -> None:
    for answer in (
        epochs_by_curve(HALVING, higher=False, run_epochs=run),
        epochs_needed(HALVING, higher=False, run_epochs=run),
    ):
        assert answer.refused or answer.value is None or answer.value > len(HALVING)


def test_complete_run_that_still_improves_is_refused_with_that_reason() -> None:
    answer = epochs_needed(HALVING, higher=False, run_epochs=20)
    assert answer.refused
    assert "still improved" in answer.why


def test_settled_curve_does_not_still_improve() -> None:
    assert still_improves(HALVING, higher=False)
    assert not still_improves([*HALVING, *[HALVING[-1]] * 20], higher=False)
    assert not still_improves([0.5 + 0.4 * 0.7**k + 0.01 * (-1) ** k for k in range(40)], higher=False)
    assert not still_improves([1.0, 0.9, 0.8], higher=False)


def test_diverging_curve_reaches_no_target() -> None:
    assert epochs_to_reach([1.0, 1.2, 1.5, 2.0, 3.0], 0.5, higher=False).refused
