"""What a PyTorch model is given: the shape of its first input in training, which tells batch size and tokens.

The outermost module is the first one that is called. A global hook sees that call and is removed in it, before the
modules inside are called, so no iteration pays for it. A compiled module gets a hook of its own instead, because
`torch.compile` warns of global hooks; if the program compiles functions, nothing is watched.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

MAX_EMBEDDINGS = 8
"""A language model has few embeddings; a model of tables has one for each column."""
MIN_TOKENS = 4
"""A row of fewer integers is not taken for a text."""


class ModelInput:
    """Watches for the first call of a module that trains."""

    def __init__(self, torch: ModuleType, guarded: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._torch = torch
        self._guarded = guarded
        self._called = guarded(self._module_called)
        self._handle: Any = None
        self._compiles = False
        self.facts: dict[str, Any] = {}
        """The facts of the `input` event; empty until a module was called."""
        self.module: Any = lambda: None
        """A weak reference to that module."""

    def watch_compile(self) -> None:
        torch: Any = self._torch
        compiler = getattr(torch, "compile", None)
        if compiler is None:
            return
        compiled = self._guarded(self._compiled)

        @functools.wraps(compiler)
        def watched(*args: Any, **options: Any) -> Any:
            made = compiler(*args, **options)
            compiled(made)
            return made

        torch.compile = watched

    def _compiled(self, made: Any) -> None:
        self.stop()
        self._compiles = True
        if isinstance(made, self._torch.nn.Module) and not self.facts:
            self._handle = made.register_forward_pre_hook(self._compiled_called, with_kwargs=True)

    def _compiled_called(self, module: Any, args: Any, options: Any) -> None:
        self.stop()
        self._called(module, args, options)

    def start(self) -> None:
        """Watch from now on; called when the program makes its first optimizer."""
        if self.facts or self._handle is not None or self._compiles:
            return
        trains = self._guarded(lambda module: module.training and next(module.parameters(), None) is not None)

        def called(module: Any, args: Any) -> None:
            if trains(module):
                self.stop()
                self._called(module, args, _keywords())

        self._handle = self._torch.nn.modules.module.register_module_forward_pre_hook(called)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _module_called(self, module: Any, args: Any, options: dict[str, Any] | None) -> None:
        self.module = weakref.ref(module)
        options = options or {}
        tensors = [value for value in (*args, *options.values()) if isinstance(value, self._torch.Tensor)]
        ids = options.get("input_ids")
        nested = next((a for a in args if isinstance(a, dict) and "input_ids" in a), None)
        ids = nested["input_ids"] if ids is None and nested is not None else ids
        first = ids if ids is not None else next((tensor for tensor in tensors if tensor.dim()), None)
        if first is None or not first.dim():
            return
        self.facts = {
            "shape": [int(size) for size in first.shape[:4]],
            "tokens": ids is not None or self._is_text(module, first),
        }

    def _is_text(self, module: Any, tensor: Any) -> bool:
        """Integers in two dimensions that go into an embedding."""
        integer = not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype is not self._torch.bool
        if not integer or tensor.dim() != 2 or min(tensor.shape) < 1 or max(tensor.shape) < MIN_TOKENS:
            return False
        embeddings = sum(isinstance(part, self._torch.nn.Embedding) for part in module.modules())
        return 0 < embeddings <= MAX_EMBEDDINGS


def _keywords() -> dict[str, Any] | None:
    """The keyword arguments of the module call: a global hook does not get them, but its callers have them."""
    frame: Any = sys._getframe(2)  # noqa: SLF001 # as above
    for _ in range(3):
        if frame is None:
            return None
        found = frame.f_locals.get("kwargs")
        if isinstance(found, dict):
            return found
        frame = frame.f_back
    return None
