"""Starts the probe: reads its options from the environment and waits for a framework to be imported."""

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
"""The module whose import is awaited → the file of the probe that hooks into it. A dotted name belongs to a library
that is built on a framework; its import is not recorded as that of a framework."""

UNSUPPORTED_FRAMEWORKS = ("paddle", "mxnet")
"""Frameworks without a listener. Their import is recorded because it explains why no iteration was seen."""


def start(environ: Mapping[str, str]) -> None:
    """Install the probe in this process; does nothing in a process that no profiler started."""
    path = environ.get(EVENTS)
    if not path:
        return
    recorder: Recorder = sibling("recorder").Recorder(path)
    recorder.add("python", version=platform.python_version(), argv=getattr(sys, "orig_argv", [])[:20])
    recorder.flush()
    iterations = int(environ.get(ITERATIONS, "0")) or None
    trace = environ.get(OPERATIONS, "1") == "1"
    by_loss = environ.get(BY_LOSS) == "1"
    extras = {
        "gradient_noise": environ.get(GRADIENT_NOISE) == "1",
        "operator_times": environ.get(OPERATOR_TIMES) == "1",
    }

    def new_stop() -> Stop:
        """A new Stop for each loop: a forked child counts its own iterations."""
        stop: Stop = sibling("stop").Stop(path, iterations, by_loss=by_loss, **extras)
        return stop

    install_hooks(recorder, new_stop, trace=trace)


def install_hooks(
    recorder: Recorder,
    new_stop: Callable[[], Stop],
    *,
    trace: bool,
    on_listener: Callable[[Any], None] = lambda _listener: None,
) -> Callable[[ModuleType], None]:
    """Hook into each framework once it is imported.

    Returns the function that is called with each imported module, to be used for modules that are imported already.
    `on_listener` gets each listener that was installed.
    """

    def imported(module: ModuleType) -> None:
        name = module.__name__
        note_import(recorder, module)
        if name not in LISTENERS:
            return
        closed, recorder.closed = recorder.closed, False  # hooks are also installed between two measurements
        try:
            on_listener(sibling(LISTENERS[name]).listen(module, recorder, new_stop=new_stop, trace=trace))
        except Exception:  # noqa: BLE001 # a framework that the probe does not understand must still train
            recorder.trouble(f"listening to {name}")
        finally:
            if closed:
                recorder.close()

    sibling("import_hooks").after_import((*LISTENERS, *UNSUPPORTED_FRAMEWORKS), imported)
    watch_arguments(recorder)
    os.register_at_fork(after_in_child=recorder.forget)
    return imported


def watch_arguments(recorder: Recorder) -> None:
    """Note the arguments that the program parses with argparse, now or once it is imported."""

    def watch(argparse: ModuleType) -> None:
        try:
            sibling("arguments").watch_argparse(argparse)
        except Exception:  # noqa: BLE001 # the program must train even if the probe fails
            recorder.trouble("watching arguments")

    if "argparse" in sys.modules:
        watch(sys.modules["argparse"])
    else:
        sibling("import_hooks").after_import(("argparse",), watch)


def note_import(recorder: Recorder, module: ModuleType) -> None:
    """Record the import of a framework; libraries on top of one, which have dotted names, are not recorded."""
    if "." not in module.__name__:
        recorder.add("import", name=module.__name__, version=str(getattr(module, "__version__", "")))
        recorder.flush()


def sibling(name: str) -> ModuleType:
    """A module of this folder, under whatever package name the folder was imported."""
    return importlib.import_module(f"{__package__}.{name}")
