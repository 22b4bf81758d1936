"""Which spot machines may be relied on when there is a deadline.

The time of an Estimate on spot has no wait for the next machine in it, so its interval alone is too hopeful. The first
few spot machines are therefore each held against how long spot machines stay and stay away where they are offered.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.catalog.spot_zones import market_of
from trainfare.estimator.spot.deadline_risk import spot_risk
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.model.spot import SpotRisk
from trainfare.recommender.spot import keeps_deadline

LOOKED_INTO = 3
"""Spot machines, the best first; each takes a fifth of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relied:
    """What is left to choose from, best first, and the risk of the first where it is on spot."""

    ordered: tuple[Estimate, ...]
    risk: SpotRisk | None = None


def relied_on(ordered: Sequence[Estimate], estimates: Sequence[Estimate], goal: Goal) -> Relied:
    """`ordered` without the spot machines that would come too late, or that cost more than the best steady machine once
    going over to on demand in time is counted in. Of `estimates` are the same machines on demand."""
    if goal.deadline_seconds is None:
        return Relied(ordered=tuple(ordered))
    steady = next((e for e in ordered if not _on_spot(e)), None)
    kept: list[Estimate] = []
    first_risk: SpotRisk | None = None
    looked_into = 0
    for estimate in ordered:
        if not _on_spot(estimate):
            kept.append(estimate)
            continue
        on_demand = _on_demand(estimate, estimates)
        if on_demand is None or looked_into == LOOKED_INTO:
            continue
        looked_into += 1
        offer = estimate.candidate.offer
        risk = spot_risk(estimate, on_demand, goal, market_of(offer.vm_type, offer.region))
        dearer = steady is not None and goal.kind == "cheapest" and risk.with_fallback.usd > steady.usd.value
        if keeps_deadline(risk, goal) and not dearer:
            first_risk = first_risk if kept else risk
            kept.append(estimate)
    return Relied(ordered=tuple(kept), risk=first_risk)


def _on_spot(estimate: Estimate) -> bool:
    return estimate.candidate.offer.market == "spot"


def _on_demand(spot: Estimate, estimates: Sequence[Estimate]) -> Estimate | None:
    """The same machines in the same number at the same batch size, the cheapest of the regions."""
    candidate = spot.candidate
    key, shape = candidate.offer.vm_type.key, (candidate.nodes, candidate.batch_size, candidate.gpus_used)
    same = (
        e
        for e in estimates
        if e.candidate.offer.market == "on_demand"
        and (e.candidate.nodes, e.candidate.batch_size, e.candidate.gpus_used) == shape
        and e.candidate.offer.vm_type.key == key
    )
    return min(same, key=lambda e: e.usd.value, default=None)
