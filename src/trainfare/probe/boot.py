"""Starts the probe: reads what is wanted from the environment and waits for a framework to be imported."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop

EVENTS = "TRAINFARE_PROBE_EVENTS"
ITERATIONS = "TRAINFARE_PROBE_ITERATIONS"
OPERATIONS = "TRAINFARE_PROBE_OPERATIONS"

LISTENERS = {"torch": "torch_hooks"}
"""The module whose import we wait for → our file that listens to it."""

ONLY_NOTED = ("tensorflow", "keras", "jax", "paddle", "mxnet")
"""Frameworks without a listener: that they were imported explains why no iteration was seen."""


def start(environ: Mapping[str, str]) -> None:
    """Nothing happens in a process that no profiler started."""
    path = environ.get(EVENTS)
    if not path:
        return
    recorder: Recorder = sibling("recorder").Recorder(path)
    recorder.add("python", version=platform.python_version(), argv=getattr(sys, "orig_argv", [])[:20])
    recorder.flush()
    wanted = int(environ.get(ITERATIONS, "0")) or None
    trace = environ.get(OPERATIONS, "1") == "1"

    def stop() -> Stop:
        """A new one for each loop: a forked child counts its own iterations."""
        fresh: Stop = sibling("stop").Stop(path, wanted)
        return fresh

    def imported(module: ModuleType) -> None:
        name = module.__name__
        recorder.add("import", name=name, version=str(getattr(module, "__version__", "")))
        recorder.flush()
        if name in LISTENERS:
            try:
                sibling(LISTENERS[name]).listen(module, recorder, stop=stop, trace=trace)
            except Exception:  # noqa: BLE001 # a framework that we misread must still train
                recorder.trouble(f"listening to {name}")

    sibling("imports").after_import((*LISTENERS, *ONLY_NOTED), imported)
    os.register_at_fork(after_in_child=recorder.forget)


def sibling(name: str) -> ModuleType:
    """A file of this folder, under whatever name the folder was imported."""
    return importlib.import_module(f"{__package__}.{name}")
