"""Training time from a few iterations on the machine itself (Malta's second method).

    T(E_n) = it·N_it + val_n, and it₁ + it·(N_it − 1) + val₁ for the first epoch  (Malta 2021, equation 5.2)
    T = init + it₁ + it·(N_it − 1) + val₁ + (N_ep − 1)·(it·N_it + val₂)          (equation 5.3)
    T = init + it₁ + it·(N_it·N_ep − 1)                                          (equation 5.4, without validation)

with init the initialisation, it₁ the first iteration, it a later one, val₁ and val₂ the first and a later
validation, N_it iterations an epoch and N_ep epochs. Equation 5.4 as printed counts the first iteration twice; here
it is counted once, as in the tables of the document (`trainfare reproduce malta-5.4`).

The number of epochs is not known beforehand, and the best machine depends on it, so the time is simulated for several
numbers. Comparing machines by a single iteration does not work (`strategy_seconds`).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeVar

from trainfare.estimator.step.repeats import ONE_TIME_NOISE, repeat_interval
from trainfare.model.estimate import Phase, PhaseName
from trainfare.model.interval import Interval
from trainfare.model.profile import Profile

Strategy = Literal["first iteration", "second iteration", "average iteration"]
"""Ways to compare machines that were tried and rejected (Malta 2021, section 5.3): the first iteration does not predict
the others, and the others do not predict the initialisation and the first."""

AVERAGED_ITERATIONS = slice(1, 10)
"""Iterations 2 to 10."""

MachineKey = TypeVar("MachineKey", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """The times of one machine that equation 5.3 needs."""

    init: Interval
    first: Interval
    later: Interval
    first_validation: Interval | None = None
    later_validation: Interval | None = None

    def __post_init__(self) -> None:
        if self.first_validation is None and self.later_validation is not None:
            raise ValueError("a later validation without a first: either the first epoch is validated or none is")


def training_phases(times: StepTimes, *, iterations_per_epoch: float, epochs: int) -> tuple[Phase, ...]:
    """The terms of equation 5.3 as phases.

    A first iteration may be faster than the others, and a validation may take no time. `iterations_per_epoch` is an
    integer except in the document's own tables, which divide samples by batch size.
    """
    terms = training_terms(times, iterations_per_epoch=iterations_per_epoch, epochs=epochs)
    return tuple(Phase(name=name, seconds=seconds) for name, seconds in terms)


def training_terms(
    times: StepTimes, *, iterations_per_epoch: float, epochs: int
) -> tuple[tuple[PhaseName, Interval], ...]:
    """The terms of equation 5.3, each with the name of its phase."""
    _require_length(iterations_per_epoch, epochs)
    steady = times.later * (iterations_per_epoch * epochs - 1)
    terms: tuple[tuple[PhaseName, Interval], ...] = (
        ("initialisation", times.init),
        ("first iteration", times.first),
        ("steady iterations", steady),
    )
    if times.first_validation is None:
        return terms
    later = times.later_validation or times.first_validation
    return (*terms, ("validation", times.first_validation + later * (epochs - 1)))


def training_seconds(times: StepTimes, *, iterations_per_epoch: float, epochs: int) -> Interval:
    """The sum of equation 5.3; without validations it is equation 5.4."""
    total, *others = (
        phase.seconds for phase in training_phases(times, iterations_per_epoch=iterations_per_epoch, epochs=epochs)
    )
    for seconds in others:
        total = total + seconds
    return total


def epoch_seconds(times: StepTimes, *, iterations_per_epoch: float, epoch: int) -> Interval:
    """Equation 5.2 for one epoch, counted from 1, without the initialisation."""
    _require_length(iterations_per_epoch, epoch)
    if epoch == 1:
        training, validation = times.first + times.later * (iterations_per_epoch - 1), times.first_validation
    else:
        training, validation = times.later * iterations_per_epoch, times.later_validation or times.first_validation
    return training if validation is None else training + validation


def simulate_epochs(
    machines: Mapping[MachineKey, StepTimes], *, iterations_per_epoch: float, epochs: Sequence[int]
) -> dict[MachineKey, tuple[Interval, ...]]:
    """Seconds on each machine for each number of epochs.

    `relative.relative_to_best` turns them into the columns of the document; `recommender/crossovers.py` finds the
    numbers of epochs at which another machine becomes the best.
    """
    return {
        machine: tuple(training_seconds(times, iterations_per_epoch=iterations_per_epoch, epochs=n) for n in epochs)
        for machine, times in machines.items()
    }


def interpolate_epochs(epochs: float, *, few: tuple[float, Interval], many: tuple[float, Interval]) -> Interval:
    """The time of a number of epochs between two others with known times: equation 5.3 is linear in the epochs.

    T(n) = ((n₂ − n)·T(n₁) + (n − n₁)·T(n₂)) / (n₂ − n₁)
    """
    (n1, t1), (n2, t2) = few, many
    if not n1 < n2 or not n1 <= epochs <= n2:
        raise ValueError(f"{epochs} epochs are not between {n1} and {n2}")
    return t1 * ((n2 - epochs) / (n2 - n1)) + t2 * ((epochs - n1) / (n2 - n1))


def strategy_seconds(iteration_seconds: Sequence[float], strategy: Strategy) -> float:
    """The time by which a rejected strategy compares machines; it serves as a baseline."""
    _require_no_jump(iteration_seconds)
    if not iteration_seconds or (len(iteration_seconds) == 1 and strategy != "first iteration"):
        raise ValueError(f"the {strategy} was not measured: there are {len(iteration_seconds)} iterations")
    if strategy == "first iteration":
        return iteration_seconds[0]
    return iteration_seconds[1] if strategy == "second iteration" else fmean(iteration_seconds[AVERAGED_ITERATIONS])


def measured_times(profile: Profile, *repeats: Profile) -> StepTimes:
    """The times of one profile or of several repeats, with intervals that allow for run-to-run variation."""
    runs = (profile, *repeats)
    validations = profile.validation_seconds
    return StepTimes(
        init=_one_time([run.init_seconds or 0.0 for run in runs]),
        first=_one_time([run.iteration_seconds[0] for run in runs]),
        later=repeat_interval([run.steady_iteration_seconds for run in runs], per_epoch=profile.iterations_per_epoch),
        first_validation=_one_time([run.validation_seconds[0] for run in runs if run.validation_seconds] or [0.0])
        if validations
        else None,
        later_validation=steady_iteration(validations[1:]) if len(validations) > 1 else None,
    )


def steady_iteration(seconds: Sequence[float]) -> Interval:
    """The iteration time of a further run, from the iterations after the first of one run."""
    _require_no_jump(seconds)
    return repeat_interval([seconds])


def _one_time(seconds: Sequence[float]) -> Interval:
    """The time of something that happens once a run, given its time in each run."""
    return repeat_interval([[each] for each in seconds], noise=ONE_TIME_NOISE)


def _require_length(iterations_per_epoch: float, epochs: int) -> None:
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    if not iterations_per_epoch >= 1:
        raise ValueError(f"iterations_per_epoch must be at least 1, got {iterations_per_epoch}")


def _require_no_jump(seconds: Sequence[float]) -> None:
    for each in seconds:
        if not each >= 0:
            raise ValueError(f"an iteration took {each} s: the clock was set while it ran, measure again")
