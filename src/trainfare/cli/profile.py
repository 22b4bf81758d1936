"""`trainfare profile -- python train.py`: run a program for a few iterations and keep what was seen."""

import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from trainfare.cli.options import Json, Store

if TYPE_CHECKING:
    from trainfare.model.profile import Profile
    from trainfare.profiler.measure import Progress

_PLAIN_SECONDS = 10.0
"""Between two lines of progress where nobody sees them replaced."""


def profile(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND…", help="What you type to train, unchanged.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option("--iterations", "-n", metavar="N", help="How many to measure (50).")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(metavar="MACHINE", help="The machine this is, such as aws/p3.2xlarge, where it cannot tell."),
    ] = None,
    operations: Annotated[
        bool, typer.Option("--operations/--no-operations", help="Trace the operations of one more iteration.")
    ] = True,
    stall: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop a program that stands still for so long (10min).")
    ] = None,
    store: Store = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show neither its output nor progress.")] = False,
    as_json: Json = False,
) -> None:
    """Run a few iterations of a program; keep what they show.

    The program is not changed and need not know of us. It runs here, in this folder: what it writes, it writes.
    Its output goes to stderr. It is stopped when enough was seen.
    """
    from trainfare.app.profile import ProfilingFailed
    from trainfare.app.profile import profile as measure_and_keep
    from trainfare.errors import ProgramFailed
    from trainfare.settings import read_settings

    settings = read_settings({"iterations": iterations, "stall_seconds": stall, "store": store})
    screen = Screen(quiet=quiet)
    try:
        found = measure_and_keep(
            command or (),
            settings=settings,
            on=on,
            trace_operations=operations,
            on_progress=screen.progress,
            on_output=None if quiet else screen.output,
        )
    except ProfilingFailed as error:
        screen.clear()
        if error.profile is not None:
            _print(error.profile, as_json=as_json, wanted=settings.iterations)
        raise
    screen.clear()
    _print(found, as_json=as_json, wanted=settings.iterations)
    if found.ending == "interrupted":
        raise typer.Exit(130)
    if found.ending == "finished" and iterations is not None:
        raise ProgramFailed(
            f"`{found.program.command_line}` ended after {len(found.iteration_seconds)} of the {iterations} iterations "
            f"that were asked for. What it showed is kept as {found.id}; let it train longer to see more."
        )


def _print(profile: "Profile", *, as_json: bool, wanted: int) -> None:
    from trainfare.app.records import profile_record
    from trainfare.cli.console import print_json, print_note
    from trainfare.cli.profile_card import print_card

    if as_json:
        print_json(profile_record(profile))
    else:
        print_card(profile)
    print_note(f"profile {profile.id} kept · {_ending(profile, wanted)}")
    epochs = profile.epochs or "N"
    print_note(f"next: trainfare recommend {profile.id} --epochs {epochs}")


def _ending(profile: "Profile", wanted: int) -> str:
    seen = len(profile.iteration_seconds)
    return {
        "enough": "the program was stopped: enough was seen",
        "finished": f"it ended after {seen} of {wanted} iterations",
        "interrupted": f"interrupted after {seen} of {wanted} iterations",
        "failed": f"it failed after {seen} of {wanted} iterations",
        "stalled": f"it stood still after {seen} of {wanted} iterations",
    }[profile.ending]


class Screen:
    """The program's output and one line of progress, on stderr.

    On a terminal the line stays below the output and is replaced; elsewhere it is written now and then. The output
    is passed on as bytes: a program that prints a gigabyte is not slowed by what we make of it.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._shown = False
        self._at_line_start = True
        self._said = ""
        self._said_at = time.monotonic()

    def output(self, chunk: bytes) -> None:
        with self._lock:
            self._erase()
            sys.stderr.buffer.write(chunk)
            sys.stderr.buffer.flush()
            self._at_line_start = chunk.endswith(b"\n")

    def progress(self, progress: "Progress") -> None:
        if self._quiet:
            return
        with self._lock:
            if self._live and self._at_line_start:
                self._erase()
                sys.stderr.write(f"\x1b[2m{progress_line(progress)[: _columns() - 1]}\x1b[0m")
                sys.stderr.flush()
                self._shown = True
            elif not self._live:
                self._say_now_and_then(progress_line(progress))

    def clear(self) -> None:
        """The output ends here; what follows starts on a line of its own."""
        with self._lock:
            self._erase()
            if not self._at_line_start:
                sys.stderr.write("\n")
            sys.stderr.flush()

    def _say_now_and_then(self, line: str) -> None:
        now = time.monotonic()
        if now - self._said_at >= _PLAIN_SECONDS and line != self._said and self._at_line_start:
            self._said, self._said_at = line, now
            sys.stderr.write(f"trainfare: {line}\n")
            sys.stderr.flush()

    def _erase(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._shown = False


def progress_line(progress: "Progress") -> str:
    """What was measured and what is still unknown."""
    from trainfare.units import format_seconds

    if progress.stopping:
        return f"{progress.iterations} of {progress.wanted} iterations · enough, the program is ending"
    if not progress.iterations:
        waiting = "waiting for the first iteration" if progress.framework else "starting"
        return f"{waiting} · {format_seconds(progress.seconds)}"
    parts = [f"{progress.iterations} of {progress.wanted} iterations"]
    if progress.iteration_seconds is not None:
        parts.append(f"{format_seconds(progress.iteration_seconds)} each")
    unknown = [
        name for name, known in (("batch size", progress.loader), ("validation", progress.validated)) if not known
    ]
    if unknown:
        parts.append(f"not seen yet: {', '.join(unknown)}")
    return " · ".join(parts)


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns
