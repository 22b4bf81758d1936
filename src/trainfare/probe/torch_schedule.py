"""The learning rate at the start of each epoch that a PyTorch program would train, as its scheduler has it.

A copy of the scheduler is taken when the first iteration has ended and played forward when measuring is over. The copy
has an optimizer that is none: groups with the same numbers and without parameters. It is stepped as often as the
program stepped its own, once an epoch or once an iteration.

Nothing is played that could be noticed by the program: a scheduler that needs a metric, holds more than numbers, or
calls code of the program's that might do anything but compute has no plan.
"""

# ruff: noqa: SLF001 # PyTorch has no public name for the parts of a scheduler
from __future__ import annotations

import bisect
import copy
import dis
import functools
import math
import time
import types
import warnings
from typing import Any

EPOCHS = 400
"""So many are played where the program does not say how many it trains."""

SECONDS = 0.5
"""Playing may take so long; a schedule that takes longer has no plan."""

STEPS = 20_000
"""More than these are not stepped through but computed, where the scheduler has a formula: 0.1 s on a slow CPU."""

LARGEST = 10_000
"""A scheduler that holds more things than that is not copied."""

_TRUSTED = ("torch.optim.", "transformers.optimization.", "math.")
"""Whatever they hold computes and does nothing else."""
_COMPUTING = {
    "ValueError", "abs", "append", "arange", "bool", "ceil", "clip", "cos", "enumerate", "exp", "float", "floor", "get",
    "int", "interp", "isinstance", "items", "len", "list", "log", "max", "maximum", "min", "minimum", "param_groups",
    "pi", "pow", "power", "range", "round", "sin", "sqrt", "sum", "super", "tanh", "tuple", "zip",
}  # fmt: skip
"""Names with which numbers are computed; another might do something."""
_MODULES = {"math", "numpy", "torch"}
_CHANGES = ("STORE_GLOBAL", "STORE_DEREF", "STORE_SUBSCR", "DELETE_", "IMPORT_")
_CHANGES_ITSELF = ("STORE_ATTR", "RAISE_VARARGS")
"""What the method of a scheduler may do to the copy, and a function that computes a factor has no cause to do."""


class _NoOptimizer:
    """As much of an optimizer as a scheduler touches."""

    def __init__(self, optimizer: Any) -> None:
        self.param_groups = [
            {name: copy.deepcopy(value) for name, value in group.items() if name != "params"}
            for group in optimizer.param_groups
        ]
        self.defaults = dict(optimizer.defaults)
        self._opt_called = True

    def step(self) -> None:
        """Never called; schedulers look whether one of them has wrapped it."""

    step._wrapped_by_lr_sched = step._with_counter = True  # type: ignore[attr-defined]  # as PyTorch marks it, now and before


class Schedule:
    """One scheduler as it was at the end of the first iteration."""

    def __init__(self, scheduler: Any) -> None:
        self._copy: Any = None
        self._from = 0
        if not _harmless(scheduler):
            return
        self._optimizer = _NoOptimizer(scheduler.optimizer)
        self._copy = copy.deepcopy(scheduler, {id(scheduler.optimizer): self._optimizer})
        self._from = scheduler.last_epoch

    def rates(self, *, steps: int, iterations: int, passes: int, length: int | None, epochs: int | None) -> list[float]:
        """At the start of each epoch; empty where it cannot be told.

        `steps` were made by the program in `iterations` and as many whole `passes`; an epoch has `length` iterations.
        """
        per_epoch = _steps_an_epoch(steps - self._from, iterations, passes, length)
        if self._copy is None or per_epoch is None:
            return []
        count = epochs or EPOCHS
        total = getattr(self._copy, "total_steps", None)
        if isinstance(total, int):
            count = min(count, math.ceil(total / per_epoch))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                play = self._stepped if per_epoch * count <= STEPS else self._computed
                rates = play(per_epoch, count)
        except Exception:  # noqa: BLE001 # whatever it is, there is no plan then
            return []
        # A line that crosses zero was not meant to be followed any further.
        good = next((n for n, rate in enumerate(rates) if not 0 <= rate < math.inf), len(rates))
        return rates[:good]

    def _stepped(self, per_epoch: int, count: int) -> list[float]:
        until = time.monotonic() + SECONDS
        rates = [self._rate()]
        for _ in range(count - 1):
            for _ in range(per_epoch):
                self._copy.step()
            rates.append(self._rate())
            if time.monotonic() > until:
                return []
        return rates

    def _computed(self, per_epoch: int, count: int) -> list[float]:
        until = time.monotonic() + SECONDS
        rates = [self._rate()]
        for epoch in range(1, count):
            rates.append(_rate_after(self._copy, self._from + epoch * per_epoch))
            if time.monotonic() > until:
                return []
        return rates

    def _rate(self) -> float:
        return float(self._optimizer.param_groups[0]["lr"])


