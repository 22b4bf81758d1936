"""Remembers for a moment which places did not answer, so that each list does not wait for them again."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from trainfare.clouds.ssh_errors import CannotConnectError

_SILENCE_SECONDS = 15.0
"""A place that could not be reached is not asked again for so long when machines are listed."""


@dataclass(slots=True)
class Answers:
    """The hosts or clusters that did not answer a short while ago."""

    silent: dict[str, tuple[float, str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def silence_of(self, destination: str) -> str | None:
        with self.lock:
            until, reason = self.silent.get(destination, (0.0, ""))
        return reason if time.monotonic() < until else None

    def note_silence(self, destination: str, reason: str) -> None:
        with self.lock:
            self.silent[destination] = (time.monotonic() + _SILENCE_SECONDS, reason)

    @contextmanager
    def asking(self, destination: str) -> Iterator[None]:
        """The block asks a place; whether it answered is noted."""
        try:
            yield
        except CannotConnectError as error:
            self.note_silence(destination, str(error))
            raise
        self.note_answer(destination)

    def note_answer(self, destination: str) -> None:
        with self.lock:
            self.silent.pop(destination, None)
