"""Spot candidates that are certain enough to end before a deadline.

The time of an Estimate on spot does not include waiting for the next machine, so its interval alone is too optimistic.
The best few spot candidates are therefore checked against traces of how long spot machines stay and stay away in their
region.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trainfare.app.recommending.search import SearchResult
from trainfare.app.recommending.workload import Workload
from trainfare.catalog.spot_zones import find_spot_market
from trainfare.estimator.estimate import Totals
from trainfare.estimator.spot.deadline_risk import spot_risk
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.spot import SpotRisk
from trainfare.recommender.choose import Rejection
from trainfare.recommender.spot import meets_deadline

MAX_CHECKS = 3
"""Spot candidates that are checked, the best first; each check takes a fifth of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCheck:
    """The accepted candidates, best first, the rejections of the others, and the risk of the first if it is on spot."""

    accepted: tuple[Totals, ...]
    rejections: Mapping[Candidate, Rejection] = field(default_factory=dict)
    risk: SpotRisk | None = None


def check_spot(ordered: Sequence[Totals], found: SearchResult, goal: Goal) -> SpotCheck:
    """The candidates without the spot machines that would be late, or that, with a fallback to on demand, would cost
    more than the best machine on another market. `found` contains the same machines on demand.

    Without a deadline all are accepted.
    """
    if goal.deadline_seconds is None:
        return SpotCheck(accepted=tuple(ordered))
    steady = next((each for each in ordered if not is_spot(each.candidate)), None)
    accepted: list[Totals] = []
    rejections: dict[Candidate, Rejection] = {}
    risk_of_first: SpotRisk | None = None
    checks = 0
    for each in ordered:
        candidate = each.candidate
        if not is_spot(candidate):
            accepted.append(each)
            continue
        on_demand = _on_demand(candidate, found.totals.values()) if checks < MAX_CHECKS else None
        if on_demand is None:
            rejections[candidate] = "spot_not_checked"
            continue
        checks += 1
        risk = _risk(candidate, on_demand, found.workload, goal)
        too_expensive = steady is not None and goal.kind == "cheapest" and risk.with_fallback.usd > steady.usd.value
        if meets_deadline(risk, goal) and not too_expensive:
            risk_of_first = risk_of_first if accepted else risk
            accepted.append(each)
        else:
            rejections[candidate] = "spot_too_risky"
    return SpotCheck(accepted=tuple(accepted), rejections=rejections, risk=risk_of_first)


def is_spot(candidate: Candidate) -> bool:
    return candidate.offer.market == "spot"


def _risk(spot: Candidate, on_demand: Candidate, workload: Workload, goal: Goal) -> SpotRisk:
    estimate, fallback = workload.unbilled([spot, on_demand])
    return spot_risk(estimate, fallback, goal, find_spot_market(spot.offer.vm_type, spot.offer.region))


def _on_demand(spot: Candidate, totals: Iterable[Totals]) -> Candidate | None:
    """The cheapest region of the same machines, nodes and batch size on demand."""
    key, shape = spot.offer.vm_type.key, _shape(spot)
    same = (
        each
        for each in totals
        if each.candidate.offer.market == "on_demand"
        and _shape(each.candidate) == shape
        and each.candidate.offer.vm_type.key == key
    )
    cheapest = min(same, key=lambda each: each.usd.value, default=None)
    return None if cheapest is None else cheapest.candidate


def _shape(candidate: Candidate) -> tuple[int, int | None, int | None]:
    return candidate.nodes, candidate.batch_size, candidate.gpus_used
