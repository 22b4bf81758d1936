"""When measuring ends, and how the program is ended then, whatever its framework."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

STOPS_IGNORED = 3
"""So often may a program swallow our stop; then its process ends without asking."""

LOOK_SECONDS = 0.1
"""Between two looks for the file that tells us to stop."""

TOLD_SUFFIX = ".stop"
"""The profiler tells every process to stop by making this file beside that of the events."""


class EnoughMeasured(SystemExit):
    """Ends the program at a step boundary; code 0, so that whoever waits for it sees no failure."""


class Stop:
    """Due after the wanted iterations, or when the profiler says so; once due it stays due."""

    def __init__(self, events_path: str, iterations: int | None) -> None:
        self._file = events_path + TOLD_SUFFIX
        self._wanted = iterations
        self._due = False
        self._looked_at = 0.0
        self._stops = 0

    def due(self, iterations: int) -> bool:
        if not self._due:
            self._due = (self._wanted is not None and iterations >= self._wanted) or self._told()
        return self._due

    @property
    def tried(self) -> bool:
        """The program was told to end, and goes on."""
        return self._stops > 0

    def end(self) -> NoReturn:
        self._stops += 1
        if self._stops > STOPS_IGNORED:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise EnoughMeasured(0)

    def _told(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = now
        return os.path.exists(self._file)  # noqa: PTH110 # pathlib would cost every start 10 ms
