"""The stability of a training: the metric that shows convergence, its best value, and where it stabilised.

Pure functions of a Profile, shared by the rules that stop a measurement and by the estimates of epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from trainfare.model.interval import Interval
from trainfare.model.profile import Epoch, Profile

MIN_IMPROVEMENT = 1e-3
"""A smaller relative improvement over the best value does not count: a training loss improves slightly for ever."""

PATIENCE = 5
"""Epochs without an improvement after which early stopping usually stops; also Malta's choice."""

SETTLING_BAND = 0.05
"""The usual band of a settling time, as a share of the distance from the first value to the final level."""

_HIGHER_IS_BETTER = ("acc", "auc", "f1", "precision", "recall", "iou", "dice", "bleu", "rouge", "r2", "map", "score")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """The course of a metric over the epochs: its last and best value, and where it stabilised."""

    metric: str
    """The program's name of the metric; `training loss` is the mean over each epoch."""
    last: float
    best: float
    best_epoch: int
    patience_exhausted: bool
    """The metric has not improved for as many epochs as the patience allows."""
    stable_from_epoch: int | None
    """Malta's stabilisation point; None while there are too few epochs."""
    stable_from_iteration: int | None


def stability_of(profile: Profile, patience: int) -> Stability | None:
    """The stability of the metric that shows convergence; None if no epoch has a metric or a loss."""
    found = convergence_metric(profile)
    if found is None:
        return None
    metric, epochs, values = found
    best = best_index(values, higher=higher_is_better(metric))
    point = stabilisation_point(values, patience)
    length = profile.iterations_per_epoch
    return Stability(
        metric=metric,
        last=values[-1],
        best=values[best],
        best_epoch=epochs[best],
        patience_exhausted=len(values) - 1 - best >= patience,
        stable_from_epoch=None if point is None else epochs[point],
        stable_from_iteration=None if point is None or length is None else epochs[point] * length,
    )


def convergence_metric(profile: Profile) -> tuple[str, list[int], list[float]] | None:
    """The metric that shows convergence, the epochs that have it, and its values: a validation loss, else another
    validation metric, else the mean training loss. None if there is none of them."""
    epochs = complete_epochs(profile)
    names = sorted({name for epoch in epochs for name in epoch.metrics})
    for matches in (_is_validation_loss, _is_validation):
        for name in filter(matches, names):
            with_metric = [epoch for epoch in epochs if name in epoch.metrics]
            return name, [epoch.number for epoch in with_metric], [epoch.metrics[name] for epoch in with_metric]
    trained = [(epoch.number, epoch.loss) for epoch in epochs if epoch.loss is not None]
    return ("training loss", [number for number, _ in trained], [loss for _, loss in trained]) if trained else None


def complete_epochs(profile: Profile) -> list[Epoch]:
    """The epochs that ended, which have their seconds. If the length of an epoch is unknown, all epochs that the
    framework reported."""
    return [epoch for epoch in profile.curve if epoch.seconds is not None] or list(profile.curve)


def higher_is_better(name: str) -> bool:
    """True for accuracies and scores, False for losses and errors. Any other name is taken for a loss."""
    lowered = name.lower()
    return "loss" not in lowered and "error" not in lowered and any(part in lowered for part in _HIGHER_IS_BETTER)


def best_index(values: Sequence[float], *, higher: bool) -> int:
    """The index of the best value; an improvement by less than `MIN_IMPROVEMENT` does not count."""
    sign = 1 if higher else -1
    best = 0
    for place, value in enumerate(values):
        if sign * (value - values[best]) > MIN_IMPROVEMENT * abs(values[best]):
            best = place
    return best


def stabilisation_point(values: Sequence[float], patience: int) -> int | None:
    """The first index from which on all values stay near the final level (Malta 2019: "the iteration in which the
    accuracy stabilizes", found there by eye).

    The level is the median of the last `patience` values. Near means within 5 % of the distance from the first value to
    the level, or within the deviation of these last values if that is larger. None if there are too few values.
    """
    if len(values) <= patience:
        return None
    last = values[-patience:]
    level = median(last)
    band = max(SETTLING_BAND * abs(values[0] - level), *(abs(value - level) for value in last))
    outside = [place for place, value in enumerate(values) if abs(value - level) > band]
    return outside[-1] + 1 if outside else 0


def steady_interval(profile: Profile) -> Interval | None:
    """The median time of the iterations after the first, with its 90 % interval; None before there is one."""
    later = profile.steady_iteration_seconds
    return Interval.from_median(later) if later else None


def relative_uncertainty(interval: Interval) -> float:
    """The distance of the farther end of the interval, relative to its value."""
    return max(interval.high - interval.value, interval.value - interval.low) / interval.value


def _is_validation(name: str) -> bool:
    return name.lower().startswith(("val", "eval"))


def _is_validation_loss(name: str) -> bool:
    return _is_validation(name) and "loss" in name.lower()
