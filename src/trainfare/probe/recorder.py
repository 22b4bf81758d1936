"""Writes events as JSON lines, appended to one file by every process that trains."""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
from typing import Any

FLUSH_SECONDS = 0.2
"""Events of this many seconds may be lost by a kill -9. A flush takes about 0.1 ms, which is 0.05 % of the time."""


class Recorder:
    """Buffers events in memory and appends them rarely, each time in one write, so that lines of two processes never
    mix."""

    def __init__(self, path: str) -> None:
        self.active_framework: str | None = None
        """The framework in which training was seen first. One framework may train inside another; only this one
        records."""
        self.closed = False
        self.plan: dict[str, Any] = {}
        """The facts of the last `plan` event: for how long the program means to train."""
        self._path = path
        self._events: list[dict[str, Any]] = []
        self._troubles: set[str] = set()
        self._flushed_at = 0.0
        self._line_cut_off = False
        """The last line is incomplete because the disk was full."""
        self._failure_reported = False

    def open(self, path: str) -> None:
        """Start another measurement in the same process."""
        self._path, self._events, self._troubles, self.closed, self.active_framework = path, [], set(), False, None
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
        """Record the exception being handled, once per place: a hook that fails, fails every time."""
        if where not in self._troubles:
            self._troubles.add(where)
            self.add("trouble", where=where, what=traceback.format_exc(limit=-6)[-4000:])
            self.flush()

    @property
    def due_at(self) -> float:
        """The moment from which on the next flush is due."""
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
                # A line break ends a line that was cut off.
                written = os.write(file, b"\n" + lines if self._line_cut_off else lines)
                self._line_cut_off = written < len(lines)
            finally:
                os.close(file)
        except FileNotFoundError:
            return  # the profiler and its folder are gone; the program goes on
        except OSError as error:
            self._report_failure(error)

    def _report_failure(self, error: OSError) -> None:
        """Print the failure once to stderr, because the event file cannot be written."""
        if self._failure_reported:
            return
        self._failure_reported = True
        try:
            sys.stderr.write(f"trainfare: the probe cannot write its events to {self._path}: {error.strerror}\n")
        except Exception:  # noqa: BLE001 # the program may have closed or replaced its stderr
            return

    def forget(self) -> None:
        """Drop unwritten events in a forked child: its parent writes them."""
        self._events = []
        self.active_framework = None


def _line(event: dict[str, Any]) -> str:
    try:
        return json.dumps(event, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_plain(event), allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """The value with NaN and infinity, which JSON does not have, replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
