"""The number of epochs that one profile needs and trains."""

import pytest

from tests.makers import make_profile
from trainfare.estimator.epochs.profile_epochs import expected_epochs, profile_epochs
from trainfare.model.profile import EarlyStopping, Epoch

EXPONENTIAL = tuple(0.1 * 0.0133 ** (k / 100) for k in range(100))


def make_curve(count: int) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(number=k, seconds=1.0, loss=2 / k + 0.3, metrics={"val_loss": 1 / k + 0.2, "val_accuracy": 1 - 0.5 / k})
        for k in range(1, count + 1)
    )


def halving_curve(count: int, epochs: int) -> tuple[Epoch, ...]:
    """A loss that halves every `epochs` epochs; it converges after about six halvings."""
    return tuple(Epoch(number=k, seconds=1.0, metrics={"val_loss": 0.5 ** (k / epochs)}) for k in range(1, count + 1))


def test_declared_iterations_are_declared_epochs() -> None:
    found = profile_epochs(make_profile(planned_iterations=230, iterations_per_epoch=23))
    assert (found.declared, found.trains.rule, found.trains.value) == (10, "program", 10)


def test_a_stated_number_overrides_the_declared_one() -> None:
    answer = expected_epochs(make_profile(epochs=90), epochs=30)
    assert (answer.rule, answer.value, answer.low, answer.high) == ("you", 30, 30, 30)


def test_a_program_trains_its_declared_epochs() -> None:
    answer = expected_epochs(make_profile(epochs=90, learning_rate_plan=EXPONENTIAL[:90]))
    assert (answer.rule, answer.value) == ("program", 90)


def test_early_stopping_adds_its_patience_up_to_the_declared_run() -> None:
    stopping = EarlyStopping(metric="val_loss", patience=7)
    profile = make_profile(epochs=100, learning_rate_plan=EXPONENTIAL, early_stopping=stopping)
    answer = expected_epochs(profile)
    assert (answer.rule, answer.value, answer.high) == ("early stopping", 72, 100)


def test_early_stopping_without_a_curve_ends_at_the_declared_run_at_the_latest() -> None:
    answer = expected_epochs(make_profile(epochs=40, early_stopping=EarlyStopping(metric=None, patience=3)))
    assert (answer.value, answer.low, answer.high) == (40, 4, 40)


def test_without_a_declared_number_the_needed_epochs_are_expected() -> None:
    answer = expected_epochs(make_profile(curve=halving_curve(40, 2)))
    assert answer.rule == "settled"
    assert answer.value is not None
    assert 10 < answer.value < 15


def test_without_any_information_the_answer_is_a_refusal() -> None:
    answer = expected_epochs(make_profile())
    assert answer.refused
    assert "no epoch was seen" in answer.why


def test_a_learning_rate_that_reaches_zero_declares_the_length_of_the_run() -> None:
    line = tuple(max(0.0, 1 - k / 50) for k in range(300))
    found = profile_epochs(make_profile(learning_rate_plan=line))
    assert (found.declared, found.needed.rule, found.trains.refused) == (50, "schedule", True)
    assert found.needed.value == pytest.approx(39, abs=1)


def test_a_schedule_that_reacts_to_the_metric_is_not_a_plan() -> None:
    profile = make_profile(
        epochs=100, learning_rate_plan=EXPONENTIAL, learning_rate_schedule="ReduceLROnPlateau", curve=make_curve(30)
    )
    assert profile_epochs(profile).needed.rule == "curve"


def test_the_learning_rates_of_a_complete_run_are_its_plan() -> None:
    rates = tuple(rate for rate in EXPONENTIAL for _ in range(2))
    profile = make_profile(epochs=100, learning_rate=rates, iterations_per_epoch=2)
    assert profile_epochs(profile).needed.value == 65


def test_epochs_without_validation_are_interpolated() -> None:
    every_third = tuple(Epoch(number=k, seconds=1.0, metrics={"val_loss": 10.0 - k}) for k in (3, 6, 9))
    found = profile_epochs(make_profile(curve=every_third)).curve
    assert found is not None
    assert found.values == (7.0, 7.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0)


def test_a_diverged_loss_is_refused_whatever_the_schedule_says() -> None:
    profile = make_profile(epochs=100, learning_rate_plan=EXPONENTIAL, loss=(2.0, 9.0, None, None, None))
    answer = profile_epochs(profile).needed
    assert answer.refused
    assert "from iteration 3 on" in answer.why


def test_an_epoch_without_a_finite_loss_is_refused() -> None:
    broken = (*(Epoch(number=k, seconds=1.0, loss=1 / k) for k in range(1, 6)), Epoch(number=6, seconds=1.0))
    answer = profile_epochs(make_profile(curve=broken, epochs=50)).needed
    assert answer.refused
    assert "epoch 6 is not a number" in answer.why
