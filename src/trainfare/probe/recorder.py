"""Events as JSON lines, appended to one file by every process that trains."""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
from typing import Any

FLUSH_SECONDS = 0.2
"""What a kill -9 may lose; a flush costs some 0.1 ms, so this is 0.05 % of the time."""


class Recorder:
    """Keeps events in memory and appends them rarely, each time in one write: lines of two processes never mix."""

    def __init__(self, path: str) -> None:
        self.speaker: str | None = None
        """The framework in which training was seen first: one may train inside another, and only one counts."""
        self.closed = False
        self.plan: dict[str, Any] = {}
        """What the program said of how long it will train."""
        self._path = path
        self._events: list[dict[str, Any]] = []
        self._troubles: set[str] = set()
        self._flushed_at = 0.0
        self._cut_off = False
        """The last line is not whole: the disk was full."""
        self._complained = False

    def open(self, path: str) -> None:
        """For another measurement in the same process."""
        self._path, self._events, self._troubles, self.closed, self.speaker = path, [], set(), False, None
        self.plan = {}

    def close(self) -> None:
        self._events, self.closed = [], True

    def add(self, event: str, **facts: Any) -> None:
        if self.closed:
            return
        if event == "plan":
            self.plan = facts
        self._events.append({"event": event, "pid": os.getpid(), "time": time.monotonic(), **facts})

    def trouble(self, where: str) -> None:
        """Report the exception being handled, once a place: a hook that fails, fails every time."""
        if where not in self._troubles:
            self._troubles.add(where)
            self.add("trouble", where=where, what=traceback.format_exc(limit=-6)[-4000:])
            self.flush()

    @property
    def due_at(self) -> float:
        """When to write again."""
        return self._flushed_at + FLUSH_SECONDS

    @property
    def due(self) -> bool:
        return time.monotonic() >= self.due_at

    def flush(self) -> None:
        self._flushed_at = time.monotonic()
        events, self._events = self._events, []
        if not events:
            return
        lines = "".join(_line(event) for event in events).encode()
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND)  # never created: the profiler made it
            try:
                # A line of its own ends one that was cut off.
                written = os.write(file, b"\n" + lines if self._cut_off else lines)
                self._cut_off = written < len(lines)
            finally:
                os.close(file)
        except FileNotFoundError:
            return  # the profiler has gone and its folder with it; the program goes on
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        """Once, where the program's own messages go: there is no other way left to be heard."""
        if self._complained:
            return
        self._complained = True
        try:
            sys.stderr.write(f"trainfare: the probe cannot write what it sees to {self._path}: {error.strerror}\n")
        except Exception:  # noqa: BLE001 # the program may have closed its stderr, or put anything in its place
            return

    def forget(self) -> None:
        """A forked child does not repeat what its parent has not yet written."""
        self._events = []
        self.speaker = None


def _line(event: dict[str, Any]) -> str:
    try:
        return json.dumps(event, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_plain(event), allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
