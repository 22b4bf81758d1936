import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recommender.test_choose import estimate, some_estimates
from tests.strategies import intervals, positive
from trainfare.errors import InfeasibleError
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.limits import (
    confidence_that_keeps,
    duration_option,
    infeasible,
    upper_end,
    usd_option,
    within,
)
from trainfare.units import parse_duration

HOUR = 3600.0

some_goals = st.builds(
    Goal,
    kind=st.sampled_from(["cheapest", "fastest"]),
    deadline_seconds=st.none() | st.floats(0.5, 1e5),
    budget_usd=st.none() | st.floats(0.05, 20),
    confidence=st.sampled_from([0.5, 0.8, 0.9, 0.99]),
)


@given(intervals(positive), st.floats(0.01, 0.999))
def test_the_upper_end_is_that_of_the_interval_at_the_confidence(interval: Interval, confidence: float) -> None:
    assert upper_end(interval, confidence) == interval.at_confidence(confidence).high


@given(some_estimates, some_goals)
def test_within_agrees_with_asking_each(estimates: list[Estimate], goal: Goal) -> None:
    deadline, budget = goal.deadline_seconds or 1e99, goal.budget_usd or 1e99
    kept = [
        e
        for e in estimates
        if e.seconds.at_confidence(goal.confidence).high <= deadline and e.usd.at_confidence(goal.confidence).high <= budget
    ]
    assert list(within(estimates, goal)) == kept


def suggested(said: str) -> list[dict[str, float]]:
    """What each sentence of the advice would have one ask for."""
    read: dict[str, Callable[[str], float]] = {"deadline": parse_duration, "budget": float, "confidence": float}
    advice = [
        re.findall(r"--(deadline|budget|confidence) ([0-9][0-9.dhms]*[0-9dhms]|[0-9])", s)
        for s in re.split(r"\.(?: |$)", said)
    ]
    return [{name: read[name](value) for name, value in found} for found in advice if found]


def asked(goal: Goal, changed: dict[str, float]) -> Goal:
    return Goal(
        kind=goal.kind,
        deadline_seconds=changed.get("deadline", goal.deadline_seconds),
        budget_usd=changed.get("budget", goal.budget_usd),
        confidence=changed.get("confidence", goal.confidence),
    )


@st.composite
def too_much(draw: st.DrawFn) -> tuple[list[Estimate], Goal]:
    """One limit or both that nothing keeps; or two that only together are too much."""
    estimates, confidence = draw(some_estimates), draw(st.sampled_from([0.5, 0.9, 0.99]))
    seconds = sorted(upper_end(e.seconds, confidence) for e in estimates)
    usd = sorted(upper_end(e.usd, confidence) for e in estimates)
    share = st.floats(0.05, 0.999)
    which = draw(st.sampled_from(["deadline", "budget", "both", "either alone"]))
    deadline = None if which == "budget" else draw(share) * seconds[0]
    budget = None if which == "deadline" else draw(share) * usd[0]
    if which == "either alone":
        deadline = draw(st.sampled_from(seconds))
        in_time = [upper_end(e.usd, confidence) for e in estimates if upper_end(e.seconds, confidence) <= deadline]
        budget = draw(share) * min(in_time)
    return estimates, Goal(deadline_seconds=deadline, budget_usd=budget, confidence=confidence)


@given(too_much())
def test_whoever_follows_the_advice_finds_something(asking: tuple[list[Estimate], Goal]) -> None:
    estimates, goal = asking
    said = str(infeasible(estimates, goal))
    advice = suggested(said)
    assert advice, said
    for changed in advice:
        assert within(estimates, asked(goal, changed)), (said, changed)


@given(too_much())
def test_the_advice_asks_for_hardly_more_than_it_must(asking: tuple[list[Estimate], Goal]) -> None:
    """A limit that is 3 % lower (2 s, a tenth below a dollar) lets nothing in."""
    estimates, goal = asking
    for changed in suggested(str(infeasible(estimates, goal))):
        if list(changed) == ["deadline"]:
            lower = {"deadline": min(changed["deadline"] / 1.03, changed["deadline"] - 2)}
        elif list(changed) == ["budget"]:
            lower = {"budget": changed["budget"] / (1.03 if changed["budget"] >= 1 else 1.11)}
        else:
            continue
        assert min(lower.values()) <= 0 or not within(estimates, asked(goal, lower))


@given(some_estimates, some_goals)
def test_the_confidence_that_keeps_is_the_greatest(estimates: list[Estimate], goal: Goal) -> None:
    for each in estimates:
        found = confidence_that_keeps(each, goal)
        if found > 0.02:
            assert within([each], asked(goal, {"confidence": found - 0.01}))
        if found < 0.98:
            assert not within([each], asked(goal, {"confidence": found + 0.01}))


def message(estimates: list[Estimate], goal: Goal, **more: list[Estimate]) -> str:
    found = infeasible(estimates, goal, **more)
    assert isinstance(found, InfeasibleError)
    assert found.exit_code == 3
    return str(found)


