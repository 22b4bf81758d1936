"""Calls a function once a module has been imported; never imports a module itself."""

from __future__ import annotations

import importlib.machinery
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType


def after_import(names: Iterable[str], callback: Callable[[ModuleType], None]) -> None:
    """Call `callback` with each of these modules after it was imported for the first time."""
    sys.meta_path.insert(0, _Finder(set(names), callback))


class _Finder:
    """A meta-path finder that lets the other finders look and watches the loader that they return."""

    def __init__(self, names: set[str], callback: Callable[[ModuleType], None]) -> None:
        self._names = names
        self._callback = callback

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._names:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:  # a folder without code that has the name of a framework
            return

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            if module.__name__ in self._names:
                self._names.discard(module.__name__)
                self._callback(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader with slots, or written in C: the module is not watched
            return
