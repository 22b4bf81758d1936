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
from typing import TYPE_CHECKING, NamedTuple

from trainfare.estimator.columns import Repeated
from trainfare.estimator.cost.checkpoints import Checkpoints
from trainfare.estimator.cost.interruptions import (
    Bounded,
    CheckpointPlan,
    ValueRange,
    expected_rework,
    expected_seconds,
    plan_checkpoints,
)
from trainfare.estimator.step.measured import StepTimes
from trainfare.model.checks import require_positive
from trainfare.model.estimate import Phase, PhaseName
from trainfare.model.interval import Interval
from trainfare.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from numpy import bool_, intp
    from numpy.typing import NDArray

    from trainfare.estimator.cost.interruptions import Floats, Numbers

    Range = ValueRange[Floats]

MACHINE_STARTUP_PHASES = ("boot", "setup")
PROGRAM_STARTUP_PHASES = ("initialisation", "first iteration")
STARTUP_PHASES = MACHINE_STARTUP_PHASES + PROGRAM_STARTUP_PHASES
"""The phases of a start; after an interruption all of them are repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStart:
    """The sum of boot, setup and collecting, which a further start adds to the program's times."""

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


class StepRanges(NamedTuple):
    """The times that equation 5.3 needs, before intervals are made of them: of one machine, or columns of many."""

    init: Bounded
    first: Bounded
    later: Bounded
    first_validation: Bounded | None
    later_validation: Bounded | None

    @classmethod
    def of(cls, times: StepTimes) -> "StepRanges":
        return cls(times.init, times.first, times.later, times.first_validation, times.later_validation)


