"""Measures the training loop of the calling code: `with trainfare.profile() as measured:`, or from a callback."""

import atexit
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from trainfare.app.profiling.save import MIN_ITERATIONS, count_iterations, save_profile, this_machine
from trainfare.errors import TrainfareError, UsageError
from trainfare.model.profile import Ending, Profile
from trainfare.probe import boot
from trainfare.profiler.events import Event, parse_events, rank_from_events
from trainfare.profiler.in_process import IN_PROCESS_PROBE
from trainfare.profiler.this_program import this_program
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

DEFAULT_ITERATIONS = 50
"""The iteration after these is traced; then the hooks do nothing and the loop runs at full speed."""


class InProcessProfiler:
    """Measures the code inside its `with` block. `profile` is set once the iterations are measured or the block ended.

    It never breaks the training: if it fails, it warns and `profile` stays None. `max_seconds` ends the measurement
    with the iteration in which that time is up. Initialisation is the time from
    entering the block to the first iteration. If `trainfare profile` already measures this process, the block does
    nothing. If several processes train together, only the first one saves a profile.
    """

    profile: Profile | None = None

    _current: ClassVar["InProcessProfiler | None"] = None

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        iterations: int | None = None,
        max_seconds: float | None = None,
        on: str | None = None,
    ) -> None:
        self._settings = settings or read_settings()
        self._iterations = iterations or self._settings.iterations or DEFAULT_ITERATIONS
        if self._iterations < MIN_ITERATIONS:
            raise UsageError(f"must be an integer of at least {MIN_ITERATIONS}, got {iterations}.", field="iterations")
        if max_seconds is not None and max_seconds <= 0:
            raise UsageError(f"must be positive, got {max_seconds}.", field="max_seconds")
        self._max_seconds = max_seconds
        self._machine = this_machine(on, self._settings)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._started = 0.0
        self.ends_without_block = False
        """It was begun by a callback, which does not learn that the training failed: the next measurement or the end
        of the program ends it."""
        self._on_end: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.end(kind)

    def prepare(self) -> None:
        """Install the hooks for a measurement that begins inside a running `fit`, which must be hooked before."""
        if boot.EVENTS not in os.environ:
            IN_PROCESS_PROBE.install()

    def begin(self, *, on_end: Callable[[], None] | None = None) -> None:
        """Begin to measure. A callback, which has no block, passes `on_end`; it is called after the last iteration."""
        if boot.EVENTS in os.environ:
            return
        unfinished = InProcessProfiler._current
        if unfinished is not None and unfinished.ends_without_block:
            unfinished.end(RuntimeError)
        if IN_PROCESS_PROBE.busy:
            raise UsageError("a `with trainfare.profile()` block cannot be nested in another one.")
        # A store that cannot be written is reported before hours of training.
        open_history(self._settings.store).close()
        if on_end is not None:
            self.ends_without_block, self._on_end = True, on_end
            atexit.register(self.end, RuntimeError)
        self._folder = tempfile.TemporaryDirectory(prefix="trainfare-")
        self._events.touch()
        self._started = time.monotonic()
        InProcessProfiler._current = self
        IN_PROCESS_PROBE.begin(str(self._events), self._iterations, self._target_reached, max_seconds=self._max_seconds)

    def end(self, error: type[BaseException] | None = None) -> None:
        """End the measurement and save the profile; does nothing before `begin` or the second time."""
        if InProcessProfiler._current is self:
            IN_PROCESS_PROBE.end()
            InProcessProfiler._current = None
        self._save(error)

    def _target_reached(self) -> None:
        """Save at once: the training may go on for days and be killed."""
        self._save(None)
        self._on_end()

    def _save(self, error: type[BaseException] | None) -> None:
        if self._folder is None:
            return
        events = parse_events(self._events.read_bytes())
        self._folder.cleanup()
        self._folder = None
        if rank_from_events(events):
            return
        try:
            self.profile = self._saved_profile(events, _ending(events, error))
        except (TrainfareError, ValueError) as reason:
            warnings.warn(f"the profile could not be saved: {reason}", stacklevel=4)

    @property
    def _events(self) -> Path:
        assert self._folder is not None  # noqa: S101 # only used inside the block
        return Path(self._folder.name) / "events.jsonl"

    def _saved_profile(self, events: list[Event], ending: Ending) -> Profile | None:
        iterations = count_iterations(events)
        if iterations < MIN_ITERATIONS:
            count = "only one training iteration" if iterations else "no training iteration"
            where = "by the callback" if self.ends_without_block else "inside `with trainfare.profile()`"
            warnings.warn(f"{count} was measured {where}: there is no profile.", stacklevel=5)
            return None
        return save_profile(
            events,
            program=this_program(),
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
