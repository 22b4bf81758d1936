"""What accelerate does around the loop that PyTorch shows: it divides the loss, and saves all state at once."""

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
    recorder: Recorder,  # noqa: ARG001 # PyTorch's listener records
    *,
    stop: Callable[[], Stop],  # noqa: ARG001 # and stops
    trace: bool,  # noqa: ARG001 # and traces
) -> None:
    """`accelerate` is the module of the class `Accelerator`."""
    listener = importlib.import_module(f"{__package__}.torch_hooks").Listener.current
    if listener is None:
        return
    accelerator: Any = accelerate.Accelerator
    backward = accelerator.backward
    whole = listener.guarded(listener.loss_scaled)

    @functools.wraps(backward)
    def watched(accelerator: Any, loss: Any, **options: Any) -> Any:
        whole(loss)
        return backward(accelerator, loss, **options)

    accelerator.backward = watched
    accelerator.save_state = listener.saving(accelerator.save_state)
