"""How long a candidate is paid for: its start, what the program does, its checkpoints, and on spot what is lost.

Boot, setup, the program and interruptions err independently of one another, so their errors add up as squares; what the
program does errs alike, since a busy host slows all of it:

    T = Σ Tᵢ,   T ± √(p² + Σ dᵢ²)

with p the half width of all that the program does on that side, and dᵢ those of boot, setup and interruptions.

Where the number of epochs is only expected, N between N₋ and N₊, that is a further error, independent of those of the
times, and it multiplies: the logarithms add up as squares,

    T₋ = T·exp(−√(ln²(T/t₋) + ln²(T(N)/T(N₋)))),   T₊ likewise with t₊ and N₊

with t₋ and t₊ the ends for exactly N epochs, and T(N₋) and T(N₊) what fewer or more epochs take; each phase likewise.

Thousands of candidates have few starts and few courses of the program in common. Each of these is summed up once, sums
are plain numbers, and an Interval is made only of what is read.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainfare.estimator.cost.checkpoints import Checkpoints
from trainfare.estimator.cost.interruptions import Between, Rework, cut, expected_seconds, rework
from trainfare.estimator.step.measured import StepTimes
from trainfare.model.estimate import Phase
from trainfare.model.interval import Interval
from trainfare.units import SECONDS_PER_HOUR

STARTING = ("boot", "setup", "initialisation", "first iteration")
"""What a start consists of; after an interruption all of it comes again."""


class Timing(NamedTuple):
    """All that the time of a candidate depends on but its price: shared by every offer alike."""

    phases: tuple[Phase, ...]
    seconds: Interval
    checkpoints_written: int = 0
    interruptions: Interval | None = None
    checkpoint_every_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Boot and setup, summed up."""

    phases: tuple[Phase, ...]
    seconds: float
    squares_below: float
    """Σ dᵢ² of the formula; next the same above."""
    squares_above: float

    @classmethod
    def of(cls, phases: Sequence[Phase]) -> "Start":
        return cls(
            phases=tuple(phases),
            seconds=sum(phase.seconds.value for phase in phases),
            squares_below=sum((phase.seconds.value - phase.seconds.low) ** 2 for phase in phases),
            squares_above=sum((phase.seconds.high - phase.seconds.value) ** 2 for phase in phases),
        )


class AtEpochs(NamedTuple):
    """What the program does in so many epochs after its start, in seconds without the doubt."""

    epochs: int
    steady: float
    validation: float
    work: float
    """The sum of these."""
    written: int
    """Checkpoints that the program writes by itself."""


class Course(NamedTuple):
    """What the program does on a machine, whoever rents it out and on whatever market."""

    phases: tuple[Phase, ...]
    """Equation 5.3, term by term; where the epochs are in doubt they allow for it."""
    init: float
    first: float
    below: float
    """p of the formula, for exactly N epochs and without checkpoints; next the same above."""
    above: float
    checkpoints: Checkpoints
    exactly: AtEpochs
    between: tuple[AtEpochs, AtEpochs] | None = None
    """N₋ and N₊, where the epochs are in doubt."""


def course_of(
    times: StepTimes,
    checkpoints: Checkpoints,
    *,
    iterations_per_epoch: float,
    epochs: int,
    epochs_interval: Interval | None,
) -> Course:
    """Equation 5.3 in plain numbers, as `iterations.training_terms` has it."""

    def at(number: float) -> AtEpochs:
        return _at(round(number), times, checkpoints, iterations_per_epoch)

    exactly = at(epochs)
    between = None if epochs_interval is None else (at(epochs_interval.low), at(epochs_interval.high))
    init, first, later = times.init, times.first, times.later
    n = iterations_per_epoch * epochs - 1
    steady = Between(exactly.steady, later.low * n, later.high * n)
    below = (init.value - init.low) + (first.value - first.low) + (steady.value - steady.low)
    above = (init.high - init.value) + (first.high - first.value) + (steady.high - steady.value)
    steady_ends = between and (between[0].steady, between[1].steady)
    phases: tuple[Phase, ...] = (
        Phase(name="initialisation", seconds=init),
        Phase(name="first iteration", seconds=first),
        Phase(name="steady iterations", seconds=_allowing(steady, steady_ends)),
    )
    if times.first_validation is not None:
        one, more, n = times.first_validation, times.later_validation or times.first_validation, epochs - 1
        validation = Between(exactly.validation, one.low + more.low * n, one.high + more.high * n)
        below += validation.value - validation.low
        above += validation.high - validation.value
        validation_ends = between and (between[0].validation, between[1].validation)
        phases += (Phase(name="validation", seconds=_allowing(validation, validation_ends)),)
    return Course(
        phases=phases,
        init=init.value,
        first=first.value,
        below=below,
        above=above,
        checkpoints=checkpoints,
        exactly=exactly,
        between=between,
    )


def _at(epochs: int, times: StepTimes, checkpoints: Checkpoints, iterations_per_epoch: float) -> AtEpochs:
    steady = times.later.value * (iterations_per_epoch * epochs - 1)
    validation = 0.0
    if times.first_validation is not None:
        later = times.later_validation or times.first_validation
        validation = times.first_validation.value + later.value * (epochs - 1)
    return AtEpochs(epochs, steady, validation, steady + validation, round(checkpoints.per_epoch * epochs))


