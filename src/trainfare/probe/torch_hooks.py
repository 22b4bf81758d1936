"""Where PyTorch is listened to.

step boundary, optimizer, parameters   the global hooks of `torch.optim.Optimizer.step`
loss                                   `torch.autograd.backward`, `GradScaler.scale`
batches, waits, data set               `_BaseDataLoaderIter`, patched rather than wrapped: subclasses work
validation                             a pass that does not train; `Module.train` and `eval`
checkpoints                            `torch.save`
schedule of the learning rate          the making of a scheduler
compilation, bytes sent                asked for at the end: `torch._dynamo` counts, the kernel counts

A program that never made a `torch.optim.Optimizer` updates its weights itself: there an iteration ends with each
backward pass. Where optimizers step inside the backward pass it ends with that pass.

Not used: the global forward hook, which costs 9–16 %, breaks graphs of `torch.compile` and makes it warn.
"""

# ruff: noqa: SLF001 # PyTorch has no public name for what a loader's iterator knows
from __future__ import annotations

import atexit
import functools
import importlib
import os
import platform
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe.loop import Loop, Pass
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
    from trainfare.probe.torch_operations import Tracer

FRAMEWORK = "torch"

TRACE_DELAYS = 3
"""So many iterations are let pass rather than trace one at the end of an epoch."""

TRACE_AFTER = 5
"""Iterations, where one is traced before the end is known: libraries are loaded and memory is allocated by then."""

MEMORY_SECONDS = 2.0
"""Asking the system for the peak of memory takes some 0.15 ms, as long as all else that is written at once."""

NETWORK_SECONDS = 2.0
"""Asking the kernel for the bytes of every connection takes some 0.2 ms."""

BELIEVED_BACKWARDS = 3
"""After so many backward passes without any optimizer the program is believed to have none."""

NOTED = ("numpy", "triton", "lightning", "pytorch_lightning", "transformers", "accelerate", "deepspeed")
"""Libraries whose version may decide the speed, where the program has imported them."""

ROUNDS_WITHOUT_FIRST = 20
"""After so many steps of other optimizers the one that began the rounds is believed to be out of use."""


def listen(torch: ModuleType, recorder: Recorder, *, stop: Callable[[], Stop], trace: bool) -> Listener:
    """Called once torch has been imported."""
    listener = Listener(torch, recorder, stop=stop, trace=trace)
    Listener.current = listener
    for watch in (
        listener.watch_steps,
        listener.watch_losses,
        listener.watch_loaders,
        listener.watch_modes,
        listener.watch_saves,
        listener.watch_schedules,
    ):
        listener.guarded(watch)()  # one that this version of torch lacks leaves the others
    atexit.register(listener.finish)
    os.register_at_fork(after_in_child=listener.begin)
    return listener


class HostClock:
    """Work on the CPU is done when the call returns."""

    def mark(self) -> float:
        return time.monotonic()

    def seconds(self, mark: float) -> float:
        return mark

    def settle(self) -> None:
        pass


class CudaClock:
    """Events on the stream: a call returns before its work is done, and asking would slow the program down.

    Seconds are chained from the last moment known, because an event gives milliseconds in single precision.
    """

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        torch.cuda.synchronize()
        self._known = self.mark()
        self._known_at = time.monotonic()

    def mark(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, mark: Any) -> float | None:
        if isinstance(mark, float):
            return mark
        if not mark.query():
            return None
        self._known_at += self._known.elapsed_time(mark) / 1e3
        self._known = mark
        return self._known_at

    def settle(self) -> None:
        self._torch.cuda.synchronize()


