"""Where PyTorch is listened to.

step boundary, optimizer, parameters   the global hooks of `torch.optim.Optimizer.step`
loss                                   `torch.autograd.backward`, `GradScaler.scale`
batches, waits, data set               `_BaseDataLoaderIter`, patched rather than wrapped: subclasses work
validation                             a pass that does not train; `Module.train` and `eval`
checkpoints                            `torch.save`
schedule of the learning rate          the making of a scheduler
compilation, bytes sent                asked for at the end: `torch._dynamo` counts, the kernel counts

What is read off the things that the hooks are given is in `torch_facts.py`.

A program that never made a `torch.optim.Optimizer` updates its weights itself: there an iteration ends with each
backward pass. Where optimizers step inside the backward pass it ends with that pass.

Not used: the global forward hook, which costs 9–16 %, breaks graphs of `torch.compile` and makes it warn.

Most iterations are calm (`fast_path.py`): there each hook takes a short way, one function deep. In all others it takes the
long way, through the methods of the Listener, which tells the Loop.
"""

# ruff: noqa: SLF001 # PyTorch has no public name for what a loader's iterator knows
from __future__ import annotations

import functools
import importlib
import math
import sys
import time
import weakref
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe import listening, torch_facts
    from trainfare.probe.clocks import CudaClock, HostClock
    from trainfare.probe.fast_path import FastPath, no_ref
    from trainfare.probe.loop import Loop, Pass
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
    from trainfare.probe.torch_noise import Noise
    from trainfare.probe.torch_operations import Tracer
    from trainfare.probe.torch_operator_times import OperatorTimes
    from trainfare.probe.torch_schedule import Schedule
else:
    listening = importlib.import_module(f"{__package__}.listening")
    torch_facts = importlib.import_module(f"{__package__}.torch_facts")
    _clocks = importlib.import_module(f"{__package__}.clocks")
    _fast_path = importlib.import_module(f"{__package__}.fast_path")
    FastPath, no_ref = _fast_path.FastPath, _fast_path.no_ref
    CudaClock, HostClock = _clocks.CudaClock, _clocks.HostClock

TRACE_DELAYS = 3
"""So many iterations are let pass rather than trace one at the end of an epoch."""

TRACE_AFTER = 5
"""Iterations, where one is traced before the end is known: libraries are loaded and memory is allocated by then."""

NETWORK_SECONDS = 2.0
"""Asking the kernel for the bytes of every connection takes some 0.2 ms."""

BELIEVED_BACKWARDS = 3
"""After so many backward passes without any optimizer the program is believed to have none."""

ROUNDS_WITHOUT_FIRST = 20
"""After so many steps of other optimizers the one that began the rounds is believed to be out of use."""


def listen(torch: ModuleType, recorder: Recorder, *, stop: Callable[[], Stop], trace: bool) -> Listener:
    """Called once torch has been imported."""
    listener = Listener(torch, recorder, stop=stop, trace=trace)
    Listener.current = listener
    listener.place(
        listener.watch_steps,
        listener.watch_losses,
        listener.watch_loaders,
        listener.watch_modes,
        listener.watch_saves,
        listener.watch_schedules,
    )
    return listener


class Listener(listening.Listener):
    framework = "torch"
    current: Listener | None = None
    """For the listeners of libraries that are built on PyTorch."""

    def __init__(self, module: ModuleType, recorder: Recorder, *, stop: Callable[[], Stop], trace: bool) -> None:
        self._calm = FastPath()
        self._optimizer_made = False
        self._schedulers: weakref.WeakSet[Any] = weakref.WeakSet()
        super().__init__(module, recorder, stop=stop, trace=trace)

    def begin(self) -> None:
        self._calm.__init__()  # type: ignore[misc]  # the hooks hold it
        super().begin()
        self._first: Callable[[], Any] = no_ref
        self._others = 0
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._device = "cpu"
        self._tracer: Tracer | None = None
        self._traced = False
        self._delays = 0
        self._network_at = 0.0
        self._backward_depth = 0
        self._stepped_inside: Any = None
        self._stepping = self._step_has_loss = False
        self._leaves: list[Any] = []
        self._noise: Noise | None = None
        self._noise_wanted = self.stop.gradient_noise
        self._times: OperatorTimes | None = None
        self._times_wanted = self.stop.operator_times
        self._schedule: tuple[Callable[[], Any], Schedule | None] = (no_ref, None)

    def new_clock(self) -> Any:
        return HostClock()

    @property
    def loop(self) -> Loop:
        """Whoever touches it finds it up to date."""
        self._end_calm()
        return self._loop

    @loop.setter
    def loop(self, loop: Loop) -> None:
        self._loop = loop

    @property
    def idle(self) -> bool:
        """Reading a loss does not wait for a device, or has to."""
        return self._device == "cpu" or self.stop.by_loss

    def _end_calm(self) -> None:
        if self._calm.on:
            self._backward_depth += self._calm.inside
            self._calm.end(self._loop)

    def come_late(self) -> None:
        """Into a program that runs already: it may have made its optimizers before anybody watched."""
        self._optimizer_made = True

    # Where the hooks go.

    def watch_steps(self) -> None:
        optimizer: Any = importlib.import_module("torch.optim.optimizer")
        clear = optimizer.Optimizer.zero_grad
        cleared = self.guarded(self._gradients_cleared)

        @functools.wraps(clear)
        def first_clear(*args: Any, **options: Any) -> Any:
            optimizer.Optimizer.zero_grad = clear
            cleared()
            return clear(*args, **options)

        make = optimizer.Optimizer.__init__
        made = self.guarded(self._first_optimizer_made)

        @functools.wraps(make)
        def first_made(*args: Any, **options: Any) -> None:
            optimizer.Optimizer.__init__ = make
            made()
            make(*args, **options)

        optimizer.Optimizer.zero_grad = first_clear
        optimizer.Optimizer.__init__ = first_made
        started, ended = self.guarded(self._step_started), self.guarded(self._step_ended)
        calm = self._calm

        def step_started(which: Any, args: Any, options: Any) -> None:
            if not calm.on or options or (len(args) > 1 and args[1] is not None):  # a closure: it trains in the step
                started(which, args, options)

        def step_ended(which: Any, args: Any, options: Any) -> None:
            if calm.on and not calm.inside and which is calm.of():
                now = monotonic()
                rate = which.param_groups[0].get("lr")
                if now < calm.until and calm.left > 0 and type(rate) is float:
                    calm.rows.append((calm.start, now, calm.waited, calm.batches, rate, calm.loss))
                    calm.start, calm.loss, calm.waited, calm.batches = now, None, 0.0, 0
                    calm.left -= 1
                    return
            ended(which, args, options)

        optimizer.register_optimizer_step_pre_hook(step_started)
        optimizer.register_optimizer_step_post_hook(step_ended)

    def watch_losses(self) -> None:
        autograd = self.module.autograd
        backward = autograd.backward
        seen = self.guarded(self._backward_started)
        done = self.guarded(self._backward_ended)
        calm, tensor = self._calm, self.module.Tensor

        @functools.wraps(backward)
        def watched(tensors: Any, *args: Any, **options: Any) -> Any:
            if calm.on and not calm.inside and type(tensors) is tensor and tensors.numel() == 1:
                whole, calm.whole = calm.whole, None
                # On a CPU the number is there, and reading it takes less time than keeping the tensor.
                calm.loss = (tensors if whole is None else whole).item()
                calm.inside = True
            else:
                seen(tensors)
            try:
                return backward(tensors, *args, **options)
            finally:
                if calm.on:
                    calm.inside = False
                else:
                    done()

        autograd.backward = watched

        scaler = self.module.amp.GradScaler
        scale = scaler.scale
        scaled = self.guarded(self.loss_scaled)

        @functools.wraps(scale)
        def watched_scale(scaler: Any, outputs: Any) -> Any:
            scaled(outputs)
            return scale(scaler, outputs)

        scaler.scale = watched_scale

    def watch_loaders(self) -> None:
        iterators: Any = importlib.import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
        begin, following = iterators.__init__, iterators.__next__
        made, asked = self.guarded(self._iterator_made), self.guarded(self._batch_asked)
        given, ended = self.guarded(self._batch_given), self.guarded(self._pass_ended)
        calm = self._calm

        @functools.wraps(begin)
        def watched_init(iterator: Any, loader: Any) -> None:
            made(iterator, loader)
            begin(iterator, loader)

        @functools.wraps(following)
        def watched_next(iterator: Any) -> Any:
            if calm.on and iterator._num_yielded and getattr(iterator, "_trainfare_pass", self) is calm.one:
                asked_at = monotonic()
                try:
                    batch = following(iterator)
                except StopIteration:
                    ended(iterator)
                    raise
                calm.waited += monotonic() - asked_at
                calm.batches += 1
                calm.given += 1
                return batch
            asked(iterator)
            asked_at = monotonic()
            try:
                batch = following(iterator)
            except StopIteration:
                ended(iterator)
                raise
            given(iterator, batch, monotonic() - asked_at)
            return batch

        iterators.__init__ = watched_init
        iterators.__next__ = watched_next

    def watch_modes(self) -> None:
        module: Any = importlib.import_module("torch.nn.modules.module")
        switch = module.Module.train
        switched = self.guarded(self._mode_changed)

        @functools.wraps(switch)
        def watched(model: Any, mode: bool = True) -> Any:
            switched(mode)
            return switch(model, mode)

        module.Module.train = watched

    def watch_saves(self) -> None:
        torch: Any = self.module
        torch.save = torch.serialization.save = self.saving(torch.save)

    def watch_schedules(self) -> None:
        schedulers: Any = importlib.import_module("torch.optim.lr_scheduler")
        made = self.always(self._schedulers.add)
        # The others call the first.
        for name in ("LRScheduler", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler"):
            scheduler = getattr(schedulers, name, None)
            if scheduler is not None:
                scheduler.__init__ = _then(scheduler.__init__, made)

    # What they tell.

    def _gradients_cleared(self) -> None:
        self.loop.gradients_cleared()

    def _first_optimizer_made(self) -> None:
        self._optimizer_made = True
        if 0 < self.loop.count < BELIEVED_BACKWARDS:
            self.begin()  # what went before was no training, or is not told yet

    def _iterator_made(self, iterator: Any, loader: Any) -> None:
        self._pass_started(iterator, loader, torch_facts.loader_facts(loader))

    def _pass_started(self, iterator: Any, loader: Any, facts: dict[str, Any]) -> None:
        iterator._trainfare_pass = one = self.new_pass(iterator, loader, facts, self.clock.mark())
        self.loop.pass_started(one)

    def _batch_asked(self, iterator: Any) -> None:
        one: Pass | None = getattr(iterator, "_trainfare_pass", None)
        if one is None:
            return  # made before anybody listened
        if one.given and not iterator._num_yielded:
            # Persistent workers: the loader uses its iterator again.
            self._pass_started(iterator, one.loader(), one.facts)
        else:
            self.loop.batch_asked(one)

    def _batch_given(self, iterator: Any, batch: Any, waited: float) -> None:
        one: Pass | None = getattr(iterator, "_trainfare_pass", None)
        if one is None:
            return
        self.loop.batch_given(one, waited)
        if one.given == 1 and one.facts["batch_size"] is None:
            one.facts["batch_size"] = torch_facts.leading_dimension(batch)

    def _pass_ended(self, iterator: Any) -> None:
        one: Pass | None = getattr(iterator, "_trainfare_pass", None)
        if one is not None:
            self.loop.pass_ended(one)

    def _mode_changed(self, training: bool) -> None:
        if training and self._calm.on:
            return  # it trains
        self.loop.mode_changed(training=training)

    def loss_scaled(self, outputs: Any) -> None:
        """Before it is divided for accumulation or multiplied for half precision; the first to tell has it whole."""
        if self._calm.whole is None and isinstance(outputs, self.module.Tensor) and outputs.numel() == 1:
            self._calm.whole = outputs

    def _backward_started(self, tensors: Any) -> None:
        loop = self.loop
        self._backward_depth += 1
        loss = tensors if self._calm.whole is None else self._calm.whole
        self._calm.whole = None
        if not isinstance(loss, self.module.Tensor):
            loss = loss[0] if len(loss) == 1 else None
        # A backward pass inside another belongs to a checkpointed part of the model and starts at no loss.
        if loss is not None and (self._backward_depth > 1 or loss.numel() != 1):
            loss = None
        if not self._optimizer_made and not self._leaves and loss is not None:
            self._leaves = torch_facts.leaves_of(loss)
        # A closure may be called again and again inside one step: the first loss is that of the iteration.
        if self._stepping and self._step_has_loss:
            loss = None
        self._step_has_loss = self._stepping
        loop.backward_started(None if loss is None else loss.detach())
        if self._tracer is not None:
            self._tracer.backward_started()

    def _backward_ended(self) -> None:
        self._backward_depth -= 1
        if self._tracer is not None:
            self._tracer.backward_ended()
        if self._backward_depth:
            return
        if self._stepped_inside is not None:
            optimizer, self._stepped_inside = self._stepped_inside, None
            self._boundary(optimizer)
        elif not self._optimizer_made and (self.loop.fed or not self.loop.training_passes):
            # Where there is a loader, a second backward pass on the same batch belongs to the same iteration.
            self._boundary(None)

    def _step_started(self, optimizer: Any, args: Any, options: Any) -> None:
        self._stepping, self._step_has_loss = True, False
        self.loop.step_started()
        if self._noise is not None:
            if optimizer is self._first():
                self._noise.take()
            self._noise.hide(optimizer)
        if self._tracer is not None:
            closure = options.get("closure") or (args[1] if len(args) > 1 else None)
            self._tracer.step_started(closure=closure is not None)

    def _step_ended(self, optimizer: Any, _args: Any, _options: Any) -> None:
        self._stepping = False
        if self._calm.inside:
            self._end_calm()
        if self._noise is not None:
            self._noise.show()
        if self._tracer is not None:
            self._tracer.step_ended()
        if self._backward_depth:
            self._optimizers.add(optimizer)
            self._stepped_inside = optimizer
            if self._first() is None:
                self._first = weakref.ref(optimizer)
        elif self._ends_iteration(optimizer):
            self._boundary(optimizer)

    # What follows from it.

    def _ends_iteration(self, optimizer: Any) -> bool:
        """Of several optimizers, the one that steps first in each round ends the iteration."""
        first = self._first()
        if optimizer is first:
            self._others = 0
            return True
        self._optimizers.add(optimizer)
        self._others += 1
        if first is None or self._others > ROUNDS_WITHOUT_FIRST:
            self._first, self._others = weakref.ref(optimizer), 0
            return True
        return False

    def _boundary(self, optimizer: Any) -> None:
        """The end of an iteration; without an optimizer where the program updates its weights itself."""
        if self.silent:
            return
        self.speak()
        if self.stop.tried:
            self.end()
        if self._tracer is not None:
            self._end_trace()
            if self.stop.due(self.loop.count):
                self.end()
            self.recorder.add("traced", n=self.loop.count + 1)
        if self.stop.due(self.loop.count):
            self.loop.skip_iteration()
        else:
            self._iteration_ended(optimizer)
        if self.stop.due(self.loop.count):
            self.enough_measured()
        elif self._trace_is_due():
            self._begin_trace()
        else:
            self._calm_down()

    def _calm_down(self) -> None:
        """Where an iteration need only be noted: on the CPU, once all is told that is told of the first ones."""
        waiting_to_trace = self.stop.open_ended and self._trace_is_wanted
        told = self._facts_written and self.loop.count > 1
        if told and self._first() is not None and self._device == "cpu" and not waiting_to_trace:
            moment, count = self.stop.not_before
            self._others = 0
            until = min(moment, self.recorder.due_at)
            self._calm.begin(self._loop, self._first, until, count - 1 - self._loop.count)

    @property
    def _trace_is_wanted(self) -> bool:
        return self.trace and not self._traced

    def _trace_is_due(self) -> bool:
        """A program of which no_ref knows when it is stopped may end by itself first: it is traced early."""
        early = self.stop.open_ended and self._trace_is_wanted and self.loop.count >= TRACE_AFTER
        return early and not self.loop.between_passes

    def _iteration_ended(self, optimizer: Any) -> None:
        loop = self.loop
        if not loop.count:
            self._device = next((str(p.device.type) for p in self._parameters()), "cpu")
            if self._device == "cuda":
                self.clock = loop.clock = CudaClock(self.module)
        loop.step_ended(torch_facts.learning_rate_of(optimizer))
        if not self._optimizer_made and loop.count < BELIEVED_BACKWARDS:
            return
        if not self._facts_written:
            self._finish_in_children()
            self._facts_written = True
            self.write_facts()
        elif loop.count == 2:
            self._write_model()  # again: some optimizers of a round step only now
        elif not self.recorder.due:
            return
        self.write()
        loop.restart_clock()

    def _parameters(self) -> list[Any]:
        """Those that are trained: of all optimizers, or that the gradient of the loss flows to."""
        return torch_facts.parameters_of(self._optimizers) or self._leaves

    def _finish_in_children(self) -> None:
        """A process of `multiprocessing` ends without `atexit`."""
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None and processes.parent_process() is not None:
            importlib.import_module("multiprocessing.util").Finalize(None, self.finish, exitpriority=1)

    def enough_measured(self) -> None:
        self.write()
        if self._noise_wanted:
            self.guarded(self._look_at_noise)()
        if self._noise is not None:
            return
        if self._times_wanted:
            self.guarded(self._look_at_operators)()
        if self._times is not None:
            return
        if not self._trace_is_wanted:
            self.end()
        if self.loop.between_passes and self._delays < TRACE_DELAYS:
            self._delays += 1
            return
        self._begin_trace()

    def _look_at_noise(self) -> None:
        """Over some more iterations, from the second on: the gradients of this one have been used."""
        optimizer = self._first()
        if self._noise is None and optimizer is not None:
            noises = importlib.import_module(f"{__package__}.torch_noise")
            self._noise = noises.Noise(self.module, optimizer, alone=not torch_facts.is_spread(self.module))
        if self._noise is not None and not self._noise.enough():
            return
        noise, self._noise, self._noise_wanted = self._noise, None, False
        value = None if noise is None else noise.value()
        if value is None:
            self.note("gradient noise: the mean gradient cannot be told from the noise of a few batches")
        self.recorder.add("gradient_noise", value=value)

    def _look_at_operators(self) -> None:
        """Over some more iterations, each from boundary to boundary."""
        if self._times is None:
            self._times_wanted = False  # whatever happens, it is not tried again
            module = importlib.import_module(f"{__package__}.torch_operator_times")
            self._times = module.OperatorTimes(self.module)
            self._times_wanted = True
        elif self._times.enough():
            times, self._times, self._times_wanted = self._times, None, False
            self.recorder.add("operator_times", **times.leave())

    def _begin_trace(self) -> None:
        operations = importlib.import_module(f"{__package__}.torch_operations")
        self._traced = True
        try:
            self._tracer = operations.Tracer(self.module, lambda: not self.loop.evaluating)
            self._tracer.enter()
        except Exception:  # noqa: BLE001 # the times are measured: go without the operations
            self.recorder.trouble("tracing")
            self._tracer = None
            if self.stop.due(self.loop.count):
                self.end()

    def _end_trace(self) -> None:
        tracer, self._tracer = self._tracer, None
        if tracer is None:
            return
        try:
            self.recorder.add("operations", **tracer.leave())
        except Exception:  # noqa: BLE001 # as above
            self.recorder.trouble("tracing")

    # What is written.

    def write(self) -> None:
        if self.loop.count > 1 and time.monotonic() - self._network_at >= NETWORK_SECONDS:
            self._write_network()
        super().write()

    def write_facts(self) -> None:
        self._write_model()
        self.guarded(self._copy_schedule)()
        for one in self.loop.training_passes:
            self.recorder.add("loader", **one.facts)
        self.recorder.add("versions", versions=torch_facts.versions(self.module))

    def last_facts(self) -> None:
        self._write_network()
        compilation = torch_facts.compilation_facts()
        if compilation is not None:
            self.recorder.add("compilation", **compilation)
        self.guarded(self._write_schedule)()

    def _write_model(self) -> None:
        facts = torch_facts.model_facts(self.module, self._parameters(), self._optimizers, device=self._device)
        if facts is not None:
            optimizer = self._first()
            name = None if optimizer is None else type(optimizer).__name__
            scheduler = torch_facts.scheduler_of(optimizer, self._schedulers)
            schedule = None if scheduler is None else type(scheduler).__name__
            self.recorder.add("model", optimizer=name, schedule=schedule, **facts)

    def _copy_schedule(self) -> None:
        """Now, before the program steps it for the first time."""
        scheduler = torch_facts.scheduler_of(self._first(), self._schedulers)
        if scheduler is not None:
            schedules = importlib.import_module(f"{__package__}.torch_schedule")
            self._schedule = (weakref.ref(scheduler), schedules.Schedule(scheduler))

    def _write_schedule(self) -> None:
        scheduler, schedule = self._schedule
        if schedule is None or scheduler() is None:
            return
        loop, plan = self.loop, self.recorder.plan
        length, epochs = loop.length, plan.get("epochs")
        if plan.get("iterations") and length:
            epochs = min(epochs or math.inf, math.ceil(plan["iterations"] / length))
        rates = schedule.rates(
            steps=scheduler().last_epoch,
            iterations=loop.count + loop.skipped - 1,
            passes=loop.passes_ended,
            length=length,
            epochs=epochs,
        )
        if rates:
            self.recorder.add("learning_rate_plan", values=rates)

    def _write_network(self) -> None:
        """Only where several processes train one model: else it is not training that sends."""
        if not torch_facts.is_spread(self.module) or self.module.distributed.get_world_size() < 2:
            return
        self._network_at = time.monotonic()
        counts = importlib.import_module(f"{__package__}.network").tcp_bytes()
        if counts is not None:
            self.recorder.add("network", n=self.loop.count, sent=counts[0], received=counts[1])

    def device_bytes(self) -> int | None:
        return self.module.cuda.max_memory_allocated() if self._device == "cuda" else None

    def loss_value(self, loss: Any) -> float:
        return loss if type(loss) is float else float(loss.item())


def _then(make: Callable[..., None], made: Callable[[Any], None]) -> Callable[..., None]:
    @functools.wraps(make)
    def watched(thing: Any, *args: Any, **options: Any) -> None:
        make(thing, *args, **options)
        made(thing)

    return watched
