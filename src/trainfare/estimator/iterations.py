"""Time from a few iterations on the machine itself: Malta's second method.

    T = init + it₁ + it·(N_it − 1) + val₁ + (N_ep − 1)·(it·N_it + val₂)          (Malta 2021, equation 5.3)

with init the initialisation, it₁ the first iteration, it a later one, val₁ and val₂ the first and a later
validation, N_it iterations an epoch and N_ep epochs. Without validation both val are zero (equation 5.4, which
as printed counts the first iteration twice; here it is counted once).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.model.estimate import Phase
from trainfare.model.interval import Interval
from trainfare.model.profile import Profile

REPEAT_FACTOR = 1.04
"""The same program on the same kind of machine, run again: 90 % of 7 947 repeats of ten CNNs on four EC2 types
lie within a factor of 1.037 of the median of the others (`python -m benchmarks.extrapolation` recomputes it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """What equation 5.3 needs of a machine."""

    init: Interval
    first: Interval
    later: Interval
    first_validation: Interval | None = None
    later_validation: Interval | None = None


def training_phases(times: StepTimes, *, iterations_per_epoch: int, epochs: int) -> tuple[Phase, ...]:
    """Equation 5.3, term by term."""
    phases = [
        Phase(name="initialisation", seconds=times.init),
        Phase(name="first iteration", seconds=times.first),
        Phase(name="steady iterations", seconds=times.later * (iterations_per_epoch * epochs - 1)),
    ]
    if times.first_validation is not None:
        later = times.later_validation or times.first_validation
        phases.append(Phase(name="validation", seconds=times.first_validation + later * (epochs - 1)))
    return tuple(phases)


def measured_times(profile: Profile) -> StepTimes:
    """As measured; widened by how much a repeat of the same run differs."""
    validations = profile.validation_seconds
    return StepTimes(
        init=Interval.within_factor(profile.init_seconds or 0.0, REPEAT_FACTOR),
        first=Interval.within_factor(profile.iteration_seconds[0], REPEAT_FACTOR),
        later=steady_iteration(profile.steady_iteration_seconds),
        first_validation=Interval.within_factor(validations[0], REPEAT_FACTOR) if validations else None,
        later_validation=steady_iteration(validations[1:]) if len(validations) > 1 else None,
    )


def steady_iteration(seconds: Sequence[float]) -> Interval:
    """The median of one run, widened by what differs between two runs, which no number of iterations of one run can
    show."""
    if not seconds:
        raise ValueError("a steady time needs at least one iteration after the first")
    seen = Interval.of_median(seconds)
    return Interval(value=seen.value, low=seen.low / REPEAT_FACTOR, high=seen.high * REPEAT_FACTOR)
