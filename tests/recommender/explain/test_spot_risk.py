"""The reasons that a deadline on spot gives."""

from dataclasses import replace

from tests.recommender.test_spot import GOAL, HOUR, RISK
from trainfare.recommender.explain.spot_risk import spot_risk_reasons


def test_the_risk_and_the_fallback_are_two_reasons() -> None:
    risk, fallback = spot_risk_reasons(RISK, GOAL)
    assert (risk.code, risk.values["late"], risk.values["source"]) == ("spot_deadline_risk", 0.24, "traces of 3 zones")
    assert fallback.code == "fallback_to_on_demand"
    assert fallback.values == {
        "latest_seconds": 4.5 * HOUR,
        "usd": 15.0,
        "saving": 1 - 15.0 / 36.0,
        "probability": 0.3,
    }


def test_without_slack_there_is_no_fallback() -> None:
    _, found = spot_risk_reasons(replace(RISK, fallback_at_seconds=0.0), GOAL)
    assert (found.code, found.values["on_demand_usd"]) == ("no_time_for_spot", 36.0)


def test_a_deadline_that_on_demand_misses_too_is_a_third_reason() -> None:
    hopeless = replace(RISK, with_fallback=replace(RISK.with_fallback, late=0.4))
    *_, last = spot_risk_reasons(hopeless, GOAL)
    assert (last.code, last.values["late"]) == ("late_even_on_demand", 0.4)
