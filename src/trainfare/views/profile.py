"""The JSON records of profiles, and of a series of measurements."""

import shlex
from statistics import median
from typing import Any, Protocol

from trainfare.estimator.cpu.busy import queue_share
from trainfare.model.document import to_document
from trainfare.model.machine import HERE, HERE_PROVIDER
from trainfare.model.profile import Profile
from trainfare.model.stability import PATIENCE, Stability, stability_of
from trainfare.units import format_percent


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
        "total_parameters": profile.total_parameters,
        "first_iteration_seconds": profile.first_iteration_seconds,
        "median_iteration_seconds": median(steady) if steady else None,
        "samples_per_second": per_second(profile, profile.effective_batch_size),
        "tokens_per_second": per_second(profile, profile.tokens_per_iteration),
        "tokens_per_iteration": profile.tokens_per_iteration,
        "stability": None if stability is None else stability_record(stability),
    }


def per_second(profile: Profile, amount: int | None) -> float | None:
    """The amount that an iteration processes, by the median time of the steady ones; None if either is unknown."""
    steady = profile.steady_iteration_seconds
    return amount / median(steady) if amount and steady else None


def length_arguments(profile: Profile) -> dict[str, object]:
    """The argument that states the length of the training as the program does: 1.5 epochs, or 2,000 steps. `N` where
    the program does not say."""
    if profile.epochs and profile.epochs != int(profile.epochs):
        return {"epochs": profile.epochs}
    if profile.planned_iterations:
        return {"steps": profile.planned_iterations}
    if profile.epochs is None and profile.iterations_per_epoch is None:
        return {"steps": "N"}
    return {"epochs": profile.epochs or "N"}


def source_sentences(profile: Profile) -> list[str]:
    """The origin of the length and of the batch size, unless a data loader gave them."""
    names = (
        ("planned_iterations", "iterations"),
        ("epochs", "epochs"),
        ("iterations_per_epoch", "iterations per epoch"),
        ("micro_batch_size", "batch size"),
    )
    by_source: dict[str, list[str]] = {}
    for field, name in names:
        source = profile.sources.get(field)
        if source not in (None, "the data loader") and getattr(profile, field) is not None:
            by_source.setdefault(str(source), []).append(name)
    return [f"{' and '.join(found)} from {source}" for source, found in by_source.items()]


def busy_sentence(profile: Profile) -> str | None:
    """A warning if other work on the machine slowed the program down; None otherwise, and on a slice, which waits for
    its quota in the same way."""
    machine = profile.host.vm_type or HERE
    share = queue_share(profile)
    if not share or (machine.startswith(f"{HERE_PROVIDER}/") and machine != HERE):
        return None
    return (
        f"the machine was busy: the program waited for a CPU {format_percent(round(share, 2))} of the time; profile it "
        "again on an idle machine for certain times"
    )


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
