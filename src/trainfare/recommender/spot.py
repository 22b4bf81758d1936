"""Whether a spot candidate is certain enough to end before the deadline."""

from trainfare.model.plan import Goal
from trainfare.model.spot import SpotRisk


def meets_deadline(risk: SpotRisk, goal: Goal) -> bool:
    """True if the deadline is met with the confidence of the goal, on spot alone or with a fallback to on demand."""
    most = 1 - goal.confidence
    return min(risk.spot_only.late, risk.with_fallback.late) <= most
