"""The number of epochs by the planned learning rates of the program; no curve is needed.

A model settles when its learning rate is nearly zero, whatever the curve looks like before:

    smooth decay (exponential, cosine, linear, one-cycle)
        E = the first epoch with Σ lr ≥ 0.95 · Σ lr over the complete run
    steps
        E = a drop + 1. Before the first drop was seen: between the first drop + 1 and the last drop + 1, and 0.68 of
        the run where that lies between them.
        After a drop of gain g: the next one gains about 0.25·g, so stay if 0.25·g ≤ 0.05·(improvement + 0.25·g),
        else the next drop + 1.
    constant
        no answer

0.95 goes with a curve that is settled within 2% of its improvement: on 13 public curves the share of Σ lr at that
epoch was 0.950–0.964 (exponential decay) and 0.955–0.998 (cosine). 0.90 goes with about 7%, and errs by 24% here.
The rule assumes that the author chose the schedule for the task: small programs that train far longer than they need
settle anywhere below 0.9, which only their curve can show. Only ratios count: another scale of the learning rate gives
the same epoch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trainfare.estimator.epochs.stabilisation import median_window, running_median
from trainfare.model.epochs import EpochsAnswer
from trainfare.units import format_percent

SMOOTH_SHARE = 0.95
SMOOTH_LOW, SMOOTH_HIGH = 0.5, 0.999
"""Shares of Σ lr between which curves settle, including those of the small programs in `benchmarks/epochs`."""

TYPICAL_SHARE = 0.68
"""Share of the declared epochs after which the curves of four public programs had settled (0.57, 0.67, 0.68, 0.84)."""

DROP_FACTOR = 1.1
"""A curve settles between a drop + 1 and 10% later."""

NEXT_GAIN = 0.25
"""Gain of the next drop relative to the last one."""
MIN_GAIN_SHARE = 0.05
"""Share of the improvement below which a further gain does not matter."""

NEGLIGIBLE_RATE = 0.01
"""Share of the highest rate below which the model no longer changes."""

_MIN_CHANGE = 1e-3
"""Relative change of the learning rate below which it is rounding."""
_MAX_STEP_SHARE = 0.3
"""Changes per epoch up to the last change, above which a schedule counts as smooth."""

ScheduleShape = Literal["constant", "steps", "smooth", "one-cycle", "restarts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRateSchedule:
    """The shape of a plan of learning rates."""

    shape: ScheduleShape
    drops: tuple[int, ...] = ()
    """The last epoch before each drop, from 1 on: with a drop of 30 the 31st epoch is the first with the lower rate."""
    warm_up: int = 0
    """Epochs before the highest rate."""


def classify_schedule(plan: Sequence[float]) -> LearningRateSchedule:
    """The shape by where the rate rises and falls; a rise at the start is warm-up, or a cycle where it is long."""
    if not plan or max(plan) <= 0:
        return LearningRateSchedule(shape="constant")
    top = max(plan)
    warm_up = next(place for place, rate in enumerate(plan) if rate >= top * (1 - _MIN_CHANGE))
    after = plan[warm_up:]
    changes = [
        (place, later < earlier)
        for place, (earlier, later) in enumerate(pairwise(after), start=warm_up + 1)
        if abs(later - earlier) > _MIN_CHANGE * max(earlier, later)
    ]
    if not changes:
        return LearningRateSchedule(shape="constant", warm_up=warm_up)
    if any(not falls for _, falls in changes):
        return LearningRateSchedule(shape="restarts", warm_up=warm_up)
    if len(changes) <= max(1, _MAX_STEP_SHARE * (changes[-1][0] - warm_up)):
        return LearningRateSchedule(shape="steps", drops=tuple(place for place, _ in changes), warm_up=warm_up)
    return LearningRateSchedule(shape="one-cycle" if warm_up >= 0.15 * len(plan) else "smooth", warm_up=warm_up)


def planned_end(plan: Sequence[float]) -> int | None:
    """The number of epochs before the first whose rate is at most 1% of the highest; None where there is none.

    A cosine, a line or a cycle shows the length of a run that is not declared. Steps show no end.
    """
    schedule = classify_schedule(plan)
    if schedule.shape in ("constant", "steps"):
        return None
    negligible = (
        place for place, rate in enumerate(plan) if place > schedule.warm_up and rate <= NEGLIGIBLE_RATE * max(plan)
    )
    return next(negligible, None)


def epoch_at_share(plan: Sequence[float], share: float) -> int:
    """The first epoch, from 1 on, with Σ lr ≥ share · Σ lr over the complete plan."""
    total = math.fsum(plan)
    if total <= 0:
        raise ValueError("a plan needs a learning rate above zero")
    cumulated = 0.0
    for epoch, rate in enumerate(plan, start=1):
        cumulated += rate / total
        if cumulated >= share - 1e-9:
            return epoch
    return len(plan)


def epochs_by_schedule(
    plan: Sequence[float],
    *,
    complete: bool = True,
    values: Sequence[float] = (),
    higher: bool = False,
    share: float = SMOOTH_SHARE,
    typical_share: float = TYPICAL_SHARE,
) -> EpochsAnswer:
    """The epoch in which training by this plan settles.

    `complete` is true for the plan of a complete run; the sum of a beginning is not known. `values` are the metric of
    the epochs that were seen; only a plan of steps uses them.
    """
    if not plan:
        return _refusal("the planned learning rates of the program are not known")
    schedule = classify_schedule(plan)
    if schedule.shape == "constant":
        return _refusal("the learning rate stays the same, so it does not show when training settles")
    if schedule.shape == "steps":
        return _by_steps(schedule.drops, len(plan), values, higher, typical_share)
    if not complete:
        return _refusal(
            f"the learning rate falls smoothly ({schedule.shape}), but the number of epochs is not known: "
            "neither the program nor you stated it"
        )
    epoch = epoch_at_share(plan, share)
    descriptions = {"one-cycle": "goes up and down once", "restarts": "falls and starts again"}
    shape = descriptions.get(schedule.shape, "falls smoothly")
    return EpochsAnswer(
        rule="schedule",
        value=epoch,
        low=min(epoch, epoch_at_share(plan, SMOOTH_LOW)),
        high=max(epoch, epoch_at_share(plan, SMOOTH_HIGH)),
        why=f"the learning rate {shape} over {len(plan)} epochs: after {epoch} of them {format_percent(share)} of its "
        "sum is used, and the model changes little after that",
        warnings=("a schedule that starts again may settle after each of its cycles",)
        if schedule.shape == "restarts"
        else (),
    )


def _by_steps(
    drops: Sequence[int], run_epochs: int, values: Sequence[float], higher: bool, typical_share: float
) -> EpochsAnswer:
    # The gain of a drop is known one complete epoch after it.
    seen = [drop for drop in drops if drop + 1 <= len(values)]
    first, last = min(run_epochs, drops[0] + 1), min(run_epochs, drops[-1] + 1)
    if not seen and len(drops) == 1:
        return _stepped(first, first, DROP_FACTOR * first, run_epochs, f"the only drop comes after epoch {drops[0]}")
    if not seen:
        why = f"no drop was seen yet; the first comes after epoch {drops[0]}, the last after epoch {drops[-1]}"
        value = min(max(typical_share * run_epochs, first), last)
        return _stepped(value, first, DROP_FACTOR * last, run_epochs, why)
    gain, improvement = _gain(seen[-1], seen[-2] if len(seen) > 1 else 0, run_epochs, values, higher)
    later = [drop for drop in drops if drop > seen[-1]]
    here, expected = seen[-1] + 1, NEXT_GAIN * gain
    if not later:
        return _stepped(here, here, DROP_FACTOR * here, run_epochs, f"the last drop came after epoch {seen[-1]}")
    there = min(run_epochs, later[0] + 1)
    if expected <= MIN_GAIN_SHARE * (improvement + expected):
        # A small gain may also have come before the drop.
        why = f"the drop after epoch {seen[-1]} gained too little for the next one to matter"
        return _stepped(here, here / 1.5, there, run_epochs, why)
    why = f"the drop after epoch {seen[-1]} gained so much that the next one, after epoch {later[0]}, will too"
    return _stepped(there, here, DROP_FACTOR * there, run_epochs, why)


def _gain(drop: int, before: int, run_epochs: int, values: Sequence[float], higher: bool) -> tuple[float, float]:
    """The gain of the drop and the improvement so far, on running medians that do not extend across the drop."""
    upward = [value if higher else -value for value in values]
    window = median_window(run_epochs)
    plateau = running_median(upward[before:drop], window)
    after = running_median(upward[drop:], window)
    start = running_median(upward[:drop], window)[0]
    return max(0.0, max(after) - max(plateau)), max(0.0, max(*after, *plateau) - start)


def _stepped(value: float, low: float, high: float, run_epochs: int, why: str) -> EpochsAnswer:
    return EpochsAnswer(
        rule="schedule",
        value=value,
        low=max(1.0, min(low, value)),
        high=max(value, min(float(run_epochs), high)),
        why=f"the learning rate falls in steps, and a model settles right after one: {why}",
    )


def _refusal(reason: str) -> EpochsAnswer:
    return EpochsAnswer(rule="schedule", why=reason)