def _steps_an_epoch(steps: int, iterations: int, passes: int, length: int | None) -> int | None:
    """One, unless it was stepped more often than epochs ended; then as often an iteration as it was."""
    if steps <= passes + 1 and (passes or steps < max(2, iterations)):
        return 1
    if length is None or iterations < 1:
        return None
    an_iteration = steps / iterations
    whole = round(an_iteration)
    if whole and abs(an_iteration - whole) * iterations <= 2:  # the first or the last may be missing
        return whole * length
    return max(1, round(an_iteration * length))


def _rate_after(scheduler: Any, steps: int) -> float:
    """By the formula of the scheduler, without the steps between."""
    kind = type(scheduler).__name__
    if kind == "SequentialLR":
        part = bisect.bisect_right(scheduler._milestones, steps)
        begun = scheduler._milestones[part - 1] if part else 0
        return _rate_after(scheduler._schedulers[part], steps - begun)
    if kind == "CosineAnnealingWarmRestarts":
        scheduler.step(steps)
        return float(scheduler.optimizer.param_groups[0]["lr"])
    scheduler.last_epoch = steps
    if hasattr(scheduler, "_get_closed_form_lr"):
        return float(scheduler._get_closed_form_lr()[0])
    if kind not in ("LambdaLR", "OneCycleLR", "CyclicLR"):
        raise NotImplementedError(kind)
    scheduler._get_lr_called_within_step = True
    return float(scheduler.get_lr()[0])


def _harmless(scheduler: Any) -> bool:
    """Playing a copy of it changes nothing but the copy."""
    if type(scheduler).__name__ == "ReduceLROnPlateau" or not isinstance(getattr(scheduler, "last_epoch", None), int):
        return False
    state = [value for name, value in vars(scheduler).items() if name not in ("optimizer", "_schedulers")]
    kinds = [kind for kind in type(scheduler).__mro__ if kind is not object and not _trusted(kind)]
    methods = [method for kind in kinds for name, method in vars(kind).items() if name != "__init__"]
    return (
        _plain(state)
        and all(_computes(method, scheduler) for method in methods if isinstance(method, types.FunctionType))
        and all(map(_harmless, getattr(scheduler, "_schedulers", ())))
    )


def _plain(value: Any) -> bool:
    """Numbers, words and functions that compute, however nested."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set)):
        return len(value) < LARGEST and all(map(_plain, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    if hasattr(value, "untyped_storage"):
        return bool(value.numel() == 1 and value.device.type == "cpu")
    return _computes(value)


def _computes(function: Any, scheduler: Any = None) -> bool:
    """Nothing else: every name in it is a number, or a function of which the same is true."""
    if isinstance(function, functools.partial):
        return _computes(function.func) and _plain(function.args) and _plain(function.keywords)
    if isinstance(function, types.MethodType):
        return _trusted(type(function.__self__))
    if not isinstance(function, types.FunctionType) or _trusted(function):
        return _trusted(function)
    codes = _codes(function.__code__)
    changes = _CHANGES if scheduler is not None else (*_CHANGES, *_CHANGES_ITSELF)
    if any(one.opname.startswith(changes) for code in codes for one in dis.get_instructions(code)):
        return False
    names = {name for code in codes for name in code.co_names}
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())  # noqa: B905 # `strict` is newer than the user's Python may be
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    found.update((name, cell.cell_contents) for name, cell in cells if name != "__class__")
    if "append" in names and any(isinstance(value, (list, dict, set)) for value in found.values()):
        return False
    options = [vars(value) for value in found.values() if _holds_options(value)]
    own = set() if scheduler is None else {*vars(scheduler), *dir(type(scheduler))}
    return all(
        value is function or _plain(value) or _holds_options(value) or getattr(value, "__name__", "") in _MODULES
        for value in found.values()
    ) and all(
        name in found or name in _COMPUTING or name in own or any(_plain(held.get(name, print)) for held in options)
        for name in names
    )


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """With what is inside it: comprehensions and functions."""
    return [code, *(one for inner in code.co_consts if isinstance(inner, types.CodeType) for one in _codes(inner))]


def _holds_options(value: Any) -> bool:
    """`args.decay`: each option that is read is looked at by its name."""
    return type(value).__name__ in ("Namespace", "SimpleNamespace") or (
        hasattr(value, "__dataclass_fields__") and hasattr(value, "__dict__") and not isinstance(value, type)
    )


def _trusted(thing: Any) -> bool:
    return f"{getattr(thing, '__module__', None)}.".startswith(_TRUSTED)
