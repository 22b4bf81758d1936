"""Shows a program while it is profiled: its output, its progress, and the files it wrote."""

import shutil
import sys
import threading
import time

from trainfare.cli.console import print_note
from trainfare.model.interval import Interval
from trainfare.model.profile import Profile
from trainfare.model.stability import complete_epochs, relative_uncertainty, stability_of, steady_interval
from trainfare.model.startup import StartUp
from trainfare.profiler.measure import MeasurementProgress
from trainfare.profiler.stopping import UntilEpochs, UntilStable, UntilSteady
from trainfare.profiler.workspace import Changes, Workspace
from trainfare.units import format_duration, format_large, format_percent, plural
from trainfare.views.startup import model_phrase, waiting_sentences

_PLAIN_SECONDS = 10.0
"""Seconds between two lines of progress where they are not replaced in place."""


_WAITING_SECONDS = (30.0, 120.0, 300.0)
"""Seconds without an iteration after which the state of the program is shown; from the last on, every so often."""
_SHORT_OF_MEMORY_SECONDS = 10.0
"""The same for the first time, if memory is short."""

_FEWEST_KNOWN = 5
"""Fewest iterations whose smallest and largest value bound a 90% interval."""


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
        self._printed = ""
        self._printed_at = time.monotonic()
        self._place: Workspace | None = None
        self._waiting_shown = 0

    def workspace(self, place: Workspace) -> None:
        """Remember the folder the program runs in; called before it starts."""

        self._waiting_shown = 0
        self._place = place
        if place.reason_in_place is not None:
            print_note(
                f"the program runs in your folder, not in a copy, because {place.reason_in_place}; its files stay"
            )

    def print_files(self, *, only_written: bool = False) -> None:
        """Print which files the program wrote, if it ran in a copy of the folder."""

        if self._place is None or not self._place.is_copy:
            return
        if self._place.changes != Changes() or self._place.saved or not only_written:
            for line in file_lines(self._place):
                print_note(line)

    def output(self, chunk: bytes) -> None:
        with self._lock:
            self._erase()
            sys.stderr.buffer.write(chunk)
            sys.stderr.buffer.flush()
            self._at_line_start = chunk.endswith(b"\n")

    def progress(self, progress: MeasurementProgress) -> None:
        if self._quiet:
            return
        with self._lock:
            if progress.startup is not None and self._waiting_is_due(progress.startup):
                self._erase()
                start = "" if self._at_line_start else "\n"
                sys.stderr.write(f"{start}trainfare: {waiting_sentences(progress.startup)}\n")
                sys.stderr.flush()
                self._at_line_start = True
            if self._live and self._at_line_start:
                self._erase()
                sys.stderr.write(f"\x1b[2m{progress_line(progress)[: _columns() - 1]}\x1b[0m")
                sys.stderr.flush()
                self._shown = True
            elif not self._live:
                self._print_occasionally(progress_line(progress))

    def _waiting_is_due(self, startup: StartUp) -> bool:
        """True once per moment at which the state of a program without an iteration is shown."""
        shown = self._waiting_shown
        last = _WAITING_SECONDS[-1]
        due = _WAITING_SECONDS[shown] if shown < len(_WAITING_SECONDS) else last * (shown - len(_WAITING_SECONDS) + 2)
        if not shown and startup.probably_too_large:
            due = _SHORT_OF_MEMORY_SECONDS
        if startup.seconds < due:
            return False
        self._waiting_shown += 1
        return True

    def clear(self) -> None:
        """The output ends here; what follows starts on a line of its own."""
        with self._lock:
            self._erase()
            if not self._at_line_start:
                sys.stderr.write("\n")
            sys.stderr.flush()

    def _print_occasionally(self, line: str) -> None:
        now = time.monotonic()
        if now - self._printed_at >= _PLAIN_SECONDS and line != self._printed and self._at_line_start:
            self._printed, self._printed_at = line, now
            sys.stderr.write(f"trainfare: {line}\n")
            sys.stderr.flush()

    def _erase(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._shown = False


def file_lines(place: Workspace) -> list[str]:
    changes = place.changes
    count = len(changes.written)
    wrote = f"{plural(count, 'file')} ({format_large(changes.written_bytes)}B) that it wrote"
    were = "was" if count == 1 else "were"
    if place.saved:
        lines = [f"the program ran in a copy of your folder, saved with {wrote}: {place.directory}"]
    elif count:
        lines = [f"the program ran in a copy of your folder; {wrote} {were} deleted (--keep-files keeps them)"]
    else:
        lines = ["the program ran in a copy of your folder and wrote nothing there"]
    if changes.linked_changed:
        names = ", ".join(changes.linked_changed)
        lines.append(f"it overwrote files that are too large to copy: {names}")
    return lines


def progress_line(progress: MeasurementProgress) -> str:
    """One line of progress: what was measured and what is still unknown."""

    seen = progress.profile
    if seen is None:
        waiting = "waiting for the first iteration" if progress.framework else "starting"
        parts = [waiting, format_duration(progress.seconds)]
        if progress.startup is not None and progress.startup.model is not None:
            parts.append(model_phrase(progress.startup.model))
        return " · ".join(parts)
    parts = [_how_far(progress, seen)]
    if progress.stopping:
        return f"{parts[0]} · enough, the program is ending"
    if (middle := steady_interval(seen)) is not None:
        known = len(seen.steady_iteration_seconds) >= _FEWEST_KNOWN
        parts.append(format_duration(middle.value) + (f" ± {uncertainty_of(middle)}" if known else " each"))
        if known and progress.target_iterations is None and isinstance(progress.stopping_rule, UntilSteady):
            parts[-1] += f" ({format_percent(progress.stopping_rule.tolerance)} needed)"
    facts: dict[str, object] = {"batch size": seen.effective_batch_size, "validation": seen.validation_seconds}
    if not isinstance(progress.stopping_rule, UntilSteady):
        facts["the length of an epoch"] = seen.iterations_per_epoch or seen.curve
    unknown = [name for name, known in facts.items() if not known]
    if unknown:
        parts.append(f"not measured yet: {', '.join(unknown)}")
    return " · ".join(parts)


def _how_far(progress: MeasurementProgress, seen: Profile) -> str:
    iterations = plural(progress.iterations, "iteration")
    if progress.target_iterations is not None:
        return f"{progress.iterations} of {progress.target_iterations} iterations"
    match progress.stopping_rule:
        case UntilEpochs(epochs=epochs):
            return f"{len(complete_epochs(seen))} of {epochs} epochs · {iterations}"
        case UntilStable(patience=patience):
            now = stability_of(seen, patience)
            if now is None:
                return iterations
            epochs = len(complete_epochs(seen))
            return f"epoch {epochs} · {now.metric} {now.last:.4g}, best {now.best:.4g} at epoch {now.best_epoch}"
    return iterations


def _columns() -> int:
    return shutil.get_terminal_size().columns


def uncertainty_of(interval: Interval) -> str:
    return format_percent(relative_uncertainty(interval))
