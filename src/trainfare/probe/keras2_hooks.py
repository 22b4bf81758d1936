"""The hooks into Keras 2: the package `tf_keras`, which is `tf.keras` if `TF_USE_LEGACY_KERAS=1`.

`fit`, callbacks and validation are those of Keras 3 (`keras_hooks.py`); the data adapters and the optimizers differ.
"""

# ruff: noqa: SLF001 # Keras has no public name for the state of `fit`
from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe.keras_facts import leading_dimension
    from trainfare.probe.keras_hooks import KerasListener, install_keras_hooks
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
else:
    _keras_hooks = importlib.import_module(f"{__package__}.keras_hooks")
    KerasListener, install_keras_hooks = _keras_hooks.KerasListener, _keras_hooks.install_keras_hooks
    leading_dimension = importlib.import_module(f"{__package__}.keras_facts").leading_dimension


def listen(keras: ModuleType, recorder: Recorder, *, new_stop: Callable[[], Stop], trace: bool) -> KerasListener:
    """Install the hooks; called once tf_keras has been imported."""
    return install_keras_hooks(Keras2Listener(keras, recorder, new_stop=new_stop, trace=trace))


class Keras2Listener(KerasListener):
    """Updates a Loop from the hooks into Keras 2."""

    @property
    def backend(self) -> str:
        return "tensorflow"

    def watch_data(self) -> None:
        adapters: Any = importlib.import_module("tf_keras.src.engine.data_adapter")
        handlers = adapters.DataHandler
        handlers.__init__ = self.noting_data(handlers.__init__)

        generators = adapters.GeneratorDataAdapter
        standardize = generators._standardize_batch

        @functools.wraps(standardize)
        def watched(adapter: Any, batch: Any) -> Any:
            if not hasattr(adapter, "_trainfare_size"):
                adapter._trainfare_size = leading_dimension(batch)
            return standardize(adapter, batch)

        generators._standardize_batch = watched

    def watch_updates(self) -> None:
        for module, name in (("optimizer", "_BaseOptimizer"), ("legacy.optimizer_v2", "OptimizerV2")):
            optimizers: Any = getattr(importlib.import_module(f"tf_keras.src.optimizers.{module}"), name)
            optimizers.apply_gradients = self.notifying_backend(_remembering_variables(optimizers.apply_gradients))

    def data_facts(self, iterator: Any) -> dict[str, Any]:
        adapter, length = iterator._adapter, iterator.inferred_steps
        size, samples = adapter.batch_size(), None
        dataset = getattr(adapter, "_dataset", None)
        if size is None and hasattr(dataset, "element_spec"):
            size, samples = importlib.import_module(f"{__package__}.tensorflow_hooks").dataset_batching(dataset, None)
        elif size and length and adapter.get_size() == length:
            samples = (length - 1) * size + (adapter.partial_batch_size() or size)
        size = size or getattr(adapter, "_trainfare_size", None)
        return {"batch_size": None if size is None else int(size), "samples": samples, "length": length}

    def first_batch_size(self) -> int | None:
        return getattr(self._data._adapter, "_trainfare_size", None)

    def number(self, value: Any) -> float | None:
        return float(value)


def _remembering_variables(apply: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which also notes the variables that it trains: an optimizer of Keras 2 does not keep them."""

    @functools.wraps(apply)
    def watched(optimizer: Any, grads_and_vars: Any, *args: Any, **options: Any) -> Any:
        pairs = list(grads_and_vars)  # it may be a `zip`, which can be read only once
        if not hasattr(optimizer, "_trainfare_variables"):
            # The class's own __setattr__ would save them in checkpoints.
            object.__setattr__(optimizer, "_trainfare_variables", [variable for _, variable in pairs])
        return apply(optimizer, pairs, *args, **options)

    return watched
