"""The predicted times of machines, as far as they decide between machines, and the columns of many of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from trainfare.estimator.cost.interruptions import Bounded, ValueRange
from trainfare.estimator.cost.timing import StepRanges, TimeColumns
from trainfare.estimator.prediction.host import ranges_on_other_host
from trainfare.estimator.prediction.profile_index import ProfileIndex
from trainfare.estimator.step.measured import StepTimes
from trainfare.model.estimate import Basis
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.profile import Profile

if TYPE_CHECKING:
    from trainfare.estimator.cost.interruptions import Numbers


class MachineShape(NamedTuple):
    """A global batch size, shared by `gpus` of each of `nodes` machines."""

    vm_type: VmType
    nodes: int = 1
    gpus: int = 1
    batch_size: int | None = None


class MachineTimes(NamedTuple):
    """The times of one machine: all of them, or the iteration on a host that was not measured, from which the others
    follow."""

    profile: Profile
    """The profile that the prediction starts from."""
    basis: Basis
    times: StepTimes | None
    later: Interval | ValueRange[float]
    validation_ratio: float = 1.0
    """That of `ranges_on_other_host`."""


def in_columns(machines: Sequence[MachineTimes], index: ProfileIndex) -> TimeColumns:
    """The times of the machines, those on other hosts all at once."""
    import numpy as np

    numbers = np.zeros((15, len(machines)))
    validates = np.zeros(len(machines), dtype=np.bool_)
    complete = [(row, StepRanges.of(each.times)) for row, each in enumerate(machines) if each.times is not None]
    if complete:
        rows = [row for row, _ in complete]
        numbers[:, rows] = np.array([_numbers(ranges) for _, ranges in complete]).T
        validates[rows] = [ranges.first_validation is not None for _, ranges in complete]
    elsewhere = [(row, each) for row, each in enumerate(machines) if each.times is None]
    for profile_id in {each.profile.id for _, each in elsewhere}:
        there = [(row, each) for row, each in elsewhere if each.profile.id == profile_id]
        rows = [row for row, _ in there]
        later = ValueRange(*np.array([_ends(each.later) for _, each in there]).T)
        ratio = np.array([each.validation_ratio for _, each in there])
        measured, host = index.times[profile_id], index.host_times[profile_id]
        ranges = ranges_on_other_host(measured, host, later, validation_ratio=ratio)
        for place, column in enumerate(_numbers(ranges)):
            numbers[place, rows] = column
        validates[rows] = ranges.first_validation is not None
    return TimeColumns.of(numbers, validates)


def _numbers(ranges: StepRanges) -> "list[Numbers]":
    """The value and the bounds of each time, zero where there is no validation."""
    validations = ranges.first_validation, ranges.later_validation or ranges.first_validation
    return [number for each in (ranges.init, ranges.first, ranges.later, *validations) for number in _ends(each)]


def _ends(interval: Bounded | None) -> "tuple[Numbers, Numbers, Numbers]":
    return (0.0, 0.0, 0.0) if interval is None else (interval.value, interval.low, interval.high)
