import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recommender.test_choose import estimate, listed, some_estimates
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.recommender.limits import (
    LimitConflict,
    confidence_within_limits,
    limit_conflict,
    reject_beyond_limits,
    sufficient_budget,
    sufficient_deadline,
    within_limits,
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


@given(some_estimates, some_goals)
def test_within_limits_agrees_with_brute_force(estimates: list[Estimate], goal: Goal) -> None:
    deadline, budget = goal.deadline_seconds or 1e99, goal.budget_usd or 1e99
    in_time = [e for e in estimates if e.seconds.upper_bound(goal.confidence) <= deadline]
    affordable = [e for e in estimates if e.usd.upper_bound(goal.confidence) <= budget]
    within = tuple(e for e in estimates if e in in_time and e in affordable)
    assert within_limits(estimates, goal) == within
    late = tuple(e for e in estimates if e not in in_time)
    expensive = tuple(e for e in in_time if e not in affordable)
    rejected = {code: found for code, found in (("beyond_deadline", late), ("beyond_budget", expensive)) if found}
    found, rejections = reject_beyond_limits(estimates, goal)
    assert found == within
    assert listed(rejections) == rejected


def suggested_goals(conflict: LimitConflict) -> list[Goal]:
    """The goals that the nearest alternatives suggest."""
    by_time, by_cost, by_both, less = conflict.by_time, conflict.by_cost, conflict.by_both, conflict.by_confidence
    found = []
    if by_time is not None:
        found.append(changed(conflict.goal, deadline=by_time.deadline))
    if by_cost is not None:
        found.append(changed(conflict.goal, budget=by_cost.budget))
    if by_both is not None:
        found.append(changed(conflict.goal, deadline=by_both.deadline, budget=by_both.budget))
    if less is not None:
        found.append(changed(conflict.goal, confidence=less.confidence))
    return found


def changed(
    goal: Goal, *, deadline: str | None = None, budget: str | None = None, confidence: float | None = None
) -> Goal:
    return Goal(
        kind=goal.kind,
        deadline_seconds=goal.deadline_seconds if deadline is None else parse_duration(deadline),
        budget_usd=goal.budget_usd if budget is None else float(budget),
        confidence=goal.confidence if confidence is None else confidence,
    )


@st.composite
def conflicts(draw: st.DrawFn) -> tuple[list[Estimate], Goal]:
    """One limit or two that no estimate is within; or two that no estimate is within at the same time."""
    estimates, confidence = draw(some_estimates), draw(st.sampled_from([0.5, 0.9, 0.99]))
    seconds = sorted(e.seconds.upper_bound(confidence) for e in estimates)
    usd = sorted(e.usd.upper_bound(confidence) for e in estimates)
    share = st.floats(0.05, 0.999)
    which = draw(st.sampled_from(["deadline", "budget", "both", "either alone"]))
    deadline = None if which == "budget" else draw(share) * seconds[0]
    budget = None if which == "deadline" else draw(share) * usd[0]
    if which == "either alone":
        deadline = draw(st.sampled_from(seconds))
        in_time = [e.usd.upper_bound(confidence) for e in estimates if e.seconds.upper_bound(confidence) <= deadline]
        budget = draw(share) * min(in_time)
    return estimates, Goal(deadline_seconds=deadline, budget_usd=budget, confidence=confidence)


@given(conflicts())
def test_every_suggestion_includes_a_candidate(conflict: tuple[list[Estimate], Goal]) -> None:
    estimates, goal = conflict
    suggestions = suggested_goals(limit_conflict(estimates, goal))
    assert suggestions
    for suggestion in suggestions:
        assert within_limits(estimates, suggestion), suggestion


@given(conflicts())
def test_a_suggested_limit_is_hardly_larger_than_necessary(conflict: tuple[list[Estimate], Goal]) -> None:
    """A limit that is 3% lower (2 s, a tenth below a dollar) includes nothing."""
    estimates, goal = conflict
    found = limit_conflict(estimates, goal)
    if found.by_time is not None:
        deadline = parse_duration(found.by_time.deadline)
        lower = min(deadline / 1.03, deadline - 2)
        assert lower <= 0 or not within_limits(estimates, changed(goal, deadline=f"{lower}s"))
    if found.by_cost is not None:
        budget = float(found.by_cost.budget)
        lower = budget / (1.03 if budget >= 1 else 1.11)
        assert not within_limits(estimates, changed(goal, budget=str(lower)))


@given(some_estimates, some_goals)
def test_the_confidence_within_the_limits_is_the_greatest(estimates: list[Estimate], goal: Goal) -> None:
    for each in estimates:
        found = confidence_within_limits(each, goal)
        if found > 0.02:
            assert within_limits([each], changed(goal, confidence=found - 0.01))
        if found < 0.98:
            assert not within_limits([each], changed(goal, confidence=found + 0.01))


def test_the_fastest_candidate_has_the_deadline_that_includes_it() -> None:
    """3 h expected, with 90% at most 3 h · 1.39^0.7791 = 3 h · 1.2925 = 3 h 52 min 39 s: rounded up to the minute."""
    fast = estimate("fast", seconds=3 * HOUR, factor=15_012 / 10_800)
    found = limit_conflict([fast, estimate("slow", seconds=9 * HOUR)], Goal(deadline_seconds=2 * HOUR))
    assert found.candidates == 2
    assert found.by_time is not None
    assert (found.by_time.estimate, found.by_time.deadline, found.by_time.within_budget) == (fast, "3h53m", False)
    assert (found.by_cost, found.by_both) == (None, None)


def test_the_cheapest_candidate_has_the_budget_that_includes_it() -> None:
    """$10 · 2^0.7791 = $17.161, rounded up to the cent."""
    cheap = estimate("cheap", usd=10.0, factor=2)
    found = limit_conflict([cheap, estimate(usd=13.654, factor=2)], Goal(budget_usd=5.0))
    assert found.by_cost is not None
    assert (found.by_cost.estimate, found.by_cost.budget, found.by_cost.within_deadline) == (cheap, "17.17", False)


def test_two_limits_that_only_conflict_together_have_two_alternatives() -> None:
    """The bounds are 2^0.7791 = 1.7161 times what is expected: 2.4 h become 4 h 7.1 min, $13.60 become $23.339."""
    expensive = estimate("expensive", usd=13.6, seconds=HOUR, factor=2)
    slow = estimate("slow", usd=5.0, seconds=2.4 * HOUR, factor=2)
    found = limit_conflict([expensive, slow], Goal(deadline_seconds=3 * HOUR, budget_usd=20.0))
    assert (found.within_deadline, found.within_budget) == (1, 1)
    assert found.by_time is not None
    assert (found.by_time.estimate, found.by_time.deadline, found.by_time.within_budget) == (slow, "4h8m", True)
    assert found.by_cost is not None
    assert (found.by_cost.estimate, found.by_cost.budget, found.by_cost.within_deadline) == (expensive, "23.34", True)


def test_the_binding_limit_is_counted() -> None:
    every = [estimate("a", usd=1.0, seconds=HOUR), estimate("b", usd=2.0, seconds=HOUR / 2)]
    by_budget = limit_conflict(every, Goal(deadline_seconds=1e6, budget_usd=0.1))
    assert (by_budget.within_deadline, by_budget.within_budget) == (2, 0)
    by_deadline = limit_conflict(every, Goal(deadline_seconds=60, budget_usd=50))
    assert (by_deadline.within_deadline, by_deadline.within_budget) == (0, 2)


def test_the_nearest_alternative_changes_both_limits_if_none_is_within_either() -> None:
    """3 · 1.7161 = 5.1483: 5 h 8.9 min and $5.148."""
    far, near = estimate("far", usd=1.0, seconds=40 * HOUR), estimate("near", usd=3.0, seconds=3 * HOUR)
    found = limit_conflict([far, near], Goal(deadline_seconds=HOUR, budget_usd=1.0))
    assert (found.within_deadline, found.within_budget) == (0, 0)
    assert found.by_both is not None
    assert (found.by_both.estimate, found.by_both.deadline, found.by_both.budget) == (near, "5h9m", "5.15")


def test_less_confidence_is_suggested_if_it_is_enough() -> None:
    """2 h expected, 4 h the high end at z = 1.645: 3 h is 0.585 of the way in logarithms, z = 0.962, Φ = 83.2%."""
    found = limit_conflict([estimate(seconds=2 * HOUR, factor=2)], Goal(deadline_seconds=3 * HOUR))
    assert found.by_confidence is not None
    assert found.by_confidence.confidence == 0.83
    hopeless = limit_conflict([estimate(seconds=2 * HOUR, factor=2)], Goal(deadline_seconds=2 * HOUR))
    assert hopeless.by_confidence is None


def test_the_cheapest_candidate_of_another_market_is_suggested() -> None:
    cheap, cheaper = (estimate(name, usd=usd, seconds=60, market="spot") for name, usd in (("a", 0.2), ("b", 0.1)))
    slow = estimate("c", seconds=9 * HOUR, market="reserved")
    found = limit_conflict(
        [estimate(seconds=9 * HOUR)], Goal(deadline_seconds=HOUR), on_other_markets=[cheap, cheaper, slow]
    )
    assert found.on_other_markets == {"spot": cheaper}


def test_limits_that_a_candidate_is_within_are_no_conflict() -> None:
    with pytest.raises(ValueError, match="within the limits"):
        limit_conflict([estimate()], Goal(deadline_seconds=1e9))


@given(st.floats(1e-3, 1e7))
def test_deadlines_are_rounded_up_by_little(seconds: float) -> None:
    read = parse_duration(sufficient_deadline(seconds))
    assert seconds <= read <= max(seconds + 1, seconds * 1.021)


@given(st.floats(1e-6, 1e6))
def test_budgets_are_rounded_up_by_little(usd: float) -> None:
    read = float(sufficient_budget(usd))
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
def test_a_deadline_is_written_as_a_person_types_it(seconds: float, text: str) -> None:
    assert sufficient_deadline(seconds) == text
