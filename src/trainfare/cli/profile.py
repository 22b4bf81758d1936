"""`trainfare profile -- python train.py`: run a program for a few iterations and keep what was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainfare.cli.options import Json, Store
from trainfare.cli.profile_screen import Screen, uncertainty_of

if TYPE_CHECKING:
    from trainfare.app.profiling.series import Trial
    from trainfare.model.profile import Profile
    from trainfare.profiler.stopping import Stability


def profile(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND…", help="What you type to train, unchanged.")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", "-n", metavar="N", help="Measure so many (default: until they are known to 2 %)."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Measure so many whole epochs, with their validations.")
    ] = None,
    until_stable: Annotated[
        bool, typer.Option("--until-stable", help="Train until the validation metric gets no better.")
    ] = False,
    patience: Annotated[
        int | None, typer.Option(metavar="N", help="Epochs without a better metric until it is stable (5).")
    ] = None,
    max_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after so much training, whatever was seen.")
    ] = None,
    batch_sizes: Annotated[
        str | None, typer.Option(metavar="64,128,…", help="One profile at each of these batch sizes.")
    ] = None,
    batch_flag: Annotated[
        str | None, typer.Option(metavar="'--batch-size {}'", help="How the command takes a batch size.")
    ] = None,
    repeat: Annotated[int, typer.Option(metavar="N", help="So many profiles of each.", show_default=False)] = 1,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Run in this folder, not in a copy: what it writes, it writes.")
    ] = False,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Keep the copy with what the program wrote.")
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(metavar="MACHINE", help="The machine this is, such as aws/p3.2xlarge, where it cannot tell."),
    ] = None,
    operations: Annotated[
        bool, typer.Option("--operations/--no-operations", help="Trace the operations of one more iteration.")
    ] = True,
    gradient_noise: Annotated[bool, typer.Option("--gradient-noise", help="Measure it too (PyTorch).")] = False,
    operator_times: Annotated[bool, typer.Option("--operator-times", help="Time each operator too (PyTorch).")] = False,
    stall: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop a program that stands still for so long (10min).")
    ] = None,
    store: Store = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show neither its output nor progress.")] = False,
    as_json: Json = False,
) -> None:
    """Run a few iterations of a program; keep what they show.

    The program is not changed and need not know of us. It runs in a copy of this folder, if that is not too large.
    Its output goes to stderr. It is stopped when enough was seen.
    """
    from trainfare.errors import UsageError
    from trainfare.settings import read_settings

    if in_place and keep_files:
        raise UsageError("--in-place makes no copy that --keep-files could keep. Give one of them.")
    settings = read_settings({"iterations": iterations, "stall_seconds": stall, "store": store})
    screen = Screen(quiet=quiet)
    options = {
        "settings": settings,
        "iterations": iterations,
        "epochs": epochs,
        "until_stable": until_stable,
        "patience": patience,
        "max_seconds": None if max_time is None else _seconds(max_time),
        "in_place": in_place,
        "keep_files": keep_files,
        "on": on,
        "trace_operations": operations,
        "gradient_noise": gradient_noise,
        "operator_times": operator_times,
        "on_workspace": screen.workspace,
        "on_progress": screen.progress,
        "on_output": None if quiet else screen.output,
    }
    asked = Asked(iterations=iterations, epochs=epochs, patience=patience, until_stable=until_stable)
    if batch_sizes is None and batch_flag is None and repeat == 1:
        _one(command or [], options, asked, screen, as_json=as_json)
    else:
        sizes = [] if batch_sizes is None else _sizes(batch_sizes)
        _several(command or [], sizes, batch_flag, repeat, options, asked, screen, as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How long to measure, as the user said it."""

    iterations: int | None
    epochs: int | None
    until_stable: bool
    patience: int | None

    def shortfall(self, profile: "Profile") -> str | None:
        """What the program did not show because it ended first; None where it showed all."""
        from trainfare.profiler.stopping import complete_epochs

        seen = {"iterations": len(profile.iteration_seconds), "epochs": len(complete_epochs(profile))}
        for thing, wanted in (("iterations", self.iterations), ("epochs", self.epochs)):
            if profile.ending == "finished" and wanted is not None and seen[thing] < wanted:
                return f"{seen[thing]} of the {wanted} {thing}"
        return None


