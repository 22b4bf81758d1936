"""What must hold of every choice, whatever the machines: held against brute force and against asking for more."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recommender.test_choose import estimate, some_estimates, weighted
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.recommender.choose import IdealPoint, best_per_machine, ideal_point, in_order, score
from trainfare.recommender.limits import upper_end, within
from trainfare.recommender.pareto import front

confidences = st.sampled_from([0.3, 0.5, 0.8, 0.9, 0.95, 0.99])
weights = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])
limits = st.none() | st.floats(0.1, 50)


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    kind = draw(st.sampled_from(["cheapest", "fastest", "weighted"]))
    hours, usd = draw(limits), draw(limits)
    return Goal(
        kind=kind,  # type: ignore[arg-type]  # one of the three
        weight_time=draw(weights) if kind == "weighted" else None,
        deadline_seconds=hours and 3600 * hours,
        budget_usd=usd,
        confidence=draw(confidences),
    )


def chosen(estimates: list[Estimate], goal: Goal) -> Estimate | None:
    """As it is done for a plan: limits cut, the yardstick is of all that may be chosen."""
    kept = within(estimates, goal)
    return best_per_machine(in_order(kept, goal, least=ideal_point(estimates)))[0] if kept else None


def wanted(one: Estimate, goal: Goal, least: IdealPoint) -> float:
    """What the goal wants least of."""
    if goal.weight_time is not None:
        return score(one, goal.weight_time, least)
    return one.usd.value if goal.kind == "cheapest" else one.seconds.value


def dominates(one: Estimate, other: Estimate) -> bool:
    no_worse = one.usd.value <= other.usd.value and one.seconds.value <= other.seconds.value
    return no_worse and (one.usd.value, one.seconds.value) != (other.usd.value, other.seconds.value)


@given(some_estimates, goals())
def test_the_choice_is_that_of_brute_force(estimates: list[Estimate], goal: Goal) -> None:
    deadline, budget = goal.deadline_seconds or 1e99, goal.budget_usd or 1e99
    least = ideal_point(estimates)
    kept = [
        e
        for e in estimates
        if e.seconds.at_confidence(goal.confidence).high <= deadline and e.usd.at_confidence(goal.confidence).high <= budget
    ]
    found = chosen(estimates, goal)
    if found is None:
        assert not kept
        return
    assert found in kept
    assert wanted(found, goal, least) == min(wanted(e, goal, least) for e in kept)


@given(some_estimates, goals())
def test_the_choice_is_not_dominated_by_any_that_keeps_the_limits(estimates: list[Estimate], goal: Goal) -> None:
    """One that does not keep them may dominate what is expected, and is less sure."""
    found = chosen(estimates, goal)
    kept = within(estimates, goal)
    assert found is None or not any(dominates(other, found) for other in kept)
    points = [(e.seconds.value, e.usd.value) for e in front(kept)]
    assert found is None or (found.seconds.value, found.usd.value) in points


@given(some_estimates, goals(), st.floats(1, 10), st.booleans(), st.booleans())
def test_a_looser_limit_never_makes_the_best_worse(
    estimates: list[Estimate], goal: Goal, factor: float, later: bool, dearer: bool
) -> None:
    looser = replace(
        goal,
        deadline_seconds=goal.deadline_seconds and goal.deadline_seconds * (factor if later else 1),
        budget_usd=goal.budget_usd and goal.budget_usd * (factor if dearer else 1),
    )
    before, after = chosen(estimates, goal), chosen(estimates, looser)
    if before is not None:
        assert after is not None
        least = ideal_point(estimates)
        assert wanted(after, goal, least) <= wanted(before, goal, least)


@given(some_estimates, some_estimates, goals())
def test_more_offers_never_make_the_best_worse(estimates: list[Estimate], more: list[Estimate], goal: Goal) -> None:
    """By the yardstick of the larger choice, where the goal has one."""
    before, after = chosen(estimates, goal), chosen([*estimates, *more], goal)
    if before is not None:
        assert after is not None
        least = ideal_point([*estimates, *more])
        assert wanted(after, goal, least) <= wanted(before, goal, least)


def test_by_the_yardstick_of_the_smaller_choice_more_offers_may_look_worse() -> None:
    """What does not hold of weights: a fast machine that nobody takes makes an hour cheaper than it was."""
    a, b = estimate("a", usd=1, seconds=200), estimate("b", usd=2.1, seconds=100)
    goal, fast = weighted(0.5), estimate("e", usd=1000, seconds=50)
    before, after = chosen([a, b], goal), chosen([a, b, fast], goal)
    assert (before, after) == (a, b)
    least = ideal_point([a, b])
    assert score(b, 0.5, least) > score(a, 0.5, least)


@given(some_estimates, goals(), confidences)
def test_more_confidence_never_admits_more(estimates: list[Estimate], goal: Goal, confidence: float) -> None:
    less, more = sorted((goal.confidence, confidence))
    sure, surer = (within(estimates, replace(goal, confidence=c)) for c in (less, more))
    assert set(map(id, surer)) <= set(map(id, sure))


@given(some_estimates, goals())
def test_weights_of_nothing_and_one_are_cheapest_and_fastest(estimates: list[Estimate], goal: Goal) -> None:
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
    least = ideal_point(estimates)
    if score(first, w, least) == pytest.approx(score(second, w, least), rel=1e-9):
        return  # as good as each other: the arithmetic of floats may take either
    assert second.seconds.value <= first.seconds.value
    assert second.usd.value >= first.usd.value


@given(some_estimates, goals())
def test_whoever_asks_for_just_what_the_choice_needs_gets_it_again(estimates: list[Estimate], goal: Goal) -> None:
    found = chosen(estimates, goal)
    if found is None:
        return
    exactly = replace(
        goal,
        deadline_seconds=upper_end(found.seconds, goal.confidence),
        budget_usd=upper_end(found.usd, goal.confidence),
    )
    assert chosen(estimates, exactly) == found
