"""The choice under another deadline, another budget or another price.

Each function answers one question over all alternatives; nothing here is rounded.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic

from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.recommender.choose import IdealPoint, best_of
from trainfare.recommender.limits import within_limits
from trainfare.recommender.options import Rankable, T, as_options
from trainfare.units import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange(Generic[T]):
    """The candidate that is chosen with a limit of at least `minimum` and below `below`, which is None if there is no
    upper bound."""

    estimate: T
    minimum: float
    below: float | None = None


def tighter_deadline(
    alternatives: Iterable[T], chosen: Rankable, goal: Goal, ideal: IdealPoint
) -> LimitChange[T] | None:
    """The choice with a deadline that excludes the chosen candidate; None if that excludes all."""
    below = chosen.seconds.upper_bound(goal.confidence)
    given = as_options(alternatives)
    faster = given.where(given.upper_bounds("seconds", goal.confidence) < below)
    best = best_of(within_limits(faster, goal), goal, ideal=ideal)
    if best is None:
        return None
    return LimitChange(estimate=best, minimum=best.seconds.upper_bound(goal.confidence), below=below)


def tighter_budget(alternatives: Iterable[T], chosen: Rankable, goal: Goal, ideal: IdealPoint) -> LimitChange[T] | None:
    """The choice with a budget that excludes the chosen candidate; None if that excludes all."""
    below = chosen.usd.upper_bound(goal.confidence)
    given = as_options(alternatives)
    cheaper = given.where(given.upper_bounds("usd", goal.confidence) < below)
    best = best_of(within_limits(cheaper, goal), goal, ideal=ideal)
    if best is None:
        return None
    return LimitChange(estimate=best, minimum=best.usd.upper_bound(goal.confidence), below=below)


def looser_deadline(
    alternatives: Iterable[T], chosen: Rankable, goal: Goal, ideal: IdealPoint
) -> LimitChange[T] | None:
    """The choice without the deadline, and the least deadline that includes it; None if the choice stays the same."""
    best = best_of(within_limits(alternatives, replace(goal, deadline_seconds=None)), goal, ideal=ideal)
    if best is None or best.candidate == chosen.candidate:
        return None
    return LimitChange(estimate=best, minimum=best.seconds.upper_bound(goal.confidence))


def looser_budget(alternatives: Iterable[T], chosen: Rankable, goal: Goal, ideal: IdealPoint) -> LimitChange[T] | None:
    """The choice without the budget, and the least budget that includes it; None if the choice stays the same."""
    best = best_of(within_limits(alternatives, replace(goal, budget_usd=None)), goal, ideal=ideal)
    if best is None or best.candidate == chosen.candidate:
        return None
    return LimitChange(estimate=best, minimum=best.usd.upper_bound(goal.confidence))


def break_even_price(chosen: Estimate, second: Rankable) -> float | None:
    """The price of an hour of one node of the chosen machine at which it costs as much as the second candidate.

        p' = p·(c₂ − r)/(c₁ − r)

    with the costs c₁ and c₂ and r, the part of c₁ that does not depend on the price: storage and egress, or nothing if
    there is no bill. The billed time stays the same. None if the second candidate costs less than r: then no price is
    low enough.
    """
    bill = chosen.bill
    by_price = chosen.usd.value if bill is None else bill.usd_per_hour * bill.billed_seconds / SECONDS_PER_HOUR
    rest = chosen.usd.value - by_price
    if second.usd.value <= rest or by_price <= 0:
        return None
    return chosen.candidate.offer.usd_per_hour * (second.usd.value - rest) / by_price
