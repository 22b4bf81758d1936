"""How many epochs, by the learning rates that the program has planned. No curve is needed.

A model settles when its learning rate has nearly gone, whatever the curve looks like before:

    smooth decay (exponential, cosine, linear, one-cycle)
        E = the first epoch with Σ lr ≥ 0.95 · Σ lr over the whole run
    steps
        E = a drop + 1. Before the first drop was seen: between the first drop + 1 and the last drop + 1, and 0.68 of
        the run where that lies between them.
        After a drop of gain g: the next one gains about 0.25·g, so stay if 0.25·g ≤ 0.05·(improvement + 0.25·g),
        else the next drop + 1.
    constant
        nothing is told

0.95 goes with a curve that is settled within 2 % of its improvement: on 13 public curves the share of Σ lr spent by
then was 0.950–0.964 (exponential decay) and 0.955–0.998 (cosine). 0.90 goes with about 7 %, and errs by 24 % here.
The rule presumes that the author chose the schedule for the task: small programs that train far longer than they need
settle anywhere below 0.9, which only their curve can show. Only ratios count: another scale of the learning rate gives
the same epoch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trainfare.estimator.epochs.stabilisation import running_median, median_window
from trainfare.model.epochs import EpochsAnswer

SMOOTH_SHARE = 0.95
SMOOTH_LOW, SMOOTH_HIGH = 0.5, 0.999
"""Shares of Σ lr between which curves settle, those of the small programs in `benchmarks/epochs` included."""

TYPICAL_SHARE = 0.68
"""Of the declared epochs, after which the curves of four public programs had settled (0.57, 0.67, 0.68, 0.84)."""

AFTER_DROP = 1.1
"""A curve settles at a drop + 1 or up to a tenth later."""

NEXT_GAIN = 0.25
WORTH = 0.05
"""The gain of the next drop against this one, and the share of the improvement for which it is worth waiting."""

GONE = 0.01
"""Of the highest rate: no more is learnt."""

_CHANGE = 1e-3
"""Of the learning rate: less is rounding."""
_STEPS_AT_MOST = 0.3
"""Changes an epoch, up to the last of them: a schedule that changes at every third epoch is smooth."""

Shape = Literal["constant", "steps", "smooth", "one-cycle", "restarts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What a plan of learning rates looks like."""

    shape: Shape
    drops: tuple[int, ...] = ()
    """The last epoch before each drop, from 1 on: with a drop of 30 the 31st epoch is the first with the lower rate."""
    warm_up: int = 0
    """Epochs before the highest rate."""


def classify_schedule(plan: Sequence[float]) -> Schedule:
    """Its shape, by where the rate rises and falls; a rise at the start is warm-up, or a cycle where it is long."""
    if not plan or max(plan) <= 0:
        return Schedule(shape="constant")
    top = max(plan)
    warm_up = next(place for place, rate in enumerate(plan) if rate >= top * (1 - _CHANGE))
    after = plan[warm_up:]
    changes = [
        (place, later < earlier)
        for place, (earlier, later) in enumerate(pairwise(after), start=warm_up + 1)
        if abs(later - earlier) > _CHANGE * max(earlier, later)
    ]
    if not changes:
        return Schedule(shape="constant", warm_up=warm_up)
    if any(not falls for _, falls in changes):
        return Schedule(shape="restarts", warm_up=warm_up)
    if len(changes) <= max(1, _STEPS_AT_MOST * (changes[-1][0] - warm_up)):
        return Schedule(shape="steps", drops=tuple(place for place, _ in changes), warm_up=warm_up)
    return Schedule(shape="one-cycle" if warm_up >= 0.15 * len(plan) else "smooth", warm_up=warm_up)


def planned_end(plan: Sequence[float]) -> int | None:
    """Epochs until the rate has gone: the first with at most 1 % of the highest comes after them.

    Where nobody says how long a run is, a cosine, a line or a cycle says it. Steps say nothing of an end.
    """
    schedule = classify_schedule(plan)
    if schedule.shape in ("constant", "steps"):
        return None
    gone = (place for place, rate in enumerate(plan) if place > schedule.warm_up and rate <= GONE * max(plan))
    return next(gone, None)


def epoch_at_share(plan: Sequence[float], share: float) -> int:
    """The first epoch, from 1 on, with Σ lr ≥ share · Σ lr over the whole plan."""
    total = math.fsum(plan)
    if total <= 0:
        raise ValueError("a plan needs a learning rate above zero")
    spent = 0.0
    for place, rate in enumerate(plan, start=1):
        spent += rate / total
        if spent >= share - 1e-9:
            return place
    return len(plan)