class Listener:
    """Moves a Loop on as PyTorch calls; a hook that fails is reported and never reaches the program."""

    current: Listener | None = None
    """For the listeners of libraries that are built on PyTorch."""

    def __init__(self, torch: ModuleType, recorder: Recorder, *, stop: Callable[[], Stop], trace: bool) -> None:
        self.torch = torch
        self.recorder = recorder
        self._new_stop = stop
        self._trace = trace
        self._package = importlib.import_module(f"{__package__}.loop")
        self._listening = importlib.import_module(f"{__package__}.listening")
        self._optimizer_made = False
        self._schedulers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.begin()

    def begin(self) -> None:
        """From nothing: at the start, and again in a forked child, which trains its own model or none."""
        self.loop: Loop = self._package.Loop(self.recorder, HostClock(), self._loss_value)
        self._first: weakref.ref[Any] | None = None
        self._others = 0
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._device = "cpu"
        self._unscaled: Any = None
        self._tracer: Tracer | None = None
        self._traced = False
        self._delays = 0
        self._stop = self._new_stop()
        self._finished = False
        self._memory_at = self._network_at = 0.0
        self._backward_depth = 0
        self._stepped_inside: Any = None
        self._stepping = self._step_has_loss = False
        self._leaves: list[Any] = []
        self._facts_written = False
        self._saves = 0
        self._save_start: Any = None

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
        optimizer.register_optimizer_step_pre_hook(self.guarded(self._step_started))
        optimizer.register_optimizer_step_post_hook(self.guarded(self._step_ended))

    def watch_losses(self) -> None:
        autograd = self.torch.autograd
        backward = autograd.backward
        seen = self.guarded(self._backward_started)
        done = self.guarded(self._backward_ended)

        @functools.wraps(backward)
        def watched(tensors: Any, *args: Any, **options: Any) -> Any:
            seen(tensors)
            try:
                return backward(tensors, *args, **options)
            finally:
                done()

        autograd.backward = watched

        scaler = self.torch.amp.GradScaler
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

        @functools.wraps(begin)
        def watched_init(iterator: Any, loader: Any) -> None:
            made(iterator, loader)
            begin(iterator, loader)

        @functools.wraps(following)
        def watched_next(iterator: Any) -> Any:
            asked_at = asked(iterator)
            try:
                batch = following(iterator)
            except StopIteration:
                ended(iterator)
                raise
            given(iterator, batch, asked_at)
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
        torch: Any = self.torch
        torch.save = torch.serialization.save = self.saving(torch.save)

    def watch_schedules(self) -> None:
        schedulers: Any = importlib.import_module("torch.optim.lr_scheduler")
        made = self.guarded(self._schedulers.add)
        # The others call the first.
        for name in ("LRScheduler", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler"):
            scheduler = getattr(schedulers, name, None)
            if scheduler is not None:
                scheduler.__init__ = _then(scheduler.__init__, made)

    def saving(self, save: Callable[..., Any]) -> Callable[..., Any]:
        """The same, and the time that it takes is recorded as that of a checkpoint."""
        begun, done = self.guarded(self._save_started), self.guarded(self._save_ended)

        @functools.wraps(save)
        def watched(*args: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return save(*args, **options)  # training does not wait for it
            begun()
            try:
                return save(*args, **options)
            finally:
                done()

        return watched

    def guarded(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(hook)
        def guarded(*args: Any) -> Any:
            if self.recorder.closed:
                return None
            try:
                return hook(*args)
            except Exception:  # noqa: BLE001 # training goes on, whatever is wrong with us
                self.recorder.trouble(hook.__name__)
                return None

        return guarded

    # What they tell.

    def _gradients_cleared(self) -> None:
        self.loop.gradients_cleared()

    def _first_optimizer_made(self) -> None:
        self._optimizer_made = True
        if 0 < self.loop.count < BELIEVED_BACKWARDS:
            self.begin()  # what went before was no training, or is not told yet

    def _save_started(self) -> None:
        self._saves += 1
        if self._saves == 1:
            self._save_start = self.loop.clock.mark()

    def _save_ended(self) -> None:
        self._saves -= 1
        if not self._saves:
            self.loop.saved(self._save_start)

    def _iterator_made(self, iterator: Any, loader: Any) -> None:
        self._new_pass(iterator, loader, _loader_facts(loader))

    def _new_pass(self, iterator: Any, loader: Any, facts: dict[str, Any]) -> Pass:
        one: Pass = self._package.Pass(iterator, loader, self.loop.clock.mark(), facts)
        iterator._trainfare_pass = one
        self.loop.pass_started(one)
        return one

    def _batch_asked(self, iterator: Any) -> float:
        one: Pass = iterator._trainfare_pass
        if one.given and not iterator._num_yielded:
            # Persistent workers: the loader uses its iterator again.
            one = self._new_pass(iterator, one.loader(), one.facts)
        self.loop.batch_asked(one)
        return time.monotonic()

    def _batch_given(self, iterator: Any, batch: Any, asked_at: float) -> None:
        one: Pass = iterator._trainfare_pass
        self.loop.batch_given(one, time.monotonic() - asked_at)
        if one.facts["batch_size"] is None:
            one.facts["batch_size"] = _leading_dimension(batch)

    def _pass_ended(self, iterator: Any) -> None:
        self.loop.pass_ended(iterator._trainfare_pass)

    def _mode_changed(self, training: bool) -> None:
        self.loop.mode_changed(training=training)

    def loss_scaled(self, outputs: Any) -> None:
        """Before it is divided for accumulation or multiplied for half precision; the first to tell has it whole."""
        if self._unscaled is None and isinstance(outputs, self.torch.Tensor):
            self._unscaled = outputs

    def _backward_started(self, tensors: Any) -> None:
        self._backward_depth += 1
        loss = self._unscaled if self._unscaled is not None else tensors
        self._unscaled = None
        if not isinstance(loss, self.torch.Tensor):
            loss = loss[0] if len(loss) == 1 else None
        # A backward pass inside another belongs to a checkpointed part of the model and starts at no loss.
        if loss is not None and (loss.numel() != 1 or self._backward_depth > 1):
            loss = None
        if not self._optimizer_made and not self._leaves and loss is not None:
            self._leaves = _leaves(loss)
        # A closure may be called again and again inside one step: the first loss is that of the iteration.
        if self._stepping and self._step_has_loss:
            loss = None
        self._step_has_loss = self._stepping
        self.loop.backward_started(None if loss is None else loss.detach())
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

    def _step_started(self, _optimizer: Any, args: Any, options: Any) -> None:
        self._stepping, self._step_has_loss = True, False
        self.loop.step_started()
        if self._tracer is not None:
            closure = options.get("closure") or (args[1] if len(args) > 1 else None)
            self._tracer.step_started(closure=closure is not None)

    def _step_ended(self, optimizer: Any, _args: Any, _options: Any) -> None:
        self._stepping = False
        if self._tracer is not None:
            self._tracer.step_ended()
        if self._backward_depth:
            self._optimizers.add(optimizer)
            self._stepped_inside = optimizer
        elif self._ends_iteration(optimizer):
            self._boundary(optimizer)

    # What follows from it.

    def _boundary(self, optimizer: Any) -> None:
        """The end of an iteration; without an optimizer where the program updates its weights itself."""
        if self.recorder.speaker not in (None, FRAMEWORK):
            return
        self.recorder.speaker = FRAMEWORK
        if self._stop.tried:
            self._end()
        if self._tracer is not None:
            self._end_trace()
            if self._stop.due(self.loop.count):
                self._end()
            self.recorder.add("traced", n=self.loop.count + 1)
        if self._stop.due(self.loop.count):
            self.loop.skip_iteration()
        else:
            self._iteration_ended(optimizer)
        if self._stop.due(self.loop.count):
            self._enough_measured()
        elif self._trace_is_due():
            self._begin_trace()

    def _trace_is_due(self) -> bool:
        """A program of which nobody knows when it is stopped may end by itself first: it is traced early."""
        early = self._stop.open_ended and self._trace and not self._traced and self.loop.count >= TRACE_AFTER
        return early and not self.loop.between_passes

    def _ends_iteration(self, optimizer: Any) -> bool:
        """Of several optimizers, the one that steps first in each round ends the iteration."""
        first = self._first() if self._first is not None else None
        if optimizer is not first:
            self._optimizers.add(optimizer)
        if first is None or self._others >= ROUNDS_WITHOUT_FIRST:
            self._first, first = weakref.ref(optimizer), optimizer
        self._others = 0 if optimizer is first else self._others + 1
        return optimizer is first

    def _iteration_ended(self, optimizer: Any) -> None:
        loop = self.loop
        if not loop.count:
            self._device = self._device_of_parameters()
            if self._device == "cuda":
                loop.clock = CudaClock(self.torch)
        loop.step_ended(_learning_rate(optimizer))
        if not self._optimizer_made and loop.count < BELIEVED_BACKWARDS:
            return
        if not self._facts_written:
            self._finish_in_children()
            self._write_facts(optimizer)
        elif loop.count == 2:
            self._write_model(optimizer)  # again: some optimizers of a round step only now
        elif not self.recorder.due:
            return
        self._write()
        loop.restart_clock()

    def _device_of_parameters(self) -> str:
        return next((str(p.device.type) for p in self._parameters()), "cpu")

    def _parameters(self) -> list[Any]:
        """Those that are trained: of all optimizers, or that the gradient of the loss flows to."""
        return _unique(p for o in self._optimizers for group in o.param_groups for p in group["params"]) or self._leaves

    def _finish_in_children(self) -> None:
        """A process of `multiprocessing` ends without `atexit`."""
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None and processes.parent_process() is not None:
            importlib.import_module("multiprocessing.util").Finalize(None, self.finish, exitpriority=1)

    def _enough_measured(self) -> None:
        self._write()
        if not self._trace or self._traced:
            self._end()
        if self.loop.between_passes and self._delays < TRACE_DELAYS:
            self._delays += 1
            return
        self._begin_trace()

    def _begin_trace(self) -> None:
        operations = importlib.import_module(f"{__package__}.torch_operations")
        self._traced = True
        try:
            self._tracer = operations.Tracer(self.torch, lambda: not self.loop.evaluating)
            self._tracer.enter()
        except Exception:  # noqa: BLE001 # the times are measured: go without the operations
            self.recorder.trouble("tracing")
            self._tracer = None
            if self._stop.due(self.loop.count):
                self._end()

    def _end_trace(self) -> None:
        tracer, self._tracer = self._tracer, None
        if tracer is None:
            return
        try:
            self.recorder.add("operations", **tracer.leave())
        except Exception:  # noqa: BLE001 # as above
            self.recorder.trouble("tracing")

    def _end(self) -> NoReturn:
        self.finish()
        self._stop.end()

    def finish(self) -> None:
        """At the stop, or when the program ends by itself."""
        if self._finished or not self.loop.count:
            return
        self._finished = True
        try:
            self.loop.finish()
            self._write_memory()
            self._write_network()
            self._write_compilation()
            if not self._facts_written:
                self._write_facts(None)
        except Exception:  # noqa: BLE001 # a device that is broken at exit must not hide why
            self.recorder.trouble("finishing")
        self.recorder.add("stop" if self._stop.due(self.loop.count) else "exit")
        self.recorder.flush()

    # What is written.

    def _write(self) -> None:
        self.loop.write()
        if self._device == "cpu" or self._stop.by_loss:
            self.loop.write_losses()
        if self.loop.count <= 2 or time.monotonic() - self._memory_at >= MEMORY_SECONDS:
            self._write_memory()
        if self.loop.count > 1 and time.monotonic() - self._network_at >= NETWORK_SECONDS:
            self._write_network()
        self.recorder.add("cpu", seconds=time.process_time())
        self.recorder.flush()

    def _write_facts(self, optimizer: Any) -> None:
        self._facts_written = True
        self._write_model(optimizer)
        for one in self.loop.training_passes:
            self.recorder.add("loader", **one.facts)
        self.recorder.add("versions", versions=_versions(self.torch))

    def _write_model(self, optimizer: Any) -> None:
        parameters = self._parameters()
        largest = max(parameters, key=lambda p: p.numel(), default=None)
        if largest is None:
            return
        states = [value for o in self._optimizers for state in o.state.values() for value in _tensors(state)]
        distributed = self.torch.distributed
        spread = self._spread()
        cuda = self._device == "cuda"
        self.recorder.add(
            "model",
            parameters=sum(p.numel() for p in parameters),
            dtype=_dtype(largest),
            device=self._device,
            gpu=self.torch.cuda.get_device_name(largest.device) if cuda else None,
            gpus=self.torch.cuda.device_count() if cuda else 0,
            optimizer=None if optimizer is None else type(optimizer).__name__,
            schedule=self._schedule(optimizer),
            gradient_bytes=sum(_bytes(p.grad) for p in parameters if p.grad is not None),
            optimizer_bytes=sum(map(_bytes, _unique(states))),
            world_size=distributed.get_world_size() if spread else 1,
            rank=distributed.get_rank() if spread else 0,
        )

    def _schedule(self, optimizer: Any) -> str | None:
        """The outermost of the optimizer's schedulers: those that it is made of are inside it."""
        found = [one for one in self._schedulers if getattr(one, "optimizer", None) is optimizer]
        inside = {id(part) for one in found for part in getattr(one, "_schedulers", ())}
        return next((type(one).__name__ for one in found if id(one) not in inside), None)

    def _spread(self) -> bool:
        """Over several processes."""
        distributed = self.torch.distributed
        return bool(distributed.is_available() and distributed.is_initialized())

    def _write_network(self) -> None:
        """Only where several processes train one model: else it is not training that sends."""
        if not self._spread() or self.torch.distributed.get_world_size() < 2:
            return
        self._network_at = time.monotonic()
        counts = importlib.import_module(f"{__package__}.network").tcp_bytes()
        if counts is not None:
            self.recorder.add("network", n=self.loop.count, sent=counts[0], received=counts[1])

    def _write_compilation(self) -> None:
        """What `torch.compile` took, and whether it found code of an earlier run. A cold machine has none."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        seconds = 0.0 if dynamo is None else dynamo.calculate_time_spent().get("total_wall_time", 0.0)
        if dynamo is None or not seconds:
            return
        counts = dynamo.counters["inductor"]
        hits, misses = counts["fxgraph_cache_hit"], counts["fxgraph_cache_miss"] + counts["fxgraph_cache_bypass"]
        self.recorder.add("compilation", seconds=seconds, cache_warm=hits > misses if hits + misses else None)

    def _write_memory(self) -> None:
        self._memory_at = time.monotonic()
        device = self.torch.cuda.max_memory_allocated() if self._device == "cuda" else None
        self.recorder.add("memory", host_bytes=self._listening.peak_resident_bytes(), device_bytes=device)

    def _loss_value(self, loss: Any) -> float:
        return float(loss.item())


def _then(make: Callable[..., None], made: Callable[[Any], None]) -> Callable[..., None]:
    @functools.wraps(make)
    def watched(thing: Any, *args: Any, **options: Any) -> None:
        make(thing, *args, **options)
        made(thing)

    return watched


def _learning_rate(optimizer: Any) -> float | None:
    rate = None if optimizer is None else optimizer.param_groups[0].get("lr")
    return rate if isinstance(rate, (int, float)) else None


def _leaves(loss: Any) -> list[Any]:
    """The tensors that the gradient of the loss flows to."""
    waiting, seen, found = [loss.grad_fn], set(), []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        waiting += [following for following, _ in node.next_functions]
    return _unique(found)


def _versions(torch: ModuleType) -> dict[str, str]:
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in NOTED}
    found["python"] = platform.python_version()
    found["cuda"], found["rocm"] = torch.version.cuda, getattr(torch.version, "hip", None)
    if torch.version.cuda:
        found["cudnn"] = torch.backends.cudnn.version()
    return {name: str(version) for name, version in found.items() if version}


def _loader_facts(loader: Any) -> dict[str, Any]:
    return {
        "batch_size": loader.batch_size or getattr(loader.batch_sampler, "batch_size", None),
        "samples": _samples(loader),
        "length": _length(loader),
        "workers": loader.num_workers,
    }


def _leading_dimension(batch: Any) -> int | None:
    """Of a loader whose data set makes the batches itself."""
    first = next((tensor for tensor in _tensors(batch) if tensor.dim()), None)
    return None if first is None else int(first.shape[0])


def _samples(loader: Any) -> int | None:
    """The samples of an epoch: the sampler may take only a part of the data set, or a share of it on each rank."""
    sampler = getattr(loader, "sampler", None)
    own_batches = loader.batch_size is None
    try:
        if own_batches or not hasattr(sampler, "__len__"):
            return len(loader.dataset)
        return len(sampler) if not hasattr(sampler, "num_replicas") else len(loader.dataset)  # type: ignore[arg-type]  # it has a length: asked above
    except (TypeError, NotImplementedError):
        return None


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


def _unique(tensors: Any) -> list[Any]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def _tensors(value: Any) -> list[Any]:
    """The tensors of a batch or of an optimizer's state, however nested."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if hasattr(value, "untyped_storage") else []


def _bytes(tensor: Any) -> int:
    if tensor.is_sparse:
        tensor = tensor._values()
    return int(tensor.numel() * tensor.element_size())


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).replace("torch.", "")
