"""When has enough been seen? Pure: asked again and again with what is known so far, as a Profile.

UntilSteady     the time of an iteration is known to 2 % (Malta's second method)
UntilEpochs     so many epochs are complete (Malta's first method on the machines that are compared)
UntilStable     the model does not get better any more (Malta's first method on the machine that trains it)

`seconds` are those since the end of the first iteration, which may have compiled for minutes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from trainfare.model.interval import Interval
from trainfare.model.profile import Epoch, Profile

BETTER_BY = 1e-3
"""Less than this share of the best value so far is not an improvement, or a training loss would improve for ever."""

PATIENCE = 5
"""Epochs without an improvement after which early stopping usually stops; Malta's choice too."""

SETTLED_WITHIN = 0.05
"""Of the way from the first value to the last level: the usual band of a settling time."""

_HIGHER_IS_BETTER = ("acc", "auc", "f1", "precision", "recall", "iou", "dice", "bleu", "rouge", "r2", "map", "score")


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilSteady:
    """The 90 % interval of the median lies within 2 % of it, or the time is up.

    A validation is waited for, where the first epoch ends in time: without one nobody knows what it takes.
    """

    within: float = 0.02
    fewest: int = 10
    """Of the iterations after the first."""
    most_seconds: float = 60.0
    fewest_iterations: int = 3
    """Even where the time is up."""

    def enough(self, seen: Profile, seconds: float) -> bool:
        count = len(seen.iteration_seconds)
        if seconds >= self.most_seconds:
            return count >= self.fewest_iterations
        middle = steady(seen)
        if middle is None or count <= self.fewest or uncertainty(middle) > self.within:
            return False
        return not self._validation_is_near(seen, middle.value, self.most_seconds - seconds)

    def _validation_is_near(self, seen: Profile, iteration_seconds: float, seconds_left: float) -> bool:
        length = seen.iterations_per_epoch
        if seen.validation_seconds or length is None:
            return False
        # What lies between two epochs is only told with the iteration after it.
        missing = length + 1 - len(seen.iteration_seconds)
        return missing > 0 and missing * iteration_seconds <= seconds_left


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilEpochs:
    """So many epochs with their validations, or the time is up."""

    epochs: int
    most_seconds: float | None = None

    def enough(self, seen: Profile, seconds: float) -> bool:
        return len(complete_epochs(seen)) >= self.epochs or _is_up(self.most_seconds, seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilStable:
    """Early stopping: for `patience` epochs the metric was not better than before, or the time is up."""

    patience: int = PATIENCE
    most_seconds: float | None = None

    def enough(self, seen: Profile, seconds: float) -> bool:
        stability = stability_of(seen, self.patience)
        return (stability is not None and stability.over) or _is_up(self.most_seconds, seconds)


Until = UntilSteady | UntilEpochs | UntilStable

STEADY = UntilSteady()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """How a metric went, epoch by epoch."""

    metric: str
    """As the program names it; `training loss` is the mean over each epoch."""
    last: float
    best: float
    best_epoch: int
    over: bool
    """It was not better for as long as patience reached."""
    stable_from_epoch: int | None
    """Malta's stabilisation point; None while too little was seen."""
    stable_from_iteration: int | None


def stability_of(seen: Profile, patience: int) -> Stability | None:
    """None where no epoch has a metric or a loss."""
    followed = metric_of(seen)
    if followed is None:
        return None
    metric, epochs, values = followed
    best = best_so_far(values, higher=is_better_higher(metric))
    point = stabilisation_point(values, patience)
    length = seen.iterations_per_epoch
    return Stability(
        metric=metric,
        last=values[-1],
        best=values[best],
        best_epoch=epochs[best],
        over=len(values) - 1 - best >= patience,
        stable_from_epoch=None if point is None else epochs[point],
        stable_from_iteration=None if point is None or length is None else epochs[point] * length,
    )


def metric_of(seen: Profile) -> tuple[str, list[int], list[float]] | None:
    """The metric to go by, the epochs that have it and its values: a loss of validation before any other metric of
    validation; where there is none, the mean training loss."""
    epochs = complete_epochs(seen)
    names = sorted({name for epoch in epochs for name in epoch.metrics})
    for fits in (_is_validation_loss, _is_validation):
        for name in filter(fits, names):
            having = [epoch for epoch in epochs if name in epoch.metrics]
            return name, [epoch.number for epoch in having], [epoch.metrics[name] for epoch in having]
    trained = [(epoch.number, epoch.loss) for epoch in epochs if epoch.loss is not None]
    return ("training loss", [number for number, _ in trained], [loss for _, loss in trained]) if trained else None


def complete_epochs(seen: Profile) -> list[Epoch]:
    """Those that were seen to end have their seconds. Where nobody knows how long an epoch is, those that the
    framework names."""
    return [epoch for epoch in seen.curve if epoch.seconds is not None] or list(seen.curve)


def is_better_higher(name: str) -> bool:
    """Accuracies and scores rise; losses and errors fall. A name that says neither is taken for a loss."""
    words = name.lower()
    return "loss" not in words and "error" not in words and any(part in words for part in _HIGHER_IS_BETTER)


def best_so_far(values: Sequence[float], *, higher: bool) -> int:
    """Where the best value stands; one that is better by less than `BETTER_BY` does not take its place."""
    sign = 1 if higher else -1
    best = 0
    for place, value in enumerate(values):
        if sign * (value - values[best]) > BETTER_BY * abs(values[best]):
            best = place
    return best


def stabilisation_point(values: Sequence[float], patience: int) -> int | None:
    """The first place from which on all values stay near the last level (Malta 2019: "the iteration in which the
    accuracy stabilizes", there found by eye).

    The level is the median of the last `patience` values. Near is within 5 % of the way from the first value to the
    level, and never less than these last values themselves stray from it. None with too few values to tell.
    """
    if len(values) <= patience:
        return None
    last = values[-patience:]
    level = median(last)
    band = max(SETTLED_WITHIN * abs(values[0] - level), *(abs(value - level) for value in last))
    outside = [place for place, value in enumerate(values) if abs(value - level) > band]
    return outside[-1] + 1 if outside else 0


def steady(seen: Profile) -> Interval | None:
    """The time of a later iteration with its 90 % interval; None before there is one."""
    later = seen.steady_iteration_seconds
    return Interval.of_median(later) if later else None


def uncertainty(interval: Interval) -> float:
    """The farther end, as a share of the value."""
    return max(interval.high - interval.value, interval.value - interval.low) / interval.value


def _is_validation(name: str) -> bool:
    return name.lower().startswith(("val", "eval"))


def _is_validation_loss(name: str) -> bool:
    return _is_validation(name) and "loss" in name.lower()


def _is_up(most_seconds: float | None, seconds: float) -> bool:
    return most_seconds is not None and seconds >= most_seconds
