"""Events as JSON lines, appended to one file by every process that trains."""

from __future__ import annotations

import json
import math
import os
import time
import traceback
from typing import Any

FLUSH_SECONDS = 0.2
"""What a kill -9 may lose; a flush costs some 0.1 ms, so this is 0.05 % of the time."""


class Recorder:
    """Keeps events in memory and appends them rarely, each time in one write: lines of two processes never mix."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._events: list[dict[str, Any]] = []
        self._troubles: set[str] = set()
        self._flushed_at = 0.0

    def add(self, event: str, **facts: Any) -> None:
        self._events.append({"event": event, "pid": os.getpid(), "time": time.monotonic(), **facts})

    def trouble(self, where: str) -> None:
        """Report the exception being handled, once a place: a hook that fails, fails every time."""
        if where not in self._troubles:
            self._troubles.add(where)
            self.add("trouble", where=where, what=traceback.format_exc(limit=-6)[-4000:])
            self.flush()

    @property
    def due(self) -> bool:
        return time.monotonic() - self._flushed_at >= FLUSH_SECONDS

    def flush(self) -> None:
        self._flushed_at = time.monotonic()
        events, self._events = self._events, []
        if not events:
            return
        lines = "".join(_line(event) for event in events)
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND)  # never created: the profiler made it
            try:
                os.write(file, lines.encode())
            finally:
                os.close(file)
        except OSError:
            return  # the profiler has gone and its folder with it; the program goes on

    def forget(self) -> None:
        """A forked child does not repeat what its parent has not yet written."""
        self._events = []


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
