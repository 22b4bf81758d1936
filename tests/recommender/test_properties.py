"""Properties of every choice, compared with brute force and with choices under other limits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recommender.test_choose import estimate, some_estimates, weighted
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.recommender.choose import IdealPoint, best_per_machine, ideal_point, in_order, score
from trainfare.recommender.limits import within_limits
from trainfare.recommender.pareto import front

confidences = st.sampled_from([0.3, 0.5, 0.8, 0.9, 0.95, 0.99])
weights = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])
limits = st.none() | st.floats(0.1, 50)


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    kind = draw(st.sampled_from(["cheapest", "fastest", "weighted"]))
    hours, usd = draw(limits), draw(limits)
    return Goal(
        kind=kind,  # type: ignore[arg-type] # one of the three literals, which mypy cannot see
        weight_time=draw(weights) if kind == "weighted" else None,
        deadline_seconds=hours and 3600 * hours,
        budget_usd=usd,
        confidence=draw(confidences),
    )


def chosen(estimates: list[Estimate], goal: Goal) -> Estimate | None:
    """The choice of a plan: limits remove candidates, and the ideal point is that of all of them."""
    within = within_limits(estimates, goal)
    return best_per_machine(in_order(within, goal, ideal=ideal_point(estimates)))[0] if within else None


def objective(one: Estimate, goal: Goal, ideal: IdealPoint) -> float:
    """What the goal wants least of."""
    if goal.weight_time is not None:
        return score(one, goal.weight_time, ideal)
    return one.usd.value if goal.kind == "cheapest" else one.seconds.value


def dominates(one: Estimate, other: Estimate) -> bool:
    no_worse = one.usd.value <= other.usd.value and one.seconds.value <= other.seconds.value
    return no_worse and (one.usd.value, one.seconds.value) != (other.usd.value, other.seconds.value)


@given(some_estimates, goals())
def test_the_choice_agrees_with_brute_force(estimates: list[Estimate], goal: Goal) -> None:
    deadline, budget = goal.deadline_seconds or 1e99, goal.budget_usd or 1e99
    ideal = ideal_point(estimates)
    within = [
        e
        for e in estimates
        if e.seconds.upper_bound(goal.confidence) <= deadline and e.usd.upper_bound(goal.confidence) <= budget
    ]
    found = chosen(estimates, goal)
    if found is None:
        assert not within
        return
    assert found in within
    assert objective(found, goal, ideal) == min(objective(e, goal, ideal) for e in within)


@given(some_estimates, goals())
def test_the_choice_is_not_dominated_by_any_candidate_within_the_limits(estimates: list[Estimate], goal: Goal) -> None:
    """A candidate beyond them may dominate the expected values, with a wider interval."""
    found = chosen(estimates, goal)
    within = within_limits(estimates, goal)
    assert found is None or not any(dominates(other, found) for other in within)
    points = [(e.seconds.value, e.usd.value) for e in front(within)]
    assert found is None or (found.seconds.value, found.usd.value) in points


@given(some_estimates, goals(), st.floats(1, 10), st.booleans(), st.booleans())
def test_a_looser_limit_never_makes_the_best_worse(
    estimates: list[Estimate], goal: Goal, factor: float, later: bool, larger: bool
) -> None:
    looser = replace(
        goal,
        deadline_seconds=goal.deadline_seconds and goal.deadline_seconds * (factor if later else 1),
        budget_usd=goal.budget_usd and goal.budget_usd * (factor if larger else 1),
    )
    before, after = chosen(estimates, goal), chosen(estimates, looser)
    if before is not None:
        assert after is not None
        ideal = ideal_point(estimates)
        assert objective(after, goal, ideal) <= objective(before, goal, ideal)


@given(some_estimates, some_estimates, goals())
def test_more_offers_never_make_the_best_worse(estimates: list[Estimate], more: list[Estimate], goal: Goal) -> None:
    """Measured with the ideal point of the larger set, if the goal is weighted."""
    before, after = chosen(estimates, goal), chosen([*estimates, *more], goal)
    if before is not None:
        assert after is not None
        ideal = ideal_point([*estimates, *more])
        assert objective(after, goal, ideal) <= objective(before, goal, ideal)


def test_with_the_ideal_point_of_the_smaller_set_more_offers_may_look_worse() -> None:
    """A fast machine that is not chosen itself lowers the price that the weights put on an hour."""
    a, b = estimate("a", usd=1, seconds=200), estimate("b", usd=2.1, seconds=100)
    goal, fast = weighted(0.5), estimate("e", usd=1000, seconds=50)
    before, after = chosen([a, b], goal), chosen([a, b, fast], goal)
    assert (before, after) == (a, b)
    ideal = ideal_point([a, b])
    assert score(b, 0.5, ideal) > score(a, 0.5, ideal)


@given(some_estimates, goals(), confidences)
def test_more_confidence_never_includes_more_candidates(
    estimates: list[Estimate], goal: Goal, confidence: float
) -> None:
    less, more = sorted((goal.confidence, confidence))
    less_certain, more_certain = (within_limits(estimates, replace(goal, confidence=c)) for c in (less, more))
    assert {e.candidate for e in more_certain} <= {e.candidate for e in less_certain}


@given(some_estimates, goals())
def test_weights_of_zero_and_one_are_cheapest_and_fastest(estimates: list[Estimate], goal: Goal) -> None:
    cheapest = replace(goal, kind="cheapest", weight_time=None)
    fastest = replace(goal, kind="fastest", weight_time=None)
    for w, plain in ((0.0, cheapest), (1.0, fastest)):
        by_weight = replace(goal, kind="weighted", weight_time=w)
        assert in_order(estimates, by_weight) == in_order(estimates, plain)
        assert chosen(estimates, by_weight) == chosen(estimates, plain)


@given(some_estimates, st.floats(0, 1), st.floats(0, 1))
def test_more_weight_on_time_never_takes_longer(estimates: list[Estimate], v: float, w: float) -> None:
    v, w = sorted((v, w))
    first, second = in_order(estimates, weighted(v))[0], in_order(estimates, weighted(w))[0]
    ideal = ideal_point(estimates)
    if score(first, w, ideal) == pytest.approx(score(second, w, ideal), rel=1e-9):
        return  # equal but for the rounding of floats
    assert second.seconds.value <= first.seconds.value
    assert second.usd.value >= first.usd.value


@given(some_estimates, goals())
def test_the_choice_stays_the_same_if_the_limits_are_exactly_what_it_needs(
    estimates: list[Estimate], goal: Goal
) -> None:
    found = chosen(estimates, goal)
    if found is None:
        return
    exactly = replace(
        goal,
        deadline_seconds=found.seconds.upper_bound(goal.confidence),
        budget_usd=found.usd.upper_bound(goal.confidence),
    )
    assert chosen(estimates, exactly) == found
