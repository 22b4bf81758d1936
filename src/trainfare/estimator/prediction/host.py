"""The host's part of a training: initialisation, the first iteration, waiting for data, and validations.

A host that was not measured is assumed to do the same work in the same time, within HOST_FACTOR.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainfare.estimator.cost.interruptions import Bounded, ValueRange
from trainfare.estimator.cost.timing import StepRanges
from trainfare.estimator.prediction.iteration import PredictedIteration
from trainfare.estimator.step.measured import StepTimes
from trainfare.model.interval import Interval
from trainfare.model.prediction import IterationPart

if TYPE_CHECKING:
    from trainfare.estimator.cost.interruptions import Numbers

HOST_FACTOR = 2.0
"""The factor by which another host may be faster or slower at the host's work; an assumption until hosts are
modelled."""


def with_data_wait(iteration: PredictedIteration, wait: Interval) -> PredictedIteration:
    """The iteration with a wait for data added, which does not overlap with computing."""
    if not wait.high:
        return iteration
    device = iteration.seconds
    waiting = IterationPart(name="waiting for data", seconds=wait.value, limited_by="data")
    return replace(
        iteration,
        seconds=device + wait,
        limited_by="data" if wait.value > device.value else iteration.limited_by,
        parts=(*iteration.parts, waiting) if wait.value else iteration.parts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTimes:
    """The host's part of a profile, as it is expected on another host."""

    initialisation: Interval
    first_iteration_extra: Interval
    """The time of the first iteration in excess of a later one."""


def host_times(measured: StepTimes) -> HostTimes:
    """The measured times of the host's work, within HOST_FACTOR."""
    extra = max(0.0, measured.first.value - measured.later.value)
    return HostTimes(
        initialisation=Interval.within_factor(measured.init.value, HOST_FACTOR),
        first_iteration_extra=Interval.within_factor(extra, HOST_FACTOR),
    )


def ranges_on_other_host(
    measured: StepTimes, host: HostTimes, later: Bounded, *, validation_ratio: "Numbers"
) -> StepRanges:
    """The times of a training on a machine that was not measured, from those of a profile and a predicted iteration;
    or columns of many machines.

        init  = init₀                             within HOST_FACTOR
        first = later + max(0, first₀ − later₀)   the extra time within HOST_FACTOR
        val   = val₀ · validation_ratio           with the relative error of `later`

    `validation_ratio` is the time of the profiled iteration on that machine over its measured time: a validation is
    iterations without a backward pass, on one GPU, at the batch size it had.
    """

    def scaled(validation: Interval | None) -> "ValueRange[Numbers] | None":
        if validation is None:
            return None
        value = validation.value * validation_ratio
        return ValueRange(value, value * later.low / later.value, value * later.high / later.value)

    extra = host.first_iteration_extra
    return StepRanges(
        init=host.initialisation,
        first=ValueRange(later.value + extra.value, later.low + extra.low, later.high + extra.high),
        later=later,
        first_validation=scaled(measured.first_validation),
        later_validation=scaled(measured.later_validation),
    )


def times_on_other_host(measured: StepTimes, host: HostTimes, later: Interval, *, validation_ratio: float) -> StepTimes:
    """`ranges_on_other_host` as intervals."""
    found = ranges_on_other_host(measured, host, later, validation_ratio=validation_ratio)
    first_validation, later_validation = found.first_validation, found.later_validation
    return StepTimes(
        init=host.initialisation,
        first=_interval(found.first),
        later=later,
        first_validation=None if first_validation is None else _interval(first_validation),
        later_validation=None if later_validation is None else _interval(later_validation),
    )


def _interval(ends: Bounded) -> Interval:
    return Interval(value=float(ends.value), low=float(ends.low), high=float(ends.high))
