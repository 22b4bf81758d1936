"""The learning rate at the start of each epoch that a PyTorch program would train, by replaying its scheduler.

The scheduler is copied when the first iteration has ended, and the copy is stepped forward when measuring is over. The
copy has a stub in place of the optimizer: parameter groups with the same numbers and without parameters. It is stepped
as often as the program stepped its own scheduler, once per epoch or once per iteration.

A scheduler is not replayed if the program could notice it: one that needs a metric, holds more than numbers, or calls
code of the program that may have side effects.
"""

# ruff: noqa: SLF001 # PyTorch has no public name for the parts of a scheduler
from __future__ import annotations

import bisect
import copy
import importlib
import math
import time
import types
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainfare.probe import pure
else:
    pure = importlib.import_module(f"{__package__}.pure")

DEFAULT_EPOCHS = 400
"""Epochs replayed if the number of epochs is not known."""

MAX_SECONDS = 0.5
"""A replay that takes longer than this is given up."""

MAX_STEPS = 20_000
"""Beyond this many steps the rates are computed by the formula of the scheduler, if it has one. Stepping through them
takes 0.1 s on a slow CPU."""


class _OptimizerStub:
    """The part of an optimizer that a scheduler uses."""

    def __init__(self, optimizer: Any) -> None:
        self.param_groups = [
            {name: copy.deepcopy(value) for name, value in group.items() if name != "params"}
            for group in optimizer.param_groups
        ]
        self.defaults = dict(optimizer.defaults)
        self._opt_called = True

    def step(self) -> None:
        """Never called; schedulers check whether one of them has wrapped it."""

    step._wrapped_by_lr_sched = step._with_counter = True  # type: ignore[attr-defined] # as current and older versions of PyTorch mark it


class SchedulerReplay:
    """A copy of one scheduler as it was at the end of the first iteration, to be stepped forward."""

    def __init__(self, scheduler: Any) -> None:
        self._copy: Any = None
        self._first_step = 0
        if not _is_safe_to_replay(scheduler):
            return
        self._optimizer = _OptimizerStub(scheduler.optimizer)
        self._copy = copy.deepcopy(scheduler, {id(scheduler.optimizer): self._optimizer})
        self._first_step = scheduler.last_epoch

    def rates(self, *, steps: int, iterations: int, passes: int, length: int | None, epochs: int | None) -> list[float]:
        """The learning rates at the start of each epoch; empty if they are unknown.

        The program stepped its scheduler `steps` times in `iterations` iterations and `passes` complete passes over the
        data; an epoch has `length` iterations.
        """
        per_epoch = _steps_per_epoch(steps - self._first_step, iterations, passes, length)
        if self._copy is None or per_epoch is None:
            return []
        count = epochs or DEFAULT_EPOCHS
        total = getattr(self._copy, "total_steps", None)
        if isinstance(total, int):
            count = min(count, math.ceil(total / per_epoch))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                replay = self._stepped if per_epoch * count <= MAX_STEPS else self._computed
                rates = replay(per_epoch, count)
        except Exception:  # noqa: BLE001 # a scheduler that fails, or has no formula, has no known rates
            return []
        # A schedule that goes below zero was not meant to be used that far.
        valid = next((n for n, rate in enumerate(rates) if not 0 <= rate < math.inf), len(rates))
        return rates[:valid]

    def _stepped(self, per_epoch: int, count: int) -> list[float]:
        deadline = time.monotonic() + MAX_SECONDS
        rates = [self._rate()]
        for _ in range(count - 1):
            for _ in range(per_epoch):
                self._copy.step()
            rates.append(self._rate())
            if time.monotonic() > deadline:
                return []
        return rates

    def _computed(self, per_epoch: int, count: int) -> list[float]:
        deadline = time.monotonic() + MAX_SECONDS
        rates = [self._rate()]
        for epoch in range(1, count):
            rates.append(_rate_after(self._copy, self._first_step + epoch * per_epoch))
            if time.monotonic() > deadline:
                return []
        return rates

    def _rate(self) -> float:
        return float(self._optimizer.param_groups[0]["lr"])


def _steps_per_epoch(steps: int, iterations: int, passes: int, length: int | None) -> int | None:
    """Scheduler steps per epoch: one, unless it was stepped more often than epochs ended; then in proportion to the
    iterations. None if unknown."""
    if steps <= passes + 1 and (passes or steps < max(2, iterations)):
        return 1
    if length is None or iterations < 1:
        return None
    steps_per_iteration = steps / iterations
    rounded = round(steps_per_iteration)
    if rounded and abs(steps_per_iteration - rounded) * iterations <= 2:  # the first or the last step may be missing
        return rounded * length
    return max(1, round(steps_per_iteration * length))


def _rate_after(scheduler: Any, steps: int) -> float:
    """The learning rate after `steps` steps by the formula of the scheduler, without stepping through them.

    A scheduler without a formula is a ValueError.
    """
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
        raise ValueError(f"the learning rate of a {kind} has no formula: its steps must be replayed one by one")
    scheduler._get_lr_called_within_step = True
    return float(scheduler.get_lr()[0])


def _is_safe_to_replay(scheduler: Any) -> bool:
    """Stepping a copy of the scheduler changes nothing but the copy."""
    if type(scheduler).__name__ == "ReduceLROnPlateau" or not isinstance(getattr(scheduler, "last_epoch", None), int):
        return False
    state = [value for name, value in vars(scheduler).items() if name not in ("optimizer", "_schedulers")]
    classes = [kind for kind in type(scheduler).__mro__ if kind is not object and not pure.is_trusted(kind)]
    methods = [method for kind in classes for name, method in vars(kind).items() if name != "__init__"]
    return (
        pure.is_plain(state)
        and all(pure.is_pure(method, scheduler) for method in methods if isinstance(method, types.FunctionType))
        and all(map(_is_safe_to_replay, getattr(scheduler, "_schedulers", ())))
    )
