"""Whether a spot candidate meets a deadline."""

from dataclasses import replace

from trainfare.model.plan import Goal
from trainfare.model.spot import Outcome, SpotRisk
from trainfare.recommender.spot import meets_deadline

HOUR = 3600.0
GOAL = Goal(deadline_seconds=18 * HOUR)
RISK = SpotRisk(
    deadline_seconds=18 * HOUR,
    spot_only=Outcome(usd=12.5, seconds=15 * HOUR, late=0.24),
    with_fallback=Outcome(usd=15.0, seconds=14 * HOUR, late=0.001, fallback=0.3),
    on_demand=Outcome(usd=36.0, seconds=12 * HOUR, late=0.001, fallback=1.0),
    fallback_at_seconds=4.5 * HOUR,
    checkpoint_every_seconds=900.0,
    stay_seconds=5 * HOUR,
    wait_seconds=HOUR,
    source="traces of 3 zones",
)


def test_a_deadline_is_met_with_the_fallback() -> None:
    assert meets_deadline(RISK, GOAL)


def test_a_deadline_is_met_on_spot_alone_with_the_confidence_of_the_goal() -> None:
    alone = replace(
        RISK,
        spot_only=replace(RISK.spot_only, late=0.05),
        with_fallback=replace(RISK.with_fallback, late=0.2),
    )
    assert meets_deadline(alone, GOAL)
    assert not meets_deadline(alone, replace(GOAL, confidence=0.99))


def test_a_deadline_that_on_demand_misses_too_is_not_met() -> None:
    assert not meets_deadline(replace(RISK, with_fallback=replace(RISK.with_fallback, late=0.4)), GOAL)
