"""The operations of one step of a Keras model, on any backend.

On TensorFlow and JAX they are read from what the backend has compiled, when measuring is over. On PyTorch operators are
seen only as they run: in one more iteration, or in an early one if the number of iterations is not known.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainfare.probe.loop import Loop
    from trainfare.probe.recorder import Recorder

TRACE_AFTER = 5
"""Iterations before the traced one, if the number of iterations to measure is not known: by then libraries are loaded
and memory is allocated."""


class KerasOperations:
    """Traces one iteration on PyTorch, or reads the compiled step on the other backends."""

    def __init__(self, backend: str, recorder: Recorder, loop: Loop, *, trace: bool) -> None:
        self._backend = backend
        self._recorder = recorder
        self._loop = loop
        self._pending = trace
        self._tracer: Any = None
        self._model: Any = lambda: None
        self._batch_size: int | None = None

    def set_model(self, model: Any, batch_size: int | None) -> None:
        """Note the model that is trained by a weak reference: it may be deleted before measuring ends."""
        self._model, self._batch_size = weakref.ref(model), batch_size

    @property
    def tracing(self) -> bool:
        return self._tracer is not None

    def begin(self) -> bool:
        """Begin to trace; False if the next iteration is not traced."""
        if not self._pending or self._backend != "torch":
            return False
        self._pending = False
        operations: Any = importlib.import_module(f"{__package__}.torch_operations")
        try:
            self._tracer = operations.Tracer(sys.modules["torch"], lambda: not self._loop.evaluating)
            self._tracer.enter()
        except Exception:  # noqa: BLE001 # the times are measured: continue without the operations
            self._recorder.trouble("keras: tracing")
            self._tracer = None
        return self._tracer is not None

    def begin_early(self) -> None:
        if self._loop.count >= TRACE_AFTER and not self._loop.near_pass_end:
            self.begin()

    def end(self) -> None:
        tracer, self._tracer = self._tracer, None
        try:
            self._recorder.add("operations", **tracer.leave())
        except Exception:  # noqa: BLE001 # the times are measured: continue without the operations
            self._recorder.trouble("keras: tracing")

    def write(self) -> None:
        """Record the operations of backends that need no iteration of their own."""
        model = self._model()
        if not self._pending or self._backend not in ("tensorflow", "jax") or model is None:
            return
        self._recorder.flush()  # reading them may take seconds
        operations: Any = importlib.import_module(f"{__package__}.{self._backend}_operations")
        operations.write_keras(self._recorder, model, self._batch_size)
