"""What would change the choice: another number of epochs, another limit, another price."""

import math
from collections.abc import Iterator

from trainfare.model.reason import Reason, Scalar
from trainfare.recommender.choose import score, weight_of_time
from trainfare.recommender.explain.codes import describe, reason
from trainfare.recommender.explain.context import ChoiceContext
from trainfare.recommender.explain.here import rent_anyway
from trainfare.recommender.explain.what_if import (
    break_even_price,
    looser_budget,
    looser_deadline,
    tighter_budget,
    tighter_deadline,
)
from trainfare.recommender.limits import sufficient_budget, sufficient_deadline
from trainfare.recommender.options import Rankable
from trainfare.units import parse_duration

MAX_LOOSER_SCORE = 0.98
"""A looser limit is mentioned if it lowers the score to this share or less."""
MAX_TIGHTER_LIMIT = 0.99
"""A tighter limit is mentioned if it is below this share of the chosen candidate's upper end: closer ones round to the
same text."""
MIN_PRICE_RISE = 1.001
"""A change of price is mentioned from this ratio on: closer, the ranking of the two is uncertain anyway."""


def changes(context: ChoiceContext) -> Iterator[Reason]:
    if context.here_rule is not None:
        yield from _rent_from_epochs(context)
        yield from rent_anyway(context)
        return
    yield from _other_batch_size(context)
    yield from _here_up_to_epochs(context)
    yield from _epochs(context)
    yield from _epochs_within_deadline(context)
    yield from _deadline(context)
    yield from _budget(context)
    yield from _price(context)


def _steps(context: ChoiceContext) -> dict[str, int]:
    """The iterations of an epoch, if the length of the training is counted in iterations."""
    length = context.iterations_per_epoch
    return {} if context.planned_iterations is None or length is None else {"iterations_per_epoch": length}


def _rent_from_epochs(context: ChoiceContext) -> Iterator[Reason]:
    """The number of epochs from which a rental is chosen over the machine at hand."""
    if context.rent_from is not None and context.rent_from[0] > context.chosen.epochs:
        epochs, rental = context.rent_from
        yield reason("changes", "rent_from_epochs", epochs=epochs, machine=context.describe(rental), **_steps(context))


def _here_up_to_epochs(context: ChoiceContext) -> Iterator[Reason]:
    """The number of epochs up to which the machine at hand would be chosen."""
    if context.rent_from is not None and 1 < context.rent_from[0] <= context.chosen.epochs:
        yield reason("changes", "here_up_to_epochs", epochs=context.rent_from[0] - 1, **_steps(context))


def _other_batch_size(context: ChoiceContext) -> Iterator[Reason]:
    """A better candidate at another batch size, whose number of epochs is a guess."""
    other = context.other_batch_size
    if other is not None and other.candidate.batch_size is not None:
        yield reason(
            "changes",
            "other_batch_size",
            {"batch_sizes": other.candidate.batch_size},
            batch_size=other.candidate.batch_size,
            epochs=other.epochs,
            **_totals(context, other),
        )


def _epochs(context: ChoiceContext) -> Iterator[Reason]:
    """The winners at fewer and at more epochs than planned, at the batch size of the chosen candidate: each other batch
    size needs its own number of epochs. Not given for a weighted goal, whose ideal point moves with the epochs; nor for
    a split plan; nor with a limit, which other candidates are within at fewer epochs and the chosen one is beyond at
    more."""
    goal, chosen, ranges = context.goal, context.chosen, context.winning_ranges
    limited = goal.deadline_seconds is not None or goal.budget_usd is not None
    if goal.kind == "weighted" or limited or not context.accepted or len(context.ordered) < 2:
        return
    machine = chosen.candidate.offer.vm_type.key
    index = next((i for i, r in enumerate(ranges) if r.first <= chosen.epochs <= (r.last or math.inf)), None)
    if index is None or ranges[index].estimate.candidate.offer.vm_type.key != machine:
        return  # rounding or a minimum charge decided
    several = len({e.candidate.batch_size for e in context.ordered}) > 1
    batch_size = chosen.candidate.batch_size if several else None
    if len(ranges) == 1:
        yield reason("changes", "best_for_any_epochs", goal=goal.kind, batch_size=batch_size)
    here_wins = 0 if context.rent_from is None else context.rent_from[0] - 1
    if index > 0 and (ranges[index - 1].last or 1) > here_wins:
        before = ranges[index - 1]
        winner = context.describe(before.estimate)
        epochs = before.last or 1
        yield reason("changes", "fewer_epochs", epochs=epochs, machine=winner, batch_size=batch_size, **_steps(context))
    if index + 1 < len(ranges):
        after = ranges[index + 1]
        winner = context.describe(after.estimate)
        epochs = after.first
        yield reason("changes", "more_epochs", epochs=epochs, machine=winner, batch_size=batch_size, **_steps(context))


