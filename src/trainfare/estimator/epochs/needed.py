"""After how many epochs does the training settle? The rules in their order.

0. the whole run was seen: the epoch in which it settled (`stabilisation.py`)
1. a plan of learning rates in steps, unless the curve has lost a quarter of its gain: a drop + 1
   (`learning_rates.py`)
2. a curve that has come to rest, or lies past its best (`convergence.py`)
3. a plan that falls smoothly: 95 % of Σ lr, moved a little by the forms of the curve
4. the beginning of the curve, with the usual share of the declared run

The first that can tell answers; where none can, the last one's refusal says why.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from trainfare.estimator.epochs.convergence import (
    epochs_if_settled,
    epochs_by_curve,
    form_epochs,
    blend_with_forms,
    lost_share,
    unusable_reason,
)
from trainfare.estimator.epochs.learning_rates import SMOOTH_SHARE, TYPICAL_SHARE, epochs_by_schedule, classify_schedule
from trainfare.estimator.epochs.stabilisation import settled_epoch
from trainfare.model.epochs import EpochsAnswer

REPEAT_FACTOR = 1.15
"""Within which the settled epoch of one run lies of the mean of its like, nine times in ten: `docs/epochs.md`."""

OVERFITS = 0.25
"""Of what was gained is lost again: no drop of the learning rate brings that back. Before a drop that did bring more,
public curves had lost up to 0.1."""

EARLIER_FACTOR, LATER_FACTOR = 2.0, 1.25
"""How much earlier or later than a smooth schedule says a curve settles whose forms agree with it. Nine in ten of 13
public curves lie within 1.25 to both sides; small programs whose schedule is too long settle in half of it."""

AT_REST_NEEDS = 10
"""Epochs, before which no curve is said to be at rest."""


def epochs_needed(
    values: Sequence[float],
    *,
    higher: bool,
    run: int | None = None,
    plan: Sequence[float] = (),
    share: float = SMOOTH_SHARE,
    typical_share: float = TYPICAL_SHARE,
) -> EpochsAnswer:
    """`values` are the metric of the epochs that were seen; `run` is how many are declared, `plan` their rates."""
    if run is not None and len(values) >= run and unusable_reason(values, higher=higher) is None:
        return _seen_whole(settled_epoch(values, higher=higher), len(values))
    planned = plan[:run] if run else plan
    whole = run is not None and len(planned) == run
    rest = epochs_if_settled(values, higher=higher, run=run)
    by_plan = epochs_by_schedule(
        planned, whole=whole, values=values, higher=higher, share=share, typical_share=typical_share
    )
    if classify_schedule(planned).shape == "steps" and not (rest and lost_share(values, higher=higher, run=run) > OVERFITS):
        return _from(by_plan, rest)
    if rest is not None:
        return rest
    if not by_plan.refused:
        return _moved(by_plan, values, higher, planned)
    by_curve = epochs_by_curve(values, higher=higher, run=run, typical_share=typical_share)
    if by_curve.refused and plan:
        return replace(by_curve, why=f"{by_curve.why}; {by_plan.why}")
    return by_curve


def _seen_whole(epoch: int, count: int) -> EpochsAnswer:
    return EpochsAnswer(
        rule="settled",
        value=epoch,
        low=max(1.0, epoch / REPEAT_FACTOR),
        high=max(float(epoch), min(float(count), epoch * REPEAT_FACTOR)),
        why=f"the whole run of {count} epochs was seen: from epoch {epoch} on it is within 2 % of all that was gained",
    )


def _from(answer: EpochsAnswer, rest: EpochsAnswer | None) -> EpochsAnswer:
    """A curve at rest before a drop may not move again: then it needs no more than it had."""
    if rest is None or rest.low is None or answer.low is None:
        return answer
    return replace(answer, low=min(answer.low, rest.low))


def _moved(answer: EpochsAnswer, values: Sequence[float], higher: bool, plan: Sequence[float]) -> EpochsAnswer:
    """By the forms of the curve, a little; and up: what is not at rest has not settled in two thirds of the seen.

    Where the forms agree with the schedule, its author chose it for the task, and the ends come nearer: to the
    earliest and the latest of them, but not beyond `EARLIER_FACTOR` and `LATER_FACTOR`. A schedule far longer than
    needed often shows in a form that says so, and its interval stays wide. While a cycle still rises, agreement tells
    nothing.
    """
    if answer.value is None or answer.low is None or answer.high is None:
        return answer
    least = float(math.ceil(len(values) * 2 / 3)) if len(values) >= AT_REST_NEEDS else 1.0
    forms = form_epochs(values, higher=higher, run=len(plan))
    value = max(least, blend_with_forms(answer.value, forms, run=len(plan)))
    low, high = answer.low, answer.high
    if forms and classify_schedule(plan).shape == "smooth":
        low = max(low, min(value / EARLIER_FACTOR, *forms))
        high = min(high, max(value * LATER_FACTOR, *forms))
    moved = "" if round(value) == answer.rounded else f"; the curve so far moves that to {round(value)}"
    return replace(answer, value=value, low=min(value, max(low, least)), high=max(value, high), why=answer.why + moved)
