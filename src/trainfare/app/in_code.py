"""Measure the training loop at hand: `with trainfare.profile() as measured:`."""

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Self

from trainfare.app.keep import FEWEST_ITERATIONS, keep, this_machine
from trainfare.errors import AskedWrongly, TrainfareError
from trainfare.model.profile import Ending, Profile
from trainfare.model.program import Program
from trainfare.probe import boot
from trainfare.profiler.events import Event, of_leading_process, parse_events
from trainfare.profiler.here import HERE
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

USUAL_ITERATIONS = 50
"""The one after them is traced; then the hooks are silent and the loop runs on as if they were not there."""


class InCode:
    """A measurement of the code inside its `with` block. `profile` is there when the block has ended.

    Never breaks the training: what goes wrong at the end of the block is a warning, and `profile` stays None. Start-up
    is the time from entering the block to the first iteration. Where `trainfare profile` already watches this process,
    the block does nothing.
    """

    profile: Profile | None = None

    def __init__(
        self, *, settings: Settings | None = None, iterations: int | None = None, on: str | None = None
    ) -> None:
        self._settings = settings or read_settings()
        self._wanted = iterations or self._settings.iterations or USUAL_ITERATIONS
        if self._wanted < FEWEST_ITERATIONS:
            raise AskedWrongly(f"iterations must be at least {FEWEST_ITERATIONS}, got {iterations}.")
        self._machine = this_machine(on, self._settings)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._started = 0.0

    def __enter__(self) -> Self:
        if boot.EVENTS in os.environ:
            return self
        if HERE.busy:
            raise AskedWrongly("a `with trainfare.profile()` block cannot stand inside another one.")
        with open_history(self._settings.store):
            pass  # known before hours of training
        self._folder = tempfile.TemporaryDirectory(prefix="trainfare-")
        self._events.touch()
        self._started = time.monotonic()
        HERE.begin(str(self._events), self._wanted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._folder is None:
            return
        HERE.end()
        with self._folder:
            events = parse_events(self._events.read_bytes())
        try:
            self.profile = self._kept(events, _ending(events, kind))
        except (TrainfareError, ValueError) as error:
            warnings.warn(f"the profile could not be kept: {error}", stacklevel=2)

    @property
    def _events(self) -> Path:
        assert self._folder is not None  # noqa: S101 # only asked inside the block
        return Path(self._folder.name) / "events.jsonl"

    def _kept(self, events: list[Event], ending: Ending) -> Profile | None:
        iterations = sum(event["event"] == "iteration" for event in of_leading_process(events))
        if iterations < FEWEST_ITERATIONS:
            seen = "no training iteration was" if not iterations else "only one training iteration was"
            warnings.warn(f"{seen} seen inside `with trainfare.profile()`: there is no profile.", stacklevel=3)
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
