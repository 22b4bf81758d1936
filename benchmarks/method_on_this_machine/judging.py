"""What the methods say, what came, and what it cost to ask."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.method_on_this_machine.measuring import SAMPLES, SLICES, Done
from benchmarks.slices import slice_offers
from trainfare.estimator.epochs.two_epochs import configurations, epochs_until_stable
from trainfare.estimator.estimate import estimate_all
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile
from trainfare.units import SECONDS_PER_HOUR

Where = tuple[int, str]
"""A batch size and a slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What one method says of every slice and batch size of one program, and what it cost."""

    name: str
    seconds: dict[Where, Interval]
    spent_usd: float
    spent_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A method on one program, against the truth."""

    framework: str
    method: str
    errors: tuple[float, ...]
    inside: int
    """How many of the truths lie within the 90 % interval."""
    fastest: tuple[Where, Where]
    """Named, and true."""
    cheapest: tuple[Where, Where]
    lost_seconds: float
    """How much longer the machine that was named as the fastest takes than the true one, as a share."""
    lost_usd: float
    spent: float
    """Money of asking, as a share of running everything."""
    spent_time: float

    @property
    def median_error(self) -> float:
        return median(self.errors)


def epochs_needed(done: Iterable[Done]) -> dict[tuple[str, int], int]:
    """By framework and batch size, from the runs until stable."""
    return {
        (each.task.framework, each.task.batch_size): epochs_until_stable(each.profile)
        for each in done
        if each.task.what == "until stable" and each.profile is not None
    }


def by_epochs(done: Sequence[Done]) -> Method:
    """Malta's first method: until stable on the cheapest slice, two epochs elsewhere, equation 5.1."""
    stable = [d for d in done if d.task.what == "until stable"]
    short = [d for d in done if d.task.what == "two epochs"]
    found = configurations(
        _profiles(stable), _profiles(short), {f"local/{name}": price for name, (_, price) in SLICES.items()}
    )
    return Method(
        name="two epochs (5.1)",
        seconds={(c.batch_size, c.machine.removeprefix("local/")): c.seconds for c in found},
        spent_usd=_spent_usd([*stable, *short]),
        spent_seconds=_spent_seconds([*stable, *short]),
    )


def by_iterations(done: Sequence[Done], epochs: dict[int, int]) -> Method:
    """His second: some iterations on every slice, equation 5.3. How many epochs it is not able to say; it is told."""
    short = [d for d in done if d.task.what == "iterations"]
    here = slice_offers(SLICES)
    seconds = {}
    for each in short:
        assert each.profile is not None
        size, name = each.task.batch_size, each.task.slice
        (estimate,) = estimate_all(
            StepTimePredictor([each.profile]),
            [Candidate(offer=here[name], nodes=1, batch_size=each.profile.micro_batch_size)],
            iterations_per_epoch=each.profile.iterations_per_epoch or SAMPLES // size,
            epochs=epochs[size],
        )
        seconds[size, name] = estimate.seconds
    return Method(
        name="iterations (5.3)",
        seconds=seconds,
        spent_usd=_spent_usd(short),
        spent_seconds=_spent_seconds(short),
    )


def judge(framework: str, method: Method, whole: Sequence[Done]) -> Judged:
    truth = {(d.task.batch_size, d.task.slice): d.seconds for d in whole}
    said = {where: interval.value for where, interval in method.seconds.items()}
    fastest, cheapest = _best(said, _as_is), _best(said, _usd)
    true_fastest, true_cheapest = _best(truth, _as_is), _best(truth, _usd)
    return Judged(
        framework=framework,
        method=method.name,
        errors=tuple(abs(said[where] / truth[where] - 1) for where in truth),
        inside=sum(method.seconds[where].low <= truth[where] <= method.seconds[where].high for where in truth),
        fastest=(fastest, true_fastest),
        cheapest=(cheapest, true_cheapest),
        lost_seconds=truth[fastest] / truth[true_fastest] - 1,
        lost_usd=_usd(cheapest, truth[cheapest]) / _usd(true_cheapest, truth[true_cheapest]) - 1,
        spent=method.spent_usd / _spent_usd(whole),
        spent_time=method.spent_seconds / _spent_seconds(whole),
    )


def _best(seconds: dict[Where, float], worth: Callable[[Where, float], float]) -> Where:
    return min(seconds, key=lambda where: worth(where, seconds[where]))


def _as_is(_where: Where, seconds: float) -> float:
    return seconds


def _usd(where: Where, seconds: float) -> float:
    return seconds * SLICES[where[1]][1] / SECONDS_PER_HOUR


def _profiles(done: Iterable[Done]) -> list[Profile]:
    return [each.profile for each in done if each.profile is not None]


def _spent_usd(done: Iterable[Done]) -> float:
    return math.fsum(_usd((d.task.batch_size, d.task.slice), d.seconds) for d in done)


def _spent_seconds(done: Iterable[Done]) -> float:
    return math.fsum(d.seconds for d in done)
