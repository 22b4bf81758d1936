"""What a PyTorch model is given: the shape of its first input in training, which tells batch size and tokens.

The outermost module is the first one that is called. A global hook sees that call and is removed in it, before the
modules inside are called, so no iteration pays for it. A compiled module gets a hook of its own instead, because
`torch.compile` warns of global hooks. If the program or a library compiles a function, or a module in place, whichever
is called first tells: a module that is not compiled, or that function, by the first tensor among its arguments that
needs no gradient. Functions that only see activations or gradients, such as a compiled attention or a compiled update
of the optimizer, tell nothing.
"""

from __future__ import annotations

import functools
import sys
import weakref
from types import CellType, FunctionType
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
        self._started = False
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
            watching = compiled(made, args[0] if args else options.get("model"))
            return made if watching is None else watching

        torch.compile = watched

    def _compiled(self, made: Any, given: Any) -> Any:
        """Watch what was compiled; the function to use instead of it, or None."""
        if given is None or self.facts:
            return None  # a decorator, which will call torch.compile with the function
        if isinstance(made, self._torch.nn.Module):
            self.stop()
            self._compiles = True
            self._handle = made.register_forward_pre_hook(self._compiled_called, with_kwargs=True)
        elif isinstance(made, FunctionType):
            return self._watching(made, given)
        return None

    def _watching(self, made: Any, given: Any) -> Any:
        """The compiled function, which also tells what it is given until that is known."""
        is_compiling = _compiling_test(self._torch)
        seen = self._guarded(self._function_called)

        @functools.wraps(made)
        def watched(*args: Any, **options: Any) -> Any:
            # Inside another compiled function the first condition is a constant, and the rest is not traced.
            if not is_compiling() and self._started and not self.facts:
                seen(given, args, options)
            return made(*args, **options)

        return watched

    def _function_called(self, given: Any, args: Any, options: dict[str, Any]) -> None:
        values = [*args, *options.values()]
        values += [each for value in values for each in _parts(value)]
        module = next((value for value in values if isinstance(value, self._torch.nn.Module)), None)
        module = self._module_of(given) if module is None else module
        if not self._torch.is_grad_enabled() or not (module is None or module.training):
            return
        data = [v for v in values if isinstance(v, self._torch.Tensor) and v.dim() and not v.requires_grad]
        if data:
            self.stop()  # before its modules are traced
            self._module_called(module, data, options)

    def _module_of(self, function: Any) -> Any:
        """The module whose method it is, or that it uses by its name."""
        owner = getattr(function, "__self__", None)
        code = getattr(function, "__code__", None)
        names = getattr(function, "__globals__", {})
        used = [] if code is None else [names.get(name) for name in code.co_names]
        cells = getattr(function, "__closure__", None) or ()
        used += [cell.cell_contents for cell in cells if cell != CellType()]  # an empty cell has no contents
        return next((each for each in (owner, *used) if isinstance(each, self._torch.nn.Module)), None)

    def _compiled_called(self, module: Any, args: Any, options: Any) -> None:
        self.stop()
        self._called(module, args, options)

    def start(self) -> None:
        """Watch from now on; called when the program makes its first optimizer."""
        self._started = True
        if self.facts or self._handle is not None or self._compiles:
            return
        trains = self._guarded(lambda module: module.training and next(module.parameters(), None) is not None)
        is_compiling = _compiling_test(self._torch)

        def called(module: Any, args: Any) -> None:
            if not is_compiling() and trains(module):
                self.stop()
                self._called(module, args, _keywords())

        self._handle = self._torch.nn.modules.module.register_module_forward_pre_hook(called)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _module_called(self, module: Any, args: Any, options: dict[str, Any] | None) -> None:
        if module is not None:
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
        if (
            module is None
            or not integer
            or tensor.dim() != 2
            or min(tensor.shape) < 1
            or max(tensor.shape) < MIN_TOKENS
        ):
            return False
        embeddings = sum(isinstance(part, self._torch.nn.Embedding) for part in module.modules())
        return 0 < embeddings <= MAX_EMBEDDINGS


def _compiling_test(torch: Any) -> Callable[[], bool]:
    """PyTorch's test for code that is being compiled, which the compiler itself knows as a constant."""
    found: Callable[[], bool] | None = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return found or (lambda: False)


def _parts(value: Any) -> list[Any]:
    """The values of a batch that is a dictionary, a list or a tuple."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []


def _keywords() -> dict[str, Any] | None:
    """The keyword arguments of the module call: a global hook does not get them, but its callers have them."""
    frame: Any = sys._getframe(2)  # noqa: SLF001 # the only way to the callers
    for _ in range(3):
        if frame is None:
            return None
        found = frame.f_locals.get("kwargs")
        if isinstance(found, dict):
            return found
        frame = frame.f_back
    return None
