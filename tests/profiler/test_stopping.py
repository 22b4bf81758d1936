"""The rules that end a measurement."""

from typing import Any

import pytest

from tests.makers import make_profile
from trainfare.model.profile import Epoch, Profile
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
def test_rule_waits_for_a_validation_that_comes_in_time(changes: dict[str, Any], seconds: float, stops: bool) -> None:
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