def test_the_fastest_names_the_deadline_that_it_needs() -> None:
    """3 h expected, at the most 4 h 10 min 12 s: rounded up to the minute."""
    fast = estimate("fast", seconds=3 * HOUR, factor=15_012 / 10_800)
    text = message([fast, estimate("slow", seconds=9 * HOUR)], Goal(deadline_seconds=2 * HOUR))
    assert "of 2 candidates none would end within 2 h with 90 % confidence." in text
    assert "The fastest, aws fast, needs 4 h 11 min (3 h 00 min expected): --deadline 4h11m." in text


def test_the_cheapest_names_the_budget_that_it_needs() -> None:
    text = message([estimate(usd=10.0, factor=2), estimate(usd=13.654, factor=2)], Goal(budget_usd=5.0))
    assert "The cheapest, aws m, needs 20.00 $ (10.00 $ expected): --budget 20.00." in text


def test_two_limits_that_only_together_are_too_much_have_two_ways_out() -> None:
    dear = estimate("dear", usd=13.6, seconds=HOUR, factor=2)
    slow = estimate("slow", usd=5.0, seconds=2.4 * HOUR, factor=2)
    text = message([dear, slow], Goal(deadline_seconds=3 * HOUR, budget_usd=20.0))
    assert "though 1 keeps the deadline alone and 1 the budget alone" in text
    assert "The fastest within the budget, aws slow, needs 4 h 48 min (2 h 24 min expected): --deadline 4h48m." in text
    assert "The cheapest within the deadline, aws dear, needs 27.20 $ (13.60 $ expected): --budget 27.20." in text


def test_the_limit_that_binds_is_named() -> None:
    every = [estimate("a", usd=1.0, seconds=HOUR), estimate("b", usd=2.0, seconds=HOUR / 2)]
    assert "2 keep the deadline, none the budget" in message(every, Goal(deadline_seconds=1e6, budget_usd=0.1))
    assert "2 keep the budget, none the deadline" in message(every, Goal(deadline_seconds=60, budget_usd=50))


def test_where_neither_limit_is_kept_the_nearest_asks_for_both() -> None:
    far, near = estimate("far", usd=1.0, seconds=40 * HOUR), estimate("near", usd=3.0, seconds=3 * HOUR)
    text = message([far, near], Goal(deadline_seconds=HOUR, budget_usd=1.0))
    assert "none keeps even one of the two" in text
    assert "The nearest, aws near, needs 6 h 00 min and 6.00 $: --deadline 6h --budget 6.00." in text


def test_less_confidence_is_offered_where_it_is_enough() -> None:
    """2 h expected and at the most 4 h (90 %): 3 h is 0.585 of the way in logarithms, z = 0.96, 66 %."""
    text = message([estimate(seconds=2 * HOUR, factor=2)], Goal(deadline_seconds=3 * HOUR))
    assert "With 66 % confidence aws m would: --confidence 0.66." in text
    assert "--confidence" not in message([estimate(seconds=2 * HOUR, factor=2)], Goal(deadline_seconds=2 * HOUR))


def test_other_markets_are_offered_where_they_would_do() -> None:
    spot = estimate("s", usd=0.1, seconds=60, market="spot")
    text = message([estimate(seconds=9 * HOUR)], Goal(deadline_seconds=HOUR), unasked=[spot])
    assert text.endswith("With --spot, aws s spot would.")


def test_one_is_spoken_of_as_one() -> None:
    assert message([estimate(seconds=9 * HOUR)], Goal(deadline_seconds=HOUR)).startswith(
        "the one candidate would not end within 1 h with 90 % confidence. The fastest"
    )
    slow, dear = estimate("slow", seconds=9 * HOUR, usd=0.1), estimate("dear", seconds=60, usd=99)
    goal = Goal(deadline_seconds=HOUR, budget_usd=1)
    assert "though 1 keeps the deadline alone and 1 the budget alone" in message([slow, dear], goal)
    nearly_sure = Goal(deadline_seconds=HOUR, confidence=0.999999)
    assert "with 99.9999 % confidence" in message([slow, slow], nearly_sure)


def test_what_can_be_done_is_not_called_infeasible() -> None:
    with pytest.raises(ValueError, match="keeps the limits"):
        infeasible([estimate()], Goal(deadline_seconds=1e9))


@given(st.floats(1e-3, 1e7))
def test_durations_are_rounded_up_and_hardly(seconds: float) -> None:
    read = parse_duration(duration_option(seconds))
    assert seconds <= read <= max(seconds + 1, seconds * 1.021)


@given(st.floats(1e-6, 1e6))
def test_dollars_are_rounded_up_and_hardly(usd: float) -> None:
    read = float(usd_option(usd))
    assert usd <= read <= (1.1000001 * usd if usd < 1 else usd + 0.0100001)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (59.2, "1m"),
        (0.3, "1s"),
        (100.3, "1m41s"),
        (661, "11m10s"),
        (3000.1, "51m"),
        (3600, "1h"),
        (15_000, "4h10m"),
        (172_800, "2d"),
        (270_000, "3d3h"),
    ],
)
def test_durations_as_an_option_reads_them(seconds: float, text: str) -> None:
    assert duration_option(seconds) == text
