"""The hooks into training loops over `tf.GradientTape`; `keras_hooks.py` handles `Model.fit`.

step boundary     `Optimizer.apply` of Keras, which notifies this listener. Inside a `tf.function` no Python runs at
                  each call: there it is the end of the outermost call of a function that applied an optimizer while
                  it was traced
steps of a call   the optimizer's own count: a function may contain the whole loop
loss              the target of `GradientTape.gradient`, or what the function returns
data, waits       the iterator of a `tf.data.Dataset`; a pass in which nothing is applied is a validation
operations        `tensorflow_operations.py`, from the graphs of these functions
checkpoints       `tf.train.Checkpoint.save` and `write`
"""

# ruff: noqa: SLF001 # TensorFlow has no public name for how a data set was batched
from __future__ import annotations

import functools
import importlib
import math
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe.listener import Listener, find_loss, imported_versions
    from trainfare.probe.loop import DataPass
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
else:
    _listener = importlib.import_module(f"{__package__}.listener")
    Listener, find_loss, imported_versions = _listener.Listener, _listener.find_loss, _listener.imported_versions

MAX_ROUNDS_WITHOUT_FIRST = 20
"""After this many updates by other optimizers, the optimizer that ended the iterations is taken to be out of use."""


def listen(
    tensorflow: ModuleType, recorder: Recorder, *, new_stop: Callable[[], Stop], trace: bool
) -> TensorflowListener:
    """Install the hooks; called once tensorflow has been imported."""
    listener = TensorflowListener(tensorflow, recorder, new_stop=new_stop, trace=trace)
    TensorflowListener.current = listener
    listener.install(listener.watch_functions, listener.watch_tapes, listener.watch_datasets, listener.watch_saves)
    return listener


def optimizer_applied(optimizer: Any) -> None:
    """Called by the hooks into Keras when an optimizer was applied outside `fit`."""
    if TensorflowListener.current is not None:
        TensorflowListener.current.optimizer_applied(optimizer)