class TimeColumns(NamedTuple):
    """The times of many machines, in columns with one row per machine."""

    init: "Range"
    first: "Range"
    later: "Range"
    first_validation: "Range"
    """Zero if there are none, as is the next."""
    later_validation: "Range"
    validates: "NDArray[bool_]"

    @classmethod
    def of(cls, numbers: "Floats", validates: "NDArray[bool_]") -> "TimeColumns":
        """The columns from an array with a row for each value and bound."""
        init, first, later, first_validation, later_validation = (
            ValueRange(*ends) for ends in numbers.reshape(5, 3, -1)
        )
        return cls(init, first, later, first_validation, later_validation, validates)

    def take(self, rows: "NDArray[intp]") -> "TimeColumns":
        """The machines in these rows, each as often as it is given."""
        import numpy as np

        return TimeColumns.of(np.array(self[:5])[:, :, rows], self.validates[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingWork:
    """The length of a training: the same for all candidates of one batch size.

    If the program counts in iterations, its epochs need not be integers: `iterations_per_epoch` is then chosen so that
    the product with `epochs` is right. `epochs_interval` is set if the number of epochs is uncertain.
    """

    iterations_per_epoch: float
    epochs: int
    epochs_interval: Interval | None = None

    @property
    def iterations(self) -> int:
        return round(self.iterations_per_epoch * self.epochs)

    def __post_init__(self) -> None:
        require_positive(epochs=self.epochs)
        if not self.iterations_per_epoch >= 1:
            raise ValueError(f"iterations_per_epoch must be at least 1, got {self.iterations_per_epoch}")


class PaidTrainings(NamedTuple):
    """Programs on `nodes` rented machines, each with this rate of interruptions; None if they are not on spot."""

    starts: Repeated[MachineStart]
    times: TimeColumns
    checkpoints: Repeated[Checkpoints]
    works: Repeated[TrainingWork]
    per_hour: Repeated[Interval | None]
    nodes: "Floats"


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
    """The times of many trainings, in columns with one row per training."""

    def __init__(self, trainings: PaidTrainings) -> None:
        import numpy as np

        self._trainings = trainings
        rows = _read(trainings)
        exact = _expected(rows, rows.epochs.value)
        rework = expected_rework(
            exact.work, start=rows.startup, plan=exact.plan, per_hour=rows.per_hour, nodes=rows.nodes
        )
        self._expected = exact
        self._pieces = np.asarray(exact.plan.pieces)
        self._bounds: tuple[_Expected, _Expected] | None = None
        self._uncertain = rows.epochs.low < rows.epochs.high
        if self._uncertain.any():
            self._bounds = _expected(rows, rows.epochs.low), _expected(rows, rows.epochs.high)
        self._exact: dict[PhaseName, Range] = {
            "steady iterations": _scaled(rows.times.later, rows.iterations_per_epoch * rows.epochs.value - 1),
            "validation": _sum(
                rows.times.first_validation, _scaled(rows.times.later_validation, rows.epochs.value - 1)
            ),
            "checkpoints": _scaled(rows.checkpoint, exact.written),
            "spot rework": rework.seconds,
        }
        self._interruptions = self._widened(rework.interruptions, lambda at: at.interruptions)
        self.seconds = self._widened(self._total(rows), lambda at: at.total)
        """The sum of the formula; `value`, `low` and `high` are columns."""

    def _total(self, rows: "_Rows") -> "Range":
        """The total of exactly N epochs."""
        import numpy as np

        value, rework = self._expected.total, self._exact["spot rework"]
        program = (
            rows.times.init,
            rows.times.first,
            *(part for name, part in self._exact.items() if name != "spot rework"),
        )
        below = sum(part.value - part.low for part in program)
        above = sum(part.high - part.value for part in program)
        low = value - np.sqrt(below**2 + rows.squares_below + (rework.value - rework.low) ** 2)
        high = value + np.sqrt(above**2 + rows.squares_above + (rework.high - rework.value) ** 2)
        return ValueRange(value, np.maximum(0.0, low), high)

    def _widened(self, exact: "Range", read: "Callable[[_Expected], Floats]") -> "Range":
        """The range for exactly N epochs, widened to T₋ and T₊ of the formula where their number is uncertain. A value
        of zero keeps its bounds."""
        import numpy as np

        if self._bounds is None:
            return exact
        value, low, high = exact
        few, many = map(read, self._bounds)
        down = np.hypot(_log_ratio(value, low), _log_ratio(value, few))
        up = np.hypot(_log_ratio(high, value), _log_ratio(many, value))
        wider = self._uncertain & (value > 0)
        lower = np.where(wider, value * np.exp(-down), low)
        return ValueRange(value, lower, np.where(wider, value * np.exp(np.where(wider, up, 0.0)), high))

    def at(self, row: int) -> Timing:
        """The phases that add up to the seconds of one training, its checkpoints and its interruptions."""
        trainings = self._trainings
        start, per_hour, times = trainings.starts[row], trainings.per_hour[row], trainings.times
        phases = [
            *(phase for phase in start.phases if phase.name in MACHINE_STARTUP_PHASES),
            Phase(name="initialisation", seconds=interval_at(times.init, row)),
            Phase(name="first iteration", seconds=interval_at(times.first, row)),
        ]
        shown = {
            "steady iterations": True,
            "validation": times.validates[row],
            "checkpoints": self._expected.written[row] > 0,
            "spot rework": self._phases["spot rework"].high[row] > 0,
        }
        phases += [
            Phase(name=name, seconds=interval_at(ends, row)) for name, ends in self._phases.items() if shown[name]
        ]
        phases += [phase for phase in start.phases if phase.name not in MACHINE_STARTUP_PHASES]
        return Timing(
            phases=tuple(phases),
            checkpoints=trainings.checkpoints[row],
            checkpoints_written=int(self._expected.written[row]),
            interruptions=self.interruptions(row),
            checkpoint_every_seconds=None if per_hour is None else self._checkpoint_every_seconds(row),
        )

    def interruptions(self, row: int) -> Interval | None:
        """The number of interruptions of one training; None if the machine is not on spot."""
        if self._trainings.per_hour[row] is None:
            return None
        return interval_at(self._interruptions, row)

    def _checkpoint_every_seconds(self, row: int) -> float | None:
        """The work between two checkpoints; None if none is written."""
        work, written = self._expected.work[row], self._expected.written[row]
        return float(work / self._pieces[row]) if work > 0 and written > 0 else None

    @cached_property
    def _phases(self) -> "dict[PhaseName, Range]":
        """The phases after the first iteration."""
        return {name: self._widened(ends, _seconds_of(name)) for name, ends in self._exact.items()}


class _Rows(NamedTuple):
    """Columns that do not depend on the number of epochs."""

    times: TimeColumns
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
    iterations_per_epoch: "Floats"
    epochs: "Range"


def _read(trainings: PaidTrainings) -> _Rows:
    times = trainings.times
    seconds, squares_below, squares_above = trainings.starts.columns(_start_numbers, 3)
    *checkpoint, per_epoch = trainings.checkpoints.columns(lambda each: (*_ends(each.seconds), each.per_epoch), 4)
    iterations_per_epoch, *epochs = trainings.works.columns(_work_numbers, 4)
    return _Rows(
        times=times,
        checkpoint=ValueRange(*checkpoint),
        checkpoints_per_epoch=per_epoch,
        startup=seconds + times.init.value + times.first.value,
        squares_below=squares_below,
        squares_above=squares_above,
        per_hour=ValueRange(*trainings.per_hour.columns(_ends, 3)),
        nodes=trainings.nodes,
        iterations_per_epoch=iterations_per_epoch,
        epochs=ValueRange(*epochs),
    )


def _start_numbers(start: MachineStart) -> tuple[float, ...]:
    return start.seconds, start.squares_below, start.squares_above


def _work_numbers(work: TrainingWork) -> tuple[float, ...]:
    ends = work.epochs_interval
    low, high = (work.epochs, work.epochs) if ends is None else (round(ends.low), round(ends.high))
    return work.iterations_per_epoch, work.epochs, low, high


def _ends(interval: Interval | None) -> tuple[float, float, float]:
    return (0.0, 0.0, 0.0) if interval is None else (interval.value, interval.low, interval.high)


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


def _expected(rows: _Rows, epochs: "Floats") -> _Expected:
    """Equation 5.3 with checkpoints and rework. Each program writes its own checkpoints or, on spot, those that lose
    least time."""
    import numpy as np

    times = rows.times
    steady = times.later.value * (rows.iterations_per_epoch * epochs - 1)
    validation = times.first_validation.value + times.later_validation.value * (epochs - 1)
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


def interval_at(ends: "Range", row: int) -> Interval:
    """The interval in one row."""
    return Interval(value=float(ends.value[row]), low=float(ends.low[row]), high=float(ends.high[row]))


def _log_ratio(larger: "Floats", smaller: "Floats") -> "Floats":
    """The log of the ratio; infinite for a denominator of zero, and never negative."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(larger > smaller, np.log(larger / smaller), 0.0)
