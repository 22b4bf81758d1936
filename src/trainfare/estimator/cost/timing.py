"""The paid time of a candidate: start-up, the program, its checkpoints and, on spot, the rework after interruptions.

Boot, setup, the program and interruptions err independently, so their errors add up in quadrature; all parts of the
program err together, since a busy host slows all of it:

    T = Σ Tᵢ,   T ± √(p² + Σ dᵢ²)

with p the half width of all parts of the program on that side, and dᵢ those of boot, setup and interruptions.

Where the number of epochs is uncertain, N between N₋ and N₊, that is a further error, independent of those of the
times, and it multiplies: the logarithms add up in quadrature,

    T₋ = T·exp(−√(ln²(T/t₋) + ln²(T(N)/T(N₋)))),   T₊ with t₊ and N₊

with t₋ and t₊ the bounds for exactly N epochs, and T(N₋) and T(N₊) the times for fewer or more epochs; the same holds
for each phase.

Thousands of candidates share few starts and few programs. Each of these is summed up once, sums are plain numbers, and
an Interval is made only of results.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trainfare.estimator.cost.checkpoints import Checkpoints
from trainfare.estimator.cost.interruptions import (
    CheckpointPlan,
    Rework,
    ValueRange,
    expected_rework,
    expected_seconds,
    plan_checkpoints,
)
from trainfare.estimator.step.measured import StepTimes
from trainfare.model.estimate import Phase
from trainfare.model.interval import Interval
from trainfare.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from trainfare.estimator.cost.interruptions import Floats

R = TypeVar("R")

MACHINE_STARTUP_PHASES = ("boot", "setup")
PROGRAM_STARTUP_PHASES = ("initialisation", "first iteration")
STARTUP_PHASES = MACHINE_STARTUP_PHASES + PROGRAM_STARTUP_PHASES
"""The phases of a start; after an interruption all of them are repeated."""


class Timing(NamedTuple):
    """The time of a candidate, which does not depend on its price."""

    seconds: Interval
    start: "MachineStart"
    program: "ProgramTime"
    checkpoints_written: int
    rework: Rework[float] | None
    """The interruptions; None if the machine is not on spot."""
    checkpoint_every_seconds: float | None
    uncertainty: "_EpochsUncertainty | None"

    @property
    def interruptions(self) -> Interval | None:
        """The number of interruptions; None if the machine is not on spot."""
        if self.rework is None:
            return None
        return _with_epochs_uncertainty(self.rework.interruptions, self.uncertainty and self.uncertainty.interruptions)

    def phases(self) -> tuple[Phase, ...]:
        """The phases that add up to `seconds`. Most timings are only compared, so phases are not computed before."""
        uncertainty, rework = self.uncertainty, self.rework
        phases = self.start.phases + self.program.phases()
        if self.checkpoints_written:
            written = _checkpoint_seconds(self.program, self.checkpoints_written)
            interval = _with_epochs_uncertainty(written, uncertainty and uncertainty.checkpoints)
            phases += (Phase(name="checkpoints", seconds=interval),)
        if rework is not None and rework.seconds.high > 0:
            interval = _with_epochs_uncertainty(rework.seconds, uncertainty and uncertainty.rework)
            phases += (Phase(name="spot rework", seconds=interval),)
        return phases


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStart:
    """The sum of boot and setup."""

    phases: tuple[Phase, ...]
    seconds: float
    squares_below: float
    """Σ dᵢ² of the formula, below the value."""
    squares_above: float

    @classmethod
    def of(cls, phases: Sequence[Phase]) -> "MachineStart":
        return cls(
            phases=tuple(phases),
            seconds=sum(phase.seconds.value for phase in phases),
            squares_below=sum((phase.seconds.value - phase.seconds.low) ** 2 for phase in phases),
            squares_above=sum((phase.seconds.high - phase.seconds.value) ** 2 for phase in phases),
        )


class EpochsTime(NamedTuple):
    """The time of a number of epochs after the start, in seconds without uncertainty."""

    epochs: int
    steady: float
    validation: float
    work: float
    """The sum of `steady` and `validation`."""
    written: int
    """Checkpoints that the program writes by itself."""


class ProgramTime(NamedTuple):
    """The time of the program on a machine, which does not depend on the offer and the market."""

    times: StepTimes
    steady: ValueRange[float]
    """The steady iterations of exactly N epochs."""
    validation: ValueRange[float] | None
    """The validations of exactly N epochs; None if there are none."""
    below: float
    """p of the formula below the value, for exactly N epochs and without checkpoints."""
    above: float
    checkpoints: Checkpoints
    expected: EpochsTime
    """The time of N epochs."""
    bounds: tuple[EpochsTime, EpochsTime] | None = None
    """The times of N₋ and N₊ epochs, where the number is uncertain."""

    def phases(self) -> tuple[Phase, ...]:
        """The terms of equation 5.3; their intervals include the uncertainty of the number of epochs."""
        bounds = self.bounds
        steady = _with_epochs_uncertainty(self.steady, bounds and (bounds[0].steady, bounds[1].steady))
        phases: tuple[Phase, ...] = (
            Phase(name="initialisation", seconds=self.times.init),
            Phase(name="first iteration", seconds=self.times.first),
            Phase(name="steady iterations", seconds=steady),
        )
        if self.validation is not None:
            at_bounds = bounds and (bounds[0].validation, bounds[1].validation)
            phases += (Phase(name="validation", seconds=_with_epochs_uncertainty(self.validation, at_bounds)),)
        return phases


def program_time(
    times: StepTimes,
    checkpoints: Checkpoints,
    *,
    iterations_per_epoch: float,
    epochs: int,
    epochs_interval: Interval | None,
) -> ProgramTime:
    """Equation 5.3 in plain numbers, equal to `step.measured.training_terms`."""

    def at(number: float) -> EpochsTime:
        return _epochs_time(round(number), times, checkpoints, iterations_per_epoch)

    expected = at(epochs)
    bounds = None if epochs_interval is None else (at(epochs_interval.low), at(epochs_interval.high))
    init, first, later = times.init, times.first, times.later
    n = iterations_per_epoch * epochs - 1
    steady = ValueRange(expected.steady, later.low * n, later.high * n)
    below = (init.value - init.low) + (first.value - first.low) + (steady.value - steady.low)
    above = (init.high - init.value) + (first.high - first.value) + (steady.high - steady.value)
    validation = None
    if times.first_validation is not None:
        one, more, n = times.first_validation, times.later_validation or times.first_validation, epochs - 1
        validation = ValueRange(expected.validation, one.low + more.low * n, one.high + more.high * n)
        below += validation.value - validation.low
        above += validation.high - validation.value
    return ProgramTime(times, steady, validation, below, above, checkpoints, expected, bounds)


def _epochs_time(epochs: int, times: StepTimes, checkpoints: Checkpoints, iterations_per_epoch: float) -> EpochsTime:
    steady = times.later.value * (iterations_per_epoch * epochs - 1)
    validation = 0.0
    if times.first_validation is not None:
        later = times.later_validation or times.first_validation
        validation = times.first_validation.value + later.value * (epochs - 1)
    return EpochsTime(epochs, steady, validation, steady + validation, round(checkpoints.per_epoch * epochs))


def without_interruptions(start: MachineStart, program: ProgramTime) -> Timing:
    """The time on a machine that is not taken back."""
    startup, few, many = _startup_seconds(start, program), None, None
    if program.bounds is not None:
        each = program.checkpoints.seconds.value
        few, many = (_Additions(epochs.written * each, 0.0, 0.0) for epochs in program.bounds)
    uncertainty = _epochs_uncertainty(program, startup, few, many)
    return _timing(start, program, startup, written=program.expected.written, uncertainty=uncertainty)


class SpotProgram(NamedTuple):
    """A program on spot machines: `nodes` of them, each with this rate of interruptions."""

    start: MachineStart
    program: ProgramTime
    per_hour: Interval
    nodes: int


def with_interruptions(trainings: Sequence[SpotProgram]) -> list[Timing]:
    """The times on spot machines; each program writes its own checkpoints, or those that lose least time.

    The number of epochs is uncertain for all of the trainings or for none.
    """
    import numpy as np

    def column(values: Iterable[float]) -> "Floats":
        return np.fromiter(values, dtype=np.float64, count=len(trainings))

    startup = column(_startup_seconds(t.start, t.program) for t in trainings)
    checkpoint = column(t.program.checkpoints.seconds.value for t in trainings)
    nodes = column(t.nodes for t in trainings)
    rates = ValueRange(*(column(getattr(t.per_hour, end) for t in trainings) for end in ("value", "low", "high")))
    per_second = nodes * rates.value / SECONDS_PER_HOUR

    def planned(times: Sequence[EpochsTime]) -> "tuple[Floats, CheckpointPlan, Floats]":
        """The work, its checkpoints, and how many of them are written."""
        work, own = column(time.work for time in times), column(time.written for time in times)
        plan = plan_checkpoints(work, checkpoint=checkpoint, own=own, per_second=per_second)
        return work, plan, np.where(own > 0, own, plan.pieces - 1)

    def additions(times: Sequence[EpochsTime]) -> list[_Additions]:
        work, plan, written = planned(times)
        expected = expected_seconds(work, start=startup, plan=plan, per_second=per_second)
        rework = np.maximum(0.0, expected - startup - work - plan.written_seconds)
        return _rows(_Additions, written * checkpoint, rework, per_second * expected)

    work, plan, written = planned([t.program.expected for t in trainings])
    found = expected_rework(work, start=startup, plan=plan, per_hour=rates, nodes=nodes)
    rework = map(Rework, _rows(ValueRange, *found.seconds), _rows(ValueRange, *found.interruptions))
    every = np.where((work > 0) & (written > 0), work / plan.pieces, 0.0).tolist()
    bounds = [t.program.bounds for t in trainings if t.program.bounds is not None]
    at_few = additions([few for few, _ in bounds]) if bounds else [None] * len(trainings)
    at_many = additions([many for _, many in bounds]) if bounds else [None] * len(trainings)
    return [
        _timing(
            training.start,
            training.program,
            seconds,
            written=int(checkpoints),
            rework=lost,
            every=between or None,
            uncertainty=_epochs_uncertainty(training.program, seconds, few, many),
        )
        for training, seconds, checkpoints, lost, between, few, many in zip(
            trainings, startup.tolist(), written.tolist(), rework, every, at_few, at_many, strict=True
        )
    ]


def _rows(make: Callable[[float, float, float], R], a: "Floats", b: "Floats", c: "Floats") -> list[R]:
    """One object for each row of three columns."""
    return list(map(make, a.tolist(), b.tolist(), c.tolist()))


def _startup_seconds(start: MachineStart, program: ProgramTime) -> float:
    """The expected time before the steady iterations."""
    return start.seconds + program.times.init.value + program.times.first.value


class _Additions(NamedTuple):
    """The time that is added to the program, without uncertainty, and the number of interruptions."""

    checkpoint_seconds: float
    rework_seconds: float
    interruptions: float


_Bounds = tuple[float, float]
"""The values at N₋ and at N₊ epochs."""


class _EpochsUncertainty(NamedTuple):
    checkpoints: _Bounds
    rework: _Bounds
    interruptions: _Bounds
    total: _Bounds
    """T(N₋) and T(N₊) of the formula."""


def _epochs_uncertainty(
    program: ProgramTime, startup: float, at_few: _Additions | None, at_many: _Additions | None
) -> _EpochsUncertainty | None:
    """The values at N₋ and N₊ epochs; None if the number of epochs is certain."""
    if program.bounds is None or at_few is None or at_many is None:
        return None
    few, many = program.bounds
    return _EpochsUncertainty(
        (at_few.checkpoint_seconds, at_many.checkpoint_seconds),
        (at_few.rework_seconds, at_many.rework_seconds),
        (at_few.interruptions, at_many.interruptions),
        (
            startup + few.steady + few.validation + at_few.rework_seconds + at_few.checkpoint_seconds,
            startup + many.steady + many.validation + at_many.rework_seconds + at_many.checkpoint_seconds,
        ),
    )


def _timing(
    start: MachineStart,
    program: ProgramTime,
    startup: float,
    *,
    written: int,
    rework: Rework[float] | None = None,
    every: float | None = None,
    uncertainty: _EpochsUncertainty | None,
) -> Timing:
    """The sum of the formula, with `written` checkpoints; `startup` is the time before the steady iterations."""
    value, below, above = startup + program.expected.steady + program.expected.validation, program.below, program.above
    squares_below, squares_above = start.squares_below, start.squares_above
    if written:
        seconds = _checkpoint_seconds(program, written)
        value += seconds.value
        below += seconds.value - seconds.low
        above += seconds.high - seconds.value
    if rework is not None and rework.seconds.high > 0:
        seconds = rework.seconds
        value += seconds.value
        squares_below += (seconds.value - seconds.low) ** 2
        squares_above += (seconds.high - seconds.value) ** 2
    low = max(0.0, value - math.sqrt(below**2 + squares_below))
    high = value + math.sqrt(above**2 + squares_above)
    if uncertainty is not None:
        low, high = _widened(value, low, high, uncertainty.total)
    return Timing(Interval(value=value, low=low, high=high), start, program, written, rework, every, uncertainty)


def _checkpoint_seconds(program: ProgramTime, written: int) -> ValueRange[float]:
    each = program.checkpoints.seconds
    return ValueRange(each.value * written, each.low * written, each.high * written)


def _with_epochs_uncertainty(exact: ValueRange[float], bounds: _Bounds | None) -> Interval:
    """The interval for exactly N epochs, widened by the values at fewer and at more epochs."""
    value, low, high = exact
    if bounds is not None:
        low, high = _widened(value, low, high, bounds)
    return Interval(value=value, low=low, high=high)


def _widened(value: float, low: float, high: float, bounds: _Bounds) -> tuple[float, float]:
    """T₋ and T₊ of the formula. A value of zero keeps its bounds."""
    few, many = bounds
    if low > 0 and 0 < few <= value <= many:  # the usual case, computed faster
        down = math.hypot(math.log(value / low), math.log(value / few))
        up = math.hypot(math.log(high / value), math.log(many / value))
    elif value:
        down = math.hypot(_log_ratio(value, low), _log_ratio(value, few))
        up = math.hypot(_log_ratio(high, value), _log_ratio(many, value))
    else:
        return low, high
    return value * math.exp(-down), value * math.exp(up)


def _log_ratio(larger: float, smaller: float) -> float:
    """The log of the ratio; infinite for a denominator of zero, and never negative."""
    if larger <= smaller:
        return 0.0
    return math.log(larger / smaller) if smaller > 0 else math.inf
