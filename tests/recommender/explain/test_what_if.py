"""Every answer is held against asking anew with what was changed."""

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
    Change,
    looser_budget,
    looser_deadline,
    price_that_changes,
    tighter_budget,
    tighter_deadline,
)
from trainfare.recommender.limits import upper_end, within

goals = st.sampled_from([Goal(kind="cheapest"), Goal(kind="fastest"), weighted(0.4), weighted(0.4, confidence=0.5)])
Ask = Callable[[list[Estimate], Estimate, Goal, IdealPoint], Change | None]

LIMITS: dict[str, tuple[Callable[[Estimate], Interval], Ask, Ask]] = {
    "deadline_seconds": (lambda e: e.seconds, tighter_deadline, looser_deadline),
    "budget_usd": (lambda e: e.usd, tighter_budget, looser_budget),
}


def limited(goal: Goal, limit: str, value: float | None) -> Goal:
    return replace(goal, **{limit: value})  # type: ignore[arg-type]  # a limit by its name


def chosen_of(estimates: list[Estimate], goal: Goal) -> Estimate | None:
    return best_of(within(estimates, goal), goal, least=ideal_point(estimates))


@pytest.mark.parametrize("limit", LIMITS)
@given(estimates=some_estimates, goal=goals)
def test_with_a_tighter_limit_the_named_one_is_chosen(limit: str, estimates: list[Estimate], goal: Goal) -> None:
    read, tighter, _ = LIMITS[limit]
    chosen = chosen_of(estimates, goal)
    assert chosen is not None
    found = tighter(estimates, chosen, goal, ideal_point(estimates))
    if found is None:
        assert all(upper_end(read(e), goal.confidence) >= upper_end(read(chosen), goal.confidence) for e in estimates)
        return
    assert found.below == upper_end(read(chosen), goal.confidence)
    for asked in (found.least, (found.least + found.below) / 2):
        assert chosen_of(estimates, limited(goal, limit, asked)) == found.estimate
    assert chosen_of(estimates, limited(goal, limit, found.below)) == chosen
    below = chosen_of(estimates, limited(goal, limit, 0.999 * found.least))
    assert below is None or below.candidate != found.estimate.candidate or below != found.estimate


@pytest.mark.parametrize("limit", LIMITS)
@given(estimates=some_estimates, goal=goals, share=st.floats(0, 1))
def test_with_a_looser_limit_the_named_one_is_chosen(
    limit: str, estimates: list[Estimate], goal: Goal, share: float
) -> None:
    read, _, looser = LIMITS[limit]
    ends = [upper_end(read(e), goal.confidence) for e in estimates]
    goal = limited(goal, limit, min(ends) + share * (max(ends) - min(ends)))
    chosen = chosen_of(estimates, goal)
    assert chosen is not None
    found = looser(estimates, chosen, goal, ideal_point(estimates))
    without = chosen_of(estimates, limited(goal, limit, None))
    assert without is not None
    if found is None:
        assert without.candidate == chosen.candidate
        return
    assert found.estimate == without == chosen_of(estimates, limited(goal, limit, found.least))
    assert found.least > (getattr(goal, limit) or 0)


TERMS = Terms(
    provider="aws",
    billing=Billing(increment_seconds=60),
    boot_seconds=Interval.exactly(0.0),
    disk_usd_per_gib_month=0.1,
    egress_usd_per_gib=0.09,
)


def charged(price: float, *, seconds: float = 5000.0, nodes: int = 1, name: str = "m") -> Estimate:
    """With disk and egress, and time in whole minutes: as a provider charges it."""
    offer = make_offer(vm_type=make_vm_type(name=name), usd_per_hour=price)
    candidate = make_candidate(offer=offer, nodes=nodes)
    took = Interval.within_factor(seconds, 1.5)
    phases = (Phase(name="steady iterations", seconds=took),)
    found = bill(phases, took, candidate, terms=TERMS, overheads=Overheads(disk_gib=200), results_gib=3.0)
    return replace(
        estimate(name, seconds=seconds), candidate=candidate, usd=found.usd, bill=found, phases=phases, seconds=took
    )


@given(st.floats(0.1, 30), st.floats(0.1, 30), st.integers(1, 4), st.floats(100, 1e5))
def test_at_the_price_that_changes_it_both_cost_the_same(p: float, q: float, nodes: int, seconds: float) -> None:
    """The bill made anew at that price."""
    chosen, second = charged(p, nodes=nodes), charged(q, seconds=seconds, name="second")
    price = price_that_changes(chosen, second)
    if price is None:
        assert charged(1e-9, nodes=nodes).usd.value >= second.usd.value * (1 - 1e-6)
        return
    assert charged(price, nodes=nodes).usd.value == pytest.approx(second.usd.value, rel=1e-9)
    assert (price > p) == (second.usd.value > chosen.usd.value)


def test_without_a_bill_cost_goes_by_the_price() -> None:
    chosen = estimate(usd=2.0)
    assert price_that_changes(chosen, estimate(usd=3.0)) == pytest.approx(1.5 * chosen.candidate.offer.usd_per_hour)


def test_what_costs_less_than_disk_and_egress_no_price_can_beat() -> None:
    assert price_that_changes(charged(1.0), estimate(usd=0.001)) is None