def epochs_by_schedule(
    plan: Sequence[float],
    *,
    whole: bool = True,
    values: Sequence[float] = (),
    higher: bool = False,
    share: float = SMOOTH_SHARE,
    typical_share: float = TYPICAL_SHARE,
) -> EpochsAnswer:
    """The epoch in which training by this plan settles.

    `whole`: the plan is that of the whole run; of a beginning no sum can be taken. `values` are the metric of the
    epochs that were seen; only a plan of steps looks at them.
    """
    if not plan:
        return _refusal("the learning rates that the program plans are not known")
    schedule = classify_schedule(plan)
    if schedule.shape == "constant":
        return _refusal("the learning rate stays the same, so it does not tell when training settles")
    if schedule.shape == "steps":
        return _by_steps(schedule.drops, len(plan), values, higher, typical_share)
    if not whole:
        return _refusal(
            f"the learning rate falls smoothly ({schedule.shape}), but nobody knows for how many epochs: "
            "neither the program nor you said"
        )
    epoch = epoch_at_share(plan, share)
    named = {"one-cycle": "goes up and down once", "restarts": "falls and starts again"}
    shape = named.get(schedule.shape, "falls smoothly")
    return EpochsAnswer(
        rule="schedule",
        value=epoch,
        low=min(epoch, epoch_at_share(plan, SMOOTH_LOW)),
        high=max(epoch, epoch_at_share(plan, SMOOTH_HIGH)),
        why=f"the learning rate {shape} over {len(plan)} epochs: after {epoch} of them {100 * share:.0f} % of its sum "
        "is spent, and little more is learnt",
        warnings=("a schedule that starts again may settle after each of its cycles",)
        if schedule.shape == "restarts"
        else (),
    )


def _by_steps(
    drops: Sequence[int], run: int, values: Sequence[float], higher: bool, typical_share: float
) -> EpochsAnswer:
    # A whole epoch must be seen after a drop before its gain can be told.
    seen = [drop for drop in drops if drop + 1 <= len(values)]
    first, last = min(run, drops[0] + 1), min(run, drops[-1] + 1)
    if not seen and len(drops) == 1:
        return _stepped(first, first, AFTER_DROP * first, run, f"the only drop comes after epoch {drops[0]}")
    if not seen:
        why = f"no drop was seen yet; the first comes after epoch {drops[0]}, the last after epoch {drops[-1]}"
        return _stepped(min(max(typical_share * run, first), last), first, AFTER_DROP * last, run, why)
    gain, improvement = _gain(seen[-1], seen[-2] if len(seen) > 1 else 0, run, values, higher)
    later = [drop for drop in drops if drop > seen[-1]]
    here, expected = seen[-1] + 1, NEXT_GAIN * gain
    if not later:
        return _stepped(here, here, AFTER_DROP * here, run, f"the last drop came after epoch {seen[-1]}")
    there = min(run, later[0] + 1)
    if expected <= WORTH * (improvement + expected):
        # What little was gained may also have come before the drop.
        why = f"the drop after epoch {seen[-1]} gained too little for the next one to matter"
        return _stepped(here, here / 1.5, there, run, why)
    why = f"the drop after epoch {seen[-1]} gained so much that the next one, after epoch {later[0]}, will too"
    return _stepped(there, here, AFTER_DROP * there, run, why)


def _gain(drop: int, before: int, run: int, values: Sequence[float], higher: bool) -> tuple[float, float]:
    """What the drop brought, and the improvement up to now, both on running medians that do not look across it."""
    upward = [value if higher else -value for value in values]
    window = median_window(run)
    plateau = running_median(upward[before:drop], window)
    after = running_median(upward[drop:], window)
    start = running_median(upward[:drop], window)[0]
    return max(0.0, max(after) - max(plateau)), max(0.0, max(*after, *plateau) - start)


def _stepped(value: float, low: float, high: float, run: int, why: str) -> EpochsAnswer:
    return EpochsAnswer(
        rule="schedule",
        value=value,
        low=max(1.0, min(low, value)),
        high=max(value, min(float(run), high)),
        why=f"the learning rate falls in steps, and a model settles right after one: {why}",
    )


def _refusal(reason: str) -> EpochsAnswer:
    return EpochsAnswer(rule="schedule", why=reason)
