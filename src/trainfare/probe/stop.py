"""When measuring ends, and how the program is ended then, whatever its framework."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from typing import NoReturn

STOPS_IGNORED = 3
"""So often may a program swallow our stop; then its process ends without asking."""

LOOK_SECONDS = 0.1
"""Between two looks for the file that tells us to stop."""

TOLD_SUFFIX = ".stop"
"""The profiler tells every process to stop by making this file beside that of the events. It may hold the number of
iterations after which they all do: processes that train together must not stop at different ones."""


class EnoughMeasured(SystemExit):
    """Ends the program at a step boundary; code 0, so that whoever waits for it sees no failure."""


class Stop:
    """Due after the wanted iterations, or when the profiler says so; once due it stays due.

    `by_loss`: whoever decides needs every loss as it comes, although reading one waits for its device.
    `gradient_noise`, `operator_times`: some more iterations are wanted for them before the program is ended.
    """

    ends_program = True
    """Not so in a program that measures itself and then goes on: nothing may be done to make it end."""

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
        self._file = events_path + TOLD_SUFFIX
        self._wanted = iterations
        self._due = False
        self._looked_at = 0.0
        self._stops = 0

    def due(self, iterations: int) -> bool:
        if not self._due:
            if self._wanted is None:
                self._wanted = self._told()
            self._due = self._wanted is not None and iterations >= self._wanted
        return self._due

    @property
    def not_before(self) -> tuple[float, float]:
        """The moment and the number of iterations before which it need not be asked again."""
        if self._due or self.tried:
            return 0.0, 0
        return (self._looked_at + LOOK_SECONDS, math.inf) if self._wanted is None else (math.inf, self._wanted)

    @property
    def open_ended(self) -> bool:
        """Nobody has said yet after how many iterations."""
        return self._wanted is None

    @property
    def tried(self) -> bool:
        """The program was told to end, and goes on."""
        return self._stops > 0

    def end(self) -> NoReturn:
        self._stops += 1
        if self._stops > STOPS_IGNORED:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # closed by the program, or replaced by anything
                    stream.flush()
            os._exit(0)
        raise EnoughMeasured(0)

    def _told(self) -> int | None:
        """After how many iterations; 0 is at once, None not yet."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return None
        self._looked_at = now
        try:
            with open(self._file, encoding="ascii") as file:  # noqa: PTH123 # pathlib would cost every start 10 ms
                return int(file.read().strip() or 0)
        except (OSError, ValueError):
            return None
