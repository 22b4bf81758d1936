"""The hooks into accelerate, which divides the loss and saves all state in one call."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop


def listen(
    accelerate: ModuleType,
    recorder: Recorder,  # noqa: ARG001 # the listener of PyTorch records
    *,
    new_stop: Callable[[], Stop],  # noqa: ARG001 # the listener of PyTorch stops
    trace: bool,  # noqa: ARG001 # the listener of PyTorch traces
) -> None:
    """Install the hooks; `accelerate` is the module of the class `Accelerator`."""
    listener = importlib.import_module(f"{__package__}.torch_hooks").TorchListener.current
    if listener is None:
        return
    accelerator: Any = accelerate.Accelerator
    backward = accelerator.backward
    note_unscaled_loss = listener.guarded(listener.loss_scaled)

    @functools.wraps(backward)
    def watched(accelerator: Any, loss: Any, **options: Any) -> Any:
        note_unscaled_loss(loss)
        return backward(accelerator, loss, **options)

    accelerator.backward = watched
    accelerator.save_state = listener.timing_checkpoint(accelerator.save_state)
