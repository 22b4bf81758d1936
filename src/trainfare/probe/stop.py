"""Decides when measuring ends and ends the program then, for any framework."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from typing import NoReturn

MAX_IGNORED_STOPS = 3
"""A program may swallow the exception that ends it this many times; then its process is ended by `os._exit`."""

POLL_SECONDS = 0.1
"""Time between two checks for the stop file."""

STOP_FILE_SUFFIX = ".stop"
"""The profiler stops every process by creating a file with the name of the event file and this suffix. It may contain
the number of iterations after which they stop: processes that train together must all stop at the same one."""


class MeasurementComplete(SystemExit):
    """Ends the program at a step boundary, with exit code 0 so that its parent sees no failure."""


class Stop:
    """Due after a number of iterations, or when the profiler requests it; once due it stays due.

    `by_loss`: the profiler decides by the losses, so each is written as it comes, although reading it waits for the
    device. `gradient_noise`, `operator_times`: a few more iterations measure these before the program is ended.
    """

    ends_program = True
    """False in a program that measures itself and then goes on: nothing may be done to end it."""

    def __init__(
        self,
        events_path: str,
        iterations: int | None,
        *,
        by_loss: bool = False,
        gradient_noise: bool = False,
        operator_times: bool = False,
    ) -> None:
        self.by_loss = by_loss
        self.gradient_noise = gradient_noise
        self.operator_times = operator_times
        self._file = events_path + STOP_FILE_SUFFIX
        self._target = iterations
        self._due = False
        self._polled_at = 0.0
        self._stops_raised = 0

    def due(self, iterations: int) -> bool:
        """Measuring ends after this many iterations, or has ended already."""
        if not self._due:
            if self._target is None:
                self._target = self._read_stop_file()
            self._due = self._target is not None and iterations >= self._target
        return self._due

    @property
    def not_before(self) -> tuple[float, float]:
        """The moment and the number of iterations before which `due` need not be called again."""
        if self._due or self.ignored:
            return 0.0, 0
        return (self._polled_at + POLL_SECONDS, math.inf) if self._target is None else (math.inf, self._target)

    @property
    def open_ended(self) -> bool:
        """The number of iterations after which to stop is not known yet."""
        return self._target is None

    @property
    def ignored(self) -> bool:
        """The program swallowed the exception that ends it, and goes on."""
        return self._stops_raised > 0

    def end(self) -> NoReturn:
        """End the program by an exception; the process itself once that was swallowed too often."""
        self._stops_raised += 1
        if self._stops_raised > MAX_IGNORED_STOPS:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # the program may have closed or replaced it
                    stream.flush()
            os._exit(0)
        raise MeasurementComplete(0)

    def _read_stop_file(self) -> int | None:
        """The number of iterations in the stop file: 0 to stop at once, None while there is no file."""
        now = time.monotonic()
        if now - self._polled_at < POLL_SECONDS:
            return None
        self._polled_at = now
        try:
            with open(self._file, encoding="ascii") as file:
                return int(file.read().strip() or 0)
        except (OSError, ValueError):
            return None
