"""The hooks into Keras, on any of its backends.

start, epochs, validation data         `Model.fit`
epoch and batch boundaries, loss       `CallbackList`, which `fit` calls on its own thread
data set, batch size                   `EpochIterator`, which `fit` and `evaluate` make
validation                             `Model.evaluate`
checkpoints                            `Model.save`, `Model.save_weights`
training loops of the program's own    `Model.train_on_batch`; `Optimizer.apply` notifies the listener of the backend

No callback is added: one that overrides `on_train_batch_end` would make Keras wait for the device at every batch.
Keras reports the mean loss of the epoch so far, weighted by batch sizes; the loss of one batch follows from two means.
The functions that read facts from the objects passed to the hooks are in `keras_facts.py`.
"""

# ruff: noqa: SLF001 # Keras has no public name for the state of `fit`
from __future__ import annotations

import functools
import importlib
import inspect
import math
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe import keras_facts
    from trainfare.probe.keras_facts import RunningMean
    from trainfare.probe.listener import Listener, imported_versions
    from trainfare.probe.loop import DataPass
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
else:
    keras_facts = importlib.import_module(f"{__package__}.keras_facts")
    RunningMean = keras_facts.RunningMean
    _listener = importlib.import_module(f"{__package__}.listener")
    Listener, imported_versions = _listener.Listener, _listener.imported_versions

MAX_LAST_VALIDATION_SECONDS = 60.0
"""If measuring ends before any validation was seen, one is run, but for no longer than this."""


def listen(keras: ModuleType, recorder: Recorder, *, new_stop: Callable[[], Stop], trace: bool) -> KerasListener:
    """Install the hooks; called once keras has been imported."""
    return install_keras_hooks(KerasListener(keras, recorder, new_stop=new_stop, trace=trace))


def install_keras_hooks(listener: KerasListener) -> KerasListener:
    """Install all hooks of this listener and return it."""
    listener.install(
        listener.watch_fit,
        listener.watch_epochs,
        listener.watch_batches,
        listener.watch_data,
        listener.watch_validation,
        listener.watch_saves,
        listener.watch_train_on_batch,
        listener.watch_updates,
    )
    return listener


class _Fit:
    """The outermost running `fit`. It is also noted while nothing is measured: a callback may begin measuring in it."""

    __slots__ = ("data", "epochs", "first_epoch", "model", "validates")

    def __init__(self, model: Any, arguments: dict[str, Any]) -> None:
        self.model = model
        self.data: Any = None
        self.validates = arguments.get("validation_data") is not None or bool(arguments.get("validation_split"))
        self.first_epoch: int = arguments.get("initial_epoch") or 0
        self.epochs: int = arguments.get("epochs", 1) - self.first_epoch


