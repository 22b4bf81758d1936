"""The probe in a process that starts it in its own code, for one measurement at a time.

The hooks are installed at the first measurement and stay. Between two measurements they do nothing, because the
recorder is closed.
"""

import math
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from trainfare.probe import boot
from trainfare.probe.recorder import Recorder
from trainfare.probe.stop import Stop


class MeasuringEndedError(Exception):
    """Leaves the running hook; the guard around the hook keeps it from the program."""


class SilentStop(Stop):
    """Ends the measuring of a program that goes on, at the first end of an iteration after the deadline too."""

    ends_program = False

    def __init__(
        self,
        recorder: Recorder,
        path: str,
        iterations: int | None,
        on_end: Callable[[], None],
        deadline: float = math.inf,
    ) -> None:
        super().__init__(path, iterations)
        self._deadline = deadline
        self._recorder = recorder
        self._on_end = on_end

    def due(self, iterations: int) -> bool:
        if iterations > 1 and time.monotonic() >= self._deadline:  # a profile needs two iterations
            self._due = True
        return super().due(iterations)

    @property
    def not_before(self) -> tuple[float, float]:
        moment, count = super().not_before
        return min(moment, self._deadline), count

    def end(self) -> NoReturn:
        self._recorder.close()
        self._on_end()
        raise MeasuringEndedError


class InProcessProbe:
    """The probe in this process; there is one, `IN_PROCESS_PROBE`."""

    def __init__(self) -> None:
        self._recorder = Recorder("")
        self._recorder.close()
        self._path = ""
        self._iterations: int | None = None
        self._deadline = math.inf
        self._on_end: Callable[[], None] = lambda: None
        self._listeners: list[Any] = []
        self._installed = False
        self.busy = False

    def install(self) -> None:
        """Install the hooks, which do nothing until a measurement begins.

        A measurement that begins inside a `fit` needs them before that `fit`.
        """
        if not self._installed:
            self._installed = True
            imported = boot.install_hooks(self._recorder, self._new_stop, trace=True, on_listener=self._add_listener)
            for module in _imported_frameworks():
                imported(module)

    def begin(
        self, path: str, iterations: int, on_end: Callable[[], None], *, max_seconds: float | None = None
    ) -> None:
        """Write events to `path`; `on_end` is called after that many iterations, from the hook that saw the last.

        `max_seconds` ends it after fewer, with the iteration in which the time is up: the program is never interrupted.
        """
        self.install()
        self._deadline = math.inf if max_seconds is None else time.monotonic() + max_seconds
        self.busy, self._path, self._iterations, self._on_end = True, path, iterations, on_end
        self._recorder.open(path)
        for listener in self._listeners:
            listener.begin()
        for module in _imported_frameworks():
            boot.note_import(self._recorder, module)

    def end(self) -> None:
        if not self._recorder.closed:
            for listener in self._listeners:
                listener.finish()
            self._recorder.flush()
        self._recorder.close()
        self.busy = False

    def _add_listener(self, listener: Any) -> None:
        if hasattr(listener, "begin"):  # the hooks into a library on top of a framework have no state
            self._listeners.append(listener)
        if hasattr(listener, "assume_started"):
            listener.assume_started()

    def _new_stop(self) -> Stop:
        return SilentStop(self._recorder, self._path, self._iterations, self._on_end, self._deadline)


def _imported_frameworks() -> list[ModuleType]:
    """The modules of frameworks that the program has imported."""
    names = (*boot.LISTENERS, *boot.UNSUPPORTED_FRAMEWORKS)
    return [sys.modules[name] for name in names if name in sys.modules]


IN_PROCESS_PROBE = InProcessProbe()
