"""Starts the probe: reads what is wanted from the environment and waits for a framework to be imported."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop

EVENTS = "TRAINFARE_PROBE_EVENTS"
ITERATIONS = "TRAINFARE_PROBE_ITERATIONS"
OPERATIONS = "TRAINFARE_PROBE_OPERATIONS"
BY_LOSS = "TRAINFARE_PROBE_BY_LOSS"
GRADIENT_NOISE = "TRAINFARE_PROBE_GRADIENT_NOISE"
OPERATOR_TIMES = "TRAINFARE_PROBE_OPERATOR_TIMES"

LISTENERS = {
    "torch": "torch_hooks",
    "lightning.pytorch.trainer.trainer": "lightning_hooks",
    "pytorch_lightning.trainer.trainer": "lightning_hooks",
    "transformers.trainer": "transformers_hooks",
    "accelerate.accelerator": "accelerate_hooks",
    "keras": "keras_hooks",
    "tf_keras": "keras2_hooks",
    "tensorflow": "tensorflow_hooks",
    "jax": "jax_hooks",
    "optax": "jax_hooks",
}
"""The module whose import we wait for → our file that listens to it. A module inside a package is that of a library
which is built on a framework; it is not noted as one."""

ONLY_NOTED = ("paddle", "mxnet")
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
    by_loss = environ.get(BY_LOSS) == "1"
    also = {"gradient_noise": environ.get(GRADIENT_NOISE) == "1", "operator_times": environ.get(OPERATOR_TIMES) == "1"}

    def stop() -> Stop:
        """A new one for each loop: a forked child counts its own iterations."""
        fresh: Stop = sibling("stop").Stop(path, wanted, by_loss=by_loss, **also)
        return fresh

    place(recorder, stop, trace=trace)


def place(
    recorder: Recorder,
    stop: Callable[[], Stop],
    *,
    trace: bool,
    placed: Callable[[Any], None] = lambda _listener: None,
) -> Callable[[ModuleType], None]:
    """Wait for frameworks to be imported and listen to them; returns what then happens, for those that already are."""

    def imported(module: ModuleType) -> None:
        name = module.__name__
        note_import(recorder, module)
        if name not in LISTENERS:
            return
        closed, recorder.closed = recorder.closed, False  # between two measurements hooks are placed all the same
        try:
            placed(sibling(LISTENERS[name]).listen(module, recorder, stop=stop, trace=trace))
        except Exception:  # noqa: BLE001 # a framework that we misread must still train
            recorder.trouble(f"listening to {name}")
        finally:
            if closed:
                recorder.close()

    sibling("imports").after_import((*LISTENERS, *ONLY_NOTED), imported)
    os.register_at_fork(after_in_child=recorder.forget)
    return imported


def note_import(recorder: Recorder, module: ModuleType) -> None:
    if "." not in module.__name__:
        recorder.add("import", name=module.__name__, version=str(getattr(module, "__version__", "")))
        recorder.flush()


def sibling(name: str) -> ModuleType:
    """A file of this folder, under whatever name the folder was imported."""
    return importlib.import_module(f"{__package__}.{name}")
