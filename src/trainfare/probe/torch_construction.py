"""Counts the parameters and optimizers that a PyTorch program makes before its first iteration.

A model that is too large for its machine never ends a first iteration: these counts are all that can be known of it.
They are written while the model is made, from the hooks themselves; there is no thread of ours in the program. The
hooks are removed at the first iteration.
"""

# ruff: noqa: SLF001 # PyTorch has no public name for the parameters that a module holds itself
from __future__ import annotations

import functools
import importlib
import time
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trainfare.probe.recorder import Recorder

WRITE_SECONDS = 0.5
"""Time between two counts while modules are made; a count takes about a microsecond per parameter tensor."""

EAGER_WRITES = 20
"""Optimizers after which a count is written at once; a program may make one optimizer per layer."""

STATE_TENSORS = {
    "adam": 2.0, "adamw": 2.0, "nadam": 2.0, "radam": 2.0, "adamax": 2.0, "adadelta": 2.0, "lamb": 2.0,
    "fusedadam": 2.0, "deepspeedcpuadam": 2.0, "adagrad": 1.0, "asgd": 1.0, "rprop": 2.0, "lion": 1.0, "muon": 1.0,
}  # fmt: skip
"""Tensors of the size of the parameters that an optimizer keeps, by the name of its class."""


class Construction:
    """Writes a `construction` event with the counts so far, now and then and whenever an optimizer is made."""

    def __init__(self, recorder: Recorder, guarded: Callable[..., Any]) -> None:
        self._recorder = recorder
        self._modules: dict[int, Any] = {}
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._optimizer_writes = 0
        self._written_at = time.monotonic()
        modules: Any = importlib.import_module("torch.nn.modules.module")
        registered = guarded(self._parameter_registered)
        register = getattr(modules, "register_module_parameter_registration_hook", None)  # since PyTorch 2.0
        # A hook that returns a tensor replaces the parameter: ours returns None.
        self._handle = register and register(lambda module, _name, _parameter: registered(module))
        optimizer: Any = importlib.import_module("torch.optim.optimizer").Optimizer
        self._original = add = optimizer.add_param_group
        added = guarded(self._group_added)

        @functools.wraps(add)
        def add_param_group(one: Any, *args: Any, **options: Any) -> Any:
            result = add(one, *args, **options)
            added(one)
            return result

        self._patched = optimizer.add_param_group = add_param_group
        self._optimizer_class = optimizer

    def end(self) -> list[Any]:
        """Remove the hooks; returns references to the modules with parameters. A second call has no effect."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        if self._optimizer_class.__dict__.get("add_param_group") is self._patched:
            self._optimizer_class.add_param_group = self._original
        references = list(self._modules.values())
        self._modules.clear()
        return references

    def write(self) -> None:
        """Record the counts so far."""
        self._written_at = time.monotonic()
        weights = list(self._tensors())
        trainable = [tensor for tensor in weights if tensor.requires_grad]
        optimizers = list(self._optimizers)
        self._recorder.add(
            "construction",
            parameters=sum(int(tensor.numel()) for tensor in weights),
            trainable_parameters=sum(int(tensor.numel()) for tensor in trainable),
            host_weight_bytes=sum(map(_host_bytes, weights)),
            host_gradient_bytes=sum(map(_host_bytes, trainable)),
            optimizer=type(optimizers[0]).__name__ if optimizers else None,
            optimizers=len(optimizers),
            host_optimizer_bytes=sum(map(_state_bytes, optimizers)),
        )
        self._recorder.flush()

    def _parameter_registered(self, module: Any) -> None:
        known = self._modules.get(id(module))
        if known is None or known() is not module:
            self._modules[id(module)] = weakref.ref(module)
        if time.monotonic() - self._written_at >= WRITE_SECONDS:
            self.write()

    def _group_added(self, optimizer: Any) -> None:
        self._optimizers.add(optimizer)
        self._optimizer_writes += 1
        if self._optimizer_writes <= EAGER_WRITES or time.monotonic() - self._written_at >= WRITE_SECONDS:
            self.write()

    def _tensors(self) -> Iterator[Any]:
        """Every parameter once: of the modules, and those that only an optimizer has."""
        seen: set[int] = set()
        for tensor in (*_parameters_of(self._modules.values()), *_grouped(self._optimizers)):
            if id(tensor) not in seen and _is_initialized(tensor):
                seen.add(id(tensor))
                yield tensor


def _parameters_of(modules: Iterable[Any]) -> Iterator[Any]:
    for reference in list(modules):
        module = reference()
        if module is not None:
            yield from (tensor for tensor in list(module._parameters.values()) if tensor is not None)


def _grouped(optimizers: Iterable[Any]) -> Iterator[Any]:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]


def _is_initialized(tensor: Any) -> bool:
    """False for the parameter of a lazy module, which has no shape yet."""
    return type(tensor).__name__ not in ("UninitializedParameter", "UninitializedBuffer")


def _host_bytes(tensor: Any) -> int:
    """The bytes in the memory of the host; 0 on a GPU, and on the `meta` device, which has no memory."""
    return int(tensor.numel() * tensor.element_size()) if tensor.device.type == "cpu" else 0


def _state_bytes(optimizer: Any) -> int:
    """The bytes of state that the optimizer will keep; 0 if that is unknown."""
    name, defaults = type(optimizer).__name__.lower(), getattr(optimizer, "defaults", {})
    if name in ("sgd", "rmsprop"):
        tensors = float(bool(defaults.get("momentum"))) + (name == "rmsprop") + bool(defaults.get("centered"))
    else:
        tensors = STATE_TENSORS.get(name, 0.0) + bool(defaults.get("amsgrad"))
    return int(tensors * sum(_host_bytes(tensor) for tensor in _grouped([optimizer]) if tensor.requires_grad))
