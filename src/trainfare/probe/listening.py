"""What the listeners of Keras, TensorFlow and JAX share: one speaks, each writes alike, and a clock for devices
that run behind.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe.loop import Loop, Pass
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop

MEMORY_SECONDS = 2.0
"""Between two looks at the peak of memory, each some 0.15 ms."""

SETTLE_SECONDS = 60.0
"""So long is a device waited for when measuring ends; what it has not done by then is not recorded."""


class Pending:
    """The end of an iteration whose result may not be ready yet; its moment and value come later."""

    __slots__ = ("called", "result", "seconds", "value")

    def __init__(self, result: Any, called: float) -> None:
        self.result = result
        self.called = called
        self.seconds: float | None = None
        self.value: float | None = None


class ReadyClock:
    """Marks are moments of the host, or results that a thread waits for in turn.

    JAX, and TensorFlow on a GPU, return from a call before its work is done. Nothing in the loop waits for it: a
    thread blocks on one small result after the other and notes when each was ready.
    """

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
            result, pending.result = pending.result, None
            ready = None
            try:
                result.block_until_ready()
                ready = time.monotonic()
                pending.value = float(result) if not result.shape else None
            except Exception:  # noqa: BLE001 # given away to the next call, so it was ready
                pending.value = None
            # Last: whoever sees it may read the value.
            pending.seconds = max(pending.called, time.monotonic() if ready is None else ready)


def read_number(result: Any) -> float | None:
    """Waits for a result of any framework; its value, if it is one number."""
    if hasattr(result, "block_until_ready"):
        result.block_until_ready()
        return float(result) if not result.shape else None
    if hasattr(result, "numpy"):
        result = result.numpy()
    return float(result) if getattr(result, "shape", ()) == () else None


class Listener:
    """Moves a Loop on as a framework calls; a hook that fails is reported and never reaches the program.

    A program may import several frameworks, and one may train inside another (Keras on TensorFlow): the first in
    which training is seen speaks for the process, and the others stay silent.
    """

    framework = ""

    def __init__(self, module: ModuleType, recorder: Recorder, *, stop: Callable[[], Stop], trace: bool) -> None:
        self.module = module
        self.recorder = recorder
        self.trace = trace
        self._new_stop = stop
        self._loops: Any = importlib.import_module(f"{__package__}.loop")
        self.begin()
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        """From nothing: at the start, and again in a forked child."""
        self.clock = ReadyClock()
        self.loop: Loop = self._loops.Loop(self.recorder, self.clock, self.loss_value)
        self.stop = self._new_stop()
        self._finished = self._facts_written = False
        self._memory_at = 0.0
        self.first_start: float | None = None
        self._together = 1
        self._held: tuple[float, float, int, Any] | None = None
        self.together_end: float | None = None
        """Of the last call of several steps, unless something else came between."""

    def guarded(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(hook)
        def guarded(*args: Any) -> Any:
            if self.recorder.closed:
                return None
            try:
                return hook(*args)
            except Exception:  # noqa: BLE001 # training goes on, whatever is wrong with us
                self.recorder.trouble(f"{self.framework}: {hook.__name__}")
                return None

        return guarded

    @property
    def silent(self) -> bool:
        return self.recorder.speaker not in (None, self.framework)

    def speak(self) -> None:
        if self.recorder.speaker is None:
            self.recorder.speaker = self.framework

    @property
    def idle(self) -> bool:
        """No device is still at work on an iteration that has ended for the host."""
        return self.clock.idle

    def note(self, text: str) -> None:
        """For the user: what the program prints is shown to them."""
        self.recorder.add("note", text=text)
        try:
            sys.stderr.write(f"trainfare: {text}\n")
        except Exception:  # noqa: BLE001 # the program may have closed its stderr, or put anything in its place
            return

    def new_pass(self, iterator: Any, loader: Any, facts: dict[str, Any], start: float | None = None) -> Pass:
        one: Pass = self._loops.Pass(iterator, loader, time.monotonic() if start is None else start, facts)
        return one

    def start_at(self, moment: float) -> None:
        """When the first iteration began, where no loader tells."""
        if self.first_start is None:
            self.first_start = moment
            self.clock.put(moment)
            self.loop.gradients_cleared()

    def write_facts(self) -> None:
        """What is known after the first iteration."""
        raise NotImplementedError

    def device_bytes(self) -> int | None:
        """The most that was allocated on the device."""
        return None

    def last_facts(self) -> None:
        """What is asked only once measuring is over."""

    def loss_value(self, loss: Any) -> float | None:
        return loss.value if isinstance(loss, Pending) else read_number(loss)

    @property
    def believed(self) -> bool:
        """What was seen so far is training, and may be written."""
        return True

    def iteration_ended(self) -> None:
        """After the Loop was told: write now and then, end when enough was seen."""
        if self.stop.tried:
            self.end()
        loop = self.loop
        if not self.believed:
            return
        if not self._facts_written:
            self._facts_written = True
            # Once: else steps that queue up behind a slow first one seem to take no time.
            self.clock.settle()
            self.guarded(self.write_facts)()
        if loop.count <= 2 or self.recorder.due:
            self.write()
            if self.idle:
                loop.restart_clock()
                self.together_end = None if self._together == 1 else time.monotonic()
        if self.stop.due(loop.count):
            self.clock.settle()  # before anything else is done: the thread that waits must not wait for us
            self.enough_measured()

    def step(self, loss: Any, end: Any = None) -> None:
        """One iteration is over: now, unless its end is given."""
        self.before_step()
        self.loop.backward_started(loss)
        if end is not None:
            self.clock.put(end)
        self.loop.step_ended(self.learning_rate())

    def before_step(self) -> None:
        """For what a framework has to tell the Loop of each iteration."""

    def learning_rate(self) -> float | None:
        return None

    def steps_together(self, begun: float, count: int, loss: Any) -> None:
        """One call ran several steps, and `loss` is that of the last, or a list with one for each.

        Only the whole is seen, so each step is said to last as long as the others. The first call also traces and
        compiles: it is held back until the second, and its later steps are said to last as long as those of the second.
        """
        end = time.monotonic()
        if self._together == 1:
            self.note(f"{count} steps run in one call: the times of iterations are averages over each call")
        self._together = max(count, self._together)
        start = begun if self.together_end is None else self.together_end
        self.together_end = end
        if self._held is None and not self.loop.count and count > 1:
            self._held = (start, end, count, loss)
            return
        self._tell_held((end - start) / count)
        self._tell_together(spread(start, end, count), loss)
        self.iteration_ended()

    def _tell_held(self, seconds: float | None) -> None:
        """`seconds` is what a later step takes, where that is known."""
        if self._held is None:
            return
        (start, end, count, loss), self._held = self._held, None
        even = (end - start) / count
        first = end - (count - 1) * min(even, even if seconds is None else seconds)
        self.start_at(start)
        self._tell_together([first, *spread(first, end, count - 1)], loss)

    def _tell_together(self, ends: list[float], loss: Any) -> None:
        losses = loss if isinstance(loss, list) and len(loss) == len(ends) else [None] * (len(ends) - 1) + [loss]
        for end, one in zip(ends, losses):  # noqa: B905 # `strict` is newer than the user's Python may be
            self.step(one, end)

    def enough_measured(self) -> None:
        self.end()

    def end(self) -> NoReturn:
        self.finish()
        self.stop.end()

    def write(self) -> None:
        if self.stop.by_loss:
            self.clock.settle()
        self.loop.write()
        if self.idle:
            self.loop.write_losses()
        if self.loop.count <= 2 or time.monotonic() - self._memory_at >= MEMORY_SECONDS:
            self._write_memory()
        self.recorder.add("cpu", seconds=time.process_time())
        self.recorder.flush()

    def finish(self) -> None:
        """At the stop, or when the program ends by itself."""
        if self._finished or self.silent:
            return
        self._tell_held(None)
        if not self.loop.count:
            return
        self._finished = True
        if not self._facts_written:
            self.guarded(self.write_facts)()
        try:
            self.loop.finish()
            self._write_memory()
            self.last_facts()
        except Exception:  # noqa: BLE001 # a device that is broken at exit must not hide why
            self.recorder.trouble(f"{self.framework}: finishing")
        self.recorder.add("stop" if self.stop.due(self.loop.count) else "exit")
        self.recorder.flush()

    def _write_memory(self) -> None:
        self._memory_at = time.monotonic()
        self.recorder.add("memory", host_bytes=peak_resident_bytes(), device_bytes=self.device_bytes())


def loss_in(result: Any) -> Any:
    """The loss among what a training step returned: a number with a fraction, alone, first of a tuple's own, or
    by its name in a dictionary."""
    if isinstance(result, dict):
        named = [value for name, value in result.items() if "loss" in str(name).lower()]
        return next(filter(_is_fraction, named), None)
    if isinstance(result, (tuple, list)):
        own = [value for value in result if _is_fraction(value)]
        if own:
            return own[0]
        nested = (loss_in(value) for value in result if isinstance(value, (dict, tuple, list)))
        return next((loss for loss in nested if loss is not None), None)
    return result if _is_fraction(result) else None


def _is_fraction(value: Any) -> bool:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return shape is not None and len(shape) == 0 and "float" in str(getattr(dtype, "name", dtype))


def spread(start: float, end: float, count: int) -> list[float]:
    """The ends of `count` iterations of which only the whole was seen."""
    return [start + (end - start) * n / count for n in range(1, count)] + [end]


def peak_resident_bytes() -> int | None:
    """`VmHWM`: unlike `ru_maxrss` it forgets what the process was before it became Python."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123 # see sitecustomize
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def version_of(name: str) -> str | None:
    """Of a module that the program has imported."""
    version = getattr(sys.modules.get(name), "__version__", None)
    return None if version is None else str(version).partition("+")[0]


def versions_of(*names: str) -> dict[str, str]:
    found = {name: version_of(name) for name in names}
    return {name: version for name, version in found.items() if version}