class TensorflowListener(Listener):
    """Updates a Loop from the hooks into TensorFlow."""

    framework = "tensorflow"
    current: TensorflowListener | None = None

    def begin(self) -> None:
        super().begin()
        self._called_function: Any = None
        self._traced_update = False
        self._training_functions: weakref.WeakSet[Any] = weakref.WeakSet()
        self._boundary_optimizer: Any = None
        self._other_steps = 0
        self._applied_count = 0
        self._loss: Any = None
        self._gpu: bool | None = None

    # Installing the hooks.

    def watch_functions(self) -> None:
        path = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
        functions: Any = importlib.import_module(path).Function
        call = functions.__call__
        began, ended = self.guarded(self._call_began), self.guarded(self._call_ended)

        @functools.wraps(call)
        def watched(function: Any, *args: Any, **options: Any) -> Any:
            begun = None if self._called_function is not None else began(function)
            if begun is None:
                return call(function, *args, **options)
            try:
                result = call(function, *args, **options)
            finally:
                self._called_function = None
            ended(function, begun, result)
            return result

        functions.__call__ = watched

    def watch_tapes(self) -> None:
        tapes: Any = self.module.GradientTape
        enter, gradient = tapes.__enter__, tapes.gradient
        entered, taken = self.guarded(self._tape_entered), self.guarded(self._gradient_taken)

        @functools.wraps(enter)
        def first_enter(tape: Any) -> Any:
            tapes.__enter__ = enter
            entered()
            return enter(tape)

        @functools.wraps(gradient)
        def watched(tape: Any, target: Any, *args: Any, **options: Any) -> Any:
            taken(target)
            return gradient(tape, target, *args, **options)

        tapes.__enter__, tapes.gradient = first_enter, watched

    def watch_datasets(self) -> None:
        iterators: Any = importlib.import_module("tensorflow.python.data.ops.iterator_ops").OwnedIterator
        begin, following = iterators.__init__, iterators.__next__
        made, asked = self.guarded(self._iterator_made), self.guarded(self._batch_asked)
        given, ended = self.guarded(self._batch_given), self.guarded(self._pass_ended)

        @functools.wraps(begin)
        def watched_init(iterator: Any, dataset: Any = None, *args: Any, **options: Any) -> None:
            made(iterator, dataset)
            begin(iterator, dataset, *args, **options)

        @functools.wraps(following)
        def watched_next(iterator: Any) -> Any:
            asked_at = asked(iterator)
            try:
                batch = following(iterator)
            except StopIteration:
                ended(iterator)
                raise
            given(iterator, asked_at)
            return batch

        iterators.__init__, iterators.__next__ = watched_init, watched_next

    def watch_saves(self) -> None:
        checkpoints: Any = self.module.train.Checkpoint
        for name in ("save", "write"):
            setattr(checkpoints, name, self.timing_checkpoint(getattr(checkpoints, name)))

    # What the hooks call.

    def _call_began(self, function: Any) -> float | None:
        """The moment of the call; None for one inside another, in another thread, or in a loop that Keras records."""
        if self.muted or self.module.inside_function() or threading.current_thread() is not threading.main_thread():
            return None
        self._called_function = function
        self._traced_update = False
        return time.monotonic()

    def _call_ended(self, function: Any, begun: float, result: Any) -> None:
        if self._traced_update:
            self._training_functions.add(function)
        elif function not in self._training_functions:
            return
        loss = find_loss(result)
        self._loss = loss if loss is not None else self._loss
        self.set_first_start(begun)
        self._end_iteration(begun)

    def _tape_entered(self) -> None:
        if not self.muted and not self.module.inside_function():
            self.set_first_start(time.monotonic())

    def _gradient_taken(self, target: Any) -> None:
        if not self.muted and hasattr(target, "numpy"):
            self._loss = find_loss(target)

    def optimizer_applied(self, optimizer: Any) -> None:
        if self.muted:
            return
        if self.module.inside_function():
            if self._called_function is not None and not self._traced_update:
                self._traced_update = True
                if self._boundary_optimizer is None:
                    self._boundary_optimizer = optimizer
                    with self.module.init_scope():
                        self._applied_count = _applications(optimizer)
            return
        if not self.module.executing_eagerly():
            return
        if self._boundary_optimizer is None or self._other_steps >= MAX_ROUNDS_WITHOUT_FIRST:
            self._boundary_optimizer = optimizer
            self._applied_count = _applications(optimizer) - 1
        self._other_steps = 0 if optimizer is self._boundary_optimizer else self._other_steps + 1
        if optimizer is self._boundary_optimizer:
            self._end_iteration(time.monotonic())

    def _iterator_made(self, iterator: Any, dataset: Any) -> None:
        if self.muted or dataset is None or self.module.inside_function():
            return
        facts = getattr(dataset, "_trainfare_facts", None)
        if facts is None:
            # Only once per data set: it runs a few small graphs.
            size, samples = dataset_batching(dataset, None)
            length = int(dataset.cardinality())
            facts = {"batch_size": size, "samples": samples, "length": length if length > 0 else None}
            dataset._trainfare_facts = facts
        iterator._trainfare_pass = self.new_pass(iterator, dataset, facts)
        self.loop.pass_started(iterator._trainfare_pass)

    def _batch_asked(self, iterator: Any) -> float:
        data_pass: DataPass | None = getattr(iterator, "_trainfare_pass", None)
        if data_pass is not None and not self.muted:
            self.loop.batch_asked(data_pass)
        return time.monotonic()

    def _batch_given(self, iterator: Any, asked_at: float) -> None:
        data_pass: DataPass | None = getattr(iterator, "_trainfare_pass", None)
        if data_pass is not None and not self.muted:
            self.loop.batch_given(data_pass, time.monotonic() - asked_at)
            self.multi_step_end = None

    def _pass_ended(self, iterator: Any) -> None:
        data_pass: DataPass | None = getattr(iterator, "_trainfare_pass", None)
        if data_pass is not None and not self.muted:
            self.loop.pass_ended(data_pass)

    # Iterations.

    def _end_iteration(self, begun: float) -> None:
        self.claim_process()
        if self._gpu is None:
            self._gpu = device_facts()["device"] != "cpu"
        if self._gpu:
            # A GPU runs asynchronously, and TensorFlow has no event that could be placed between two steps.
            self.module.test.experimental.sync_devices()
        applied = _applications(self._boundary_optimizer)
        count, self._applied_count = max(1, applied - self._applied_count), applied
        loss, self._loss = self._loss, None
        if count == 1 and self._steps_per_call == 1:
            self.step(loss)
            self.iteration_ended()
        else:
            self.multi_step_call_ended(begun, count, loss)

    def learning_rate(self) -> float | None:
        rate = getattr(_inner(self._boundary_optimizer), "_learning_rate", None)
        if rate is None or not hasattr(rate, "assign") or self._gpu:
            return None
        return float(rate.numpy())

    # Output.

    def write_facts(self) -> None:
        optimizer = _inner(self._boundary_optimizer)
        # An optimizer of Keras 2 does not keep its variables: `keras2_hooks.py` notes them.
        variables = list(getattr(optimizer, "_trainable_variables", None) or optimizer._trainfare_variables)
        states = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
        rate = getattr(optimizer, "_learning_rate", None)
        self.recorder.add(
            "model",
            framework="tensorflow",
            framework_version=str(self.module.__version__),
            parameters=sum(math.prod(v.shape) for v in variables),
            dtype=_dtype(variables),
            optimizer=type(optimizer).__name__,
            schedule=type(rate).__name__ if callable(rate) and not hasattr(rate, "assign") else None,
            gradient_bytes=sum(map(_bytes, variables)),
            optimizer_bytes=sum(map(_bytes, states)),
            **device_facts(),
        )
        for data_pass in self.loop.training_passes:
            self.recorder.add("loader", **data_pass.facts)
        self.recorder.add("versions", versions=imported_versions("keras", "numpy"))

    def write_final_facts(self) -> None:
        if self.trace and self._training_functions:
            self.recorder.flush()  # reading them may take seconds
            self.guarded(self._write_operations)()

    def _write_operations(self) -> None:
        operations: Any = importlib.import_module(f"{__package__}.tensorflow_operations")
        size = next((data_pass.facts.get("batch_size") for data_pass in self.loop.training_passes), None)
        operations.write(self.recorder, list(self._training_functions), size)

    def device_bytes(self) -> int | None:
        return device_bytes() if self._gpu else None


