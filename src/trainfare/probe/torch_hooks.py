"""The hooks into PyTorch.

step boundary, optimizer, parameters   the global hooks of `torch.optim.Optimizer.step`
loss                                   `torch.autograd.backward`, `GradScaler.scale`
batches, waits, data set               `_BaseDataLoaderIter`, patched rather than wrapped, so that subclasses work
validation                             a pass that does not train; `Module.train` and `eval`
checkpoints                            `torch.save`
learning-rate schedule                 the constructors of the schedulers
parameters before the first iteration  the registration of parameters, `Optimizer.add_param_group`
compilation, bytes sent                read at the end: `torch._dynamo` counts, the kernel counts

The functions that read facts from the objects passed to the hooks are in `torch_facts.py`.

A program that never makes a `torch.optim.Optimizer` updates its weights itself: there an iteration ends with each
backward pass. Where optimizers step inside the backward pass, an iteration ends with that pass.

The global forward hook is not used: it costs 9–16 %, breaks graphs of `torch.compile` and makes it warn.

Most iterations take the fast path (`fast_path.py`): each hook is one function deep. All others take the slow path,
through the methods of TorchListener, which updates the Loop.
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

    from trainfare.probe import torch_facts
    from trainfare.probe.clocks import CudaClock, HostClock
    from trainfare.probe.fast_path import FastPath, no_ref
    from trainfare.probe.listener import Listener
    from trainfare.probe.loop import DataPass, Loop
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
    from trainfare.probe.torch_construction import Construction
    from trainfare.probe.torch_gradient_noise import GradientNoise
    from trainfare.probe.torch_inputs import ModelInput
    from trainfare.probe.torch_operations import Tracer
    from trainfare.probe.torch_operator_times import OperatorTimer
    from trainfare.probe.torch_schedule import SchedulerReplay
else:
    Listener = importlib.import_module(f"{__package__}.listener").Listener
    torch_facts = importlib.import_module(f"{__package__}.torch_facts")
    _clocks = importlib.import_module(f"{__package__}.clocks")
    _fast_path = importlib.import_module(f"{__package__}.fast_path")
    FastPath, no_ref = _fast_path.FastPath, _fast_path.no_ref
    CudaClock, HostClock = _clocks.CudaClock, _clocks.HostClock

TRACE_DELAYS = 3
"""Tracing is put off by up to this many iterations, to avoid tracing one at the end of an epoch."""

TRACE_AFTER = 5
"""Iterations before the traced one, where the number of iterations to measure is not known: by then libraries are
loaded and memory is allocated."""

NETWORK_SECONDS = 2.0
"""Time between two readings of the bytes of every connection, each of which takes about 0.2 ms."""

CONFIRMING_BACKWARDS = 3
"""After this many backward passes without any optimizer the program is taken to update its weights itself."""

MAX_ROUNDS_WITHOUT_FIRST = 20
"""After this many steps of other optimizers, the optimizer that ended the iterations is taken to be out of use."""


def listen(torch: ModuleType, recorder: Recorder, *, new_stop: Callable[[], Stop], trace: bool) -> TorchListener:
    """Install the hooks; called once torch has been imported."""
    listener = TorchListener(torch, recorder, new_stop=new_stop, trace=trace)
    TorchListener.current = listener
    listener.install(
        listener.watch_steps,
        listener.watch_losses,
        listener.watch_loaders,
        listener.watch_modes,
        listener.watch_saves,
        listener.watch_schedules,
        listener.watch_construction,
        listener.watch_inputs,
    )
    return listener


class TorchListener(Listener):
    """Updates a Loop from the hooks into PyTorch."""

    framework = "torch"
    current: TorchListener | None = None
    """The installed listener, for the hooks into libraries that are built on PyTorch."""

    def __init__(self, module: ModuleType, recorder: Recorder, *, new_stop: Callable[[], Stop], trace: bool) -> None:
        self._fast_path = FastPath()
        self._optimizer_made = False
        self._schedulers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._construction: Construction | None = None
        self._module_references: list[Any] = []
        """Weak references to the modules with parameters that were made before the first iteration."""
        self._input: ModelInput | None = None
        super().__init__(module, recorder, new_stop=new_stop, trace=trace)

    def begin(self) -> None:
        self._fast_path.__init__()  # type: ignore[misc] # the hooks hold this object
        super().begin()
        self._boundary_optimizer: Callable[[], Any] = no_ref
        self._other_steps = 0
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._device = "cpu"
        self._tracer: Tracer | None = None
        self._traced = False
        self._trace_delays = 0
        self._network_at = 0.0
        self._backward_depth = 0
        self._stepped_in_backward: Any = None
        self._stepping = self._step_has_loss = False
        self._loss_leaves: list[Any] = []
        self._backwards = self._backwards_per_step = 0
        self._loss_divisor: int | None = None
        self._noise: GradientNoise | None = None
        self._noise_pending = self.stop.gradient_noise
        self._operator_times: OperatorTimer | None = None
        self._times_pending = self.stop.operator_times
        self._replay: tuple[Callable[[], Any], SchedulerReplay | None] = (no_ref, None)

    def new_clock(self) -> Any:
        return HostClock()

    @property
    def loop(self) -> Loop:
        """The Loop, brought up to date by leaving the fast path."""
        self._leave_fast_path()
        return self._loop

    @loop.setter
    def loop(self, loop: Loop) -> None:
        self._loop = loop

    @property
    def idle(self) -> bool:
        """Losses may be read now: on the CPU without waiting, or because the profiler needs them."""
        return self._device == "cpu" or self.stop.by_loss

    def _leave_fast_path(self) -> None:
        if self._fast_path.active:
            self._backward_depth += self._fast_path.in_backward
            self._fast_path.end(self._loop)

    def assume_started(self) -> None:
        """The program runs already and may have made its optimizers before the hooks were installed."""
        self._first_optimizer_made()

    # Installing the hooks.

    def watch_steps(self) -> None:
        optimizer: Any = importlib.import_module("torch.optim.optimizer")
        _watch_first_call(optimizer.Optimizer, "zero_grad", self.guarded(self._gradients_cleared))
        _watch_first_call(optimizer.Optimizer, "__init__", self.guarded(self._first_optimizer_made))
        started, ended = self.guarded(self._step_started), self.guarded(self._step_ended)
        fast = self._fast_path

        def step_started(which: Any, args: Any, options: Any) -> None:
            if (
                not fast.active or options or (len(args) > 1 and args[1] is not None)
            ):  # a closure trains inside the step
                started(which, args, options)

        def step_ended(which: Any, args: Any, options: Any) -> None:
            if fast.active and not fast.in_backward and which is fast.optimizer_ref():
                now = monotonic()
                rate = which.param_groups[0].get("lr")
                if now < fast.deadline and fast.iterations_left > 0 and type(rate) is float:
                    fast.rows.append((fast.start, now, fast.waited, fast.batches, rate, fast.loss))
                    fast.start, fast.loss, fast.waited, fast.batches = now, None, 0.0, 0
                    fast.iterations_left -= 1
                    return
            ended(which, args, options)

        optimizer.register_optimizer_step_pre_hook(step_started)
        optimizer.register_optimizer_step_post_hook(step_ended)

    def watch_losses(self) -> None:
        autograd = self.module.autograd
        backward = autograd.backward
        backward_started = self.guarded(self._backward_started)
        backward_ended = self.guarded(self._backward_ended)
        fast, tensor = self._fast_path, self.module.Tensor

        @functools.wraps(backward)
        def watched(tensors: Any, *args: Any, **options: Any) -> Any:
            if fast.active and not fast.in_backward and type(tensors) is tensor and tensors.numel() == 1:
                unscaled, fast.unscaled_loss = fast.unscaled_loss, None
                # On a CPU the number is ready, and reading it takes less time than keeping the tensor.
                loss = (tensors if unscaled is None else unscaled).item()
                fast.loss = loss + fast.loss if fast.sum_losses and fast.loss is not None else loss
                fast.in_backward = True
            else:
                backward_started(tensors)
            try:
                return backward(tensors, *args, **options)
            finally:
                if fast.active:
                    fast.in_backward = False
                else:
                    backward_ended()

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
        fast = self._fast_path

        @functools.wraps(begin)
        def watched_init(iterator: Any, loader: Any) -> None:
            made(iterator, loader)
            begin(iterator, loader)

        @functools.wraps(following)
        def watched_next(iterator: Any) -> Any:
            if fast.active and iterator._num_yielded and getattr(iterator, "_trainfare_pass", self) is fast.data_pass:
                asked_at = monotonic()
                try:
                    batch = following(iterator)
                except StopIteration:
                    ended(iterator)
                    raise
                fast.waited += monotonic() - asked_at
                fast.batches += 1
                fast.batches_given += 1
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
        torch.save = torch.serialization.save = self.timing_checkpoint(torch.save)

    def watch_schedules(self) -> None:
        schedulers: Any = importlib.import_module("torch.optim.lr_scheduler")
        made = self.guarded_always(self._schedulers.add)
        # The other schedulers call the constructor of LRScheduler.
        for name in ("LRScheduler", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler"):
            scheduler = getattr(schedulers, name, None)
            if scheduler is not None:
                scheduler.__init__ = _calling_after(scheduler.__init__, made)

    def watch_construction(self) -> None:
        module = importlib.import_module(f"{__package__}.torch_construction")
        self._construction = module.Construction(self.recorder, self.guarded)

    def watch_inputs(self) -> None:
        module = importlib.import_module(f"{__package__}.torch_inputs")
        self._input = module.ModelInput(self.module, self.guarded_always)
        self._input.watch_compile()

    # What the hooks call.

    def _gradients_cleared(self) -> None:
        self.loop.gradients_cleared()

    def _first_optimizer_made(self) -> None:
        self._optimizer_made = True
        if self._input is not None:
            self._input.start()
        if 0 < self.loop.count < CONFIRMING_BACKWARDS:
            self.begin()  # earlier backward passes were not training, or are not recorded yet

    def _iterator_made(self, iterator: Any, loader: Any) -> None:
        self._pass_started(iterator, loader, torch_facts.loader_facts(loader))

    def _pass_started(self, iterator: Any, loader: Any, facts: dict[str, Any]) -> None:
        iterator._trainfare_pass = data_pass = self.new_pass(iterator, loader, facts, self.clock.mark())
        self.loop.pass_started(data_pass)

    def _batch_asked(self, iterator: Any) -> None:
        data_pass: DataPass | None = getattr(iterator, "_trainfare_pass", None)
        if data_pass is None:
            return  # made before the hooks were installed
        if data_pass.batches_given and not iterator._num_yielded:
            # With persistent workers the loader uses its iterator again.
            self._pass_started(iterator, data_pass.loader(), data_pass.facts)
        else:
            self.loop.batch_asked(data_pass)

    def _batch_given(self, iterator: Any, batch: Any, waited: float) -> None:
        data_pass: DataPass | None = getattr(iterator, "_trainfare_pass", None)
        if data_pass is None:
            return
        self.loop.batch_given(data_pass, waited)
        if data_pass.batches_given == 1 and data_pass.facts["batch_size"] is None:
            data_pass.facts["batch_size"] = torch_facts.leading_dimension(batch)

    def _pass_ended(self, iterator: Any) -> None:
        data_pass: DataPass | None = getattr(iterator, "_trainfare_pass", None)
        if data_pass is not None:
            self.loop.pass_ended(data_pass)

    def _mode_changed(self, training: bool) -> None:
        if training and self._fast_path.active:
            return  # only training takes the fast path
        if training and self._input is not None and not self._loop.count:
            self._input.start()
        self.loop.mode_changed(training=training)

    def loss_scaled(self, outputs: Any) -> None:
        """Note the loss before it is divided for accumulation or multiplied for half precision.

        Several libraries may call this for one loss; the first call has the unscaled value.
        """
        if self._fast_path.unscaled_loss is None and isinstance(outputs, self.module.Tensor) and outputs.numel() == 1:
            self._fast_path.unscaled_loss = outputs

    def _backward_started(self, tensors: Any) -> None:
        loop = self.loop
        self._backward_depth += 1
        loss = tensors if self._fast_path.unscaled_loss is None else self._fast_path.unscaled_loss
        self._fast_path.unscaled_loss = None
        if not isinstance(loss, self.module.Tensor):
            loss = loss[0] if len(loss) == 1 else None
        # A backward pass inside another one belongs to a checkpointed part of the model and does not start at the loss.
        if loss is not None and (self._backward_depth > 1 or loss.numel() != 1):
            loss = None
        if self._backward_depth == 1 and not self._stepping:
            self._backwards += 1
        if not loop.count and loss is not None and not loop.sum_losses:
            self.losses_divided_by(torch_facts.divisor_of(loss))
        if not self._optimizer_made and not self._loss_leaves and loss is not None:
            self._loss_leaves = torch_facts.leaves_of(loss)
        # A closure may be called several times inside one step: its first loss is that of the iteration.
        if self._stepping and self._step_has_loss:
            loss = None
        self._step_has_loss = self._stepping
        if loss is not None:
            loss = loss.item() if loop.sum_losses and loss.device.type == "cpu" else loss.detach()
        loop.backward_started(loss)
        if self._tracer is not None:
            self._tracer.backward_started()

    def losses_divided_by(self, divisor: int | None) -> None:
        """Add up the losses of an iteration from now on: each was divided by the number of passes that accumulate."""
        if divisor is not None and divisor > 1:
            self.loop.sum_losses, self._loss_divisor = True, divisor

    def _backward_ended(self) -> None:
        self._backward_depth -= 1
        if self._tracer is not None:
            self._tracer.backward_ended()
        if self._backward_depth:
            return
        if self._stepped_in_backward is not None:
            optimizer, self._stepped_in_backward = self._stepped_in_backward, None
            self._end_iteration(optimizer)
        elif not self._optimizer_made and (self.loop.has_new_batch or not self.loop.training_passes):
            # With a loader, a second backward pass on the same batch belongs to the same iteration.
            self._end_iteration(None)

    def _step_started(self, optimizer: Any, args: Any, options: Any) -> None:
        self._stepping, self._step_has_loss = True, False
        self.loop.step_started()
        if self._noise is not None:
            if optimizer is self._boundary_optimizer():
                self._noise.add_gradient()
            self._noise.hide_gradients(optimizer)
        if self._tracer is not None:
            closure = options.get("closure") or (args[1] if len(args) > 1 else None)
            parameters = torch_facts.parameters_of([optimizer])
            gradients = [p.grad for p in parameters if p.grad is not None]
            self._tracer.step_started(closure=closure is not None, gradients=gradients)

    def _step_ended(self, optimizer: Any, _args: Any, _options: Any) -> None:
        self._stepping = False
        if self._fast_path.in_backward:
            self._leave_fast_path()
        if self._noise is not None:
            self._noise.restore_gradients()
        if self._tracer is not None:
            self._tracer.step_ended()
        if self._backward_depth:
            self._optimizers.add(optimizer)
            self._stepped_in_backward = optimizer
            if self._boundary_optimizer() is None:
                self._boundary_optimizer = weakref.ref(optimizer)
        elif self._ends_iteration(optimizer):
            self._end_iteration(optimizer)

    # Iterations.

    def _ends_iteration(self, optimizer: Any) -> bool:
        """True for the optimizer that steps first in each round of several: its step ends the iteration."""
        first = self._boundary_optimizer()
        if optimizer is first:
            self._other_steps = 0
            return True
        self._optimizers.add(optimizer)
        self._other_steps += 1
        if first is None or self._other_steps > MAX_ROUNDS_WITHOUT_FIRST:
            self._boundary_optimizer, self._other_steps = weakref.ref(optimizer), 0
            return True
        return False

    def _end_iteration(self, optimizer: Any) -> None:
        """An iteration ended; `optimizer` is None where the program updates its weights itself."""
        if self.muted:
            return
        self.claim_process()
        if self.stop.ignored:
            self.end()
        if self._tracer is not None:
            self._end_trace()
            if self.stop.due(self.loop.count):
                self.end()
            self.recorder.add("traced", n=self.loop.count + 1)
        if self.stop.due(self.loop.count):
            self.loop.skip_iteration()
        else:
            self._record_iteration(optimizer)
        if self.stop.due(self.loop.count):
            self.target_reached()
        elif self._trace_is_due():
            self._begin_trace()
        else:
            self._enter_fast_path()

    def _enter_fast_path(self) -> None:
        """Take the fast path on the CPU, once the facts of the first iterations are recorded."""
        waiting_to_trace = self.stop.open_ended and self._trace_pending
        started = self._facts_written and self.loop.count > 1 and self.loop_readings > 1
        if started and self._boundary_optimizer() is not None and self._device == "cpu" and not waiting_to_trace:
            moment, count = self.stop.not_before
            self._other_steps = 0
            deadline = min(moment, self.recorder.due_at)
            self._fast_path.begin(self._loop, self._boundary_optimizer, deadline, count - 1 - self._loop.count)

    @property
    def _trace_pending(self) -> bool:
        return self.trace and not self._traced

    def _trace_is_due(self) -> bool:
        """Trace early where the stop is open-ended, because the program may end by itself before it."""
        early = self.stop.open_ended and self._trace_pending and self.loop.count >= TRACE_AFTER
        return early and not self.loop.near_pass_end

    def _record_iteration(self, optimizer: Any) -> None:
        loop = self.loop
        if not loop.count:
            if self._construction is not None:
                self._module_references = self._construction.end()
            if self._input is not None:
                self._input.stop()
            self._device = next((str(p.device.type) for p in self._parameters()), "cpu")
            if self._device == "cuda":
                self.clock = loop.clock = CudaClock(self.module)
        loop.step_ended(torch_facts.learning_rate_of(optimizer))
        self._backwards_per_step, self._backwards = self._backwards, 0
        if not self._optimizer_made and loop.count < CONFIRMING_BACKWARDS:
            return
        if not self._facts_written:
            self._finish_in_children()
            self._facts_written = True
            self.write_facts()
        elif loop.count == 2:
            self._write_model()  # once more: some optimizers of a round step only now
            self._write_input()
        elif not self.recorder.due and self.loop_readings > 1:
            return
        self.write()
        loop.restart_clock()

    def _parameters(self) -> list[Any]:
        """The trained parameters: those of all optimizers, or else those that the gradient of the loss reaches."""
        return torch_facts.parameters_of(self._optimizers) or self._loss_leaves

    def _finish_in_children(self) -> None:
        """Register `finish` in a process of `multiprocessing`, which ends without calling `atexit`."""
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None and processes.parent_process() is not None:
            importlib.import_module("multiprocessing.util").Finalize(None, self.finish, exitpriority=1)

    def target_reached(self) -> None:
        self.write()
        if self._noise_pending:
            self.guarded(self._measure_noise)()
        if self._noise is not None:
            return
        if self._times_pending:
            self.guarded(self._measure_operator_times)()
        if self._operator_times is not None:
            return
        if not self._trace_pending:
            self.end()
        if self.loop.near_pass_end and self._trace_delays < TRACE_DELAYS:
            self._trace_delays += 1
            return
        self._begin_trace()

    def _measure_noise(self) -> None:
        """Measure the gradient noise over some more iterations, from the next one on."""
        optimizer = self._boundary_optimizer()
        if self._noise is None and optimizer is not None:
            noises = importlib.import_module(f"{__package__}.torch_gradient_noise")
            self._noise = noises.GradientNoise(
                self.module, optimizer, alone=not torch_facts.is_distributed(self.module)
            )
        if self._noise is not None and not self._noise.enough():
            return
        noise, self._noise, self._noise_pending = self._noise, None, False
        value = None if noise is None else noise.value()
        if value is None:
            self.note("gradient noise: the mean gradient cannot be distinguished from the noise of a few batches")
        self.recorder.add("gradient_noise", value=value)

    def _measure_operator_times(self) -> None:
        """Measure operator times over some more iterations, each from boundary to boundary."""
        if self._operator_times is None:
            self._times_pending = False  # not tried again if this fails
            module = importlib.import_module(f"{__package__}.torch_operator_times")
            self._operator_times = module.OperatorTimer(self.module)
            self._times_pending = True
        elif self._operator_times.enough():
            times, self._operator_times, self._times_pending = self._operator_times, None, False
            self.recorder.add("operator_times", **times.stop())

    def _begin_trace(self) -> None:
        operations = importlib.import_module(f"{__package__}.torch_operations")
        self._traced = True
        try:
            self._tracer = operations.Tracer(self.module, lambda: not self.loop.evaluating)
            self._tracer.enter()
        except Exception:  # noqa: BLE001 # the times are measured: continue without the operations
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
        except Exception:  # noqa: BLE001 # the times are measured: continue without the operations
            self.recorder.trouble("tracing")

    # Output.

    def write(self) -> None:
        if self.loop.count > 1 and time.monotonic() - self._network_at >= NETWORK_SECONDS:
            self._write_network()
        super().write()

    def write_facts(self) -> None:
        self._write_model()
        self.guarded(self._copy_scheduler)()
        for data_pass in self.loop.training_passes:
            self.recorder.add("loader", **data_pass.facts)
        self._write_input()
        self.recorder.add("versions", versions=torch_facts.versions(self.module))

    def write_final_facts(self) -> None:
        if self.loop.count == 1:
            self._write_model()
        self._write_network()
        compilation = torch_facts.compilation_facts()
        if compilation is not None:
            self.recorder.add("compilation", **compilation)
        self.guarded(self._write_schedule)()

    def _write_model(self) -> None:
        facts = torch_facts.model_facts(self.module, self._parameters(), self._optimizers, device=self._device)
        if facts is not None:
            optimizer = self._boundary_optimizer()
            name = None if optimizer is None else type(optimizer).__name__
            scheduler = torch_facts.scheduler_of(optimizer, self._schedulers)
            schedule = None if scheduler is None else type(scheduler).__name__
            if self.loop.count > 1 or self._finished:  # not in the first iteration, whose time is measured once only
                facts.update(self.guarded(self._weight_facts)(facts) or {})
            self.recorder.add("model", optimizer=name, schedule=schedule, **facts)

    def _write_input(self) -> None:
        """Record what the model is given and how often it is called in an iteration."""
        passes = self._backwards_per_step if len(self._optimizers) == 1 else 1
        facts = {} if self._input is None else self._input.facts
        self.recorder.add("input", **facts, passes=max(1, passes), loss_divisor=self._loss_divisor)

    def _weight_facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        """All weights, frozen ones too; where they are divided over processes, the figures of the whole model."""
        memory = importlib.import_module(f"{__package__}.torch_memory")
        found: dict[str, Any] = memory.weight_facts(self._modules(memory), self._parameters(), device=self._device)
        shards = found.pop("shards")
        found["foreach"] = memory.steps_all_at_once(self._boundary_optimizer())
        return {**found, **{name: round(shards * facts[name]) for name in ("gradient_bytes", "optimizer_bytes")}}

    def _modules(self, memory: Any) -> list[Any]:
        """The modules that were seen while they were made, and those inside the model that is called; all modules of
        the program if none was seen."""
        model = None if self._input is None else self._input.module()
        made = [module for reference in self._module_references if (module := reference()) is not None]
        seen = [*made, *(() if model is None else model.modules())]
        return seen or list(memory.all_modules(self.module))

    def _copy_scheduler(self) -> None:
        """Copy the scheduler before the program steps it for the first time."""
        scheduler = torch_facts.scheduler_of(self._boundary_optimizer(), self._schedulers)
        if scheduler is not None:
            schedules = importlib.import_module(f"{__package__}.torch_schedule")
            self._replay = (weakref.ref(scheduler), schedules.SchedulerReplay(scheduler))

    def _write_schedule(self) -> None:
        scheduler, schedule = self._replay
        if schedule is None or scheduler() is None:
            return
        loop, plan = self.loop, self.recorder.plan
        length, epochs = loop.length, math.ceil(plan.get("epochs") or 0) or None
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
        """Record the bytes sent if several processes train one model; otherwise it is not training that sends."""
        if not torch_facts.is_distributed(self.module) or self.module.distributed.get_world_size() < 2:
            return
        self._network_at = time.monotonic()
        counts = importlib.import_module(f"{__package__}.network").tcp_bytes()
        if counts is not None:
            self.recorder.add("network", n=self.loop.count, sent=counts[0], received=counts[1])

    def device_bytes(self) -> int | None:
        return self.module.cuda.max_memory_allocated() if self._device == "cuda" else None

    def loss_value(self, loss: Any) -> float:
        return loss if type(loss) is float else float(loss.item())


def _watch_first_call(owner: Any, name: str, called: Callable[[], None]) -> None:
    """Call `called` before the first call of a method, which is then the original one again."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def first(*args: Any, **options: Any) -> Any:
        setattr(owner, name, original)
        called()
        return original(*args, **options)

    setattr(owner, name, first)


def _calling_after(make: Callable[..., None], made: Callable[[Any], None]) -> Callable[..., None]:
    @functools.wraps(make)
    def watched(thing: Any, *args: Any, **options: Any) -> None:
        make(thing, *args, **options)
        made(thing)

    return watched
