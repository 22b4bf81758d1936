"""Where plain JAX, with or without optax, is listened to.

step boundary    the end of a call of a compiled function in whose tracing `optax.apply_updates` was called; or that
                 call itself, where it is not compiled. A program that never calls it: a function that takes a gradient
steps of a call  the lengths of the `lax.scan` and `lax.fori_loop` around the update
times            JAX returns before the work is done: a thread waits for one small result of each step and notes when it
                 is ready. Nothing in the loop waits
loss             a number with a fraction among what the step returns
validation       calls of other compiled functions, if they come between some iterations but not between most
compilation      `jax.monitoring`
operations       `jax_operations.py`, from the jaxpr of the step; asked for when measuring is over
"""

# ruff: noqa: SLF001 # what is watched belongs to the listener
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

    from trainfare.probe.listening import Listener, loss_in, read_number, versions_of
    from trainfare.probe.loop import Pass
    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop
else:
    _listening = importlib.import_module(f"{__package__}.listening")
    Listener, loss_in = _listening.Listener, _listening.loss_in
    read_number, versions_of = _listening.read_number, _listening.versions_of

UPDATE, GRADIENT = 2, 1

BELIEVED_GRADIENTS = 20
"""After so many gradients without `optax.apply_updates` a program that has imported optax is believed to update its
parameters itself; less would mistake one that accumulates gradients."""

LOWERING_SECONDS = 20.0
"""A program that took longer to trace and lower is not asked for its operations: it might be traced again."""

SCHEDULED = 1000
"""The learning rate of so many steps is asked of a schedule."""


def listen(module: ModuleType, recorder: Recorder, *, stop: Callable[[], Stop], trace: bool) -> JaxListener | None:
    """Called once jax, and once optax, has been imported."""
    if module.__name__ == "optax":
        if JaxListener.current is not None:
            JaxListener.current.guarded(JaxListener.current.watch_optax)(module)
        return None
    listener = JaxListener.current = JaxListener(module, recorder, stop=stop, trace=trace)
    listener.place(listener.watch_compiled, listener.watch_gradients, listener.watch_loops, listener.watch_compilation)
    return listener


def updated(optimizer: Any) -> None:
    """An optimizer of Keras was applied, outside `fit`."""
    listener = JaxListener.current
    if listener is not None:
        variables = [variable.value for variable in optimizer._trainable_variables]
        listener.name_optimizer(type(optimizer).__name__, None)
        listener.guarded(listener.update_made)(variables, variables)