def _epochs_within_deadline(context: ChoiceContext) -> Iterator[Reason]:
    """The number of epochs that are within the deadline: at least N·deadline/u, because no part of the time grows
    faster than the number of epochs. Not given on spot, where the cost of interruptions may grow faster, nor if the
    number of epochs is uncertain, because the interval already includes more of them."""
    chosen, deadline = context.chosen_for_all_epochs, context.goal.deadline_seconds
    if (
        deadline is None
        or not context.accepted
        or context.chosen.epochs_interval
        or chosen.candidate.offer.market == "spot"
    ):
        return
    epochs = math.floor(chosen.epochs * deadline / chosen.seconds.upper_bound(context.goal.confidence))
    if epochs > chosen.epochs:
        yield reason("changes", "epochs_within_deadline", epochs=epochs, **_steps(context))


def _deadline(context: ChoiceContext) -> Iterator[Reason]:
    asked = context.alternatives, context.chosen_for_all_epochs, context.goal, context.ideal
    yield from _deadline_for_here(context)
    if context.goal.deadline_seconds is not None:
        found = looser_deadline(*asked)
        if found is not None and _is_worthwhile(context, found.estimate):
            deadline = sufficient_deadline(found.minimum)
            yield reason("changes", "looser_deadline", {"deadline": deadline}, **_totals(context, found.estimate))
    if context.goal.kind != "fastest":
        found = tighter_deadline(*asked)
        if found is not None and found.below is not None:
            deadline = sufficient_deadline(found.minimum)
            if parse_duration(deadline) < MAX_TIGHTER_LIMIT * found.below:
                totals = _totals(context, found.estimate)
                yield reason("changes", "tighter_deadline", {"deadline": deadline}, below=found.below, **totals)


def _deadline_for_here(context: ChoiceContext) -> Iterator[Reason]:
    """The deadline with which the machine at hand would be the cheapest, if it is free and ends too late now."""
    here, goal = context.here, context.goal
    if here is None or here.usd.value or here.fits is False or goal.kind != "cheapest" or not goal.deadline_seconds:
        return
    deadline = sufficient_deadline(here.seconds.upper_bound(goal.confidence))
    yield reason("changes", "looser_deadline", {"deadline": deadline}, **_totals(context, here))


def _budget(context: ChoiceContext) -> Iterator[Reason]:
    asked = context.alternatives, context.chosen_for_all_epochs, context.goal, context.ideal
    if context.goal.budget_usd is not None:
        found = looser_budget(*asked)
        if found is not None and _is_worthwhile(context, found.estimate):
            budget = sufficient_budget(found.minimum)
            yield reason("changes", "looser_budget", {"budget": float(budget)}, **_totals(context, found.estimate))
    if context.goal.kind != "cheapest":
        found = tighter_budget(*asked)
        if found is not None and found.below is not None and found.minimum > 0:
            budget = sufficient_budget(found.minimum)
            if float(budget) < MAX_TIGHTER_LIMIT * found.below:
                totals = _totals(context, found.estimate)
                yield reason("changes", "tighter_budget", {"budget": float(budget)}, below=found.below, **totals)


def _is_worthwhile(context: ChoiceContext, estimate: Rankable) -> bool:
    """True if the score is so much lower that a user might accept another limit for it."""
    w = weight_of_time(context.goal)
    before = score(context.chosen_for_all_epochs, w, context.ideal)
    return not context.accepted or score(estimate, w, context.ideal) <= MAX_LOOSER_SCORE * before


def _totals(context: ChoiceContext, estimate: Rankable) -> dict[str, dict[str, Scalar] | float]:
    return {
        "machine": context.describe(estimate),
        "seconds": estimate.seconds.value,
        "usd": estimate.usd.value,
    }


def _price(context: ChoiceContext) -> Iterator[Reason]:
    """The price of the chosen machine above which the second is cheaper, if cost decides and a provider sets it."""
    offer = context.chosen.candidate.offer
    if context.goal.kind != "cheapest" or len(context.ordered) < 2 or offer.held or offer.market == "own":
        return
    second = context.ordered[1]
    price = break_even_price(context.chosen, second)
    if price is not None and price > MIN_PRICE_RISE * offer.usd_per_hour:
        yield reason(
            "changes",
            "price_rise",
            machine=describe(context.chosen.candidate) | {"nodes": 1},
            usd_per_hour=offer.usd_per_hour,
            break_even_usd_per_hour=price,
            other=context.describe(second),
        )
