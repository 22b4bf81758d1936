"""What would change the choice: another deadline, another budget, another price.

Each function asks one question of all that may be chosen; nothing here is rounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.recommender.choose import IdealPoint, best_of
from trainfare.recommender.limits import upper_end, within
from trainfare.units import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """With a limit below `below` (of any size, where that is None) and of at least `least` this one is chosen."""

    estimate: Estimate
    least: float
    below: float | None = None


def tighter_deadline(may: Sequence[Estimate], chosen: Estimate, goal: Goal, yardstick: IdealPoint) -> Change | None:
    """What is chosen with a deadline that the chosen one does not keep; None where nothing keeps such a one."""
    below = upper_end(chosen.seconds, goal.confidence)
    sooner = [e for e in may if upper_end(e.seconds, goal.confidence) < below]
    best = best_of(within(sooner, goal), goal, least=yardstick)
    if best is None:
        return None
    return Change(estimate=best, least=upper_end(best.seconds, goal.confidence), below=below)


def tighter_budget(may: Sequence[Estimate], chosen: Estimate, goal: Goal, yardstick: IdealPoint) -> Change | None:
    """What is chosen with a budget that the chosen one does not keep; None where nothing keeps such a one."""
    below = upper_end(chosen.usd, goal.confidence)
    cheaper = [e for e in may if upper_end(e.usd, goal.confidence) < below]
    best = best_of(within(cheaper, goal), goal, least=yardstick)
    return None if best is None else Change(estimate=best, least=upper_end(best.usd, goal.confidence), below=below)


def looser_deadline(may: Sequence[Estimate], chosen: Estimate, goal: Goal, yardstick: IdealPoint) -> Change | None:
    """What is chosen without the deadline, and the least one that lets it in; None where that changes nothing."""
    best = best_of(within(may, replace(goal, deadline_seconds=None)), goal, least=yardstick)
    if best is None or best.candidate == chosen.candidate:
        return None
    return Change(estimate=best, least=upper_end(best.seconds, goal.confidence))


def looser_budget(may: Sequence[Estimate], chosen: Estimate, goal: Goal, yardstick: IdealPoint) -> Change | None:
    """What is chosen without the budget, and the least one that lets it in; None where that changes nothing."""
    best = best_of(within(may, replace(goal, budget_usd=None)), goal, least=yardstick)
    if best is None or best.candidate == chosen.candidate:
        return None
    return Change(estimate=best, least=upper_end(best.usd, goal.confidence))


def price_that_changes(chosen: Estimate, second: Estimate) -> float | None:
    """The price of an hour of one node of the chosen machine at which it costs as much as the second: above it the
    second is the cheaper one (below it the chosen one, where that is now the dearer).

        p' = p·(c₂ − r)/(c₁ − r)

    with the costs c₁ and c₂ and r, what of c₁ does not go by the price: storage and egress, or nothing where there is
    no bill. The time, and with it what is billed, stays as it is. None where the second costs less than r: then no
    price is low enough.
    """
    bill = chosen.bill
    by_price = chosen.usd.value if bill is None else bill.usd_per_hour * bill.billed_seconds / SECONDS_PER_HOUR
    rest = chosen.usd.value - by_price
    if second.usd.value <= rest or by_price <= 0:
        return None
    return chosen.candidate.offer.usd_per_hour * (second.usd.value - rest) / by_price
