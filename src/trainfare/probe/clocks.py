"""Clocks that tell when work was done, on the host or on a device that runs asynchronously.

A mark is a moment. Its seconds on the monotonic clock may be known only once the device has reached it.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

SYNCHRONIZE_SECONDS = 60.0
"""The longest wait for a device when measuring ends. Work that is not done by then is not recorded."""


class HostClock:
    """Work on the CPU is done when the call returns."""

    immediate = True
    mark = staticmethod(time.monotonic)

    def seconds(self, mark: float) -> float:
        return mark

    def synchronize(self) -> None:
        pass


class CudaClock:
    """Marks are events on the CUDA stream: a call returns before its work is done, and waiting would slow the program.

    Seconds are chained from the last known moment, because an event gives milliseconds in single precision.
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

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()


class Pending:
    """The end of an iteration whose result may not be ready yet; its moment and value are filled in later."""

    __slots__ = ("called", "ready_by", "result", "seconds", "value")

    def __init__(self, result: Any, called: float) -> None:
        self.result = result
        self.called = called
        self.ready_by = math.inf
        """A moment at which the result was ready: the thread that waits for it may be scheduled later."""
        self.seconds: float | None = None
        self.value: float | None = None


class ReadyClock:
    """Marks are moments of the host, or results that a background thread waits for one after the other.

    JAX, and TensorFlow on a GPU, return from a call before its work is done. Nothing in the loop waits for it: the
    thread blocks on one small result of each step and notes when it was ready.
    """

    immediate = False

    def __init__(self) -> None:
        self._next_marks: list[Any] = []
        self._results: queue.SimpleQueue[Pending] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Pending | None = None

    def put(self, *marks: Any) -> None:
        """Set what the next calls of `mark` return instead of the present moment."""
        self._next_marks += marks

    def when_ready(self, result: Any) -> Pending:
        """A mark for the moment at which this result is ready."""
        pending = self._last = Pending(result, time.monotonic())
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait, name="trainfare", daemon=True)
            self._thread.start()
        self._results.put(pending)
        return pending

    def poll(self) -> None:
        """Note the moment if the last result is ready, from the program's own thread and without waiting.

        Where all cores are busy the waiting thread may be an iteration late. This bounds the end of the last iteration
        of an epoch in a program that itself waits there, so that no part of one epoch is counted in the next.
        """
        last = self._last
        if last is None or last.seconds is not None or last.ready_by is not math.inf:
            return
        try:
            if last.result.is_ready():
                last.ready_by = time.monotonic()
        except Exception:  # noqa: BLE001 # donated to another call, or already released
            return

    def mark(self) -> Any:
        return self._next_marks.pop(0) if self._next_marks else time.monotonic()

    def seconds(self, mark: Any) -> float | None:
        return mark.seconds if isinstance(mark, Pending) else mark

    @property
    def idle(self) -> bool:
        """All results waited for are ready."""
        return self._last is None or self._last.seconds is not None

    def synchronize(self) -> None:
        until = time.monotonic() + SYNCHRONIZE_SECONDS
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
            except Exception:  # noqa: BLE001 # donated to the next call, so it was ready
                pending.value = None
            # Set last: a reader that sees the seconds may read the value.
            ready_at = min(pending.ready_by, time.monotonic() if ready is None else ready)
            pending.result, pending.seconds = None, max(pending.called, ready_at)
