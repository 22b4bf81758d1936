"""The predictions of the two methods, compared with the measured runs, and the cost of measuring."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.method_on_this_machine.measuring import SAMPLES, SLICES, Measurement
from benchmarks.slices import slice_offers
from trainfare.estimator.epochs.two_epochs import configurations, epochs_until_stable
from trainfare.estimator.estimate import estimate_all
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile
from trainfare.units import SECONDS_PER_HOUR

Setting = tuple[int, str]
"""A batch size and a slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The predictions of one method for every slice and batch size of one program, and their cost."""

    name: str
    seconds: dict[Setting, Interval]
    measuring_usd: float
    measuring_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodResult:
    """The accuracy of a method on one program."""

    framework: str
    method: str
    errors: tuple[float, ...]
    inside: int
    """The number of true values within the 90% interval."""
    fastest: tuple[Setting, Setting]
    """Chosen and best."""
    cheapest: tuple[Setting, Setting]
    lost_seconds: float
    """The relative loss of time of the chosen setting."""
    lost_usd: float
    measuring_cost_share: float
    """Cost of measuring, as a share of running everything."""
    measuring_time_share: float

    @property
    def median_error(self) -> float:
        return median(self.errors)


def epochs_needed(done: Iterable[Measurement]) -> dict[tuple[str, int], int]:
    """The number of epochs by framework and batch size, from the runs until stable."""
    return {
        (each.task.framework, each.task.batch_size): epochs_until_stable(each.profile)
        for each in done
        if each.task.what == "until stable" and each.profile is not None
    }


def by_epochs(done: Sequence[Measurement]) -> Method:
    """Malta's first method: until stable on the cheapest slice, two epochs on the others, equation 5.1."""
    stable = [d for d in done if d.task.what == "until stable"]
    short = [d for d in done if d.task.what == "two epochs"]
    found = configurations(
        _profiles(stable), _profiles(short), {f"local/{name}": price for name, (_, price) in SLICES.items()}
    )
    return Method(
        name="two epochs (5.1)",
        seconds={(c.batch_size, c.machine.removeprefix("local/")): c.seconds for c in found},
        measuring_usd=_total_usd([*stable, *short]),
        measuring_seconds=_total_seconds([*stable, *short]),
    )


def by_iterations(done: Sequence[Measurement], epochs: dict[int, int]) -> Method:
    """Malta's second method: some iterations on every slice, equation 5.3, for a given number of epochs."""
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
        measuring_usd=_total_usd(short),
        measuring_seconds=_total_seconds(short),
    )


def judge(framework: str, method: Method, complete: Sequence[Measurement]) -> MethodResult:
    truth = {(d.task.batch_size, d.task.slice): d.seconds for d in complete}
    predicted = {setting: interval.value for setting, interval in method.seconds.items()}
    fastest, cheapest = _best(predicted, _seconds), _best(predicted, _usd)
    true_fastest, true_cheapest = _best(truth, _seconds), _best(truth, _usd)
    return MethodResult(
        framework=framework,
        method=method.name,
        errors=tuple(abs(predicted[setting] / truth[setting] - 1) for setting in truth),
        inside=sum(method.seconds[setting].low <= truth[setting] <= method.seconds[setting].high for setting in truth),
        fastest=(fastest, true_fastest),
        cheapest=(cheapest, true_cheapest),
        lost_seconds=truth[fastest] / truth[true_fastest] - 1,
        lost_usd=_usd(cheapest, truth[cheapest]) / _usd(true_cheapest, truth[true_cheapest]) - 1,
        measuring_cost_share=method.measuring_usd / _total_usd(complete),
        measuring_time_share=method.measuring_seconds / _total_seconds(complete),
    )


def _best(seconds: dict[Setting, float], objective: Callable[[Setting, float], float]) -> Setting:
    return min(seconds, key=lambda setting: objective(setting, seconds[setting]))


def _seconds(_setting: Setting, seconds: float) -> float:
    return seconds


def _usd(setting: Setting, seconds: float) -> float:
    return seconds * SLICES[setting[1]][1] / SECONDS_PER_HOUR


def _profiles(done: Iterable[Measurement]) -> list[Profile]:
    return [each.profile for each in done if each.profile is not None]


def _total_usd(done: Iterable[Measurement]) -> float:
    return math.fsum(_usd((d.task.batch_size, d.task.slice), d.seconds) for d in done)


def _total_seconds(done: Iterable[Measurement]) -> float:
    return math.fsum(d.seconds for d in done)
