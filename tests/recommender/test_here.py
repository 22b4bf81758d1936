"""When the answer is to train on the machine at hand, compared with brute force."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_estimate, make_offer, make_vm_type
from tests.recommender.test_choose import some_estimates
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.choose import best_of, ideal_point, in_order, score, weight_of_time, with_value_of_time
from trainfare.recommender.here import (
    SOON_SECONDS,
    SOONER,
    Lines,
    rent_from_epochs,
    rule_for_here,
    worth_renting,
)
from trainfare.recommender.pareto import difference, fastest_within, front, knee
from trainfare.recommender.ranking_confidence import ranking_confidence

CHEAPEST, FASTEST = Goal(kind="cheapest"), Goal(kind="fastest")
hours = st.floats(0.01, 100)
prices = st.sampled_from([0.0, 0.05, 2.0])


def here(seconds: float, usd_per_hour: float = 0.0) -> Estimate:
    vm_type = make_vm_type(provider="local", name="here", gpu=None, gpus=0)
    offer = make_offer(vm_type=vm_type, region="here", market="own", usd_per_hour=usd_per_hour)
    return make_estimate(
        candidate=make_candidate(offer=offer),
        basis="measured",
        seconds=Interval.within_factor(seconds, 1.05),
        usd=Interval.within_factor(usd_per_hour * seconds / 3600, 1.05),
    )


def rule(own: Estimate, rentals: list[Estimate], goal: Goal, idle_factor: float = 1.0) -> str | None:
    ideal = ideal_point([own, *rentals])
    resolved = with_value_of_time(goal, ideal)
    ordered = in_order(worth_renting(rentals, own, resolved, idle_factor=idle_factor), resolved, ideal=ideal)
    return rule_for_here(own, ordered, resolved, ideal, any_within_limits=bool(rentals), idle_factor=idle_factor)


@given(some_estimates, st.floats(1, SOON_SECONDS), prices, st.sampled_from([CHEAPEST, FASTEST]))
def test_what_ends_within_15_minutes_is_trained_here(
    rentals: list[Estimate], seconds: float, price: float, goal: Goal
) -> None:
    assert rule(here(seconds, price), rentals, goal) == "soon"


@given(some_estimates, hours)
def test_a_rental_is_chosen_for_its_cost_only_if_it_ends_sooner(rentals: list[Estimate], time: float) -> None:
    own = here(3600 * time)
    sooner = [e for e in rentals if e.seconds.value <= SOONER * own.seconds.value]
    found = rule(own, rentals, CHEAPEST)
    assert (found is None) == (bool(sooner) and own.seconds.value > SOON_SECONDS)
    chosen = best_of(worth_renting(rentals, own, CHEAPEST), CHEAPEST)
    assert chosen is None or chosen.usd.value == min(e.usd.value for e in sooner)


@given(some_estimates, hours, prices)
def test_the_fastest_is_the_one_that_ends_first(rentals: list[Estimate], time: float, price: float) -> None:
    own = here(3600 * time, price)
    is_first = own.seconds.value <= min(e.seconds.value for e in rentals)
    found = rule(own, rentals, FASTEST)
    if own.seconds.value > SOON_SECONDS and own.seconds.value not in {e.seconds.value for e in rentals}:
        assert (found == "best") == is_first


@given(some_estimates, hours, prices, st.floats(0.01, 1000))
def test_with_a_value_of_time_the_least_total_wins(
    rentals: list[Estimate], time: float, price: float, value: float
) -> None:
    own = here(3600 * time, price)
    goal = Goal(value_of_time_usd_per_hour=value)

    def total(e: Estimate) -> float:
        return e.usd.value + value * e.seconds.value / 3600

    least = min(map(total, rentals))
    if total(own) != pytest.approx(least, rel=1e-9):
        assert (rule(own, rentals, goal) == "best") == (total(own) < least)
    ideal = ideal_point([own, *rentals])
    first = in_order([own, *rentals], with_value_of_time(goal, ideal), ideal=ideal)[0]
    assert total(first) == pytest.approx(min(least, total(own)))


@given(some_estimates, hours)
def test_here_is_the_answer_to_a_deadline_that_it_meets(rentals: list[Estimate], time: float) -> None:
    own = here(3600 * time)
    assert rule(own, rentals, Goal(deadline_seconds=2 * own.seconds.high)) in ("soon", "no_sooner", "in_time")


def test_without_a_rental_here_is_the_only_answer() -> None:
    assert rule(here(1e6), [], CHEAPEST) == "only"


def test_at_the_users_price_here_competes_by_its_cost() -> None:
    rental = make_estimate(seconds=Interval.exactly(7200.0), usd=Interval.exactly(1.0))
    assert rule(here(3600, 0.5), [rental], CHEAPEST) == "best"
    assert rule(here(3600, 2.0), [rental], CHEAPEST) is None
    assert rule(here(3600, 2.0), [rental], FASTEST) == "best"


lines = st.builds(
    lambda fixed, each, price: Lines(seconds=(fixed, each), usd=(fixed * price, each * price)),
    st.floats(0, 2000),
    st.floats(0.1, 500),
    st.floats(0.001, 1),
)


@given(lines, st.lists(lines, max_size=4), st.sampled_from([CHEAPEST, FASTEST]))
def test_the_number_of_epochs_from_which_renting_wins_agrees_with_brute_force(
    own: Lines, rentals: list[Lines], goal: Goal
) -> None:
    share = SOONER if goal is CHEAPEST else 1.0

    def at(line: tuple[float, float], epochs: int) -> float:
        return line[0] + line[1] * epochs

    def rents(epochs: int, tolerance: float) -> bool:
        time = at(own.seconds, epochs)
        sooner = any(at(r.seconds, epochs) <= share * time * (1 + tolerance) for r in rentals)
        return time > SOON_SECONDS * (1 - tolerance) and sooner

    found = rent_from_epochs(own, rentals, goal)
    if found is None:
        assert not any(r.seconds[1] < share * own.seconds[1] for r in rentals)
        return
    epochs, index = found
    assert rents(epochs, 1e-6)
    assert at(rentals[index].seconds, epochs) <= share * at(own.seconds, epochs) * (1 + 1e-6)
    growing = [r for r in rentals if r.seconds[1] >= share * own.seconds[1]]
    if epochs > 1 and not growing:
        assert not rents(epochs - 1, -1e-6)


@given(some_estimates, hours, st.sampled_from([CHEAPEST, FASTEST, Goal(kind="weighted", weight_time=0.3)]))
def test_a_machine_that_costs_nothing_divides_nothing_by_zero(rentals: list[Estimate], time: float, goal: Goal) -> None:
    own = here(3600 * time)
    every = [own, *rentals]
    ideal = ideal_point(every)
    assert ideal.usd > 0
    assert all(score(e, weight_of_time(goal), ideal) >= 0 for e in every)
    for other in rentals:
        assert 0.5 <= ranking_confidence(own, other, goal, ideal=ideal) <= 1
        assert difference(own, other).cost_ratio is None
        assert difference(other, own).cost_ratio == 0
    points = front(every)
    assert own in points
    assert knee(points) != own
    assert ranking_confidence(own, own, goal, ideal=ideal) == 0.5


@given(some_estimates, st.floats(0, 100))
def test_the_fastest_alternative_costs_no_more_than_allowed(estimates: list[Estimate], usd: float) -> None:
    found = fastest_within(estimates, usd)
    allowed = [e.seconds.value for e in estimates if e.usd.value <= usd]
    assert (found is None) == (not allowed)
    assert found is None or (found.seconds.value == min(allowed) and found.usd.value <= usd)


@given(some_estimates, hours, st.floats(0.01, 1))
def test_rented_machines_are_compared_with_here_without_its_other_work(
    rentals: list[Estimate], time: float, factor: float
) -> None:
    """For the cheapest, a busy machine is judged as an idle one that takes t·f."""
    busy, idle = here(3600 * time), here(3600 * time * factor)
    assert rule(busy, rentals, CHEAPEST, factor) == rule(idle, rentals, CHEAPEST)


def test_the_fastest_and_a_deadline_take_here_as_it_was_measured() -> None:
    rental = make_estimate(seconds=Interval.exactly(5000.0), usd=Interval.exactly(1.0))
    assert rule(here(8000.0), [rental], FASTEST, 0.5) is None
    assert rule(here(8000.0), [rental], FASTEST, 0.1) == "soon"
