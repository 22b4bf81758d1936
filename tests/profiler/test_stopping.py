"""The rules that end a measurement, and the stability of a training on which one of them is based."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_profile
from trainfare.model.profile import Epoch, Profile
from trainfare.model.stability import (
    best_index,
    convergence_metric,
    higher_is_better,
    stabilisation_point,
    stability_of,
)
from trainfare.profiler.stopping import UntilEpochs, UntilStable, UntilSteady


def partial_profile(count: int, *, spread: float = 0.0, **changes: Any) -> Profile:
    """A slow first iteration, then `count` of 100 ms, every other one longer by `spread`."""
    later = tuple(0.1 * (1 + spread * (n % 2)) for n in range(count))
    fields = {"iterations_per_epoch": None, "validation_seconds": (), "data_wait_seconds": (), "loss": ()}
    return make_profile(iteration_seconds=(5.0, *later), **(fields | changes))


def curve(*losses: float, **metrics: list[float]) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(number=n, seconds=1.0, loss=loss, metrics={name: values[n - 1] for name, values in metrics.items()})
        for n, loss in enumerate(losses, start=1)
    )


def test_ten_equal_iterations_are_enough_and_nine_are_not() -> None:
    assert not UntilSteady().is_met(partial_profile(9), seconds=1)
    assert UntilSteady().is_met(partial_profile(10), seconds=1)


def test_an_interval_wider_than_two_percent_is_not_enough() -> None:
    assert not UntilSteady().is_met(partial_profile(40, spread=0.05), seconds=4)
    assert UntilSteady().is_met(partial_profile(40, spread=0.01), seconds=4)


def test_after_a_minute_three_iterations_are_enough() -> None:
    assert not UntilSteady().is_met(partial_profile(1), seconds=600)
    assert UntilSteady().is_met(partial_profile(2), seconds=60)
    assert not UntilSteady().is_met(partial_profile(40, spread=0.5), seconds=59)
    assert UntilSteady().is_met(partial_profile(40, spread=0.5), seconds=60)


@pytest.mark.parametrize(
    ("changes", "seconds", "stops"),
    [
        ({"iterations_per_epoch": 200}, 2, False),
        ({"iterations_per_epoch": 200, "validation_seconds": (0.3,)}, 2, True),
        ({"iterations_per_epoch": 200}, 50, True),
        ({"iterations_per_epoch": 20}, 2, True),
        ({"iterations_per_epoch": 21}, 2, False),
        ({"iterations_per_epoch": None}, 2, True),
    ],
    ids=["close", "measured", "too far", "epoch over", "epoch just over", "unknown"],
)
def test_rule_waits_for_a_validation_that_comes_in_time(
    changes: dict[str, Any], seconds: float, stops: bool
) -> None:
    assert UntilSteady().is_met(partial_profile(20, **changes), seconds) is stops


def test_only_complete_epochs_count() -> None:
    rule = UntilEpochs(epochs=2)
    assert not rule.is_met(partial_profile(5, curve=curve(1.0)), seconds=1e9)
    assert rule.is_met(partial_profile(5, curve=curve(1.0, 0.9)), seconds=1)
    reported = (*curve(1.0), Epoch(number=2, metrics={"val_loss": 1.0}))
    assert not rule.is_met(partial_profile(5, curve=reported), seconds=1)
    assert UntilEpochs(epochs=2, max_seconds=10).is_met(partial_profile(5), seconds=10)


def test_epochs_of_a_stream_of_unknown_length_are_those_reported_by_the_framework() -> None:
    reported = (Epoch(number=1), Epoch(number=2))
    assert UntilEpochs(epochs=2).is_met(partial_profile(5, curve=reported), seconds=1)


def test_training_without_improvement_ends_after_the_patience() -> None:
    rule = UntilStable(patience=2)
    assert not rule.is_met(partial_profile(5, curve=curve(3, 2, 1, 1.1)), seconds=1e9)
    assert rule.is_met(partial_profile(5, curve=curve(3, 2, 1, 1.1, 1.0)), seconds=1)
    assert not rule.is_met(partial_profile(5, curve=curve(3, 2, 1, 1.1, 0.9)), seconds=1)
    assert not rule.is_met(partial_profile(5), seconds=1e9)
    assert UntilStable(max_seconds=5).is_met(partial_profile(5), seconds=5)


def test_validation_metric_precedes_the_training_loss() -> None:
    profile = partial_profile(5, curve=curve(3, 2, 1, val_accuracy=[0.5, 0.6, 0.7], val_loss=[1.0, 0.9, 1.1]))
    assert convergence_metric(profile) == ("val_loss", [1, 2, 3], [1.0, 0.9, 1.1])
    profile = partial_profile(5, curve=curve(3, 2, 1, accuracy=[0.9, 0.9, 0.9], eval_accuracy=[0.5, 0.6, 0.7]))
    assert convergence_metric(profile) == ("eval_accuracy", [1, 2, 3], [0.5, 0.6, 0.7])
    assert convergence_metric(partial_profile(5, curve=curve(3, 2))) == ("training loss", [1, 2], [3, 2])
    assert convergence_metric(partial_profile(5)) is None


def test_metric_of_every_second_epoch_keeps_its_epochs() -> None:
    epochs = [Epoch(number=n, seconds=1.0, metrics={"val_loss": 1 / n} if n % 2 == 0 else {}) for n in range(1, 7)]
    assert convergence_metric(partial_profile(5, curve=tuple(epochs))) == ("val_loss", [2, 4, 6], [1 / 2, 1 / 4, 1 / 6])


@pytest.mark.parametrize(
    ("name", "higher"),
    [("val_loss", False), ("val_accuracy", True), ("eval_f1", True), ("val_error", False), ("val_perplexity", False)],
)
def test_direction_of_improvement_follows_from_the_name(name: str, higher: bool) -> None:
    assert higher_is_better(name) is higher


def test_tiny_improvement_does_not_replace_the_best() -> None:
    assert best_index([1.0, 0.9995], higher=False) == 0
    assert best_index([1.0, 0.99], higher=False) == 1
    assert best_index([0.5, 0.7, 0.6], higher=True) == 1


def test_curve_is_stable_from_the_start_of_its_final_level() -> None:
    assert stabilisation_point([10, 5, 2, 1, 1, 1, 1, 1], 5) == 3
    assert stabilisation_point([0.1, 0.5, 0.80, 0.91, 0.9, 0.9, 0.9, 0.91], 3) == 3
    assert stabilisation_point([1, 1, 1, 1], 3) == 0
    assert stabilisation_point([3, 2, 1], 3) is None


def test_stability_is_given_in_epochs_and_iterations() -> None:
    profile = partial_profile(5, curve=curve(10, 5, 2, 1, 1, 1, 1, 1, 1), iterations_per_epoch=20)
    found = stability_of(profile, patience=5)
    assert found is not None
    assert (found.metric, found.best, found.best_epoch, found.patience_exhausted) == ("training loss", 1, 4, True)
    assert (found.stable_from_epoch, found.stable_from_iteration) == (4, 80)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60), st.integers(1, 20))
def test_stable_part_contains_the_last_values(values: list[float], patience: int) -> None:
    point = stabilisation_point(values, patience)
    if len(values) <= patience:
        assert point is None
    else:
        assert point is not None
        assert 0 <= point <= len(values) - patience


@given(st.floats(1e-3, 1e3), st.integers(30, 100))
def test_exponential_is_stable_after_95_percent_of_its_decay(scale: float, epochs: int) -> None:
    """exp(−t/3) is below 5 % from t = 3·ln 20 on: the ninth value after the first."""
    values = [scale * math.exp(-n / 3) for n in range(epochs)]
    assert stabilisation_point(values, 5) == math.ceil(3 * math.log(20))
