"""How the time of each phase is calculated, as text for the lines of a bill."""

from collections.abc import Iterator
from dataclasses import replace

from trainfare.estimator.cost.timing import Timing
from trainfare.estimator.prediction.iteration import StepTimePrediction
from trainfare.model.estimate import Phase
from trainfare.model.interval import Interval
from trainfare.units import format_duration, plural

OWN_CHECKPOINTS = "as often as in the profile"
DALY_CHECKPOINTS = "√(2 · checkpoint · time between interruptions) apart"
NO_INTERRUPTIONS = 1e-9
"""An expected number of interruptions below this is none."""


def with_calculations(
    timing: Timing,
    prediction: StepTimePrediction,
    *,
    iterations_per_epoch: float,
    epochs: int,
    nodes: int,
    interruptions_per_hour: Interval | None,
) -> Iterator[Phase]:
    """The phases of a timing with their calculations; boot and setup already have theirs."""
    calculations = _program_calculations(prediction, iterations_per_epoch, epochs)
    for phase in timing.phases:
        how = calculations.get(phase.name)
        if phase.name == "checkpoints":
            yield replace(phase, how=_checkpoint_calculation(timing, epochs))
        elif phase.name == "spot rework":
            yield replace(phase, how=_rework_calculation(phase, timing, nodes, interruptions_per_hour))
        elif how is None:
            yield phase
        else:
            equals = f" = {format_duration(phase.seconds.value)}" if "×" in how else ""
            yield replace(phase, how=how + equals)


def _program_calculations(prediction: StepTimePrediction, iterations_per_epoch: float, epochs: int) -> dict[str, str]:
    """The calculation of each phase of the program, by the name of the phase."""
    times = prediction.times
    if iterations_per_epoch == round(iterations_per_epoch):
        iterations = f"{iterations_per_epoch:.0f} × {epochs}"
    else:
        iterations = f"{iterations_per_epoch * epochs:.0f}"
    found = {
        "initialisation": f"{format_duration(times.init.value)}, {_source(prediction)}",
        "first iteration": f"{format_duration(times.first.value)}, {prediction.basis}",
        "steady iterations": f"{_seconds(times.later.value)} × ({iterations} − 1)",
    }
    if times.first_validation is not None:
        later = times.later_validation or times.first_validation
        found["validation"] = f"{_seconds(times.first_validation.value)} + {_seconds(later.value)} × ({epochs} − 1)"
    return found


def _source(prediction: StepTimePrediction) -> str:
    """The basis of the time of the initialisation, in words."""
    runs = prediction.iteration.runs
    if prediction.basis == "measured":
        return "measured" if runs == 1 else f"measured in {plural(runs, 'run')}"
    if prediction.profile.device == "cpu" and prediction.basis == "scaled":
        return "as one thread takes on this slice"
    return "as on the profiled machine, within a factor of 2"


def _checkpoint_calculation(timing: Timing, epochs: int) -> str:
    checkpoints = timing.checkpoints
    why = OWN_CHECKPOINTS if round(checkpoints.per_epoch * epochs) else DALY_CHECKPOINTS
    return f"{timing.checkpoints_written} × {format_duration(checkpoints.seconds.value)}, {why}"


def _rework_calculation(phase: Phase, timing: Timing, nodes: int, per_hour: Interval | None) -> str:
    count = timing.interruptions.value if timing.interruptions else 0.0
    rate = per_hour.value if per_hour else 0.0
    each = phase.seconds.value / count if count > NO_INTERRUPTIONS else 0.0
    several = "" if nodes == 1 else f" × {nodes} nodes"
    return (
        f"{count:.2g} interruptions ({rate:.2g} an hour{several}) × {format_duration(each)} to restart and to repeat "
        "the lost work"
    )


def _seconds(seconds: float) -> str:
    """Three digits, always in seconds: `0.0214 s`."""
    return f"{seconds:.3g} s"
