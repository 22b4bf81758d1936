"""The JSON records of profiles, and of a series of measurements."""

import shlex
from statistics import median
from typing import Any, Protocol

from trainfare.model.document import to_document
from trainfare.model.profile import Profile
from trainfare.model.stability import PATIENCE, Stability, stability_of


class MeasuredTrial(Protocol):
    """One measurement of a series."""

    @property
    def command(self) -> tuple[str, ...]: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def repeat(self) -> int: ...
    @property
    def profile(self) -> Profile | None: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def remark(self) -> str | None: ...


def profile_record(profile: Profile) -> dict[str, Any]:
    """The document of a Profile, which `trainfare profiles import` reads back, and what follows from it."""
    steady = profile.steady_iteration_seconds
    stability = stability_of(profile, PATIENCE)
    return {
        **to_document(profile),
        "name": profile.program.name,
        "command": profile.program.command_line,
        "batch_size": profile.micro_batch_size,
        "global_batch_size": profile.effective_batch_size,
        "effective_batch_size": profile.effective_batch_size,
        "first_iteration_seconds": profile.first_iteration_seconds,
        "median_iteration_seconds": median(steady) if steady else None,
        "stability": None if stability is None else stability_record(stability),
    }


def stability_record(stability: Stability) -> dict[str, Any]:
    """The course of the metric that shows convergence; `over` means that the patience is exhausted."""
    return {
        "metric": stability.metric,
        "last": stability.last,
        "best": stability.best,
        "best_epoch": stability.best_epoch,
        "over": stability.patience_exhausted,
        "stable_from_epoch": stability.stable_from_epoch,
        "stable_from_iteration": stability.stable_from_iteration,
    }


def trial_record(trial: MeasuredTrial) -> dict[str, Any]:
    """One measurement of a series; without a profile if nothing could be saved."""
    return {
        "command": shlex.join(trial.command),
        "batch_size": trial.batch_size,
        "repeat": trial.repeat,
        "failure": trial.failure,
        "remark": trial.remark,
        "profile": None if trial.profile is None else profile_record(trial.profile),
    }