def _one(command: list[str], options: dict[str, Any], asked: Asked, screen: Screen, *, as_json: bool) -> None:
    from trainfare.app.profiling.profile import ProfilingFailed, profile_command
    from trainfare.app.records import profile_record
    from trainfare.cli.console import print_json
    from trainfare.cli.profile_card import print_card
    from trainfare.errors import ProgramError

    failure: ProfilingFailed | None = None
    try:
        found: Profile | None = profile_command(command, **options)
    except ProfilingFailed as error:
        found, failure = error.profile, error
    screen.clear()
    if found is not None:
        if as_json:
            print_json(profile_record(found))
        else:
            print_card(found)
        _print_notes(found, asked)
    screen.print_files()
    if failure is not None:
        raise failure
    if found is None:
        return
    _print_next(found)
    if found.ending == "interrupted":
        raise typer.Exit(130)
    if (shown := asked.shortfall(found)) is not None:
        raise ProgramError(
            f"`{found.program.command_line}` ended after {shown} that were asked for. What it showed is kept as "
            f"{found.id}; let it train longer to see more."
        )


def _several(
    command: list[str],
    sizes: list[int],
    batch_flag: str | None,
    repeat: int,
    options: dict[str, Any],
    asked: Asked,
    screen: Screen,
    *,
    as_json: bool,
) -> None:
    from trainfare.app.profiling.series import Trial, profile_series
    from trainfare.app.records import trial_record
    from trainfare.cli.console import print_error, print_json, print_note

    def show(trial: Trial) -> None:
        screen.clear()
        name = f"repeat {trial.repeat}" if trial.batch_size is None else f"batch size {trial.batch_size}"
        if trial.failure is not None:
            print_error(f"{name}: {trial.failure}")
        elif trial.profile is not None:
            print_note(f"{name}: profile {trial.profile.id} kept · {_ending(trial.profile, asked)}")
        if trial.remark is not None:
            print_note(f"{name}: {trial.remark}; is {batch_flag} right?")
        screen.print_files(only_written=True)

    trials = profile_series(command, batch_sizes=sizes, batch_flag=batch_flag, repeat=repeat, on_trial=show, **options)
    if as_json:
        print_json([trial_record(trial) for trial in trials])
    else:
        _print_table(trials)
    kept = [trial.profile for trial in trials if trial.profile is not None]
    if kept:
        print_note(f"next: trainfare recommend {' '.join(one.id for one in kept)} --epochs {kept[0].epochs or 'N'}")
    if any(one.ending == "interrupted" for one in kept) or len(trials) < max(1, len(set(sizes))) * repeat:
        raise typer.Exit(130)
    if any(trial.failure is not None for trial in trials) or any(asked.shortfall(one) for one in kept):
        raise typer.Exit(1)


def _print_table(trials: "Sequence[Trial]") -> None:
    from rich.table import Table

    from trainfare.cli.console import out
    from trainfare.profiler.stopping import steady_interval
    from trainfare.units import format_duration, format_large

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
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


def _print_notes(profile: "Profile", asked: Asked) -> None:
    from trainfare.cli.console import print_note
    from trainfare.profiler.stopping import PATIENCE, complete_epochs, stability_of
    from trainfare.units import format_duration

    if asked.epochs is not None and (timed := [epoch.seconds for epoch in complete_epochs(profile) if epoch.seconds]):
        print_note(f"epochs, with validation: {' · '.join(map(format_duration, timed))}")
    if asked.until_stable:
        stability = stability_of(profile, asked.patience or PATIENCE)
        print_note("no epoch was seen to end" if stability is None else stability_line(stability))
    print_note(f"profile {profile.id} kept · {_ending(profile, asked)}")


def _print_next(profile: "Profile") -> None:
    from trainfare.cli.console import print_note

    print_note(f"next: trainfare recommend {profile.id} --epochs {profile.epochs or 'N'}")


def stability_line(stability: "Stability") -> str:
    """How the metric went, in the words of a person who looked at its curve."""
    best = f"{stability.metric} was best at epoch {stability.best_epoch} ({stability.best:.4g})"
    if stability.stable_from_epoch is None:
        return f"{best} · too few epochs to say where it is stable"
    at = "" if stability.stable_from_iteration is None else f" (iteration {stability.stable_from_iteration})"
    from_where = f"stable from epoch {stability.stable_from_epoch}{at} on"
    return f"{best} · {from_where}" + ("" if stability.patience_exhausted else ", but it may still get better")


def _ending(profile: "Profile", asked: Asked) -> str:
    count = len(profile.iteration_seconds)
    seen = f"{count} iterations" if asked.iterations is None else f"{count} of {asked.iterations} iterations"
    return {
        "enough": "the program was stopped: enough was seen",
        "finished": f"it ended by itself after {seen}",
        "interrupted": f"interrupted after {seen}",
        "failed": f"it failed after {seen}",
        "stalled": f"it stood still after {seen}",
    }[profile.ending]


def _seconds(text: str) -> float:
    from trainfare.errors import UsageError
    from trainfare.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--max-time: {error}.") from error


def _sizes(text: str) -> list[int]:
    from trainfare.errors import UsageError

    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise UsageError(f"--batch-sizes {text!r} must be whole numbers of at least 1 with commas between: 64,128.")
    return sizes
