"""Every answer is compared with a new choice under the changed limit or price."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_offer, make_vm_type
from tests.recommender.test_choose import estimate, some_estimates, weighted
from trainfare.estimator.cost.bill import bill
from trainfare.model.bill import Billing, Overheads, Terms
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.choose import IdealPoint, best_of, ideal_point
from trainfare.recommender.explain.what_if import (
    LimitChange,
    break_even_price,
    looser_budget,
    looser_deadline,
    tighter_budget,
    tighter_deadline,
)
from trainfare.recommender.limits import within_limits

goals = st.sampled_from([Goal(kind="cheapest"), Goal(kind="fastest"), weighted(0.4), weighted(0.4, confidence=0.5)])
Ask = Callable[[list[Estimate], Estimate, Goal, IdealPoint], LimitChange[Estimate] | None]

LIMITS: dict[str, tuple[Callable[[Estimate], Interval], Ask, Ask]] = {
    "deadline_seconds": (lambda e: e.seconds, tighter_deadline, looser_deadline),
    "budget_usd": (lambda e: e.usd, tighter_budget, looser_budget),
}


def limited(goal: Goal, limit: str, value: float | None) -> Goal:
    return replace(goal, **{limit: value})  # type: ignore[arg-type] # the field is named by the test


def chosen_of(estimates: list[Estimate], goal: Goal) -> Estimate | None:
    return best_of(within_limits(estimates, goal), goal, ideal=ideal_point(estimates))


@pytest.mark.parametrize("limit", LIMITS)
@given(estimates=some_estimates, goal=goals)
def test_with_a_tighter_limit_the_named_candidate_is_chosen(limit: str, estimates: list[Estimate], goal: Goal) -> None:
    read, tighter, _ = LIMITS[limit]
    chosen = chosen_of(estimates, goal)
    assert chosen is not None
    found = tighter(estimates, chosen, goal, ideal_point(estimates))
    if found is None:
        assert all(read(e).upper_bound(goal.confidence) >= read(chosen).upper_bound(goal.confidence) for e in estimates)
        return
    assert found.below == read(chosen).upper_bound(goal.confidence)
    for limit_value in (found.minimum, (found.minimum + found.below) / 2):
        assert chosen_of(estimates, limited(goal, limit, limit_value)) == found.estimate
    assert chosen_of(estimates, limited(goal, limit, found.below)) == chosen
    below = chosen_of(estimates, limited(goal, limit, 0.999 * found.minimum))
    assert below != found.estimate


@pytest.mark.parametrize("limit", LIMITS)
@given(estimates=some_estimates, goal=goals, share=st.floats(0, 1))
def test_with_a_looser_limit_the_named_candidate_is_chosen(
    limit: str, estimates: list[Estimate], goal: Goal, share: float
) -> None:
    read, _, looser = LIMITS[limit]
    ends = [read(e).upper_bound(goal.confidence) for e in estimates]
    goal = limited(goal, limit, min(ends) + share * (max(ends) - min(ends)))
    chosen = chosen_of(estimates, goal)
    assert chosen is not None
    found = looser(estimates, chosen, goal, ideal_point(estimates))
    without = chosen_of(estimates, limited(goal, limit, None))
    assert without is not None
    if found is None:
        assert without.candidate == chosen.candidate
        return
    assert found.estimate == without == chosen_of(estimates, limited(goal, limit, found.minimum))
    assert found.minimum > (getattr(goal, limit) or 0)


TERMS = Terms(
    provider="aws",
    billing=Billing(increment_seconds=60),
    boot_seconds=Interval.exactly(0.0),
    disk_usd_per_gib_month=0.1,
    egress_usd_per_gib=0.09,
)


def billed(price: float, *, seconds: float = 5000.0, nodes: int = 1, name: str = "m") -> Estimate:
    """An estimate with disk and egress, billed by the minute as a provider does it."""
    offer = make_offer(vm_type=make_vm_type(name=name), usd_per_hour=price)
    candidate = make_candidate(offer=offer, nodes=nodes)
    took = Interval.within_factor(seconds, 1.5)
    phases = (Phase(name="steady iterations", seconds=took),)
    found = bill(phases, took, candidate, terms=TERMS, overheads=Overheads(disk_gib=200), results_gib=3.0)
    return replace(
        estimate(name, seconds=seconds), candidate=candidate, usd=found.usd, bill=found, phases=phases, seconds=took
    )


@given(st.floats(0.1, 30), st.floats(0.1, 30), st.integers(1, 4), st.floats(100, 1e5))
def test_at_the_break_even_price_both_cost_the_same(p: float, q: float, nodes: int, seconds: float) -> None:
    """Compared with a new bill at that price."""
    chosen, second = billed(p, nodes=nodes), billed(q, seconds=seconds, name="second")
    price = break_even_price(chosen, second)
    if price is None:
        assert billed(1e-9, nodes=nodes).usd.value >= second.usd.value * (1 - 1e-6)
        return
    assert billed(price, nodes=nodes).usd.value == pytest.approx(second.usd.value, rel=1e-9)
    assert (price > p) == (second.usd.value > chosen.usd.value)


def test_without_a_bill_the_cost_is_proportional_to_the_price() -> None:
    chosen = estimate(usd=2.0)
    assert break_even_price(chosen, estimate(usd=3.0)) == pytest.approx(1.5 * chosen.candidate.offer.usd_per_hour)


def test_no_price_beats_a_cost_below_disk_and_egress() -> None:
    assert break_even_price(billed(1.0), estimate(usd=0.001)) is None
