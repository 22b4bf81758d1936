"""Spot candidates that are certain enough to end before a deadline.

The time of an Estimate on spot does not include waiting for the next machine, so its interval alone is too optimistic.
The best few spot candidates are therefore checked against traces of how long spot machines stay and stay away in their
region.
"""

from dataclasses import dataclass, replace

from trainfare.app.recommending.search import SearchResult
from trainfare.app.recommending.workload import Workload
from trainfare.catalog.spot_zones import find_spot_market
from trainfare.estimator.estimate import Totals
from trainfare.estimator.spot.deadline_risk import spot_risk
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.model.spot import SpotRisk
from trainfare.recommender.options import Options
from trainfare.recommender.spot import meets_deadline

MAX_REGIONS = 5
"""Regions on spot that a run may go on in after a loss, next to the chosen one."""
MAX_CHECKS = 3
"""Spot candidates that are checked, the best first; each check takes a fifth of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCheck:
    """The accepted candidates, best first, those that were checked and rejected, and the risk of the first accepted if
    it is on spot."""

    accepted: Options[Totals]
    too_risky: Options[Totals]
    risk: SpotRisk | None = None


def check_spot(ordered: Options[Totals], found: SearchResult, goal: Goal) -> SpotCheck:
    """The candidates without the spot machines that would be late, or that, with a fallback to on demand, would cost
    more than the best machine on another market. `found` contains the same machines on demand.

    Without a deadline all are accepted.
    """
    if goal.deadline_seconds is None:
        return SpotCheck(accepted=ordered, too_risky=ordered[:0])
    steady = next((each for each in ordered if not is_spot(each.candidate.offer)), None)
    accepted: list[int] = []
    too_risky: list[int] = []
    risk_of_first: SpotRisk | None = None
    checks = 0
    for place, candidate in enumerate(ordered.candidates):
        if not is_spot(candidate.offer):
            accepted.append(place)
            continue
        on_demand = _on_demand(candidate, found.totals) if checks < MAX_CHECKS else None
        if on_demand is None:
            continue
        checks += 1
        risk = _risk(candidate, on_demand, found.workload, goal)
        too_expensive = steady is not None and goal.kind == "cheapest" and risk.with_fallback.usd > steady.usd.value
        if meets_deadline(risk, goal) and not too_expensive:
            risk_of_first = risk_of_first if accepted else risk
            accepted.append(place)
        else:
            too_risky.append(place)
    return SpotCheck(accepted=ordered.take(accepted), too_risky=ordered.take(too_risky), risk=risk_of_first)


def spot_fallbacks(found: SearchResult, chosen: Candidate) -> tuple[Estimate, ...]:
    """The same machines on spot in the cheapest other regions, and on demand in the cheapest; none unless the chosen
    ones are on spot."""
    if not is_spot(chosen.offer):
        return ()
    same = [offer for offer in found.candidates.in_scope if offer.vm_type.key == chosen.offer.vm_type.key]
    same.sort(key=lambda offer: offer.usd_per_hour)
    spot = [offer for offer in same if is_spot(offer) and offer.region != chosen.offer.region][:MAX_REGIONS]
    on_demand = [offer for offer in same if offer.market == "on_demand"][:1]
    return tuple(found.workload.unbilled(replace(chosen, offer=offer) for offer in (*spot, *on_demand)))


def is_spot(offer: Offer) -> bool:
    return offer.market == "spot"


def _risk(spot: Candidate, on_demand: Candidate, workload: Workload, goal: Goal) -> SpotRisk:
    estimate, fallback = workload.unbilled([spot, on_demand])
    return spot_risk(estimate, fallback, goal, find_spot_market(spot.offer.vm_type, spot.offer.region))


def _on_demand(spot: Candidate, totals: Options[Totals]) -> Candidate | None:
    """The cheapest region of the same machines, nodes and batch size on demand."""
    key, shape = spot.offer.vm_type.key, spot.shape
    there = totals.where_offer(lambda offer: offer.market == "on_demand" and offer.vm_type.key == key)
    same = there.where_candidate(lambda candidate: candidate.shape == shape)
    cheapest = min(same, key=lambda each: each.usd.value, default=None)
    return None if cheapest is None else cheapest.candidate
