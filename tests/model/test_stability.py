"""The stability of a training: the metric that shows convergence, its best value, and where it stabilised."""

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


def make_curve(*losses: float, **metrics: list[float]) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(number=n, seconds=1.0, loss=loss, metrics={name: values[n - 1] for name, values in metrics.items()})
        for n, loss in enumerate(losses, start=1)
    )


def profile_with(**changes: Any) -> Profile:
    fields = {"iterations_per_epoch": None, "validation_seconds": (), "data_wait_seconds": (), "loss": ()}
    return make_profile(iteration_seconds=(5.0, *[0.1] * 5), **(fields | changes))


def test_validation_metric_precedes_the_training_loss() -> None:
    profile = profile_with(curve=make_curve(3, 2, 1, val_accuracy=[0.5, 0.6, 0.7], val_loss=[1.0, 0.9, 1.1]))
    assert convergence_metric(profile) == ("val_loss", [1, 2, 3], [1.0, 0.9, 1.1])
    profile = profile_with(curve=make_curve(3, 2, 1, accuracy=[0.9, 0.9, 0.9], eval_accuracy=[0.5, 0.6, 0.7]))
    assert convergence_metric(profile) == ("eval_accuracy", [1, 2, 3], [0.5, 0.6, 0.7])
    assert convergence_metric(profile_with(curve=make_curve(3, 2))) == ("training loss", [1, 2], [3, 2])
    assert convergence_metric(profile_with()) is None


def test_metric_of_every_second_epoch_keeps_its_epochs() -> None:
    epochs = [Epoch(number=n, seconds=1.0, metrics={"val_loss": 1 / n} if n % 2 == 0 else {}) for n in range(1, 7)]
    assert convergence_metric(profile_with(curve=tuple(epochs))) == ("val_loss", [2, 4, 6], [1 / 2, 1 / 4, 1 / 6])


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
    profile = profile_with(curve=make_curve(10, 5, 2, 1, 1, 1, 1, 1, 1), iterations_per_epoch=20)
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