class KerasListener(Listener):
    """Updates a Loop from the hooks into Keras."""

    framework = "keras"

    _fit: _Fit | None = None
    _depth = 0

    def begin(self) -> None:
        super().begin()
        operations: Any = importlib.import_module(f"{__package__}.keras_operations")
        self._operations = operations.KerasOperations(self.backend, self.recorder, self.loop, trace=self.trace)
        self._model: Any = None
        self._fits = 0
        self._epoch = 0
        self._pass: DataPass | None = None
        self._data_facts: dict[str, Any] = {}
        self._epoch_mean: RunningMean | None = None
        self._last_batch = -1
        self._epoch_start: float | None = None
        self._requested_at: float | None = None
        self._waited = 0.0
        self._epoch_rate: float | None = None
        self._first_rate: float | None = None
        self._schedule: str | None = None
        self._schedule_function: Any = None
        self._schedule_by_step = False
        self._schedule_plan: keras_facts.SchedulePlan | None = None
        self._device = "cpu"
        self._validated = False
        self._validation_written = False
        self._evaluations = 0
        self._ending_since: float | None = None
        self._on_cuda = False

    # What `keras2_hooks.py` overrides for Keras 2.

    @property
    def backend(self) -> str:
        return str(self.module.config.backend())

    def data_facts(self, iterator: Any) -> dict[str, Any]:
        return keras_facts.epoch_iterator_facts(iterator)

    def first_batch_size(self) -> int | None:
        """The size of the first batch, for data that does not tell its batch size."""
        return getattr(self._data.data_adapter, "_trainfare_size", None)

    def number(self, value: Any) -> float | None:
        """The number in a variable or a result of the backend, without waiting for it."""
        return keras_facts.number(getattr(value, "value", value))

    # Installing the hooks.

    def watch_fit(self) -> None:
        model: Any = self.module.Model
        fit = model.fit
        began, ended = self.guarded_always(self._fit_began), self.guarded_always(self._fit_ended)

        @functools.wraps(fit)
        def watched(model: Any, *args: Any, **options: Any) -> Any:
            began(fit, model, args, options)
            try:
                return fit(model, *args, **options)
            finally:
                ended()

        model.fit = watched

    def watch_epochs(self) -> None:
        lists: Any = self.module.callbacks.CallbackList
        begin, epoch_begin, epoch_end = lists.on_train_begin, lists.on_epoch_begin, lists.on_epoch_end
        training, began = self.guarded(self._training_began), self.guarded(self._epoch_began)
        ended = self.guarded(self._epoch_ended)

        @functools.wraps(begin)
        def watched_begin(callbacks: Any, logs: Any = None) -> None:
            begin(callbacks, logs)
            training(callbacks)

        @functools.wraps(epoch_begin)
        def watched_epoch_begin(callbacks: Any, epoch: int, logs: Any = None) -> None:
            epoch_begin(callbacks, epoch, logs)
            began(callbacks)

        @functools.wraps(epoch_end)
        def watched_epoch_end(callbacks: Any, epoch: int, logs: Any = None) -> None:
            ended(callbacks, logs)
            epoch_end(callbacks, epoch, logs)

        lists.on_train_begin, lists.on_epoch_begin = watched_begin, watched_epoch_begin
        lists.on_epoch_end = watched_epoch_end

    def watch_batches(self) -> None:
        lists: Any = self.module.callbacks.CallbackList
        begin, end, test_end = lists.on_train_batch_begin, lists.on_train_batch_end, lists.on_test_batch_end
        given, ended = self.guarded(self._batch_given), self.guarded(self._batch_ended)
        tested = self.guarded(self._test_batch_ended)

        @functools.wraps(begin)
        def watched_begin(callbacks: Any, batch: int, logs: Any = None) -> None:
            given()
            begin(callbacks, batch, logs)

        @functools.wraps(end)
        def watched_end(callbacks: Any, batch: int, logs: Any = None) -> None:
            end(callbacks, batch, logs)
            ended(callbacks, batch, logs)

        @functools.wraps(test_end)
        def watched_test_end(callbacks: Any, batch: int, logs: Any = None) -> None:
            test_end(callbacks, batch, logs)
            tested()

        lists.on_train_batch_begin, lists.on_train_batch_end = watched_begin, watched_end
        lists.on_test_batch_end = watched_test_end

    def watch_data(self) -> None:
        iterators: Any = importlib.import_module("keras.src.trainers.epoch_iterator").EpochIterator
        iterators.__init__ = self.noting_data(iterators.__init__)

        adapters: Any = importlib.import_module("keras.src.trainers.data_adapters.py_dataset_adapter")
        standardize = adapters.PyDatasetAdapter._standardize_batch

        @functools.wraps(standardize)
        def watched_batch(adapter: Any, batch: Any) -> Any:
            if not hasattr(adapter, "_trainfare_size"):
                adapter._trainfare_size = keras_facts.leading_dimension(batch)
            return standardize(adapter, batch)

        adapters.PyDatasetAdapter._standardize_batch = watched_batch

    def noting_data(self, make: Callable[..., None]) -> Callable[..., None]:
        made = self.guarded_always(self._data_made)

        @functools.wraps(make)
        def watched(iterator: Any, *args: Any, **options: Any) -> None:
            make(iterator, *args, **options)
            made(iterator)

        return watched

    def watch_validation(self) -> None:
        model: Any = self.module.Model
        evaluate = model.evaluate
        began, ended = self.guarded(self._validation_began), self.guarded(self._validation_ended)

        @functools.wraps(evaluate)
        def watched(model: Any, *args: Any, **options: Any) -> Any:
            began()
            try:
                return evaluate(model, *args, **options)
            finally:
                ended(sys.exc_info()[1])

        model.evaluate = watched

    def watch_saves(self) -> None:
        model: Any = self.module.Model
        for name in ("save", "save_weights"):
            setattr(model, name, self.timing_checkpoint(getattr(model, name)))

    def watch_train_on_batch(self) -> None:
        model: Any = self.module.Model
        train = model.train_on_batch
        began, ended = self.guarded(self._train_on_batch_began), self.guarded(self._train_on_batch_ended)

        @functools.wraps(train)
        def watched(model: Any, *args: Any, **options: Any) -> Any:
            began(model, args, options)
            result = train(model, *args, **options)
            ended(model)
            return result

        model.train_on_batch = watched

    def watch_updates(self) -> None:
        """Notify the listener of the backend of updates in a training loop of the program's own."""
        optimizers: Any = importlib.import_module("keras.src.optimizers.base_optimizer").BaseOptimizer
        apply = optimizers.apply
        if self.backend in ("tensorflow", "jax"):
            optimizers.apply = self.notifying_backend(apply)

    def notifying_backend(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        notify = self.guarded(_notify_backend(self.backend))

        @functools.wraps(apply)
        def watched(optimizer: Any, *args: Any, **options: Any) -> Any:
            result = apply(optimizer, *args, **options)
            if not self._depth:
                notify(optimizer)
            return result

        return watched

    # What the hooks call.

    def _fit_began(self, fit: Any, model: Any, args: Any, options: dict[str, Any]) -> None:
        self._depth += 1
        if self._depth == 1:
            if not self.recorder.closed:
                self.claim_process()
            self._fit = _Fit(model, inspect.signature(fit).bind(model, *args, **options).arguments)

    def _fit_ended(self) -> None:
        self._depth = max(0, self._depth - 1)  # a `fit` that began before the hooks were installed was not counted
        if not self._depth:
            self._model = self._fit = None

    @property
    def _data(self) -> Any:
        return None if self._fit is None else self._fit.data

    def _is_ours(self, callbacks: Any) -> bool:
        """The callbacks belong to the outermost `fit`; a callback may train or validate another model."""
        return self._model is not None and getattr(callbacks, "model", None) is self._model and not self.muted

    def _data_made(self, iterator: Any) -> None:
        if self._fit is None:
            return
        if self._fit.data is None:
            self._fit.data = iterator
        elif not self._validation_written and self.loop.count and not self.recorder.closed and not self.muted:
            self._validation_written = True
            self.recorder.add("validation", **self.data_facts(iterator))

    def _training_began(self, callbacks: Any) -> None:
        fit = self._fit
        if fit is None or getattr(callbacks, "model", None) is not fit.model or self._depth > 1:
            return
        self.claim_process()
        if self.muted:
            return
        self._fits += 1
        self._model = fit.model
        kinds = self.module.callbacks
        stopping = next((one for one in callbacks.callbacks if isinstance(one, kinds.EarlyStopping)), None)
        rate, schedulers = keras_facts.rate_of(self._model), (kinds.LearningRateScheduler, kinds.ReduceLROnPlateau)
        scheduler = next((one for one in callbacks.callbacks if isinstance(one, schedulers)), None)
        self._schedule_by_step = keras_facts.is_schedule(rate)
        if self._schedule_by_step:
            self._schedule, self._schedule_function = type(rate).__name__, rate
        elif scheduler is not None:
            self._schedule, self._schedule_function = type(scheduler).__name__, getattr(scheduler, "schedule", None)
        self.recorder.add(
            "plan",
            # A program that calls `fit` repeatedly has an epoch loop of its own around it.
            epochs=fit.epochs if self._fits == 1 else None,
            source="argument epochs of fit",
            early_stopping=None
            if stopping is None
            else {"metric": stopping.monitor, "patience": int(stopping.patience)},
        )

    def _epoch_began(self, callbacks: Any) -> None:
        if not self._is_ours(callbacks) or self._data is None:
            return
        self._data_facts = self._training_data_facts()
        self._epoch_rate = self._read_learning_rate()
        if self._schedule_plan is None and self._schedule_function is not None and self._fit is not None:
            steps = self.number(keras_facts.inner_optimizer(self._model.optimizer).iterations)
            self._schedule_plan = keras_facts.SchedulePlan(self._fit, self._data_facts["length"], int(steps or 0))
            self._first_rate = self._epoch_rate
        self._epoch_mean, self._last_batch = None, -1
        self._epoch += 1
        self._epoch_start = time.monotonic()
        self.multi_step_end = None
        self._pass = self.new_pass(self._data, self._data, self._data_facts)
        self.loop.pass_started(self._pass)
        self._requested_at = time.monotonic()

    def _training_data_facts(self) -> dict[str, Any]:
        facts = self.data_facts(self._data)
        # On TensorFlow the batch is fetched inside the compiled step, so the wait is unknown.
        facts["waits"] = self.backend != "tensorflow"
        return facts

    def _batch_given(self) -> None:
        if self._requested_at is not None:
            self._waited = time.monotonic() - self._requested_at

    def _batch_ended(self, callbacks: Any, batch: int, logs: Any) -> None:
        if not self._is_ours(callbacks) or self._pass is None:
            return
        if self._ending_since is not None:
            self.end()
        length = self._data_facts.get("length")
        last = batch if length is None else min(batch, length - 1)
        count = max(1, last - self._last_batch)
        loss = self._loss_of(logs, count)
        self._last_batch = last
        if count == 1 and self._steps_per_call == 1:
            self._one_step(loss)
        else:
            if loss is not None:
                loss.mean(self.loss_value)  # waits for the device
            self.multi_step_call_ended(self._epoch_start or 0.0, count, loss)
        self._requested_at = time.monotonic()

    def _test_batch_ended(self) -> None:
        since = self._ending_since
        if since is not None and time.monotonic() - since > MAX_LAST_VALIDATION_SECONDS:
            self.end()

    def _epoch_ended(self, callbacks: Any, logs: Any) -> None:
        if not self._is_ours(callbacks) or self._pass is None:
            return
        self._end_pass()
        if self._ending_since is not None:
            self.end()
        values = {name: keras_facts.number(value) for name, value in (logs or {}).items()}
        metrics = {name: value for name, value in values.items() if value is not None and name != "loss"}
        self.recorder.add(
            "epoch",
            number=self._epoch,
            seconds=time.monotonic() - (self._epoch_start or 0.0),
            loss=values.get("loss"),
            metrics=metrics,
        )

    def _validation_began(self) -> None:
        self._evaluations += 1
        if self._evaluations == 1 and self.loop.count and not self.muted:
            self.clock.synchronize()
            self._end_pass()
            self.loop.mode_changed(training=False)

    def _validation_ended(self, error: BaseException | None) -> None:
        self._evaluations = max(0, self._evaluations - 1)
        if self._evaluations or not self.loop.count or self.muted:
            return
        if error is None:
            self.loop.mode_changed(training=True)
            self._validated = True
            if self._ending_since is not None:
                self.end()

    def _save_started(self) -> None:
        if not self._open_saves:
            self.clock.synchronize()
        super()._save_started()

    def _train_on_batch_began(self, model: Any, args: Any, options: dict[str, Any]) -> None:
        if self._depth or self.muted:
            return
        self.claim_process()
        self._depth += 1  # an update inside it does not belong to a loop of the program's own
        if self._pass is None:
            self._model = model
            batch = args[0] if args else options.get("x")
            shape = getattr(batch, "shape", None)
            self._data_facts = {"batch_size": int(shape[0]) if shape else None, "samples": None, "length": None}
            self._data_facts["waits"] = False
            self._epoch_rate = self._read_learning_rate()
            self._pass = self.new_pass(model, model, self._data_facts)
            self.loop.pass_started(self._pass)

    def _train_on_batch_ended(self, model: Any) -> None:
        if not self._depth or self.muted or self._pass is None:
            return
        self._depth -= 1
        if self._ending_since is not None:
            self.end()
        self._model = model
        self._one_step(None)

    # Iterations.

    def _loss_of(self, logs: Any, count: int) -> RunningMean | None:
        raw = (logs or {}).get("loss")
        if raw is None or keras_facts.overrides_train_step(self._model, self.module):
            return None  # an overridden train_step may report something other than the mean of the epoch
        if hasattr(raw, "detach"):
            raw = raw.detach()
        size = self._data_facts.get("batch_size") or 1
        samples = size * count
        total, previous = self._data_facts.get("samples"), self._epoch_mean
        if total is not None and self._data_facts.get("batch_size"):
            seen = previous._sample_count if previous is not None else 0
            samples = max(1, min(samples, total - seen))
        self._epoch_mean = RunningMean(raw, samples, previous)
        return self._epoch_mean

    def _one_step(self, loss: RunningMean | None) -> None:
        backend = self.backend
        if self._operations.tracing:
            self._operations.end()
            if self.stop.due(self.loop.count):
                self.target_reached()
                return
            self.recorder.add("traced", n=self.loop.count + 1)
        if backend == "jax" and loss is not None:
            # On the other backends the callbacks have read the loss, or the device is the CPU or has its own clock.
            loss._raw = self.clock.when_ready(loss._raw)
            self.step(loss, loss._raw)
        else:
            if backend == "torch" and not self.loop.count:
                self._use_clock_of_device()
            self.step(loss)
        self.iteration_ended()
        if self.stop.open_ended:
            self._operations.begin_early()

    def _use_clock_of_device(self) -> None:
        self._on_cuda = keras_facts.device_facts("torch")["device"] == "cuda"
        if self._on_cuda:
            self.loop.clock = importlib.import_module(f"{__package__}.clocks").CudaClock(sys.modules["torch"])

    @property
    def idle(self) -> bool:
        return self.clock.idle and not self._on_cuda

    def before_step(self) -> None:
        if self._pass is not None:
            self.loop.batch_given(self._pass, self._waited)

    def learning_rate(self) -> float | None:
        return self._epoch_rate

    def target_reached(self) -> None:
        """Run one validation if none was seen, by ending the epoch of `fit` early; then end."""
        if self._operations.begin():
            self.write()
            return
        validates = self._fit is not None and self._fit.validates
        unseen = validates and not self._validated and self._ending_since is None
        if unseen and self._model is not None and self.stop.ends_program:
            self.write()
            self._ending_since = time.monotonic()
            self._model.stop_training = True
            return
        self.end()

    def _end_pass(self) -> None:
        if self._pass is not None and self._data is not None and not self._pass.ended:
            self.loop.pass_ended(self._pass)

    # Output.

    def loss_value(self, loss: Any) -> float | None:
        read = super().loss_value
        return loss.last_batch_loss(read) if isinstance(loss, RunningMean) else read(loss)

    def write_facts(self) -> None:
        model, backend = self._model, self.backend
        variables = [(math.prod(v.shape), keras_facts.itemsize(v.dtype)) for v in model.trainable_variables]
        frozen = [(math.prod(v.shape), keras_facts.itemsize(v.dtype)) for v in model.non_trainable_weights]
        optimizer = keras_facts.inner_optimizer(model.optimizer)
        states = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
        device = keras_facts.device_facts(backend)
        self._device = device["device"]
        self.recorder.add(
            "model",
            framework="keras",
            framework_version=str(self.module.__version__),
            parameters=sum(size for size, _ in variables),
            frozen_parameters=sum(size for size, _ in frozen),
            weight_bytes=sum(size * width for size, width in (*variables, *frozen)),
            dtype=str(model.compute_dtype),
            optimizer=type(optimizer).__name__,
            schedule=self._schedule,
            gradient_bytes=sum(size * width for size, width in variables),
            optimizer_bytes=sum(math.prod(v.shape) * keras_facts.itemsize(v.dtype) for v in states),
            **device,
        )
        if self._data is not None and self._data_facts.get("batch_size") is None:
            self._data_facts["batch_size"] = self.first_batch_size()
        self.recorder.add("loader", **self._data_facts)
        tokens = keras_facts.tokens_per_sample(model)
        if tokens is not None:
            self.recorder.add("input", shape=[self._data_facts.get("batch_size") or 1, tokens], tokens=True)
        self._operations.set_model(model, self._data_facts.get("batch_size"))
        self.recorder.add("versions", versions=imported_versions(backend, "numpy"))

    def _read_learning_rate(self) -> float | None:
        """The learning rate, read between epochs, when every backend has the variables ready."""
        rate = keras_facts.rate_of(self._model)
        return self.number(rate) if rate is not None and not keras_facts.is_schedule(rate) else None

    def write_final_facts(self) -> None:
        self.guarded(self._write_scheduled_rates)()
        self.guarded(self._operations.write)()
        if self.backend == "jax":
            importlib.import_module(f"{__package__}.jax_hooks").write_compilation(self.recorder)

    def _write_scheduled_rates(self) -> None:
        """Record the rates of a schedule, which is a function of the step or the epoch: those of the steps so far, and
        those at the first step of each planned epoch."""
        plan, rate = self._schedule_plan, self._schedule_function
        if plan is None or rate is None or self._fits > 1:
            return
        if self._schedule_by_step:
            done, length = plan.steps_before, plan.length
            values = [self.number(rate(done + step)) for step in range(min(self.loop.count, 1000))]
            self.recorder.add("learning_rates", values=values)
            if length is None:
                return
            planned = [
                self.number(rate(done + epoch * length))
                for epoch in range(min(plan.epochs, keras_facts.MAX_PLANNED_EPOCHS))
            ]
        else:
            planned = keras_facts.replay_schedule(rate, plan, self._first_rate)
        if planned and None not in planned:
            self.recorder.add("learning_rate_plan", values=planned)

    def device_bytes(self) -> int | None:
        return keras_facts.device_bytes(self.backend) if self._device == "cuda" else None


def _notify_backend(backend: str) -> Callable[[Any], None]:
    """A function that notifies the hooks of the backend of an update.

    They are looked up at each call, because the backend may be imported after Keras.
    """

    def notify(optimizer: Any) -> None:
        hooks = sys.modules.get(f"{__package__}.{backend}_hooks")
        if hooks is not None:
            hooks.optimizer_applied(optimizer)

    return notify
