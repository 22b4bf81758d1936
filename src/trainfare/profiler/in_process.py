"""The probe in a process that asks for it in its own code, for the time of one measurement.

Hooks are placed at the first and stay; between two measurements they are silent, because the recorder is closed.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from trainfare.probe import boot
from trainfare.probe.recorder import Recorder
from trainfare.probe.stop import Stop


class Silenced(Exception):
    """Leaves the hook that is running; whatever guards it keeps it from the program."""


class Silence(Stop):
    """The end of measuring in a program that goes on."""

    ends_program = False

    def __init__(self, recorder: Recorder, path: str, iterations: int | None, enough: Callable[[], None]) -> None:
        super().__init__(path, iterations)
        self._recorder = recorder
        self._enough = enough

    def end(self) -> NoReturn:
        self._recorder.close()
        self._enough()
        raise Silenced


class Here:
    """One for the process."""

    def __init__(self) -> None:
        self._recorder = Recorder("")
        self._recorder.close()
        self._path = ""
        self._wanted: int | None = None
        self._enough: Callable[[], None] = lambda: None
        self._listeners: list[Any] = []
        self._placed = False
        self.busy = False

    def place(self) -> None:
        """The hooks, which stay silent until a measurement begins. One that begins inside a `fit` needs them before."""
        if not self._placed:
            self._placed = True
            imported = boot.place(self._recorder, self._stop, trace=True, placed=self._place)
            for module in _known_modules():
                imported(module)

    def begin(self, path: str, iterations: int, enough: Callable[[], None]) -> None:
        """`enough` is called once so many iterations were seen, from the hook that saw the last."""
        self.place()
        self.busy, self._path, self._wanted, self._enough = True, path, iterations, enough
        self._recorder.open(path)
        for listener in self._listeners:
            listener.begin()
        for module in _known_modules():
            boot.note_import(self._recorder, module)

    def end(self) -> None:
        if not self._recorder.closed:
            for listener in self._listeners:
                listener.finish()
            self._recorder.flush()
        self._recorder.close()
        self.busy = False

    def _place(self, listener: Any) -> None:
        if hasattr(listener, "begin"):  # one that only adds to what another sees has no state
            self._listeners.append(listener)
        if hasattr(listener, "come_late"):
            listener.come_late()

    def _stop(self) -> Stop:
        return Silence(self._recorder, self._path, self._wanted, self._enough)


def _known_modules() -> list[ModuleType]:
    """Those of frameworks that the program has imported."""
    return [sys.modules[name] for name in (*boot.LISTENERS, *boot.ONLY_NOTED) if name in sys.modules]


HERE = Here()
