"""What the program prints: passed on as it comes, kept only in part."""

import os
import threading
from collections.abc import Callable

KEPT_BYTES = 256 * 1024
"""From the beginning, and again from the end: enough for any traceback."""
_CHUNK_BYTES = 1 << 16


class Log:
    """The first and the last bytes of an output of any length."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept = kept_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def add(self, chunk: bytes) -> None:
        self._seen += len(chunk)
        room = self._kept - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._kept:
            del self._tail[: -self._kept]

    def text(self) -> str:
        tail = self._tail[-self._kept :]
        left_out = self._seen - len(self._head) - len(tail)
        middle = f"\n… {left_out} bytes left out …\n".encode() if left_out else b""
        return (bytes(self._head) + middle + bytes(tail)).decode(errors="replace")

    def last_lines(self, count: int) -> str:
        return "\n".join(self.text().rstrip().splitlines()[-count:])


class Pump(threading.Thread):
    """Reads a pipe to its end in a thread of its own, so that the program never waits for us."""

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
                    self._show = None  # nobody reads our stderr any more; the program still must not block
