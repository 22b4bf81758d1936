"""The output of the program: passed on as it comes, stored only in part."""

import os
import threading
from collections.abc import Callable

MAX_BYTES = 256 * 1024
"""Stored from the beginning, and as much again from the end: enough for any traceback."""
_CHUNK_BYTES = 1 << 16


class Log:
    """The first and the last bytes of an output of any length."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total_bytes = 0

    def add(self, chunk: bytes) -> None:
        self._total_bytes += len(chunk)
        room = self._max_bytes - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._max_bytes:
            del self._tail[: -self._max_bytes]

    def text(self) -> str:
        tail = self._tail[-self._max_bytes :]
        omitted = self._total_bytes - len(self._head) - len(tail)
        middle = f"\n… {omitted} bytes omitted …\n".encode() if omitted else b""
        return (bytes(self._head) + middle + bytes(tail)).decode(errors="replace")

    def last_lines(self, count: int) -> str:
        return "\n".join(self.text().rstrip().splitlines()[-count:])


class Pump(threading.Thread):
    """Reads a pipe to its end in a thread of its own, so that the program never blocks on it."""

    def __init__(self, pipe: int, log: Log, show: Callable[[bytes], None] | None) -> None:
        super().__init__(name="program output", daemon=True)
        self._pipe, self._log, self._show = pipe, log, show

    def run(self) -> None:
        while chunk := os.read(self._pipe, _CHUNK_BYTES):
            self._log.add(chunk)
            if self._show is not None:
                try:
                    self._show(chunk)
                except (OSError, ValueError):
                    self._show = None  # our stderr is closed; the program must still not block
