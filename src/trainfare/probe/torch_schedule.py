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

EPOCHS = 400
"""So many are played where the program does not say how many it trains."""

SECONDS = 0.5
"""Playing may take so long; a schedule that takes longer has no plan."""

STEPS = 20_000
"""More than these are not stepped through but computed, where the scheduler has a formula: 0.1 s on a slow CPU."""


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
    kinds = [kind for kind in type(scheduler).__mro__ if kind is not object and not pure.is_trusted(kind)]
    methods = [method for kind in kinds for name, method in vars(kind).items() if name != "__init__"]
    return (
        pure.is_plain(state)
        and all(pure.computes(method, scheduler) for method in methods if isinstance(method, types.FunctionType))
        and all(map(_harmless, getattr(scheduler, "_schedulers", ())))
    )
