"""Facts read from the objects of Keras: model, optimizer, learning rate, data, losses, device."""

# ruff: noqa: SLF001 # Keras has no public name for the parts of an optimizer and of a data adapter
from __future__ import annotations

import importlib
import math
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

MAX_PLANNED_EPOCHS = 1000
"""The learning rate is computed for at most this many epochs; each takes about 0.2 ms."""


class RunningMean:
    """The mean loss of an epoch up to a batch, from which the loss of that batch, or of a few, is computed."""

    __slots__ = ("_previous", "_raw", "_sample_count", "_samples", "_value")

    def __init__(self, raw: Any, samples: int, previous: RunningMean | None) -> None:
        self._raw = raw
        self._samples = samples
        self._previous = previous
        self._sample_count: int = samples + (previous._sample_count if previous is not None else 0)
        self._value: float | None = None

    def mean(self, read: Callable[[Any], float | None]) -> float | None:
        if self._raw is not None:
            self._value, self._raw = read(self._raw), None
        return self._value

    def last_batch_loss(self, read: Callable[[Any], float | None]) -> float | None:
        mean, previous = self.mean(read), self._previous
        if previous is None or mean is None:
            return mean
        earlier, self._previous = previous.mean(read), None
        if earlier is None:
            return None
        return earlier + (mean - earlier) * self._sample_count / self._samples


class SchedulePlan:
    """The arguments with which a learning-rate schedule is evaluated, read when the first epoch begins."""

    __slots__ = ("epochs", "first_epoch", "length", "steps_before")

    def __init__(self, fit: Any, length: int | None, steps_before: int) -> None:
        self.epochs = fit.epochs
        self.first_epoch = fit.first_epoch
        self.length = length
        self.steps_before = steps_before


def inner_optimizer(optimizer: Any) -> Any:
    """The optimizer inside a `LossScaleOptimizer`; any other optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def rate_of(model: Any) -> Any:
    """The learning rate of the model's optimizer: a variable or a schedule."""
    optimizer = inner_optimizer(getattr(model, "optimizer", None))
    rate = getattr(optimizer, "_learning_rate", None)
    return getattr(optimizer, "learning_rate", None) if rate is None else rate


def is_schedule(rate: Any) -> bool:
    return callable(rate) and not hasattr(rate, "assign")


def replay_schedule(schedule: Any, plan: SchedulePlan, rate: float | None) -> list[float | None]:
    """The rates of all epochs by the function of a `LearningRateScheduler`, if it is pure; the program itself has
    called it for the first epoch."""
    is_pure = importlib.import_module(f"{__package__}.pure").is_pure
    if rate is None or not isinstance(schedule, types.FunctionType) or not is_pure(schedule):
        return []
    rates: list[float | None] = [rate]
    takes_rate = schedule.__code__.co_argcount > 1
    for epoch in range(plan.first_epoch + 1, plan.first_epoch + min(plan.epochs, MAX_PLANNED_EPOCHS)):
        rate = float(schedule(epoch, rate) if takes_rate else schedule(epoch))
        rates.append(rate)
    return rates


def overrides_train_step(model: Any, keras: ModuleType) -> bool:
    return type(model).train_step is not keras.Model.train_step


def epoch_iterator_facts(iterator: Any) -> dict[str, Any]:
    """Batch size, samples and length of the data of an `EpochIterator`, or of its `tf.data` pipeline."""
    adapter = iterator.data_adapter
    size = adapter.batch_size or getattr(adapter, "_trainfare_size", None)
    length, samples = iterator.num_batches, None
    dataset = getattr(adapter, "_dataset", None)
    if dataset is not None and hasattr(dataset, "element_spec"):
        hooks = importlib.import_module(f"{__package__}.tensorflow_hooks")
        size, samples = hooks.dataset_batching(dataset, size)
    elif size and length and adapter.num_batches == length:
        samples = _samples(adapter, length, size)
    return {"batch_size": None if size is None else int(size), "samples": samples, "length": length}


def _samples(adapter: Any, length: int, size: int) -> int | None:
    """The samples of an epoch; None unless the adapter knows the size of its last batch."""
    try:
        if adapter.has_partial_batch is None:
            return None
        return (length - 1) * size + (adapter.partial_batch_size or size)
    except NotImplementedError:  # the adapter does not know
        return None


def leading_dimension(batch: Any) -> int | None:
    """The first dimension of the first array in a batch of arrays in tuples, lists and dictionaries."""
    while isinstance(batch, (tuple, list, dict)) and batch:
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if shape else None


def number(value: Any) -> float | None:
    """The value as a finite float, which JSON can hold; else None."""
    try:
        number = float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def itemsize(dtype: Any) -> int:
    name = str(dtype)
    bits = next((int(part) for part in ("128", "64", "32", "16", "8") if part in name), 8)
    return bits // 8


def device_facts(backend: str) -> dict[str, Any]:
    hooks = {"tensorflow": "tensorflow_hooks", "jax": "jax_hooks"}.get(backend)
    if hooks is not None:
        facts: dict[str, Any] = importlib.import_module(f"{__package__}.{hooks}").device_facts()
        return facts
    torch: Any = sys.modules["torch"]
    device = str(importlib.import_module("keras.src.backend.torch.core").get_device()).partition(":")[0]
    cuda = device == "cuda"
    gpu = torch.cuda.get_device_name() if cuda else None
    return {"device": device, "gpu": gpu, "gpus": torch.cuda.device_count() if cuda else 0}


def tokens_per_sample(model: Any) -> int | None:
    """The length of the sequences that a model with an embedding is given; None if it is none, or of any length."""
    inputs = getattr(model, "inputs", None) or []
    shape = tuple(inputs[0].shape) if isinstance(inputs, (list, tuple)) and inputs else ()
    layers = getattr(model, "layers", None) or []
    embeds = any("Embedding" in type(layer).__name__ for layer in layers)
    return int(shape[1]) if embeds and len(shape) == 2 and shape[1] else None


def device_bytes(backend: str) -> int | None:
    if backend == "torch":
        return int(sys.modules["torch"].cuda.max_memory_allocated())
    found: int | None = importlib.import_module(f"{__package__}.{backend}_hooks").device_bytes()
    return found
