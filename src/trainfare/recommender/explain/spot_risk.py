"""What a deadline means on spot: the risk of being late, the fallback to on demand, and its cost."""

from collections.abc import Iterator

from trainfare.model.plan import Goal
from trainfare.model.reason import Reason
from trainfare.model.spot import SpotRisk
from trainfare.recommender.explain.codes import reason


def spot_risk_reasons(risk: SpotRisk, goal: Goal) -> Iterator[Reason]:
    """The probability that spot alone is late; what the fallback costs, when it must start and how likely it is."""
    spot_only, fallback, on_demand = risk.spot_only, risk.with_fallback, risk.on_demand
    yield reason(
        "why",
        "spot_deadline_risk",
        deadline_seconds=risk.deadline_seconds,
        late=spot_only.late,
        stay_seconds=risk.stay_seconds,
        wait_seconds=risk.wait_seconds,
        source=risk.source,
    )
    if not risk.fallback_at_seconds:
        yield reason(
            "why",
            "no_time_for_spot",
            deadline_seconds=risk.deadline_seconds,
            on_demand_seconds=on_demand.seconds,
            on_demand_usd=on_demand.usd,
        )
        return
    yield reason(
        "why",
        "fallback_to_on_demand",
        latest_seconds=risk.fallback_at_seconds,
        usd=fallback.usd,
        saving=1 - fallback.usd / on_demand.usd,
        probability=fallback.fallback,
    )
    if fallback.late > 1 - goal.confidence:
        yield reason("why", "late_even_on_demand", deadline_seconds=risk.deadline_seconds, late=fallback.late)
