"""What the listeners of all frameworks share: one speaks, each writes alike, and none ever reaches the program."""

from __future__ import annotations

import abc
import atexit
import functools
import importlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe.clocks import Pending, ReadyClock
    from trainfare.probe.loop import Loop, Pass
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
else:
    _clocks = importlib.import_module(f"{__package__}.clocks")
    Pending, ReadyClock = _clocks.Pending, _clocks.ReadyClock

MEMORY_SECONDS = 2.0
"""Between two looks at the peak of memory, each some 0.15 ms."""


def read_number(result: Any) -> float | None:
    """Waits for a result of any framework; its value, if it is one number."""
    if hasattr(result, "block_until_ready"):
        result.block_until_ready()
        return float(result) if not result.shape else None
    if hasattr(result, "numpy"):
        result = result.numpy()
    return float(result) if getattr(result, "shape", ()) == () else None


class Listener(abc.ABC):
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
        self.clock: Any = self.new_clock()
        self.loop: Loop = self._loops.Loop(self.recorder, self.clock, self.loss_value)
        self.stop = self._new_stop()
        self._finished = self._facts_written = False
        self._memory_at = 0.0
        self.first_start: float | None = None
        self._together = 1
        self._held: tuple[float, float, int, Any] | None = None
        self.together_end: float | None = None
        """Of the last call of several steps, unless something else came between."""
        self._saves = 0
        self._save_start: Any = None

    def new_clock(self) -> Any:
        return ReadyClock()

    def place(self, *watches: Callable[[], None]) -> None:
        """Put the hooks in. What this version of a framework lacks leaves the others."""
        for watch in watches:
            self.guarded(watch)()

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

    def saving(self, save: Callable[..., Any]) -> Callable[..., Any]:
        """The same, and the time that it takes is recorded as that of a checkpoint."""
        begun, done = self.guarded(self._save_started), self.guarded(self._save_ended)

        @functools.wraps(save)
        def watched(*args: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return save(*args, **options)  # training does not wait for it
            begun()
            try:
                return save(*args, **options)
            finally:
                done()

        return watched

    def _save_started(self) -> None:
        self._saves += 1
        if self._saves == 1:
            self._save_start = self.loop.clock.mark()

    def _save_ended(self) -> None:
        """One may call another: the outermost counts."""
        self._saves = max(0, self._saves - 1)
        if not self._saves and not self.silent:
            self.loop.saved(self._save_start)

    def always(self, hook: Callable[..., Any]) -> Callable[..., None]:
        """Guarded, and called also while nobody measures: for what must be known when somebody begins to."""

        @functools.wraps(hook)
        def always(*args: Any) -> None:
            try:
                hook(*args)
            except Exception:  # noqa: BLE001 # as above
                self.recorder.trouble(f"{self.framework}: {hook.__name__}")

        return always

    @property
    def silent(self) -> bool:
        return self.recorder.speaker not in (None, self.framework)

    def speak(self) -> None:
        if self.recorder.speaker is None:
            self.recorder.speaker = self.framework

    @property
    def idle(self) -> bool:
        """No device is still at work on an iteration that has ended for the host."""
        return bool(self.clock.idle)

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

    @abc.abstractmethod
    def write_facts(self) -> None:
        """What is known after the first iteration."""

    def device_bytes(self) -> int | None:
        """The most that was allocated on the device."""
        return None

    def last_facts(self) -> None:  # noqa: B027 # most have none
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

    def before_step(self) -> None:  # noqa: B027 # as above
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
