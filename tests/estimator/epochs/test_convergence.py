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
    unusable_reason,
)

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
    dice = random.Random(seed)  # noqa: S311 not for secrets
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


def test_target_that_no_form_reaches_is_refused() -> None:
    answer = epochs_to_reach([optimus(k) for k in range(1, 30)], 0.01, higher=False, run_epochs=100)
    assert answer.refused
    assert "no form of the curve reaches 0.01" in answer.why


def test_diverging_curve_reaches_no_target() -> None:
    assert epochs_to_reach([1.0, 1.2, 1.5, 2.0, 3.0], 0.5, higher=False).refused