class Compiled:
    """What `jax.jit` returned, telling of its calls; all else is the function's own."""

    def __init__(self, listener: JaxListener, function: Any) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._listener = listener
        self._began, self._ended = listener.guarded(listener.call_began), listener.guarded(listener.call_ended)
        self._told = listener.guarded(listener.keras_step_called)
        self.role = 0
        self.steps = 1
        self.of_keras = getattr(function, "__name__", None) == "train_step"

    def __call__(self, *args: Any, **options: Any) -> Any:
        listener = self._listener
        begun = None if listener.calling else self._began()
        if begun is None:
            if self.of_keras and listener.silent:
                self.of_keras = False
                self._told(self, args, options)
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
    framework = "jax"
    current: JaxListener | None = None

    def __init__(self, module: ModuleType, recorder: Recorder, *, stop: Callable[[], Stop], trace: bool) -> None:
        self.calling = False
        self._traced = 0
        self._traced_steps: int | None = 1
        self._lengths: list[int | None] = []
        self._updates = False
        self._compile_seconds = self._lower_seconds = 0.0
        self._cache_requests = self._cache_hits = 0
        self._making = 0
        self._optimizer: str | None = None
        self._rate: Any = None
        self._schedules: dict[int, tuple[str, Any]] = {}
        self._parameters: dict[str, Any] = {}
        super().__init__(module, recorder, stop=stop, trace=trace)

    def begin(self) -> None:
        super().begin()
        self._begun: float | None = None
        self._loss: Any = None
        self._last_loss: Any = None
        self._step: tuple[Compiled, Any, Any] | None = None
        self._keras_step: tuple[Compiled, Any, Any] | None = None
        self._batch: int | None = None
        self._pass: Pass | None = None
        self._others: dict[int, _Other] = {}
        self._last_mark: Any = None

    # Where the hooks go.

    def watch_compiled(self) -> None:
        for name in ("jit", "pmap"):
            make = getattr(self.module, name)
            setattr(self.module, name, self._making_compiled(make))

    def _making_compiled(self, make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def watched(*args: Any, **options: Any) -> Any:
            made = make(*args, **options)
            if not args and "fun" not in options:  # only options: it makes a decorator
                return lambda function: Compiled(self, made(function))
            return Compiled(self, made)

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
        self._watch_loop("scan", lambda options: _scan_length(self.module, **options), ("f", "init", "xs", "length"))
        self._watch_loop("fori_loop", lambda o: int(o["upper"]) - int(o["lower"]), ("lower", "upper", "body_fun"))
        if hasattr(lax, "while_loop"):
            self._watch_loop("while_loop", lambda _: None, ("cond_fun", "body_fun", "init_val"))

    def _watch_loop(self, name: str, length: Callable[[dict[str, Any]], int | None], names: tuple[str, ...]) -> None:
        loop = getattr(self.module.lax, name)

        @functools.wraps(loop)
        def watched(*args: Any, **options: Any) -> Any:
            try:
                self._lengths.append(length({**dict(zip(names, args)), **options}))  # noqa: B905 # Python 3.9
            except Exception:  # noqa: BLE001 # a length that only the device knows
                self._lengths.append(None)
            try:
                return loop(*args, **options)
            finally:
                self._lengths.pop()

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
                setattr(optax, name, self._making_optimizer(name, make))
            elif name.endswith(("_schedule", "_schedules")) and "optax" in where:
                setattr(optax, name, self._making_schedule(name, make))

    def _making_optimizer(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        named = self.guarded(self.name_optimizer)

        @functools.wraps(make)
        def watched(*args: Any, **options: Any) -> Any:
            self._making += 1
            try:
                made = make(*args, **options)
            finally:
                self._making -= 1
            if not self._making:
                named(name, args[0] if args else options.get("learning_rate"))
            return made

        return watched

    def _making_schedule(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def watched(*args: Any, **options: Any) -> Any:
            schedule = make(*args, **options)
            self._schedules[id(schedule)] = (name, schedule)
            return schedule

        return watched

    # What they tell.

    def name_optimizer(self, name: str, rate: Any) -> None:
        self._optimizer, self._rate = name, rate

    def call_began(self) -> float | None:
        """None where it is of no interest: in another thread, or in a program of which Keras speaks."""
        if self.silent or threading.current_thread() is not threading.main_thread():
            return None
        self.calling = True
        self._traced = 0
        self.clock.look()
        return time.monotonic()

    def call_ended(self, function: Compiled, begun: float, args: Any, options: Any, result: Any) -> None:
        if self._traced > function.role:
            function.role = self._traced
        if self._traced == UPDATE:
            function.steps = self._known_steps()
        loss = loss_in(result)
        shown = loss if loss is not None else _smallest(self.module, result)
        if shown is None or isinstance(shown, self.module.core.Tracer):
            return  # nothing was computed: it is being traced by somebody else
        if not function.role:
            self._other_called(function, begun, shown)
            return
        if self._begun is None:
            self._begun = begun
        self._loss = self._last_loss = loss
        if self._step is None or self._step[0].role < function.role:
            self._step = (function, *_shapes(self.module, (args, options)))
            self._batch = _batch_size(self.module, args, options, result, function.steps)
        if function.role == UPDATE or not self._updates:
            self._boundary(function.steps, shown, _losses(self.module, result, function.steps))

    def _known_steps(self) -> int:
        if self._traced_steps is None:
            self.note("steps run in a loop of unknown length: each call counts as one iteration")
        return self._traced_steps or 1

    def _gradient_began(self) -> float | None:
        if self.silent:
            return None
        if self.calling:
            self._traced = max(self._traced, GRADIENT)
            return None
        return time.monotonic()

    def _gradient_ended(self, begun: float, result: Any) -> None:
        """One that is not compiled."""
        shown = _smallest(self.module, result)
        if shown is None or isinstance(shown, self.module.core.Tracer):
            return
        if self._begun is None:
            self._begun = begun
        self._loss = self._last_loss = loss_in(result)
        if not self._updates:
            self._boundary(1, shown, None)

    def update_made(self, params: Any, result: Any) -> None:
        if self.silent:
            return
        leaves = self.module.tree_util.tree_leaves(params)
        if not self._parameters:
            self._parameters = _parameter_facts(leaves)
        if not self._updates:
            self._updates = True
            if self.loop.count:  # gradients were taken for iterations, and nothing is told yet
                kept = self.first_start, self._last_loss, self._step, self._batch
                self.begin()
                self._begun, self._loss, self._step, self._batch = kept
        if self.calling:
            self._traced = UPDATE
            self._traced_steps = None if None in self._lengths else math.prod(self._lengths)  # type: ignore[arg-type] # no None
            return
        shown = _smallest(self.module, result)
        if shown is not None and not isinstance(shown, self.module.core.Tracer):
            self._boundary(1, shown, None)

    def _other_called(self, function: Compiled, begun: float, shown: Any) -> None:
        self.together_end = None
        if not self.loop.count:
            return
        other = self._others.setdefault(id(function), _Other())
        other.count(self.loop.count)
        if not other.ordinary(self.loop.count):
            other.called(self.loop.count, (begun, self._last_mark), self.clock.when_ready(shown))

    # What follows from it.

    def _boundary(self, steps: int, shown: Any, losses: Any) -> None:
        self.speak()
        begun = self._begun if self._begun is not None else time.monotonic()
        self.start_at(begun)
        loss, self._loss = self._loss, None
        if steps > 1:
            value = read_number(shown)
            self.steps_together(begun, steps, losses if losses is not None else None if loss is None else value)
            return
        mark = self._last_mark = self.clock.when_ready(shown)
        self.step(mark if loss is shown else loss, mark)
        self._begun = None
        self.iteration_ended()

    @property
    def believed(self) -> bool:
        waiting = not self._updates and "optax" in sys.modules and self.loop.count < BELIEVED_GRADIENTS
        return not waiting or self.stop.due(self.loop.count)

    def learning_rate(self) -> float | None:
        return float(self._rate) if self._updates and isinstance(self._rate, (int, float)) else None

    def before_step(self) -> None:
        if self._pass is None and self._batch is not None:
            facts = {"batch_size": self._batch, "samples": None, "length": None, "waits": False}
            self._pass = self.new_pass(self, self, facts, self.first_start)
        if self._pass is not None:
            self.loop.batch_given(self._pass, 0.0)

    # What is written.

    def loss_value(self, loss: Any) -> float | None:
        return loss if isinstance(loss, float) else super().loss_value(loss)

    def write_facts(self) -> None:
        rate = self._rate
        schedule = self._schedules.get(id(rate), (getattr(rate, "__qualname__", "").partition(".")[0], None))[0]
        self.recorder.add(
            "model",
            framework="jax",
            framework_version=str(self.module.__version__),
            # One that was made and is never used says nothing.
            optimizer=self._optimizer if self._updates else None,
            schedule=schedule if self._updates and callable(rate) else None,
            **self._parameters,
            **device_facts(),
        )
        if self._batch is not None:
            self.recorder.add("loader", batch_size=self._batch, samples=None, length=None, waits=False)
        self.recorder.add("versions", versions=versions_of("jaxlib", "optax", "flax", "equinox", "numpy"))

    def write(self) -> None:
        count = self.loop.count
        for other in self._others.values():
            if other.rare(count):
                self._write_windows(other, before=count)
        super().write()

    def _write_windows(self, other: _Other, *, before: float) -> None:
        """Of the gaps before that one; what is not done yet waits."""
        for gap in sorted(other.spans.keys() - other.told):
            (called, last), end = other.spans[gap]
            if gap >= before or end.seconds is None:
                continue
            other.told.add(gap)
            # Called while the device was still at work on the iterations before. Where all cores are busy the end
            # of those may be noticed only after its own: then it began when it was called.
            begun = called if last is None or last.seconds is None else max(called, last.seconds)
            start = begun if begun < end.seconds else called
            self.recorder.add("window", start=start, end=max(start, end.seconds), after=gap)

    def last_facts(self) -> None:
        count = self.loop.count
        for other in self._others.values():
            if not other.ordinary(count):
                self._write_windows(other, before=math.inf)
        if self._updates and callable(self._rate):
            values = [float(self._rate(step)) for step in range(min(count, SCHEDULED))]
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

    def _write_operations_of(self, step: tuple[Compiled, Any, Any], recorder: Recorder) -> None:
        """From the jaxpr of its last compilation, which JAX still has."""
        if self._lower_seconds > LOWERING_SECONDS:
            return
        function, args, options = step
        operations: Any = importlib.import_module(f"{__package__}.jax_operations")
        jaxpr = function._function.trace(*args, **options).jaxpr
        recorder.add("operations", **operations.operations_of(jaxpr, steps=function.steps))

    def keras_step_called(self, function: Compiled, args: Any, options: Any) -> None:
        """What a model of Keras is trained with, though Keras speaks."""
        self._keras_step = (function, *_shapes(self.module, (args, options)))

    def device_bytes(self) -> int | None:
        return device_bytes()


class _Other:
    """A compiled function that does not train, and when it ran: from its first to its last call in each gap between
    two iterations."""

    def __init__(self) -> None:
        self.spans: dict[int, tuple[Any, Any]] = {}
        self.gaps = 0
        """In which it was called; those of an ordinary one have no spans."""
        self.last: int | None = None
        self.told: set[int] = set()
        """Gaps that are written already."""

    def count(self, gap: int) -> None:
        self.gaps += gap != self.last
        self.last = gap

    def called(self, gap: int, start: Any, end: Any) -> None:
        first = self.spans.get(gap)
        self.spans[gap] = (start if first is None else first[0], end)

    def ordinary(self, gaps: int) -> bool:
        """It runs in most gaps, so it belongs to the iterations."""
        return self.gaps > max(2, gaps / 2)

    def rare(self, gaps: int) -> bool:
        """So much so that it need not be waited for the end to know that it validates."""
        return self.gaps <= gaps / 4


def write_compilation(recorder: Recorder) -> None:
    """What XLA took so far in this process, and whether it found code of an earlier run."""
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


def _scan_length(jax: Any, *, xs: Any = None, length: int | None = None, **_: Any) -> int | None:
    if length is not None:
        return int(length)
    leaves = jax.tree_util.tree_leaves(xs)
    return int(leaves[0].shape[0]) if leaves else None


def _parameter_facts(leaves: list[Any]) -> dict[str, Any]:
    leaves = [leaf for leaf in leaves if hasattr(leaf, "shape")]
    largest = max(leaves, key=lambda leaf: math.prod(leaf.shape), default=None)
    return {
        "parameters": sum(math.prod(leaf.shape) for leaf in leaves),
        "dtype": None if largest is None else str(largest.dtype),
        "gradient_bytes": sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves),
    }


def _smallest(jax: Any, result: Any) -> Any:
    """A result that is cheap to hold until it is ready."""
    leaves = [leaf for leaf in jax.tree_util.tree_leaves(result) if isinstance(leaf, jax.Array)]
    return min(leaves, key=lambda leaf: math.prod(leaf.shape), default=None)


def _losses(jax: Any, result: Any, steps: int) -> list[float | None] | None:
    """One for each step of a loop inside the call, if it returns them."""
    if steps < 2:
        return None
    for leaf in jax.tree_util.tree_leaves(result if not isinstance(result, tuple) else list(result)):
        if getattr(leaf, "shape", None) == (steps,) and "float" in str(leaf.dtype):
            return [float(value) for value in leaf]
    return None


def _shapes(jax: Any, arguments: Any) -> Any:
    def shape_of(leaf: Any) -> Any:
        # With the weakness of its type it is the same to JAX as the argument itself, and nothing is traced again.
        weak = bool(getattr(leaf, "weak_type", False))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=weak) if hasattr(leaf, "dtype") else leaf

    return jax.tree_util.tree_map(shape_of, arguments)


def _batch_size(jax: Any, args: Any, options: Any, result: Any, steps: int) -> int | None:
    """The first dimension that all data have in common. Data is what is given to a step and not given back."""
    returned = [_shapes_of(jax, part) for part in _parts(result)]
    given: list[tuple[tuple[int, ...], str]] = []
    for argument in (*args, *options.values()):
        shapes = _shapes_of(jax, argument)
        if shapes and shapes not in returned:
            given += shapes
    data = [shape for shape, dtype in given if shape and not (dtype.startswith("key") or shape == (2,))]
    if steps > 1:
        data = [shape[1:] for shape in data if shape[0] == steps and len(shape) > 1]
    sizes = {shape[0] for shape in data if shape}
    return sizes.pop() if len(sizes) == 1 else None


def _parts(result: Any) -> list[Any]:
    """What a step returned, whole and out of its tuples; those with names are states and stay whole."""
    if not isinstance(result, tuple) or hasattr(result, "_fields"):
        return [result]
    return [result, *(part for item in result for part in _parts(item))]


def _shapes_of(jax: Any, tree: Any) -> list[tuple[tuple[int, ...], str]]:
    leaves = jax.tree_util.tree_leaves(tree)
    return [(tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves if hasattr(leaf, "dtype")]
