"""What is said of a deadline on spot."""

from dataclasses import replace

import pytest

from trainfare.model.plan import Goal
from trainfare.model.spot import Outcome, SpotRisk
from trainfare.recommender.spot import chance_words, keeps_deadline, spot_risk_reasons

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


def test_a_plan_says_how_likely_spot_is_late_and_what_the_way_out_costs() -> None:
    late, backed = spot_risk_reasons(RISK, GOAL)
    assert "after 18 h 00 min with a probability of 24 %" in late
    assert "traces of 3 zones" in late
    assert "at the latest 4 h 30 min after the beginning" in backed
    assert "15.00 $ on the mean, 58 % less than on demand alone" in backed
    assert "probability of 30 %" in backed


def test_without_slack_it_says_so_and_stops() -> None:
    _, told = spot_risk_reasons(replace(RISK, fallback_at_seconds=0.0), GOAL)
    assert "leaves no time to wait for spot" in told


def test_a_deadline_that_on_demand_misses_too_is_said() -> None:
    hopeless = replace(RISK, with_fallback=replace(RISK.with_fallback, late=0.4))
    assert "even on demand" in list(spot_risk_reasons(hopeless, GOAL))[-1]
    assert not keeps_deadline(hopeless, GOAL)


def test_a_deadline_is_kept_alone_or_with_the_way_out() -> None:
    assert keeps_deadline(RISK, GOAL)
    hopeful = replace(
        RISK,
        spot_only=replace(RISK.spot_only, late=0.05),
        with_fallback=replace(RISK.with_fallback, late=0.2),
    )
    assert keeps_deadline(hopeful, GOAL)
    assert not keeps_deadline(hopeful, replace(GOAL, confidence=0.99))


@pytest.mark.parametrize(
    ("probability", "words"), [(0.0, "less than 1 %"), (0.034, "3 %"), (0.999, "more than 99 %"), (0.5, "50 %")]
)
def test_probabilities_have_no_more_digits_than_they_deserve(probability: float, words: str) -> None:
    assert chance_words(probability) == words
