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

Thousands of candidates are computed at once, in columns with one row per training. A machine that is not taken back is
one with no interruptions an hour. Intervals and phases are made only of the rows that are read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from trainfare.estimator.cost.checkpoints import Checkpoints
from trainfare.estimator.cost.interruptions import (
    CheckpointPlan,
    ValueRange,
    expected_rework,
    expected_seconds,
    plan_checkpoints,
)
from trainfare.estimator.step.measured import StepTimes
from trainfare.model.estimate import Phase, PhaseName
from trainfare.model.interval import Interval
from trainfare.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from trainfare.estimator.cost.interruptions import Floats, Numbers

    Range = ValueRange[Floats]

T = TypeVar("T")

MACHINE_STARTUP_PHASES = ("boot", "setup")
PROGRAM_STARTUP_PHASES = ("initialisation", "first iteration")
STARTUP_PHASES = MACHINE_STARTUP_PHASES + PROGRAM_STARTUP_PHASES
"""The phases of a start; after an interruption all of them are repeated."""


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


class FloatRange(Protocol):
    """A number and its bounds: an Interval, or a ValueRange of floats, which is made faster."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class StepRanges(NamedTuple):
    """The times of one machine that equation 5.3 needs, before intervals are made of them."""

    init: FloatRange
    first: FloatRange
    later: FloatRange
    first_validation: FloatRange | None
    later_validation: FloatRange | None

    @classmethod
    def of(cls, times: StepTimes) -> "StepRanges":
        return cls(times.init, times.first, times.later, times.first_validation, times.later_validation)


class ProgramTimes(NamedTuple):
    """The times of the program on a machine, which do not depend on the offer and the market."""

    times: StepRanges
    checkpoints: Checkpoints


class PaidTraining(NamedTuple):
    """A program on `nodes` rented machines, each with this rate of interruptions; None if they are not on spot."""

    start: MachineStart
    program: ProgramTimes
    per_hour: Interval | None
    nodes: int


class Timing(NamedTuple):
    """The time of one candidate, which does not depend on its price."""

    phases: tuple[Phase, ...]
    checkpoints: Checkpoints
    checkpoints_written: int
    interruptions: Interval | None
    """The number of interruptions; None if the machine is not on spot."""
    checkpoint_every_seconds: float | None
    """The work between two checkpoints that is assumed for interruptions."""


class Timings:
    """The times of many trainings of one length, in columns with one row per training."""

    def __init__(
        self,
        trainings: Sequence[PaidTraining],
        *,
        iterations_per_epoch: float,
        epochs: int,
        epochs_interval: Interval | None = None,
    ) -> None:
        self._trainings = trainings
        rows = _read(trainings)
        exact = _expected(rows, iterations_per_epoch, epochs)
        rework = expected_rework(
            exact.work, start=rows.startup, plan=exact.plan, per_hour=rows.per_hour, nodes=rows.nodes
        )
        self._expected = exact
        self._bounds: tuple[_Expected, _Expected] | None = None
        if epochs_interval is not None:
            few, many = (
                _expected(rows, iterations_per_epoch, round(end)) for end in (epochs_interval.low, epochs_interval.high)
            )
            self._bounds = few, many
        self._exact: dict[PhaseName, Range] = {
            "steady iterations": _scaled(rows.later, iterations_per_epoch * epochs - 1),
            "validation": _sum(rows.first_validation, _scaled(rows.later_validation, epochs - 1)),
            "checkpoints": _scaled(rows.checkpoint, exact.written),
            "spot rework": rework.seconds,
        }
        self._interruptions = rework.interruptions
        self.seconds = self._widened(self._total(rows), lambda at: at.total)
        """The sum of the formula; `value`, `low` and `high` are columns."""

    def _total(self, rows: "_Rows") -> "Range":
        """The total of exactly N epochs."""
        import numpy as np

        value, rework = self._expected.total, self._exact["spot rework"]
        program = (rows.init, rows.first, *(part for name, part in self._exact.items() if name != "spot rework"))
        below = sum(part.value - part.low for part in program)
        above = sum(part.high - part.value for part in program)
        low = value - np.sqrt(below**2 + rows.squares_below + (rework.value - rework.low) ** 2)
        high = value + np.sqrt(above**2 + rows.squares_above + (rework.high - rework.value) ** 2)
        return ValueRange(value, np.maximum(0.0, low), high)

    def _widened(self, exact: "Range", read: "Callable[[_Expected], Floats]") -> "Range":
        """The range for exactly N epochs, widened to T₋ and T₊ of the formula. A value of zero keeps its bounds."""
        import numpy as np

        if self._bounds is None:
            return exact
        value, low, high = exact
        few, many = map(read, self._bounds)
        down = np.hypot(_log_ratio(value, low), _log_ratio(value, few))
        up = np.hypot(_log_ratio(high, value), _log_ratio(many, value))
        positive = value > 0
        lower = np.where(positive, value * np.exp(-down), low)
        return ValueRange(value, lower, np.where(positive, value * np.exp(np.where(positive, up, 0.0)), high))

    def at(self, row: int) -> Timing:
        """The phases that add up to the seconds of one training, its checkpoints and its interruptions."""
        start, program, per_hour, _ = self._trainings[row]
        times, lists = program.times, self._lists
        phases = [
            *start.phases,
            Phase(name="initialisation", seconds=_as_interval(times.init)),
            Phase(name="first iteration", seconds=_as_interval(times.first)),
        ]
        shown = {
            "steady iterations": True,
            "validation": times.first_validation is not None,
            "checkpoints": lists.written[row] > 0,
            "spot rework": lists.phases["spot rework"].high[row] > 0,
        }
        phases += [Phase(name=name, seconds=_interval(ends, row)) for name, ends in lists.phases.items() if shown[name]]
        return Timing(
            phases=tuple(phases),
            checkpoints=program.checkpoints,
            checkpoints_written=int(lists.written[row]),
            interruptions=None if per_hour is None else _interval(lists.interruptions, row),
            checkpoint_every_seconds=None if per_hour is None else lists.every[row] or None,
        )

    @cached_property
    def _lists(self) -> "_Lists":
        """The columns that rows are read from, as lists of floats."""
        import numpy as np

        exact = self._expected
        every = np.where((exact.work > 0) & (exact.written > 0), exact.work / exact.plan.pieces, 0.0)
        interruptions = self._widened(self._interruptions, lambda at: at.interruptions)
        return _Lists(
            phases={name: _as_lists(self._widened(ends, _seconds_of(name))) for name, ends in self._exact.items()},
            interruptions=_as_lists(interruptions),
            written=exact.written.tolist(),
            every=every.tolist(),
        )


class _Lists(NamedTuple):
    phases: dict[PhaseName, ValueRange[list[float]]]
    interruptions: ValueRange[list[float]]
    written: list[float]
    every: list[float]


class _Rows(NamedTuple):
    """Columns that do not depend on the number of epochs."""

    init: "Range"
    first: "Range"
    later: "Range"
    first_validation: "Range"
    """Zero if there are none, as is the next."""
    later_validation: "Range"
    checkpoint: "Range"
    """The time to write one."""
    checkpoints_per_epoch: "Floats"
    startup: "Floats"
    """The expected time before the steady iterations."""
    squares_below: "Floats"
    squares_above: "Floats"
    per_hour: "Range"
    """The rate of interruptions; zero if the machine is not on spot."""
    nodes: "Floats"


_NONE = (0.0, 0.0, 0.0)


def _read(trainings: Sequence[PaidTraining]) -> _Rows:
    programs = _columns([training.program for training in trainings], _program_numbers, 19)
    starts = _columns([training.start for training in trainings], _start_numbers, 3)
    rates = _columns([training.per_hour for training in trainings], _ends, 3)
    (nodes,) = _columns([training.nodes for training in trainings], lambda nodes: (nodes,), 1)
    init, first, later, first_validation, later_validation, checkpoint = (
        ValueRange(*programs[start : start + 3]) for start in range(0, 18, 3)
    )
    seconds, squares_below, squares_above = starts
    return _Rows(
        init=init,
        first=first,
        later=later,
        first_validation=first_validation,
        later_validation=later_validation,
        checkpoint=checkpoint,
        checkpoints_per_epoch=programs[18],
        startup=seconds + init.value + first.value,
        squares_below=squares_below,
        squares_above=squares_above,
        per_hour=ValueRange(*rates),
        nodes=nodes,
    )


def _columns(objects: Sequence[T], read: Callable[[T], tuple[float, ...]], count: int) -> "Floats":
    """The `count` numbers of each object, one row of the result per number; an object that occurs again is read
    once."""
    import numpy as np

    places: dict[int, int] = {}
    numbers: list[tuple[float, ...]] = []
    index: list[int] = []
    for each in objects:
        place = places.get(id(each))
        if place is None:
            place = places[id(each)] = len(numbers)
            numbers.append(read(each))
        index.append(place)
    return np.array(numbers, dtype=np.float64).reshape(-1, count).T[:, index]


def _program_numbers(program: ProgramTimes) -> tuple[float, ...]:
    times, checkpoints = program
    later_validation = times.later_validation or times.first_validation
    return (
        *_ends(times.init),
        *_ends(times.first),
        *_ends(times.later),
        *_ends(times.first_validation),
        *_ends(later_validation),
        *_ends(checkpoints.seconds),
        checkpoints.per_epoch,
    )


def _start_numbers(start: MachineStart) -> tuple[float, ...]:
    return start.seconds, start.squares_below, start.squares_above


def _ends(interval: FloatRange | None) -> tuple[float, float, float]:
    return _NONE if interval is None else (interval.value, interval.low, interval.high)


class _Expected(NamedTuple):
    """The times of a number of epochs, in seconds without uncertainty."""

    work: "Floats"
    """Steady iterations and validations."""
    plan: CheckpointPlan
    written: "Floats"
    """The number of checkpoints."""
    phases: "dict[PhaseName, Floats]"
    interruptions: "Floats"
    total: "Floats"


def _expected(rows: _Rows, iterations_per_epoch: float, epochs: int) -> _Expected:
    """Equation 5.3 with checkpoints and rework. Each program writes its own checkpoints or, on spot, those that lose
    least time."""
    import numpy as np

    steady = rows.later.value * (iterations_per_epoch * epochs - 1)
    validation = rows.first_validation.value + rows.later_validation.value * (epochs - 1)
    work, own = steady + validation, np.round(rows.checkpoints_per_epoch * epochs)
    per_second = rows.nodes * rows.per_hour.value / SECONDS_PER_HOUR
    plan = plan_checkpoints(work, checkpoint=rows.checkpoint.value, own=own, per_second=per_second)
    seconds = expected_seconds(work, start=rows.startup, plan=plan, per_second=per_second)
    written = np.where(own > 0, own, plan.pieces - 1)
    phases: dict[PhaseName, Floats] = {
        "steady iterations": steady,
        "validation": validation,
        "checkpoints": written * rows.checkpoint.value,
        "spot rework": np.maximum(0.0, seconds - (rows.startup + work + plan.written_seconds)),
    }
    return _Expected(work, plan, written, phases, per_second * seconds, rows.startup + sum(phases.values()))


def _seconds_of(phase: PhaseName) -> "Callable[[_Expected], Floats]":
    return lambda at: at.phases[phase]


def _scaled(each: "Range", number: "Numbers") -> "Range":
    return ValueRange(*(end * number for end in each))


def _sum(one: "Range", other: "Range") -> "Range":
    return ValueRange(*(a + b for a, b in zip(one, other, strict=True)))


def _as_lists(ends: "Range") -> ValueRange[list[float]]:
    return ValueRange(*(end.tolist() for end in ends))


def _as_interval(ends: FloatRange) -> Interval:
    return Interval(value=ends.value, low=ends.low, high=ends.high)


def _interval(ends: ValueRange[list[float]], row: int) -> Interval:
    return Interval(value=ends.value[row], low=ends.low[row], high=ends.high[row])


def _log_ratio(larger: "Floats", smaller: "Floats") -> "Floats":
    """The log of the ratio; infinite for a denominator of zero, and never negative."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(larger > smaller, np.log(larger / smaller), 0.0)
