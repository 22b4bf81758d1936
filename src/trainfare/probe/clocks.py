"""When work was done: at once on the host, later on a device that runs behind.

A mark is a moment; its seconds, on the monotonic clock, may be known only once the device has come to it.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

SETTLE_SECONDS = 60.0
"""So long is a device waited for when measuring ends; what it has not done by then is not recorded."""


class HostClock:
    """Work on the CPU is done when the call returns."""

    immediate = True
    mark = staticmethod(time.monotonic)

    def seconds(self, mark: float) -> float:
        return mark

    def settle(self) -> None:
        pass


class CudaClock:
    """Events on the stream: a call returns before its work is done, and asking would slow the program down.

    Seconds are chained from the last moment known, because an event gives milliseconds in single precision.
    """

    immediate = False

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        torch.cuda.synchronize()
        self._known = self.mark()
        self._known_at = time.monotonic()

    def mark(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, mark: Any) -> float | None:
        if isinstance(mark, float):
            return mark
        if not mark.query():
            return None
        self._known_at += self._known.elapsed_time(mark) / 1e3
        self._known = mark
        return self._known_at

    def settle(self) -> None:
        self._torch.cuda.synchronize()


class Pending:
    """The end of an iteration whose result may not be ready yet; its moment and value come later."""

    __slots__ = ("called", "ready_by", "result", "seconds", "value")

    def __init__(self, result: Any, called: float) -> None:
        self.result = result
        self.called = called
        self.ready_by = math.inf
        """A moment at which it was seen to be ready: the thread that waits for it may get its turn later."""
        self.seconds: float | None = None
        self.value: float | None = None


class ReadyClock:
    """Marks are moments of the host, or results that a thread waits for in turn.

    JAX, and TensorFlow on a GPU, return from a call before its work is done. Nothing in the loop waits for it: a
    thread blocks on one small result after the other and notes when each was ready.
    """

    immediate = False

    def __init__(self) -> None:
        self._next: list[Any] = []
        self._results: queue.SimpleQueue[Pending] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Pending | None = None

    def put(self, *marks: Any) -> None:
        """What the next marks are, when they are not the moment at which they are asked for."""
        self._next += marks

    def when_ready(self, result: Any) -> Pending:
        pending = self._last = Pending(result, time.monotonic())
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait, name="trainfare", daemon=True)
            self._thread.start()
        self._results.put(pending)
        return pending

    def look(self) -> None:
        """Whether the last result is ready, from the program's own thread and without waiting.

        Where all cores are at work the waiting thread may come an iteration late. A program that itself waits at the
        end of an epoch is then seen to go on, and no part of one epoch falls into the next.
        """
        last = self._last
        if last is None or last.seconds is not None or last.ready_by is not math.inf:
            return
        try:
            if last.result.is_ready():
                last.ready_by = time.monotonic()
        except Exception:  # noqa: BLE001 # given away, or already let go of
            return

    def mark(self) -> Any:
        return self._next.pop(0) if self._next else time.monotonic()

    def seconds(self, mark: Any) -> float | None:
        return mark.seconds if isinstance(mark, Pending) else mark

    @property
    def idle(self) -> bool:
        """Whatever was asked for is done."""
        return self._last is None or self._last.seconds is not None

    def settle(self) -> None:
        until = time.monotonic() + SETTLE_SECONDS
        while not self.idle and time.monotonic() < until:
            time.sleep(0.0002)

    def _wait(self) -> None:
        while True:
            pending = self._results.get()
            result, ready = pending.result, None
            try:
                result.block_until_ready()
                ready = time.monotonic()
                pending.value = float(result) if not result.shape else None
            except Exception:  # noqa: BLE001 # given away to the next call, so it was ready
                pending.value = None
            # Last: whoever sees it may read the value.
            noted = min(pending.ready_by, time.monotonic() if ready is None else ready)
            pending.result, pending.seconds = None, max(pending.called, noted)
