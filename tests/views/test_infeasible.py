"""The error that no candidate is within the limits.

With 90% confidence an interval of a factor of 2 has a bound of 2^(1.2816/1.6449) = 2^0.7791 = 1.7161 times its value.
"""

from tests.recommender.test_choose import estimate
from trainfare.errors import Remedy
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.recommender.limits import limit_conflict
from trainfare.views.infeasible import infeasible_error

HOUR = 3600.0


def error(
    estimates: list[Estimate], goal: Goal, on_other_markets: list[Estimate] | None = None
) -> tuple[str, list[Remedy]]:
    found = infeasible_error(limit_conflict(estimates, goal, on_other_markets=on_other_markets or []))
    assert found.exit_code == 3
    return found.message, list(found.remedies)


def test_the_fastest_candidate_and_the_deadline_it_needs() -> None:
    fast = estimate("fast", seconds=3 * HOUR, factor=15_012 / 10_800)
    message, remedies = error([fast, estimate("slow", seconds=9 * HOUR)], Goal(deadline_seconds=2 * HOUR))
    assert message == (
        "none of 2 candidates would end within 2 h with 90% confidence. "
        "The fastest, aws fast, needs 3 h 53 min (3 h expected)."
    )
    assert remedies == [Remedy({"deadline": "3h53m"})]


def test_the_cheapest_candidate_and_the_budget_it_needs() -> None:
    message, remedies = error([estimate(usd=10.0, factor=2), estimate("n", usd=13.6)], Goal(budget_usd=5.0))
    assert "The cheapest, aws m, needs $17.17 ($10.00 expected)." in message
    assert remedies == [Remedy({"budget": 17.17})]


def test_two_limits_that_only_conflict_together_have_two_remedies() -> None:
    expensive = estimate("expensive", usd=13.6, seconds=HOUR, factor=2)
    slow = estimate("slow", usd=5.0, seconds=2.4 * HOUR, factor=2)
    message, remedies = error([expensive, slow], Goal(deadline_seconds=3 * HOUR, budget_usd=20.0))
    assert "1 is within the deadline and 1 is within the budget, but none within both" in message
    assert "The fastest within the budget, aws slow, needs 4 h 8 min (2 h 24 min expected)." in message
    assert "The cheapest within the deadline, aws expensive, needs $23.34 ($13.60 expected)." in message
    assert remedies[:2] == [Remedy({"deadline": "4h8m"}), Remedy({"budget": 23.34})]


def test_the_binding_limit_is_named() -> None:
    every = [estimate("a", usd=1.0, seconds=HOUR), estimate("b", usd=2.0, seconds=HOUR / 2)]
    by_budget, _ = error(every, Goal(deadline_seconds=1e6, budget_usd=0.1))
    assert ": 2 are within the deadline, none within the budget." in by_budget
    by_deadline, _ = error(every, Goal(deadline_seconds=60, budget_usd=50))
    assert ": 2 are within the budget, none within the deadline." in by_deadline


def test_the_nearest_candidate_needs_both_limits() -> None:
    near = estimate("near", usd=3.0, seconds=3 * HOUR)
    message, remedies = error([near], Goal(deadline_seconds=HOUR, budget_usd=1.0))
    assert message.startswith("the only candidate would not end within 1 h and cost at most $1.00 with 90% confidence:")
    assert "none is within either limit. The nearest, aws near, needs 5 h 9 min and $5.15." in message
    assert remedies == [Remedy({"deadline": "5h9m", "budget": 5.15})]


def test_less_confidence_and_other_markets_are_remedies() -> None:
    spot = estimate("s", usd=0.1, seconds=60, market="spot", batch_size=128)
    slow = estimate(seconds=2 * HOUR, factor=2)
    message, remedies = error([slow], Goal(deadline_seconds=3 * HOUR), [spot])
    assert message.endswith("With 83% confidence, aws m would. On the spot market, aws s spot would.")
    assert remedies[1:] == [Remedy({"confidence": 0.83}), Remedy({"spot": True})]


def test_batch_sizes_are_named_if_they_differ() -> None:
    slow, slower = estimate(seconds=9 * HOUR), estimate(seconds=10 * HOUR, batch_size=128)
    assert "aws m at batch size 64, needs" in error([slow, slower], Goal(deadline_seconds=HOUR))[0]