def device_facts() -> dict[str, Any]:
    config: Any = sys.modules["tensorflow"].config
    for kind, device in (("GPU", "cuda"), ("TPU", "tpu")):
        found = config.list_physical_devices(kind)
        if found:
            name = config.experimental.get_device_details(found[0]).get("device_name")
            return {"device": device, "gpu": name, "gpus": len(found)}
    return {"device": "cpu", "gpu": None, "gpus": 0}


def device_bytes() -> int | None:
    return int(sys.modules["tensorflow"].config.experimental.get_memory_info("GPU:0")["peak"])


def dataset_batching(dataset: Any, size: int | None) -> tuple[int | None, int | None]:
    """Batch size and samples of one pass, from the way the pipeline was built; None for what is unknown."""
    batched = dataset
    while batched is not None and not hasattr(batched, "_batch_size"):
        batched = getattr(batched, "_input_dataset", None)
    if batched is None:
        return size, None
    size, samples = int(batched._batch_size), int(batched._input_dataset.cardinality())
    if samples < 0:
        return size, None
    if bool(batched._drop_remainder):
        samples -= samples % size
    length = int(dataset.cardinality())
    if length >= 0 and length != math.ceil(samples / size):
        return size, None  # only a part of the data set is used
    return size, samples


def _inner(optimizer: Any) -> Any:
    return getattr(optimizer, "inner_optimizer", optimizer)


def _applications(optimizer: Any) -> int:
    return int(_inner(optimizer).iterations.numpy())


def _dtype(variables: list[Any]) -> str | None:
    largest = max(variables, key=lambda v: math.prod(v.shape), default=None)
    return None if largest is None else str(getattr(largest.dtype, "name", largest.dtype))


def _bytes(variable: Any) -> int:
    tensor = sys.modules["tensorflow"].as_dtype(variable.dtype)
    return int(math.prod(variable.shape) * tensor.size)
