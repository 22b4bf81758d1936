"""The hooks into plain JAX, with or without optax.

step boundary    the end of a call of a compiled function that called `optax.apply_updates` while it was traced; or that
                 call itself if it is not compiled. In a program that never calls it: a function that takes a gradient
steps of a call  the lengths of the `lax.scan` and `lax.fori_loop` around the update
times            JAX returns before the work is done: a thread waits for one small result of each step and notes when it
                 is ready. Nothing in the loop waits
loss             a scalar float in the result of the step
validation       calls of other compiled functions, if they come between some iterations but not between most
compilation      `jax.monitoring`
operations       `jax_operations.py`, from the jaxpr of the step, read when measuring is over

The functions that read facts from the arguments and results of a step are in `jax_facts.py`.
"""

# ruff: noqa: SLF001 # wrapped functions and listener belong together
from __future__ import annotations

import functools
import importlib
import math
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe import jax_facts
    from trainfare.probe.listener import Listener, find_loss, imported_versions, read_number
    from trainfare.probe.loop import DataPass
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
else:
    jax_facts = importlib.import_module(f"{__package__}.jax_facts")
    _listener = importlib.import_module(f"{__package__}.listener")
    Listener, find_loss = _listener.Listener, _listener.find_loss
    read_number, imported_versions = _listener.read_number, _listener.imported_versions

UPDATE, GRADIENT = 2, 1
"""The role of a compiled function: it updates parameters, or only takes a gradient; 0 is neither."""

CONFIRMING_GRADIENTS = 20
"""After this many gradients without `optax.apply_updates`, a program that has imported optax is taken to update its
parameters itself. A smaller number would misjudge a program that accumulates gradients."""

MAX_LOWERING_SECONDS = 20.0
"""The operations are not read if tracing and lowering took longer than this: the step might be traced again."""

MAX_SCHEDULED_STEPS = 1000
"""The learning rate of a schedule is computed for at most this many steps."""


def listen(module: ModuleType, recorder: Recorder, *, new_stop: Callable[[], Stop], trace: bool) -> JaxListener | None:
    """Install the hooks; called once jax has been imported, and again once optax has."""
    if module.__name__ == "optax":
        if JaxListener.current is not None:
            JaxListener.current.guarded(JaxListener.current.watch_optax)(module)
        return None
    listener = JaxListener.current = JaxListener(module, recorder, new_stop=new_stop, trace=trace)
    listener.install(
        listener.watch_compiled, listener.watch_gradients, listener.watch_loops, listener.watch_compilation
    )
    return listener


def optimizer_applied(optimizer: Any) -> None:
    """Called by the hooks into Keras when an optimizer was applied outside `fit`."""
    listener = JaxListener.current
    if listener is not None:
        variables = [variable.value for variable in optimizer._trainable_variables]
        listener.name_optimizer(type(optimizer).__name__, None)
        listener.guarded(listener.update_made)(variables, variables)


class CompiledFunction:
    """Wraps what `jax.jit` returned and reports its calls; every other attribute is that of the function."""

    def __init__(self, listener: JaxListener, function: Any) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._listener = listener
        self._began, self._ended = listener.guarded(listener.call_began), listener.guarded(listener.call_ended)
        self._keras_step_called = listener.guarded(listener.keras_step_called)
        self.role = 0
        self.steps = 1
        self.is_keras_step = getattr(function, "__name__", None) == "train_step"

    def __call__(self, *args: Any, **options: Any) -> Any:
        listener = self._listener
        begun = None if listener.calling else self._began()
        if begun is None:
            if self.is_keras_step and listener.muted:
                self.is_keras_step = False
                self._keras_step_called(self, args, options)
            return self._function(*args, **options)
        try:
            result = self._function(*args, **options)
        finally:
            listener.calling = False
        self._ended(self, begun, args, options, result)
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_function"], name)


