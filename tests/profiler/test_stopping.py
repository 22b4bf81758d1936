"""When to stop, decided from what was seen so far."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_profile
from trainfare.model.profile import Epoch, Profile
from trainfare.profiler.stopping import (
    UntilEpochs,
    UntilStable,
    UntilSteady,
    best_so_far,
    is_better_higher,
    metric_of,
    stabilisation_point,
    stability_of,
)


def seen(count: int, *, spread: float = 0.0, **changes: Any) -> Profile:
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
    assert not UntilSteady().enough(seen(9), seconds=1)
    assert UntilSteady().enough(seen(10), seconds=1)


def test_an_interval_wider_than_two_percent_is_not_enough() -> None:
    assert not UntilSteady().enough(seen(40, spread=0.05), seconds=4)
    assert UntilSteady().enough(seen(40, spread=0.01), seconds=4)


def test_after_a_minute_three_iterations_are_enough() -> None:
    assert not UntilSteady().enough(seen(1), seconds=600)
    assert UntilSteady().enough(seen(2), seconds=60)
    assert not UntilSteady().enough(seen(40, spread=0.5), seconds=59)
    assert UntilSteady().enough(seen(40, spread=0.5), seconds=60)


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
    ids=["near", "seen", "too far", "epoch over", "epoch just over", "unknown"],
)
def test_a_validation_is_waited_for_where_it_comes_in_time(
    changes: dict[str, Any], seconds: float, stops: bool
) -> None:
    assert UntilSteady().enough(seen(20, **changes), seconds) is stops


def test_epochs_are_enough_when_they_are_complete() -> None:
    rule = UntilEpochs(epochs=2)
    assert not rule.enough(seen(5, curve=curve(1.0)), seconds=1e9)
    assert rule.enough(seen(5, curve=curve(1.0, 0.9)), seconds=1)
    told = (*curve(1.0), Epoch(number=2, metrics={"val_loss": 1.0}))
    assert not rule.enough(seen(5, curve=told), seconds=1)
    assert UntilEpochs(epochs=2, most_seconds=10).enough(seen(5), seconds=10)


def test_a_stream_of_unknown_length_has_the_epochs_that_its_framework_names() -> None:
    told = (Epoch(number=1), Epoch(number=2))
    assert UntilEpochs(epochs=2).enough(seen(5, curve=told), seconds=1)


def test_patience_ends_a_training_that_gets_no_better() -> None:
    rule = UntilStable(patience=2)
    assert not rule.enough(seen(5, curve=curve(3, 2, 1, 1.1)), seconds=1e9)
    assert rule.enough(seen(5, curve=curve(3, 2, 1, 1.1, 1.0)), seconds=1)
    assert not rule.enough(seen(5, curve=curve(3, 2, 1, 1.1, 0.9)), seconds=1)
    assert not rule.enough(seen(5), seconds=1e9)
    assert UntilStable(most_seconds=5).enough(seen(5), seconds=5)


def test_validation_decides_where_there_is_one() -> None:
    known = seen(5, curve=curve(3, 2, 1, val_accuracy=[0.5, 0.6, 0.7], val_loss=[1.0, 0.9, 1.1]))
    assert metric_of(known) == ("val_loss", [1, 2, 3], [1.0, 0.9, 1.1])
    known = seen(5, curve=curve(3, 2, 1, accuracy=[0.9, 0.9, 0.9], eval_accuracy=[0.5, 0.6, 0.7]))
    assert metric_of(known) == ("eval_accuracy", [1, 2, 3], [0.5, 0.6, 0.7])
    assert metric_of(seen(5, curve=curve(3, 2))) == ("training loss", [1, 2], [3, 2])
    assert metric_of(seen(5)) is None


def test_a_metric_of_every_other_epoch_is_followed_where_it_stands() -> None:
    epochs = [Epoch(number=n, seconds=1.0, metrics={"val_loss": 1 / n} if n % 2 == 0 else {}) for n in range(1, 7)]
    assert metric_of(seen(5, curve=tuple(epochs))) == ("val_loss", [2, 4, 6], [1 / 2, 1 / 4, 1 / 6])


@pytest.mark.parametrize(
    ("name", "higher"),
    [("val_loss", False), ("val_accuracy", True), ("eval_f1", True), ("val_error", False), ("val_perplexity", False)],
)
def test_which_way_is_better(name: str, higher: bool) -> None:
    assert is_better_higher(name) is higher


def test_the_best_is_not_replaced_by_a_hair() -> None:
    assert best_so_far([1.0, 0.9995], higher=False) == 0
    assert best_so_far([1.0, 0.99], higher=False) == 1
    assert best_so_far([0.5, 0.7, 0.6], higher=True) == 1


def test_a_curve_is_stable_where_its_last_level_begins() -> None:
    assert stabilisation_point([10, 5, 2, 1, 1, 1, 1, 1], 5) == 3
    assert stabilisation_point([0.1, 0.5, 0.80, 0.91, 0.9, 0.9, 0.9, 0.91], 3) == 3
    assert stabilisation_point([1, 1, 1, 1], 3) == 0
    assert stabilisation_point([3, 2, 1], 3) is None


def test_stability_is_told_in_epochs_and_iterations() -> None:
    known = seen(5, curve=curve(10, 5, 2, 1, 1, 1, 1, 1, 1), iterations_per_epoch=20)
    found = stability_of(known, patience=5)
    assert found is not None
    assert (found.metric, found.best, found.best_epoch, found.over) == ("training loss", 1, 4, True)
    assert (found.stable_from_epoch, found.stable_from_iteration) == (4, 80)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60), st.integers(1, 20))
def test_the_stable_part_reaches_to_the_end_and_holds_the_last_values(values: list[float], patience: int) -> None:
    point = stabilisation_point(values, patience)
    if len(values) <= patience:
        assert point is None
    else:
        assert point is not None
        assert 0 <= point <= len(values) - patience


@given(st.floats(1e-3, 1e3), st.integers(30, 100))
def test_an_exponential_settles_where_it_has_gone_95_percent_of_its_way(scale: float, epochs: int) -> None:
    """exp(−t/3) is below 5 % from t = 3·ln 20 on: the ninth value after the first."""
    values = [scale * math.exp(-n / 3) for n in range(epochs)]
    assert stabilisation_point(values, 5) == math.ceil(3 * math.log(20))
