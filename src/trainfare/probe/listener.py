"""The base class of the listeners of all frameworks, and functions that they share."""

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
    from trainfare.probe.loop import DataPass, Loop
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
else:
    _clocks = importlib.import_module(f"{__package__}.clocks")
    Pending, ReadyClock = _clocks.Pending, _clocks.ReadyClock

MEMORY_SECONDS = 2.0
"""Time between two readings of the peak memory, each of which takes about 0.15 ms."""

LOOPS_SECONDS = 1.0
"""Time between two readings of the program's loops, each of which takes about 0.1 ms once their source is parsed."""

WORKERS_SECONDS = 1.0
"""Time between two readings of the CPU times of workers after the first few, each about 0.03 ms for a worker."""
FIRST_WORKER_READINGS = 5
"""The number of readings that are made at every write: a short measurement has a first and a last one, too."""


def read_number(result: Any) -> float | None:
    """The value of a result of any framework if it is one number, else None. Waits until the result is ready."""
    if hasattr(result, "block_until_ready"):
        result.block_until_ready()
        return float(result) if not result.shape else None
    if hasattr(result, "numpy"):
        result = result.numpy()
    return float(result) if getattr(result, "shape", ()) == () else None


class Listener(abc.ABC):
    """Updates a Loop from the hooks of one framework. A hook that fails is recorded and never breaks the program.

    A program may import several frameworks, and one may train inside another (Keras on TensorFlow). The first one in
    which training is seen claims the process, and the listeners of the others are muted.
    """

    framework = ""

    def __init__(self, module: ModuleType, recorder: Recorder, *, new_stop: Callable[[], Stop], trace: bool) -> None:
        self.module = module
        self.recorder = recorder
        self.trace = trace
        self._new_stop = new_stop
        self._loop_reader: Any = None
        self._loop_module: Any = importlib.import_module(f"{__package__}.loop")
        self.begin()
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        """Reset all state: at the start, for another measurement, and in a forked child."""
        self.clock: Any = self.new_clock()
        self.loop: Loop = self._loop_module.Loop(self.recorder, self.clock, self.loss_value)
        self.stop = self._new_stop()
        self._finished = self._facts_written = False
        self._memory_written_at = self._loops_read_at = self._workers_read_at = 0.0
        self._worker_readings = 0
        self.loop_readings = 0
        """The number of times that the loops of the program were read: two show what each of them counts."""
        self.first_start: float | None = None
        self._steps_per_call = 1
        self._first_call: tuple[float, float, int, Any] | None = None
        self.multi_step_end: float | None = None
        """The end of the last call that ran several steps, unless something else came after it."""
        self._open_saves = 0
        self._save_start: Any = None
        self._saved_paths: list[str | None] = []
        """The paths of saves inside the one that is running."""

    def new_clock(self) -> Any:
        return ReadyClock()

    def install(self, *installers: Callable[[], None]) -> None:
        """Install the hooks. One that does not fit this version of the framework does not affect the others."""
        for installer in installers:
            self.guarded(installer)()

    def guarded(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """The hook, called only while measuring; an exception in it is recorded and returns None."""

        @functools.wraps(hook)
        def guarded(*args: Any) -> Any:
            if self.recorder.closed:
                return None
            try:
                return hook(*args)
            except Exception:  # noqa: BLE001 # training goes on even if the probe fails
                self.recorder.trouble(f"{self.framework}: {hook.__name__}")
                return None

        return guarded

    def timing_checkpoint(
        self, save: Callable[..., Any], resumes: Callable[[Any, Any], bool] = lambda _args, _options: False
    ) -> Callable[..., Any]:
        """The same function, with the time that it takes recorded as that of a checkpoint. `resumes` tells, from the
        arguments, whether the Trainer can go on from it."""
        begun = self.guarded(self._save_started)
        done = self.guarded(functools.partial(self._save_ended, resumes))

        @functools.wraps(save)
        def watched(*args: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return save(*args, **options)  # training does not wait for another thread
            begun()
            try:
                return save(*args, **options)
            finally:
                done(args, options)

        return watched

    def _save_started(self) -> None:
        self._open_saves += 1
        if self._open_saves == 1:
            self._save_start, self._saved_paths = self.loop.clock.mark(), []

    def _save_ended(self, resumes: Callable[[Any, Any], bool], args: Any, options: Any) -> None:
        """Record the outermost save: one may call another."""
        self._open_saves = max(0, self._open_saves - 1)
        path = saved_path(args, options)
        if self._open_saves:
            self._saved_paths.append(path)
        elif not self.muted:
            folder = path or common_folder(self._saved_paths)
            self.loop.checkpoint_saved(self._save_start, folder, resumes=resumes(args, options))

    def guarded_always(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """The hook, called also while nothing is measured: for facts that must be known once measuring begins."""

        @functools.wraps(hook)
        def guarded_always(*args: Any) -> Any:
            try:
                return hook(*args)
            except Exception:  # noqa: BLE001 # training goes on even if the probe fails
                self.recorder.trouble(f"{self.framework}: {hook.__name__}")
                return None

        return guarded_always

    @property
    def muted(self) -> bool:
        """Another framework trains in this process."""
        return self.recorder.active_framework not in (None, self.framework)

    def claim_process(self) -> None:
        """Make this the framework that records, unless another one was first."""
        if self.recorder.active_framework is None:
            self.recorder.active_framework = self.framework

    @property
    def idle(self) -> bool:
        """No device is still working on an iteration that has ended on the host."""
        return bool(self.clock.idle)

    def note(self, text: str) -> None:
        """Show a remark to the user among the output of the program."""
        self.recorder.add("note", text=text)
        try:
            sys.stderr.write(f"trainfare: {text}\n")
        except Exception:  # noqa: BLE001 # the program may have closed or replaced its stderr
            return

    def new_pass(self, iterator: Any, loader: Any, facts: dict[str, Any], start: float | None = None) -> DataPass:
        data_pass: DataPass = self._loop_module.DataPass(
            iterator, loader, time.monotonic() if start is None else start, facts
        )
        return data_pass

    def set_first_start(self, moment: float) -> None:
        """Set when the first iteration began, for a program without a loader."""
        if self.first_start is None:
            self.first_start = moment
            self.clock.put(moment)
            self.loop.gradients_cleared()

    @abc.abstractmethod
    def write_facts(self) -> None:
        """Record the facts that are known after the first iteration."""

    def device_bytes(self) -> int | None:
        """The peak of the memory allocated on the device; None if unknown."""
        return None

    def write_final_facts(self) -> None:  # noqa: B027 # most listeners have no final facts
        """Record the facts that are read only once measuring is over."""

    def loss_value(self, loss: Any) -> float | None:
        return loss.value if isinstance(loss, Pending) else read_number(loss)

    @property
    def training_confirmed(self) -> bool:
        """The iterations seen so far are certainly training and may be recorded."""
        return True

    def iteration_ended(self) -> None:
        """Called after the Loop was updated: writes from time to time, ends when the target is reached."""
        if self.stop.ignored:
            self.end()
        loop = self.loop
        if not self.training_confirmed:
            return
        if not self._facts_written:
            self._facts_written = True
            # Only once: otherwise steps that queue up behind a slow first one would seem to take no time.
            self.clock.synchronize()
            self.guarded(self.write_facts)()
        if loop.count <= 3 or self.recorder.due:
            self.write()
            if self.idle:
                loop.restart_clock()
                self.multi_step_end = None if self._steps_per_call == 1 else time.monotonic()
        if self.stop.due(loop.count):
            self.clock.synchronize()  # first of all: the waiting thread must not be delayed by the probe
            self.target_reached()

    def step(self, loss: Any, end: Any = None) -> None:
        """One iteration ended: now, unless its end is given."""
        self.before_step()
        self.loop.backward_started(loss)
        if end is not None:
            self.clock.put(end)
        self.loop.step_ended(self.learning_rate())

    def before_step(self) -> None:  # noqa: B027 # most listeners have nothing to do before a step
        """Update the Loop with what a framework knows about each iteration."""

    def learning_rate(self) -> float | None:
        return None

    def multi_step_call_ended(self, begun: float, count: int, loss: Any) -> None:
        """One call ran several steps; `loss` is that of the last step, or a list with one loss per step.

        Only the total is known, so all steps of a call are given the same time. The first call also traces and
        compiles: it is held back until the second, and its later steps are given the time of those of the second.
        """
        end = time.monotonic()
        if self._steps_per_call == 1:
            self.note(f"{count} steps run in one call: the times of iterations are averages over each call")
        self._steps_per_call = max(count, self._steps_per_call)
        start = begun if self.multi_step_end is None else self.multi_step_end
        self.multi_step_end = end
        if self._first_call is None and not self.loop.count and count > 1:
            self._first_call = (start, end, count, loss)
            return
        self._report_first_call((end - start) / count)
        self._report_steps(evenly_spaced_ends(start, end, count), loss)
        self.iteration_ended()

    def _report_first_call(self, seconds: float | None) -> None:
        """Record the first call; `seconds` is the time of a later step, if known."""
        if self._first_call is None:
            return
        (start, end, count, loss), self._first_call = self._first_call, None
        even = (end - start) / count
        first = end - (count - 1) * min(even, even if seconds is None else seconds)
        self.set_first_start(start)
        self._report_steps([first, *evenly_spaced_ends(first, end, count - 1)], loss)

    def _report_steps(self, ends: list[float], loss: Any) -> None:
        losses = loss if isinstance(loss, list) and len(loss) == len(ends) else [None] * (len(ends) - 1) + [loss]
        for end, one in zip(ends, losses):
            self.step(one, end)

    def target_reached(self) -> None:
        self.end()

    def end(self) -> NoReturn:
        self.finish()
        self.stop.end()

    def write(self) -> None:
        if self.stop.by_loss:
            self.clock.synchronize()
        self.loop.write()
        if self.idle:
            self.loop.write_losses()
        if self.loop.count <= 2 or time.monotonic() - self._memory_written_at >= MEMORY_SECONDS:
            self._write_memory()
        # Not in the first iteration, whose time is measured once only.
        due = self.loop_readings < 2 or time.monotonic() - self._loops_read_at >= LOOPS_SECONDS
        if due and self.loop.count > 1:
            self.guarded(self._write_length)()
        readings = {**queued_seconds(), **self._worker_seconds()}
        self.recorder.add("cpu", seconds=time.process_time(), n=self.loop.count, **readings)
        self.recorder.flush()

    def _worker_seconds(self) -> dict[str, float]:
        """The CPU time of workers if a reading is due, else nothing."""
        now = time.monotonic()
        if not worker_reading_due(self._worker_readings, now - self._workers_read_at):
            return {}
        found = worker_seconds()
        self._worker_readings, self._workers_read_at = self._worker_readings + bool(found), now
        return found

    def _write_length(self) -> None:
        """Record how long the program means to train, as its loops and its arguments say."""
        self._loops_read_at = time.monotonic()
        self.loop_readings += 1
        if self._loop_reader is None:
            self._loop_reader = importlib.import_module(f"{__package__}.loop_bounds").LoopReader()
        loops = self._loop_reader.read()
        if loops:
            self.recorder.add("loops", n=self.loop.count, loops=loops)
        if self.loop_readings == 1:
            values = importlib.import_module(f"{__package__}.arguments").read_arguments()
            self.recorder.add("arguments", values=values)

    def finish(self) -> None:
        """Write everything: at the stop, or when the program ends by itself."""
        if self._finished or self.muted:
            return
        self._report_first_call(None)
        if not self.loop.count:
            return
        self._finished = True
        if not self._facts_written:
            self.guarded(self.write_facts)()
        try:
            self.loop.finish()
            self._write_memory()
            self.write_final_facts()
        except Exception:  # noqa: BLE001 # a device that fails at exit must not hide the cause
            self.recorder.trouble(f"{self.framework}: finishing")
        self.recorder.add("stop" if self.stop.due(self.loop.count) else "exit")
        self.recorder.flush()

    def _write_memory(self) -> None:
        self._memory_written_at = time.monotonic()
        self.recorder.add("memory", host_bytes=peak_resident_bytes(), device_bytes=self.device_bytes())


PATH_OPTIONS = ("f", "filepath", "output_dir", "file_prefix", "path")
"""The names of the argument with the path, in the functions of all frameworks that save."""


def saved_path(args: Any, options: Any) -> str | None:
    """The path that a function saves to: its second argument, after the object that is saved, or a named one."""
    target = next((options[name] for name in PATH_OPTIONS if name in options), args[1] if len(args) > 1 else None)
    if not isinstance(target, os.PathLike):
        target = getattr(target, "name", target)  # an open file
    return os.path.abspath(os.fspath(target)) if isinstance(target, (str, os.PathLike)) else None  # see sitecustomize


def common_folder(paths: list[str | None]) -> str | None:
    """The folder with all of these files; None if there are none."""
    known = [path for path in paths if path is not None]
    return os.path.commonpath([os.path.dirname(path) for path in known]) if known else None  # as above


def find_loss(result: Any) -> Any:
    """The loss in the result of a training step: a scalar float, the first one in a tuple, or the one named loss in a
    dictionary; None if there is none."""
    if isinstance(result, dict):
        named = [value for name, value in result.items() if "loss" in str(name).lower()]
        return next(filter(_is_scalar_float, named), None)
    if isinstance(result, (tuple, list)):
        own = [value for value in result if _is_scalar_float(value)]
        if own:
            return own[0]
        nested = (find_loss(value) for value in result if isinstance(value, (dict, tuple, list)))
        return next((loss for loss in nested if loss is not None), None)
    return result if _is_scalar_float(result) else None


def _is_scalar_float(value: Any) -> bool:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return shape is not None and len(shape) == 0 and "float" in str(getattr(dtype, "name", dtype))


def evenly_spaced_ends(start: float, end: float, count: int) -> list[float]:
    """The ends of `count` iterations of equal length between two moments."""
    return [start + (end - start) * n / count for n in range(1, count)] + [end]


def peak_resident_bytes() -> int | None:
    """The peak resident memory of this process, from `VmHWM`: unlike `ru_maxrss` it does not include the process that
    was forked to start Python."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def queued_seconds() -> dict[str, float]:
    """The time in which the main thread was ready to run and another had the CPU; empty where it cannot be read."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as stat:
            return {"queued": int(stat.read().split()[1]) / 1e9}
    except (OSError, ValueError, IndexError):
        return {}


def worker_reading_due(readings: int, seconds_since: float) -> bool:
    """True if the CPU times of workers should be read again, after as many readings."""
    return readings < FIRST_WORKER_READINGS or seconds_since >= WORKERS_SECONDS


def worker_seconds() -> dict[str, float]:
    """The CPU time of the child processes, such as the workers of a loader, those that have ended included; empty where
    it cannot be read."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    children = list(getattr(multiprocessing, "_children", ()))
    if not children or not hasattr(os, "sysconf"):
        return {}
    try:
        ended = os.times()
        ticks = os.sysconf("SC_CLK_TCK")
        seconds = ended.children_user + ended.children_system
        for child in children:
            with open(f"/proc/{child.pid}/stat", encoding="ascii", errors="replace") as stat:
                after_name = stat.read().rpartition(")")[2].split()
            seconds += (int(after_name[11]) + int(after_name[12])) / ticks
    except (OSError, ValueError, IndexError):  # a worker has just ended
        return {}
    return {"workers": seconds}


def _imported_version(name: str) -> str | None:
    """The version of a module, if the program has imported it."""
    version = getattr(sys.modules.get(name), "__version__", None)
    return None if version is None else str(version).partition("+")[0]


def imported_versions(*names: str) -> dict[str, str]:
    """The versions of those of these modules that the program has imported."""
    found = {name: _imported_version(name) for name in names}
    return {name: version for name, version in found.items() if version}