class JaxListener(Listener):
    """Updates a Loop from the hooks into JAX."""

    framework = "jax"
    current: JaxListener | None = None

    def __init__(self, module: ModuleType, recorder: Recorder, *, new_stop: Callable[[], Stop], trace: bool) -> None:
        self.calling = False
        self._traced_role = 0
        self._traced_steps: int | None = 1
        self._loop_lengths: list[int | None] = []
        self._updates = False
        self._compile_seconds = self._lower_seconds = 0.0
        self._cache_requests = self._cache_hits = 0
        self._optimizers_being_made = 0
        self._optimizer: str | None = None
        self._optimizer_rate: Any = None
        self._schedules: dict[int, tuple[str, Any]] = {}
        self._parameters: dict[str, Any] = {}
        super().__init__(module, recorder, new_stop=new_stop, trace=trace)

    def begin(self) -> None:
        super().begin()
        self._iteration_start: float | None = None
        self._loss: Any = None
        self._last_loss: Any = None
        self._step: tuple[CompiledFunction, Any, Any] | None = None
        self._keras_step: tuple[CompiledFunction, Any, Any] | None = None
        self._found_batch_size: int | None = None
        self._found_tokens: tuple[int, ...] | None = None
        self._pass: DataPass | None = None
        self._other_functions: dict[int, _OtherFunction] = {}
        self._last_mark: Any = None

    # Installing the hooks.

    def watch_compiled(self) -> None:
        for name in ("jit", "pmap"):
            make = getattr(self.module, name)
            setattr(self.module, name, self._wrapping_compiled(make))

    def _wrapping_compiled(self, make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def watched(*args: Any, **options: Any) -> Any:
            made = make(*args, **options)
            if not args and "fun" not in options:  # with options only, it returns a decorator
                return lambda function: CompiledFunction(self, made(function))
            return CompiledFunction(self, made)

        return watched

    def watch_gradients(self) -> None:
        began, ended = self.guarded(self._gradient_began), self.guarded(self._gradient_ended)

        def making(make: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(make)
            def watched_make(*args: Any, **options: Any) -> Any:
                function = make(*args, **options)

                @functools.wraps(function)
                def watched(*args: Any, **options: Any) -> Any:
                    begun = began()
                    result = function(*args, **options)
                    if begun is not None:
                        ended(begun, result)
                    return result

                return watched

            return watched_make

        for name in ("grad", "value_and_grad"):
            setattr(self.module, name, making(getattr(self.module, name)))

    def watch_loops(self) -> None:
        lax: Any = self.module.lax
        self._watch_loop(
            "scan", lambda options: jax_facts.scan_length(self.module, **options), ("f", "init", "xs", "length")
        )
        self._watch_loop("fori_loop", lambda o: int(o["upper"]) - int(o["lower"]), ("lower", "upper", "body_fun"))
        if hasattr(lax, "while_loop"):
            self._watch_loop("while_loop", lambda _: None, ("cond_fun", "body_fun", "init_val"))

    def _watch_loop(self, name: str, length: Callable[[dict[str, Any]], int | None], names: tuple[str, ...]) -> None:
        loop = getattr(self.module.lax, name)

        @functools.wraps(loop)
        def watched(*args: Any, **options: Any) -> Any:
            try:
                self._loop_lengths.append(length({**dict(zip(names, args)), **options}))
            except Exception:  # noqa: BLE001 # the length is known only on the device
                self._loop_lengths.append(None)
            try:
                return loop(*args, **options)
            finally:
                self._loop_lengths.pop()

        setattr(self.module.lax, name, watched)

    def watch_compilation(self) -> None:
        monitoring: Any = importlib.import_module("jax.monitoring")

        def took(event: str, seconds: float, **_: Any) -> None:
            if event.endswith("/backend_compile_duration"):
                self._compile_seconds += seconds
            elif event.endswith(("/jaxpr_to_mlir_module_duration", "/jaxpr_trace_duration")):
                self._lower_seconds += seconds

        def happened(event: str, **_: Any) -> None:
            self._cache_requests += event.endswith("/compile_requests_use_cache")
            self._cache_hits += event.endswith("/cache_hits")

        monitoring.register_event_duration_secs_listener(took)
        monitoring.register_event_listener(happened)

    def watch_optax(self, optax: Any) -> None:
        apply = optax.apply_updates
        made = self.guarded(self.update_made)

        @functools.wraps(apply)
        def watched(params: Any, updates: Any) -> Any:
            result = apply(params, updates)
            made(params, result)
            return result

        optax.apply_updates = optax._src.update.apply_updates = watched
        for name, make in list(vars(optax).items()):
            where = getattr(make, "__module__", "") or ""
            if not callable(make) or isinstance(make, type):
                continue
            if where == "optax._src.alias":
                setattr(optax, name, self._wrapping_optimizer(name, make))
            elif name.endswith(("_schedule", "_schedules")) and "optax" in where:
                setattr(optax, name, self._wrapping_schedule(name, make))

    def _wrapping_optimizer(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        named = self.guarded(self.name_optimizer)

        @functools.wraps(make)
        def watched(*args: Any, **options: Any) -> Any:
            self._optimizers_being_made += 1
            try:
                made = make(*args, **options)
            finally:
                self._optimizers_being_made -= 1
            if not self._optimizers_being_made:
                named(name, args[0] if args else options.get("learning_rate"))
            return made

        return watched

    def _wrapping_schedule(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def watched(*args: Any, **options: Any) -> Any:
            schedule = make(*args, **options)
            self._schedules[id(schedule)] = (name, schedule)
            return schedule

        return watched

    # What the hooks call.

    def name_optimizer(self, name: str, rate: Any) -> None:
        self._optimizer, self._optimizer_rate = name, rate

    def call_began(self) -> float | None:
        """The moment of the call; None for a call in another thread, or in a program that Keras records."""
        if self.muted or threading.current_thread() is not threading.main_thread():
            return None
        self.calling = True
        self._traced_role = 0
        self.clock.poll()
        return time.monotonic()

    def call_ended(self, function: CompiledFunction, begun: float, args: Any, options: Any, result: Any) -> None:
        if self._traced_role > function.role:
            function.role = self._traced_role
        if self._traced_role == UPDATE:
            function.steps = self._steps_of_call()
        loss = find_loss(result)
        small_result = loss if loss is not None else jax_facts.smallest_array(self.module, result)
        if small_result is None or isinstance(small_result, self.module.core.Tracer):
            return  # nothing was computed: it is being traced inside another function
        if not function.role:
            self._other_called(function, begun, small_result)
            return
        if self._iteration_start is None:
            self._iteration_start = begun
        self._loss = self._last_loss = loss
        if self._step is None or self._step[0].role < function.role:
            self._step = (function, *jax_facts.abstract_arguments(self.module, (args, options)))
            data = jax_facts.data_shapes(self.module, args, options, result, function.steps)
            self._found_batch_size = jax_facts.common_size(data)
            self._found_tokens = jax_facts.tokens_shape(data)
        if function.role == UPDATE or not self._updates:
            self._end_iteration(
                function.steps, small_result, jax_facts.step_losses(self.module, result, function.steps)
            )

    def _steps_of_call(self) -> int:
        if self._traced_steps is None:
            self.note("steps run in a loop of unknown length: each call counts as one iteration")
        return self._traced_steps or 1

    def _gradient_began(self) -> float | None:
        if self.muted:
            return None
        if self.calling:
            self._traced_role = max(self._traced_role, GRADIENT)
            return None
        return time.monotonic()

    def _gradient_ended(self, begun: float, result: Any) -> None:
        """A gradient that is not compiled was taken."""
        small_result = jax_facts.smallest_array(self.module, result)
        if small_result is None or isinstance(small_result, self.module.core.Tracer):
            return
        if self._iteration_start is None:
            self._iteration_start = begun
        self._loss = self._last_loss = find_loss(result)
        if not self._updates:
            self._end_iteration(1, small_result, None)

    def update_made(self, params: Any, result: Any) -> None:
        if self.muted:
            return
        leaves = self.module.tree_util.tree_leaves(params)
        if not self._parameters:
            self._parameters = jax_facts.parameter_facts(leaves)
        if not self._updates:
            self._updates = True
            if self.loop.count:  # gradients were counted as iterations, and nothing is recorded yet
                state = self.first_start, self._last_loss, self._step, self._found_batch_size, self._found_tokens
                self.begin()
                self._iteration_start, self._loss, self._step, self._found_batch_size, self._found_tokens = state
        if self.calling:
            self._traced_role = UPDATE
            self._traced_steps = None if None in self._loop_lengths else math.prod(self._loop_lengths)  # type: ignore[arg-type] # not reached if one is None
            return
        small_result = jax_facts.smallest_array(self.module, result)
        if small_result is not None and not isinstance(small_result, self.module.core.Tracer):
            self._end_iteration(1, small_result, None)

    def _other_called(self, function: CompiledFunction, begun: float, small_result: Any) -> None:
        self.multi_step_end = None
        if not self.loop.count:
            return
        other = self._other_functions.setdefault(id(function), _OtherFunction())
        other.count_gap(self.loop.count)
        if not other.is_ordinary(self.loop.count):
            other.add_call(self.loop.count, (begun, self._last_mark), self.clock.when_ready(small_result))

    # Iterations.

    def _end_iteration(self, steps: int, small_result: Any, losses: Any) -> None:
        self.claim_process()
        begun = self._iteration_start if self._iteration_start is not None else time.monotonic()
        self.set_first_start(begun)
        loss, self._loss = self._loss, None
        if steps > 1:
            value = read_number(small_result)
            self.multi_step_call_ended(begun, steps, losses if losses is not None else None if loss is None else value)
            return
        mark = self._last_mark = self.clock.when_ready(small_result)
        self.step(mark if loss is small_result else loss, mark)
        self._iteration_start = None
        self.iteration_ended()

    @property
    def training_confirmed(self) -> bool:
        waiting = not self._updates and "optax" in sys.modules and self.loop.count < CONFIRMING_GRADIENTS
        return not waiting or self.stop.due(self.loop.count)

    def learning_rate(self) -> float | None:
        return float(self._optimizer_rate) if self._updates and isinstance(self._optimizer_rate, (int, float)) else None

    def before_step(self) -> None:
        if self._pass is None and self._found_batch_size is not None:
            facts = {"batch_size": self._found_batch_size, "samples": None, "length": None, "waits": False}
            self._pass = self.new_pass(self, self, facts, self.first_start)
        if self._pass is not None:
            self.loop.batch_given(self._pass, 0.0)

    # Output.

    def loss_value(self, loss: Any) -> float | None:
        return loss if isinstance(loss, float) else super().loss_value(loss)

    def write_facts(self) -> None:
        rate = self._optimizer_rate
        schedule = self._schedules.get(id(rate), (getattr(rate, "__qualname__", "").partition(".")[0], None))[0]
        self.recorder.add(
            "model",
            framework="jax",
            framework_version=str(self.module.__version__),
            # An optimizer that was made and is never used is not recorded.
            optimizer=self._optimizer if self._updates else None,
            schedule=schedule if self._updates and callable(rate) else None,
            **self._parameters,
            **device_facts(),
        )
        if self._found_batch_size is not None:
            self.recorder.add("loader", batch_size=self._found_batch_size, samples=None, length=None, waits=False)
        if self._found_tokens is not None:
            self.recorder.add("input", shape=list(self._found_tokens), tokens=True)
        self.recorder.add("versions", versions=imported_versions("jaxlib", "optax", "flax", "equinox", "numpy"))

    def write(self) -> None:
        count = self.loop.count
        for other in self._other_functions.values():
            if other.is_rare(count):
                self._write_windows(other, before=count)
        super().write()

    def _write_windows(self, other: _OtherFunction, *, before: float) -> None:
        """Record its windows in the gaps before that one, except those whose work is not done yet."""
        for gap in sorted(other.spans.keys() - other.written_gaps):
            (called, last), end = other.spans[gap]
            if gap >= before or end.seconds is None:
                continue
            other.written_gaps.add(gap)
            # It was called while the device was still working on earlier iterations. Where all cores are busy, the end
            # of those may be noticed only after its own end: then it is taken to begin when it was called.
            begun = called if last is None or last.seconds is None else max(called, last.seconds)
            start = begun if begun < end.seconds else called
            self.recorder.add("window", start=start, end=max(start, end.seconds), after=gap)

    def write_final_facts(self) -> None:
        count = self.loop.count
        for other in self._other_functions.values():
            if not other.is_ordinary(count):
                self._write_windows(other, before=math.inf)
        if self._updates and callable(self._optimizer_rate):
            values = [float(self._optimizer_rate(step)) for step in range(min(count, MAX_SCHEDULED_STEPS))]
            self.recorder.add("learning_rates", values=values)
        write_compilation(self.recorder)
        if self.trace:
            self.recorder.flush()  # reading them may take seconds
            self.guarded(self._write_operations)()

    def _write_operations(self) -> None:
        if self._step is not None:
            self._write_operations_of(self._step, self.recorder)

    def write_keras_operations(self, recorder: Recorder) -> None:
        if self._keras_step is not None:
            self._write_operations_of(self._keras_step, recorder)

    def _write_operations_of(self, step: tuple[CompiledFunction, Any, Any], recorder: Recorder) -> None:
        """Record the operations from the jaxpr of its last compilation, which JAX still holds."""
        if self._lower_seconds > MAX_LOWERING_SECONDS:
            return
        function, args, options = step
        operations: Any = importlib.import_module(f"{__package__}.jax_operations")
        jaxpr = function._function.trace(*args, **options).jaxpr
        recorder.add("operations", **operations.operations_of(jaxpr, steps=function.steps))

    def keras_step_called(self, function: CompiledFunction, args: Any, options: Any) -> None:
        """Note the step with which a model of Keras is trained, which Keras itself records."""
        self._keras_step = (function, *jax_facts.abstract_arguments(self.module, (args, options)))

    def device_bytes(self) -> int | None:
        return device_bytes()


class _OtherFunction:
    """A compiled function that does not train, and the times of its calls: from the first to the last call in each gap
    between two iterations."""

    def __init__(self) -> None:
        self.spans: dict[int, tuple[Any, Any]] = {}
        self.gaps = 0
        """The number of gaps in which it was called; the gaps of an ordinary function have no spans."""
        self.last_gap: int | None = None
        self.written_gaps: set[int] = set()
        """The gaps whose window is recorded already."""

    def count_gap(self, gap: int) -> None:
        self.gaps += gap != self.last_gap
        self.last_gap = gap

    def add_call(self, gap: int, start: Any, end: Any) -> None:
        first = self.spans.get(gap)
        self.spans[gap] = (start if first is None else first[0], end)

    def is_ordinary(self, gaps: int) -> bool:
        """It runs in most gaps, so it is part of the iterations."""
        return self.gaps > max(2, gaps / 2)

    def is_rare(self, gaps: int) -> bool:
        """It runs so rarely that it is certainly a validation, before measuring is over."""
        return self.gaps <= gaps / 4


def write_compilation(recorder: Recorder) -> None:
    """Record the seconds that XLA compiled so far in this process, and whether its cache was warm."""
    listener = JaxListener.current
    if listener is None or not listener._compile_seconds:
        return
    requests, hits = listener._cache_requests, listener._cache_hits
    warm = hits > requests / 2 if requests else None
    recorder.add("compilation", seconds=listener._compile_seconds, cache_warm=warm)


def device_facts() -> dict[str, Any]:
    devices = sys.modules["jax"].local_devices()
    platform = devices[0].platform
    gpu = platform in ("gpu", "cuda", "rocm")
    return {
        "device": "cuda" if gpu else platform,
        "gpu": devices[0].device_kind if gpu else None,
        "gpus": len(devices) if gpu else 0,
    }


def device_bytes() -> int | None:
    facts = sys.modules["jax"].local_devices()[0].memory_stats() or {}
    return facts.get("peak_bytes_in_use")
