"""The number of epochs after which a training settles, by the first rule that has an answer.

0. the complete run was seen: the epoch in which it settled (`stabilisation.py`)
1. a plan of learning rates in steps, unless the curve has lost a quarter of its gain: a drop + 1
   (`learning_rates.py`)
2. a curve that has settled, or lies past its best (`convergence.py`)
3. a plan that falls smoothly: 95% of Σ lr, adjusted slightly by the forms of the curve
4. the beginning of the curve, with the typical share of the declared run

Where no rule has an answer, the refusal of the last one states the reason.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from trainfare.estimator.epochs.convergence import (
    beyond_seen,
    blend_with_forms,
    epochs_by_curve,
    epochs_if_settled,
    form_epochs,
    lost_share,
    unusable_reason,
)
from trainfare.estimator.epochs.learning_rates import (
    SMOOTH_SHARE,
    TYPICAL_SHARE,
    classify_schedule,
    epochs_by_schedule,
)
from trainfare.estimator.epochs.stabilisation import settled_epoch
from trainfare.model.epochs import EpochsAnswer

REPEAT_FACTOR = 1.15
"""The settled epoch of one run lies within this factor of the mean of its repeats in 90% of cases: `docs/epochs.md`."""

OVERFIT_SHARE = 0.25
"""Share of the gain that is lost again above which no drop of the learning rate brings it back. Public curves had lost
up to 0.1 before a drop that did bring more."""

EARLIER_FACTOR, LATER_FACTOR = 2.0, 1.25
"""The factor by which a curve settles earlier or later than a smooth schedule says, if its forms agree with it. Nine
in ten of 13 public curves lie within 1.25 on both sides; small programs whose schedule is too long settle in half of
it."""

MIN_EPOCHS_TO_SETTLE = 10
"""Epochs before which a curve is not regarded as settled."""


def epochs_needed(
    values: Sequence[float],
    *,
    higher: bool,
    run_epochs: int | None = None,
    plan: Sequence[float] = (),
    share: float = SMOOTH_SHARE,
    typical_share: float = TYPICAL_SHARE,
) -> EpochsAnswer:
    """The epochs until the training settles.

    `values` are the metric of the epochs that were seen, `run_epochs` is the declared number of epochs, and `plan` has
    their learning rates.
    """
    if run_epochs is not None and len(values) >= run_epochs and unusable_reason(values, higher=higher) is None:
        complete_run = _of_complete_run(settled_epoch(values, higher=higher), len(values))
        return beyond_seen(complete_run, values, higher=higher, run_epochs=run_epochs)
    planned = plan[:run_epochs] if run_epochs else plan
    complete = run_epochs is not None and len(planned) == run_epochs
    settled = epochs_if_settled(values, higher=higher, run_epochs=run_epochs)
    by_plan = epochs_by_schedule(
        planned, complete=complete, values=values, higher=higher, share=share, typical_share=typical_share
    )
    overfits = settled is not None and lost_share(values, higher=higher, run_epochs=run_epochs) > OVERFIT_SHARE
    if classify_schedule(planned).shape == "steps" and not overfits:
        return _extended_down(by_plan, settled)
    if settled is not None:
        return settled
    if not by_plan.refused:
        adjusted = _adjusted_by_curve(by_plan, values, higher, planned)
        return beyond_seen(adjusted, values, higher=higher, run_epochs=run_epochs)
    by_curve = epochs_by_curve(values, higher=higher, run_epochs=run_epochs, typical_share=typical_share)
    if by_curve.refused and plan:
        return replace(by_curve, why=f"{by_curve.why}; {by_plan.why}")
    return by_curve


def _of_complete_run(epoch: int, count: int) -> EpochsAnswer:
    return EpochsAnswer(
        rule="settled",
        value=epoch,
        low=max(1.0, epoch / REPEAT_FACTOR),
        high=max(float(epoch), min(float(count), epoch * REPEAT_FACTOR)),
        why=f"the complete run of {count} epochs was seen: from epoch {epoch} on it is within 2% of the total gain",
    )


def _extended_down(answer: EpochsAnswer, settled: EpochsAnswer | None) -> EpochsAnswer:
    """The answer with the lower low end: a curve that settled before a drop may not improve again."""
    if settled is None or settled.low is None or answer.low is None:
        return answer
    return replace(answer, low=min(answer.low, settled.low))


def _adjusted_by_curve(
    answer: EpochsAnswer, values: Sequence[float], higher: bool, plan: Sequence[float]
) -> EpochsAnswer:
    """The answer of a smooth schedule, moved slightly by the forms of the curve.

    It is at least two thirds of the epochs seen, because the curve has not settled yet. Where the forms agree with the
    schedule, its author chose it for the task, and the interval narrows to the earliest and the latest form, but not
    beyond `EARLIER_FACTOR` and `LATER_FACTOR`. A schedule far longer than needed often shows in one of the forms, and
    its interval stays wide. While a cycle still rises, agreement has no meaning.
    """
    if answer.value is None or answer.low is None or answer.high is None:
        return answer
    lowest = float(math.ceil(len(values) * 2 / 3)) if len(values) >= MIN_EPOCHS_TO_SETTLE else 1.0
    forms = form_epochs(values, higher=higher, run_epochs=len(plan))
    value = max(lowest, blend_with_forms(answer.value, forms, run_epochs=len(plan)))
    low, high = answer.low, answer.high
    if forms and classify_schedule(plan).shape == "smooth":
        low = max(low, min(value / EARLIER_FACTOR, *forms))
        high = min(high, max(value * LATER_FACTOR, *forms))
    moved = "" if round(value) == answer.rounded else f"; the curve so far moves that to {round(value)}"
    return replace(answer, value=value, low=min(value, max(low, lowest)), high=max(value, high), why=answer.why + moved)
