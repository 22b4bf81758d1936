"""Measure the training loop at hand: `with trainfare.profile() as measured:`. Callbacks begin and end the same."""

import atexit
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from trainfare.app.profiling.save import FEWEST_ITERATIONS, keep, this_machine
from trainfare.errors import TrainfareError, UsageError
from trainfare.model.profile import Ending, Profile
from trainfare.model.program import Program
from trainfare.probe import boot
from trainfare.profiler.events import Event, of_leading_process, parse_events, rank_of
from trainfare.profiler.in_process import HERE
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

USUAL_ITERATIONS = 50
"""The one after them is traced; then the hooks are silent and the loop runs on as if they were not there."""


class InCode:
    """A measurement of the code inside its `with` block. `profile` is there once enough was seen, or the block ended.

    Never breaks the training: what goes wrong then is a warning, and `profile` stays None. Start-up is the time from
    entering the block to the first iteration. Where `trainfare profile` already watches this process, the block does
    nothing. Of several processes that train together only the first keeps a profile.
    """

    profile: Profile | None = None

    _open: ClassVar["InCode | None"] = None

    def __init__(
        self, *, settings: Settings | None = None, iterations: int | None = None, on: str | None = None
    ) -> None:
        self._settings = settings or read_settings()
        self._wanted = iterations or self._settings.iterations or USUAL_ITERATIONS
        if self._wanted < FEWEST_ITERATIONS:
            raise UsageError(f"iterations must be at least {FEWEST_ITERATIONS}, got {iterations}.")
        self._machine = this_machine(on, self._settings)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._started = 0.0
        self.gives_way = False
        """To the next measurement, or at the end of the program, should its training have failed without telling."""
        self._when_enough: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.end(kind)

    def prepare(self) -> None:
        """For one that begins when a framework is already at work: hooks into what comes before must be there."""
        if boot.EVENTS not in os.environ:
            HERE.place()

    def begin(self, *, when_enough: Callable[[], None] | None = None) -> None:
        """`when_enough` is for one that has no block around it; called after the last iteration that is wanted."""
        if boot.EVENTS in os.environ:
            return
        left = InCode._open
        if left is not None and left.gives_way:
            left.end(RuntimeError)
        if HERE.busy:
            raise UsageError("a `with trainfare.profile()` block cannot stand inside another one.")
        with open_history(self._settings.store):
            pass  # known before hours of training
        if when_enough is not None:
            self.gives_way, self._when_enough = True, when_enough
            atexit.register(self.end, RuntimeError)
        self._folder = tempfile.TemporaryDirectory(prefix="trainfare-")
        self._events.touch()
        self._started = time.monotonic()
        InCode._open = self
        HERE.begin(str(self._events), self._wanted, self._enough)

    def end(self, error: type[BaseException] | None = None) -> None:
        """A second time, or before it began, it does nothing."""
        if InCode._open is self:
            HERE.end()
            InCode._open = None
        self._keep(error)

    def _enough(self) -> None:
        """Kept at once: the training may go on for days, and be killed."""
        self._keep(None)
        self._when_enough()

    def _keep(self, error: type[BaseException] | None) -> None:
        if self._folder is None:
            return
        events = parse_events(self._events.read_bytes())
        self._folder.cleanup()
        self._folder = None
        if rank_of(events):
            return
        try:
            self.profile = self._kept(events, _ending(events, error))
        except (TrainfareError, ValueError) as reason:
            warnings.warn(f"the profile could not be kept: {reason}", stacklevel=4)

    @property
    def _events(self) -> Path:
        assert self._folder is not None  # noqa: S101 # only asked inside the block
        return Path(self._folder.name) / "events.jsonl"

    def _kept(self, events: list[Event], ending: Ending) -> Profile | None:
        iterations = sum(event["event"] == "iteration" for event in of_leading_process(events))
        if iterations < FEWEST_ITERATIONS:
            seen = "no training iteration was" if not iterations else "only one training iteration was"
            where = "by the callback" if self.gives_way else "inside `with trainfare.profile()`"
            warnings.warn(f"{seen} seen {where}: there is no profile.", stacklevel=5)
            return None
        return keep(
            events,
            program=Program(command=tuple(sys.orig_argv) or ("python",), directory=str(Path.cwd())),
            machine=self._machine,
            ending=ending,
            started=self._started,
            store=self._settings.store,
            origin="code",
        )


def _ending(events: list[Event], error: type[BaseException] | None) -> Ending:
    if any(event["event"] == "stop" for event in events):
        return "enough"
    if error is None:
        return "finished"
    return "interrupted" if issubclass(error, KeyboardInterrupt) else "failed"
