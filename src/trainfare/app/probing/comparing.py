"""Use case: Malta's two methods from start to answer: measure a program on several machines, and compare them.

By iterations (his second method), a few iterations on each machine. By epochs (his first method), every batch size is
trained until stable on the cheapest machine, which gives the number of epochs, and for two epochs on the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainfare.app.probing.distant import ProbeStatus
from trainfare.app.probing.machines import (
    ProbeCrew,
    ProbeTask,
    ProbeTerms,
    learn_machines,
    offer_of,
    read_command,
    resolve_machines,
    with_time_limit,
)
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.profiling.series import batch_commands
from trainfare.app.recommending.compare import compare
from trainfare.errors import ExternalError, ProgramError, TrainfareError, UsageError
from trainfare.model.probing import MachineProbe
from trainfare.model.stability import PATIENCE
from trainfare.recommender.comparison import Comparison
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredComparison:
    """The measurements on the machines that the user named, and how these machines compare."""

    probes: tuple[MachineProbe, ...]
    comparison: Comparison
    stable_on: str | None = None
    """The machine on which programs were trained until stable; None if all were measured by iterations."""


def compare_on(
    machines: Sequence[str],
    command: Sequence[str],
    *,
    until_stable: bool = False,
    batch_sizes: Sequence[int] = (),
    batch_flag: str | None = None,
    patience: int = PATIENCE,
    iterations: int | None = None,
    max_seconds: float | None = None,
    terms: ProbeTerms | None = None,
    epochs: Sequence[float] | None = None,
    steps: Sequence[int] | None = None,
    tokens: Sequence[float] | None = None,
    samples: int | None = None,
    profiled_batch_size: int | None = None,
    iterations_per_epoch: int | None = None,
    settings: Settings | None = None,
    on_status: Callable[[ProbeStatus], None] = lambda _status: None,
    on_probe: Callable[[MachineProbe], None] = lambda _probe: None,
) -> MeasuredComparison:
    """Measure a program of the current folder on each of these machines, at each of these batch sizes, and compare.

    Different machines are measured at once, batch sizes on one machine one after another. With `until_stable`, the
    cheapest machine trains until its metric has not improved for `patience` epochs, and the others train two epochs;
    without it, all measure some iterations. `max_seconds` limits each measurement. The lengths are those of `compare`.
    """
    settings, terms = settings or read_settings(), terms or ProbeTerms()
    if not command:
        raise UsageError("there is no program to measure: give its command.", field="command")
    if until_stable and iterations is not None:
        raise UsageError(
            "a training until stable has no number of iterations: give one of the two.", field="iterations"
        )
    program, terms = read_command(command, terms, settings)
    commands = batch_commands(program.command, batch_sizes, batch_flag)
    keys = resolve_machines(machines, settings)
    open_history(settings.store).close()
    failures = learn_machines(keys, settings)
    failed = [MachineProbe(machine=key, failure=failure) for key, failure in failures.items()]
    for probe in failed:
        on_probe(probe)
    reached = [key for key in keys if key not in failures]
    cheapest = min(reached, key=lambda key: _usd_per_hour(key, settings), default=None) if until_stable else None
    few = with_time_limit(_measurement(until_stable, iterations, max_seconds))
    stable = ProfileOptions(until_stable=True, patience=patience, max_seconds=max_seconds)
    tasks = [
        ProbeTask(machine=key, command=words, options=stable if key == cheapest else few, batch_size=size)
        for key in reached
        for size, words in commands
    ]
    crew = ProbeCrew(
        directory=Path(program.directory), terms=terms, settings=settings, on_status=on_status, on_probe=on_probe
    )
    probes = (*failed, *crew.take(tasks))
    profiles = [probe.profile.id for probe in probes if probe.profile]
    if not profiles:
        raise _nothing_measured(probes)
    return MeasuredComparison(
        probes=probes,
        stable_on=cheapest,
        comparison=compare(
            profiles,
            epochs=epochs,
            steps=steps,
            tokens=tokens,
            samples=samples,
            profiled_batch_size=profiled_batch_size,
            iterations_per_epoch=iterations_per_epoch,
            patience=patience,
            settings=settings,
        ),
    )


def _measurement(two_epochs: bool, iterations: int | None, max_seconds: float | None) -> ProfileOptions:
    """A number of iterations excludes a time to measure, so there the time is a limit alone."""
    if two_epochs:
        return ProfileOptions(epochs=2, max_seconds=max_seconds)
    if iterations is None:
        return ProfileOptions(max_seconds=max_seconds)
    return ProfileOptions(iterations=iterations, most_seconds=max_seconds)


def _usd_per_hour(key: str, settings: Settings) -> float:
    return offer_of(key, settings).usd_per_hour


def _nothing_measured(probes: Sequence[MachineProbe]) -> TrainfareError:
    """The error of probes of which none has a profile: each has its own reason, which was reported."""
    if any(probe.interrupted for probe in probes):
        return _ComparisonInterruptedError("interrupted; nothing was measured.")
    kind = ProgramError if any(probe.seconds for probe in probes) else ExternalError
    return kind("nothing was measured on any of these machines, so there is nothing to compare.")


class _ComparisonInterruptedError(TrainfareError):
    exit_code = 130
