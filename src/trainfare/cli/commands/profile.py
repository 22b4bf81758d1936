"""`trainfare profile -- python train.py`: run a program for a few iterations and store what they show."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.profiling.failures import ProfilingError
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.profiling.profile import profile_command
from trainfare.app.profiling.series import Trial, run_trials
from trainfare.app.programs.sources import ProgramSource, read_program
from trainfare.cli.arguments import spell_arguments
from trainfare.cli.cards.profile import print_card
from trainfare.cli.cards.profile_screen import Screen, uncertainty_of
from trainfare.cli.console import new_table, out, print_error, print_json, print_note
from trainfare.cli.length_options import ProfiledBatch, Samples, Steps, Tokens, parse_whole_amount
from trainfare.cli.options import Json, Quiet, Store
from trainfare.cli.parsing import parse_amount, parse_seconds, parse_whole_numbers
from trainfare.cli.use_cases import profile_on_server, refuse_on_server
from trainfare.errors import ProgramError, UsageError
from trainfare.model.profile import Profile
from trainfare.model.stability import PATIENCE, Stability, complete_epochs, stability_of, steady_interval
from trainfare.settings import Settings, read_settings
from trainfare.store.server import is_server
from trainfare.units import format_duration, format_large, plural
from trainfare.views.profile import length_arguments, profile_record, trial_record


def profile(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The training command, unchanged.")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", "-n", metavar="N", help="Iterations to measure; by default until their time is known to 2%."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Measure N epochs, with validation.")] = None,
    steps: Steps = None,
    tokens: Tokens = None,
    samples: Samples = None,
    batch_size: ProfiledBatch = None,
    until_stable: Annotated[
        bool, typer.Option("--until-stable", help="Measure until the metric stops improving.")
    ] = False,
    patience: Annotated[
        int | None, typer.Option(metavar="N", help="Epochs without improvement that count as stable (5).")
    ] = None,
    max_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after this much time, start included.")
    ] = None,
    batch_sizes: Annotated[
        str | None, typer.Option(metavar="64,128,…", help="Measure each of these batch sizes.")
    ] = None,
    batch_flag: Annotated[
        str | None, typer.Option(metavar="'--batch-size {}'", help="How the command sets its batch size.")
    ] = None,
    repeat: Annotated[int, typer.Option(metavar="N", help="Number of profiles of each size.", show_default=False)] = 1,
    in_place: Annotated[bool, typer.Option("--in-place", help="Run in this folder, not in a copy of it.")] = False,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Keep the copy and the files written there.")
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(metavar="MACHINE", help="Type of this machine: aws/p3.2xlarge."),
    ] = None,
    operations: Annotated[
        bool, typer.Option("--operations/--no-operations", help="Trace the operations of an iteration.")
    ] = True,
    gradient_noise: Annotated[
        bool, typer.Option("--gradient-noise", help="Measure the gradient noise too (PyTorch).")
    ] = False,
    operator_times: Annotated[
        bool, typer.Option("--operator-times", help="Time every operator too (PyTorch).")
    ] = False,
    stall: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after this long without progress (10min).")
    ] = None,
    store: Store = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure a few iterations of a program.

    The program stays as it is. It runs in a copy of this folder, if that is not too large; its output goes to stderr.
    It is stopped when enough iterations were measured.
    """

    if in_place and keep_files:
        raise UsageError("a run in place makes no copy to keep: give one of the two options.", field="keep_files")
    settings = read_settings({"iterations": iterations, "stall_seconds": stall, "store": store})
    screen = Screen(quiet=quiet)
    options = ProfileOptions(
        settings=settings,
        iterations=iterations,
        epochs=epochs,
        steps=parse_whole_amount("steps", steps),
        tokens=None if tokens is None else parse_amount("tokens", tokens),
        samples=parse_whole_amount("samples", samples),
        batch_size=batch_size,
        until_stable=until_stable,
        patience=patience,
        max_seconds=None if max_time is None else parse_seconds("max_time", max_time),
        in_place=in_place,
        keep_files=keep_files,
        on=on,
        trace_operations=operations,
        gradient_noise=gradient_noise,
        operator_times=operator_times,
        on_workspace=screen.workspace,
        on_progress=screen.progress,
        on_output=None if quiet else screen.output,
    )
    requested = RequestedLength(iterations=iterations, epochs=epochs, patience=patience, until_stable=until_stable)
    source = _read_program(command, settings) if command else None
    if is_server(settings.store):
        refuse_on_server(
            settings,
            iterations=iterations,
            epochs=epochs,
            tokens=tokens,
            until_stable=until_stable,
            patience=patience,
            max_time=max_time,
            batch_sizes=batch_sizes,
            batch_flag=batch_flag,
            repeat=repeat != 1,
            in_place=in_place,
            keep_files=keep_files,
            on=on,
            operations=not operations,
            gradient_noise=gradient_noise,
            operator_times=operator_times,
            stall=stall,
        )
        if source is None:
            raise UsageError("There is no command to profile.", field="command")
        _on_server(source, options, requested, quiet=quiet, as_json=as_json)
        return
    if batch_sizes is None and batch_flag is None and repeat == 1:
        _one(source or [], options, requested, screen, as_json=as_json)
    else:
        sizes = [] if batch_sizes is None else parse_whole_numbers("batch_sizes", batch_sizes, "64,128")
        words = list(source.program.command) if source else []
        options = replace(options, directory=Path(source.program.directory)) if source else options
        _several(words, sizes, batch_flag, repeat, options, requested, screen, as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedLength:
    """The length of the measurement that the user requested."""

    iterations: int | None
    epochs: int | None
    until_stable: bool
    patience: int | None

    def shortfall(self, profile: Profile) -> str | None:
        """The part of the request that the program reached before it ended; None if it reached all of it."""

        seen = {"iterations": len(profile.iteration_seconds), "epochs": len(complete_epochs(profile))}
        for thing, count in (("iterations", self.iterations), ("epochs", self.epochs)):
            if profile.ending == "finished" and count is not None and seen[thing] < count:
                return f"{seen[thing]} of the {count} {thing}"
        return None


def _read_program(command: Sequence[str], settings: Settings) -> ProgramSource:
    source = read_program(command, settings)
    for note in source.notes:
        print_note(f"note: {note}")
    unused = [name for name, stated in (("setup", source.setup), ("data", source.data)) if stated]
    if unused:
        print_note(
            f"note: the {' and the '.join(unused)} of the task are not used here: the program is profiled as it is."
        )
    return source


def _on_server(
    source: ProgramSource, options: ProfileOptions, requested: RequestedLength, *, quiet: bool, as_json: bool
) -> None:
    found = profile_on_server(
        source,
        options.settings or read_settings(),
        on_message=(lambda _message: None) if quiet else print_note,
        batch_size=options.batch_size,
        samples=options.samples,
        steps=options.steps,
    )
    if as_json:
        print_json(profile_record(found))
    else:
        print_card(found)
    _print_notes(found, requested)
    _print_next(found)


def _one(
    command: Sequence[str] | ProgramSource,
    options: ProfileOptions,
    requested: RequestedLength,
    screen: Screen,
    *,
    as_json: bool,
) -> None:
    failure: ProfilingError | None = None
    try:
        found: Profile | None = profile_command(command, options)
    except ProfilingError as error:
        found, failure = error.profile, error
    screen.clear()
    if found is not None:
        if as_json:
            print_json(profile_record(found))
        else:
            print_card(found)
        _print_notes(found, requested)
    screen.print_files()
    if failure is not None:
        raise failure
    if found is None:
        return
    _print_next(found)
    if found.ending == "interrupted":
        raise typer.Exit(130)
    if (shown := requested.shortfall(found)) is not None:
        raise ProgramError(
            f"`{found.program.command_line}` ended after {shown} requested. What it showed is stored as "
            f"{found.id}; let it train longer to measure more."
        )


def _several(
    command: list[str],
    sizes: list[int],
    batch_flag: str | None,
    repeat: int,
    options: ProfileOptions,
    requested: RequestedLength,
    screen: Screen,
    *,
    as_json: bool,
) -> None:
    def show(trial: Trial) -> None:
        screen.clear()
        name = f"repeat {trial.repeat}" if trial.batch_size is None else f"batch size {trial.batch_size}"
        if trial.failure is not None:
            print_error(f"{name}: {trial.failure}")
        elif trial.profile is not None:
            print_note(f"{name}: profile {trial.profile.id} stored · {_ending(trial.profile, requested)}")
        if trial.remark is not None:
            print_note(f"{name}: {trial.remark}; is {batch_flag} right?")
        screen.print_files(only_written=True)

    trials = run_trials(command, options, batch_sizes=sizes, batch_flag=batch_flag, repeat=repeat, on_trial=show)
    if as_json:
        print_json([trial_record(trial) for trial in trials])
    else:
        _print_table(trials)
    stored = [trial.profile for trial in trials if trial.profile is not None]
    if stored:
        print_note(f"next: trainfare recommend {' '.join(one.id for one in stored)} {_length(stored[0])}")
    if any(one.ending == "interrupted" for one in stored) or len(trials) < max(1, len(set(sizes))) * repeat:
        raise typer.Exit(130)
    if any(trial.failure is not None for trial in trials) or any(requested.shortfall(one) for one in stored):
        raise typer.Exit(1)


def _print_table(trials: Sequence[Trial]) -> None:
    table = new_table()
    for column in ("batch", "profile", "iterations", "each", "samples/s", "validation", "memory"):
        table.add_column(column, justify="left" if column == "profile" else "right", overflow="fold")
    for trial in trials:
        one = trial.profile
        batch = trial.batch_size or (one and one.effective_batch_size)
        if one is None:
            table.add_row(str(batch or "–"), "failed", *["–"] * 5)
            continue
        middle, samples = steady_interval(one), one.effective_batch_size
        peak = one.peak_device_bytes or one.peak_host_bytes
        table.add_row(
            str(batch or "–"),
            one.id if trial.failure is None else f"{one.id} (failed)",
            str(len(one.iteration_seconds)),
            "–" if middle is None else f"{format_duration(middle.value)} ± {uncertainty_of(middle)}",
            "–" if middle is None or samples is None else format_large(samples / middle.value),
            format_duration(one.validation_seconds[-1]) if one.validation_seconds else "–",
            "–" if peak is None else f"{peak / 2**30:.2f} GiB",
        )
    out().print(table)


def _print_notes(profile: Profile, requested: RequestedLength) -> None:
    if requested.epochs is not None and (
        timed := [epoch.seconds for epoch in complete_epochs(profile) if epoch.seconds]
    ):
        print_note(f"epochs, with validation: {' · '.join(map(format_duration, timed))}")
    if requested.until_stable:
        stability = stability_of(profile, requested.patience or PATIENCE)
        print_note("no epoch was completed" if stability is None else stability_line(stability))
    print_note(f"profile {profile.id} stored · {_ending(profile, requested)}")


def _print_next(profile: Profile) -> None:
    print_note(f"next: trainfare recommend {profile.id} {_length(profile)}")


def _length(profile: Profile) -> str:
    return spell_arguments(length_arguments(profile))


def stability_line(stability: Stability) -> str:
    """One line about the curve of the validation metric: its best epoch and where it became stable."""
    best = f"{stability.metric} was best at epoch {stability.best_epoch} ({stability.best:.4g})"
    if stability.stable_from_epoch is None:
        return f"{best} · too few epochs to say from where on it is stable"
    at = "" if stability.stable_from_iteration is None else f" (iteration {stability.stable_from_iteration})"
    from_where = f"stable from epoch {stability.stable_from_epoch}{at} on"
    return f"{best} · {from_where}" + ("" if stability.patience_exhausted else ", but it may still improve")


def _ending(profile: Profile, requested: RequestedLength) -> str:
    count = len(profile.iteration_seconds)
    seen = plural(count, "iteration")
    if requested.iterations is not None:
        seen = f"{count} of {requested.iterations} iterations"
    return {
        "enough": "the program was stopped after enough iterations",
        "time_limit": f"the time was up after {seen}",
        "finished": f"it ended by itself after {seen}",
        "interrupted": f"interrupted after {seen}",
        "failed": f"it failed after {seen}",
        "stalled": f"it stopped making progress after {seen}",
    }[profile.ending]
