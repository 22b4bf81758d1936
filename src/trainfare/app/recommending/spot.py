"""Spot candidates that are certain enough to end before a deadline.

The time of an Estimate on spot does not include waiting for the next machine, so its interval alone is too optimistic.
The best few spot candidates are therefore checked against traces of how long spot machines stay and stay away in their
region.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trainfare.catalog.spot_zones import find_spot_market
from trainfare.estimator.spot.deadline_risk import spot_risk
from trainfare.model.estimate import Estimate
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

    accepted: tuple[Estimate, ...]
    rejections: Mapping[Candidate, Rejection] = field(default_factory=dict)
    risk: SpotRisk | None = None


def check_spot(ordered: Sequence[Estimate], estimates: Mapping[Candidate, Estimate], goal: Goal) -> SpotCheck:
    """The candidates without the spot machines that would be late, or that, with a fallback to on demand, would cost
    more than the best machine on another market. `estimates` contain the same machines on demand.

    Without a deadline all are accepted.
    """
    if goal.deadline_seconds is None:
        return SpotCheck(accepted=tuple(ordered))
    steady = next((e for e in ordered if not is_spot(e)), None)
    accepted: list[Estimate] = []
    rejections: dict[Candidate, Rejection] = {}
    risk_of_first: SpotRisk | None = None
    checks = 0
    for estimate in ordered:
        if not is_spot(estimate):
            accepted.append(estimate)
            continue
        on_demand = _on_demand(estimate, estimates.values()) if checks < MAX_CHECKS else None
        if on_demand is None:
            rejections[estimate.candidate] = "spot_not_checked"
            continue
        checks += 1
        offer = estimate.candidate.offer
        risk = spot_risk(estimate, on_demand, goal, find_spot_market(offer.vm_type, offer.region))
        too_expensive = steady is not None and goal.kind == "cheapest" and risk.with_fallback.usd > steady.usd.value
        if meets_deadline(risk, goal) and not too_expensive:
            risk_of_first = risk_of_first if accepted else risk
            accepted.append(estimate)
        else:
            rejections[estimate.candidate] = "spot_too_risky"
    return SpotCheck(accepted=tuple(accepted), rejections=rejections, risk=risk_of_first)


def is_spot(estimate: Estimate) -> bool:
    return estimate.candidate.offer.market == "spot"


def _on_demand(spot: Estimate, estimates: Iterable[Estimate]) -> Estimate | None:
    """The cheapest region of the same machines, nodes and batch size on demand."""
    candidate = spot.candidate
    key, shape = candidate.offer.vm_type.key, _shape(candidate)
    same = (
        e
        for e in estimates
        if e.candidate.offer.market == "on_demand"
        and _shape(e.candidate) == shape
        and e.candidate.offer.vm_type.key == key
    )
    return min(same, key=lambda e: e.usd.value, default=None)


def _shape(candidate: Candidate) -> tuple[int, int | None, int | None]:
    return candidate.nodes, candidate.batch_size, candidate.gpus_used