def undisturbed(start: Start, course: Course) -> Timing:
    """On a machine that nobody takes back."""
    each, starting = course.checkpoints.seconds.value, start.seconds + course.init + course.first

    def beside(at: AtEpochs) -> Beside:
        return at.written * each, 0.0, 0.0

    return _timing(start, course, starting, written=course.exactly.written, doubt=_doubt(course, starting, beside))


def on_spot(start: Start, course: Course, *, per_hour: Interval, nodes: int) -> Timing:
    """With what interruptions cost; the program writes its own checkpoints, or such as lose least."""
    checkpoints, starting = course.checkpoints, start.seconds + course.init + course.first
    per_second = nodes * per_hour.value / SECONDS_PER_HOUR

    def beside(at: AtEpochs) -> Beside:
        work = at.work
        pieces = cut(work, checkpoints, epochs=at.epochs, per_second=per_second)
        expected = expected_seconds(work, start=starting, pieces=pieces, per_second=per_second)
        written = at.written or pieces.count - 1
        lost = max(0.0, expected - starting - work - pieces.written_seconds)
        return written * checkpoints.seconds.value, lost, per_second * expected

    own, work = course.exactly.written, course.exactly.work
    pieces = cut(work, checkpoints, epochs=course.exactly.epochs, per_second=per_second)
    return _timing(
        start,
        course,
        starting,
        written=own or pieces.count - 1,
        lost=rework(work, start=starting, pieces=pieces, per_hour=per_hour, nodes=nodes),
        every=work / pieces.count if work and (own or pieces.count > 1) else None,
        doubt=_doubt(course, starting, beside),
    )


Beside = tuple[float, float, float]
"""What comes on top of the course, without the doubt: seconds of checkpoints, seconds of rework, and how many
interruptions."""
FewAndMany = tuple[float, float]
"""At N₋ and at N₊ epochs."""


class _Doubt(NamedTuple):
    written: FewAndMany
    rework: FewAndMany
    interruptions: FewAndMany
    whole: FewAndMany
    """T(N₋) and T(N₊) of the formula."""


def _doubt(course: Course, starting: float, beside: Callable[[AtEpochs], Beside]) -> _Doubt | None:
    if course.between is None:
        return None
    few, many = course.between
    (written, lost, interruptions), (more_written, more_lost, more_interruptions) = beside(few), beside(many)
    return _Doubt(
        (written, more_written),
        (lost, more_lost),
        (interruptions, more_interruptions),
        (
            starting + few.steady + few.validation + lost + written,
            starting + many.steady + many.validation + more_lost + more_written,
        ),
    )


def _timing(
    start: Start,
    course: Course,
    starting: float,
    *,
    written: int,
    lost: Rework | None = None,
    every: float | None = None,
    doubt: _Doubt | None,
) -> Timing:
    """The sum of the formula, with `written` checkpoints; `starting` is all that comes before the steady iterations."""
    phases = start.phases + course.phases
    value, below, above = starting + course.exactly.steady + course.exactly.validation, course.below, course.above
    squares_below, squares_above = start.squares_below, start.squares_above
    if written:
        each = course.checkpoints.seconds
        seconds = Between(each.value * written, each.low * written, each.high * written)
        value += seconds.value
        below += seconds.value - seconds.low
        above += seconds.high - seconds.value
        phases += (Phase(name="checkpoints", seconds=_allowing(seconds, doubt and doubt.written)),)
    if lost is not None and lost.seconds.high > 0:
        seconds = lost.seconds
        value += seconds.value
        squares_below += (seconds.value - seconds.low) ** 2
        squares_above += (seconds.high - seconds.value) ** 2
        phases += (Phase(name="spot rework", seconds=_allowing(seconds, doubt and doubt.rework)),)
    low = max(0.0, value - math.sqrt(below**2 + squares_below))
    high = value + math.sqrt(above**2 + squares_above)
    if doubt is not None:
        low, high = _farther(value, low, high, doubt.whole)
    interruptions = None if lost is None else _allowing(lost.interruptions, doubt and doubt.interruptions)
    return Timing(phases, Interval(value=value, low=low, high=high), written, interruptions, every)


def _allowing(exactly: Between, at: FewAndMany | None) -> Interval:
    """The same, allowing for fewer or more epochs, at which it would be as given."""
    value, low, high = exactly
    if at is not None:
        low, high = _farther(value, low, high, at)
    return Interval(value=value, low=low, high=high)


def _farther(value: float, low: float, high: float, at: FewAndMany) -> tuple[float, float]:
    """T₋ and T₊ of the formula. What is nothing stays as it is."""
    few, many = at
    if low > 0 and 0 < few <= value <= many:  # as nearly always
        down = math.hypot(math.log(value / low), math.log(value / few))
        up = math.hypot(math.log(high / value), math.log(many / value))
    elif value:
        down = math.hypot(_log_ratio(value, low), _log_ratio(value, few))
        up = math.hypot(_log_ratio(high, value), _log_ratio(many, value))
    else:
        return low, high
    return value * math.exp(-down), value * math.exp(up)


def _log_ratio(more: float, less: float) -> float:
    """Infinite above nothing; never negative."""
    if more <= less:
        return 0.0
    return math.log(more / less) if less > 0 else math.inf
