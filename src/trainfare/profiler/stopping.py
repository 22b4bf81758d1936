"""Rules that decide when a program has been measured for long enough. Pure functions of the Profile so far.

UntilSteady     the time of an iteration is known to 2 % (Malta's second method)
UntilEpochs     a number of epochs is complete (Malta's first method on the machines that are compared)
UntilStable     the model does not improve any more (Malta's first method on the machine that trains it)

`seconds` is the time since the end of the first iteration, which may have compiled for minutes.
"""

from dataclasses import dataclass

from trainfare.model.profile import Profile
from trainfare.model.stability import PATIENCE, complete_epochs, relative_uncertainty, stability_of, steady_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilSteady:
    """The 90 % interval of the median is within 2 % of it, or the time is up.

    If the first epoch ends in time, the rule also waits for its validation, whose time is unknown otherwise.
    """

    tolerance: float = 0.02
    min_steady_iterations: int = 10
    """Iterations after the first one."""
    max_seconds: float = 60.0
    min_iterations: int = 3
    """Iterations measured even if the time is up."""

    def is_met(self, profile: Profile, seconds: float) -> bool:
        count = len(profile.iteration_seconds)
        if seconds >= self.max_seconds:
            return count >= self.min_iterations
        interval = steady_interval(profile)
        if interval is None or count <= self.min_steady_iterations or relative_uncertainty(interval) > self.tolerance:
            return False
        return not self._validation_is_close(profile, interval.value, self.max_seconds - seconds)

    def _validation_is_close(self, profile: Profile, iteration_seconds: float, seconds_left: float) -> bool:
        length = profile.iterations_per_epoch
        if profile.validation_seconds or length is None:
            return False
        # A validation between two epochs is only recorded with the iteration after it.
        missing = length + 1 - len(profile.iteration_seconds)
        return missing > 0 and missing * iteration_seconds <= seconds_left


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilEpochs:
    """A number of epochs with their validations is complete, or the time is up."""

    epochs: int
    max_seconds: float | None = None

    def is_met(self, profile: Profile, seconds: float) -> bool:
        return len(complete_epochs(profile)) >= self.epochs or _time_is_up(self.max_seconds, seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilStable:
    """Early stopping: the metric has not improved for `patience` epochs, or the time is up."""

    patience: int = PATIENCE
    max_seconds: float | None = None

    def is_met(self, profile: Profile, seconds: float) -> bool:
        stability = stability_of(profile, self.patience)
        return (stability is not None and stability.patience_exhausted) or _time_is_up(self.max_seconds, seconds)


StoppingRule = UntilSteady | UntilEpochs | UntilStable

STEADY = UntilSteady()


def _time_is_up(max_seconds: float | None, seconds: float) -> bool:
    return max_seconds is not None and seconds >= max_seconds
