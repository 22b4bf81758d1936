"""The look-ahead: value functions, capacity prices, the next event, available slots and reclaims."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.scheduler.makers import AZURE, K80, make_fleet, make_job, make_state
from trainfare.model.queue import Delays, NodePlan, NodeType, QueuedJob, RentedNode, Slot, State
from trainfare.scheduler.packing.arrange import arrange_nodes
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.packing.pattern_model import Packing, Pattern
from trainfare.scheduler.pricing.arrivals import arrivals_per_second, expected_arrivals_per_second
from trainfare.scheduler.pricing.available_slots import available_slots, current_slots, feasible_seconds
from trainfare.scheduler.pricing.capacity_prices import FUTURE_SURCHARGE, capacity_prices
from trainfare.scheduler.pricing.lookahead import LookAhead
from trainfare.scheduler.pricing.next_event import next_event
from trainfare.scheduler.pricing.periods import (
    EDGES,
    PeriodParts,
    RemainingWork,
    busy_seconds,
    period_starts,
    split_periods,
)
from trainfare.scheduler.pricing.reclaims import expected_seconds_with_reclaims
from trainfare.scheduler.pricing.value import value_functions
from trainfare.scheduler.tables import SlotTable, remaining_seconds, slot_table

STARTS = period_starts(10_000.0)
PRICES = np.array([[0.0, 1e-4, 3e-4, 2e-4, 1e-4, 1e-4, 5e-5, 5e-5, 5e-5]] * 6)
PRICES[1] *= 3
"""Types × periods: one type has a price of its own."""


def some_work(seed: int, jobs: int = 3) -> tuple[RemainingWork, SlotTable]:
    rng = np.random.default_rng(seed)
    slots = slot_table(make_fleet(2, AZURE))
    hours, power = rng.uniform(0.5, 8, (jobs, 1)), rng.uniform(0.5, 1, (jobs, 1))
    seconds = 3600 * hours / slots.gpus**power * np.where(slots.type < 3, 1.0, rng.uniform(0.7, 1.4, (jobs, 1)))
    return RemainingWork(
        seconds=seconds, due=rng.uniform(-5000, 60_000, jobs), weight=rng.uniform(0.003, 0.015, jobs)
    ), slots


def cheapest_completion(
    work: RemainingWork, job: int, parts: PeriodParts, slots: SlotTable, prices: np.ndarray, left: float, at: float
) -> float:
    """V of one job by linear programming, without the lateness so far."""
    costs, speeds, where = [], [], []
    for part in range(parts.start.shape[1]):
        for slot in range(len(slots.share)):
            speed = 1 / work.seconds[job, slot]
            rent = slots.share[slot] + prices[slots.type[slot], parts.period[job, part]] * slots.fraction[slot]
            costs.append(rent + parts.late_usd_per_second[job, part] + parts.late_usd[job, part] * speed)
            speeds.append(speed)
            where.append(part)
    length = np.maximum(parts.end[job] - np.maximum(parts.start[job], at), 0)
    in_part = np.array([[float(other == part) for other in where] for part in range(len(length))])
    found = linprog(costs, A_ub=in_part, b_ub=length, A_eq=[speeds], b_eq=[left])
    assert found.success
    return float(found.fun)


# the value of a job


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_value_is_the_cheapest_completion(seed: int) -> None:
    work, slots = some_work(seed, jobs=2)
    parts = split_periods(work, STARTS)
    at, left = 2500.0, np.array([[0.3, 1.0], [0.05, 0.7]])
    found = value_functions(work, parts, slots, PRICES).usd(left, at)
    passed = work.weight * np.maximum(at - np.maximum(work.due, 0), 0)
    for job in range(2):
        for number in range(2):
            best = cheapest_completion(work, job, parts, slots, PRICES, left[job, number], at)
            assert found[job, number] == pytest.approx(best + passed[job], rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 50_000))
def test_value_is_convex_and_rising_in_the_remaining_work(seed: int, at: float) -> None:
    work, slots = some_work(seed)
    usd = value_functions(work, split_periods(work, STARTS), slots, PRICES).usd(
        np.tile(np.linspace(0, 1.5, 16), (3, 1)), at
    )
    steps = np.diff(usd, axis=1)
    assert (steps > 0).all()
    assert (np.diff(steps, axis=1) >= -1e-9 * usd.max()).all()


def test_value_without_remaining_work_is_the_lateness_so_far() -> None:
    work, slots = some_work(0)
    work = RemainingWork(seconds=work.seconds, due=np.array([1000.0, 90_000.0, -500.0]), weight=work.weight)
    usd = value_functions(work, split_periods(work, STARTS), slots, PRICES).usd(np.zeros((3, 1)), 3000.0)
    assert usd[:, 0] == pytest.approx(work.weight * [2000.0, 0.0, 3000.0])


def test_a_job_without_a_deadline_is_never_late() -> None:
    work, slots = some_work(0)
    work = RemainingWork(seconds=work.seconds, due=np.full(3, math.inf), weight=work.weight)
    usd = value_functions(work, split_periods(work, STARTS), slots, np.zeros((6, 9))).usd(np.ones((3, 1)), 0.0)
    assert usd[:, 0] == pytest.approx((slots.share * work.seconds).min(axis=1))


# prices


def price_of(state: State) -> np.ndarray:
    left = remaining_seconds(state)
    work = RemainingWork(
        seconds=left,
        due=np.array([each.job.deadline_seconds for each in state.jobs]) - state.now_seconds,
        weight=np.array([each.job.late_usd_per_second for each in state.jobs]),
    )
    starts = period_starts(state.arrivals.mean_shortest_seconds)
    return capacity_prices(state, work, slot_table(state.fleet), starts, 0.0)


def test_sufficient_capacity_has_only_the_surcharge_of_the_future() -> None:
    prices = price_of(make_state([make_job(deadline_seconds=1e6)], make_fleet(10)))
    highest = max(each.usd_per_second for each in K80)
    assert (np.diff(prices, axis=1) >= 0).all()
    assert prices[:, -1] == pytest.approx(FUTURE_SURCHARGE * highest)


def test_scarce_node_has_a_price() -> None:
    jobs = [make_job(f"j{number}", deadline_seconds=2000) for number in range(8)]
    one, many = price_of(make_state(jobs, make_fleet(1))), price_of(make_state(jobs, make_fleet(100)))
    assert (one[:, 0] > 10 * many[:, 0]).all()


OWN = (*K80, NodeType(name="own", gpu="K80", gpus=2, usd_per_hour=0.1, max_nodes=1))


def owned(count: int, *, deadline_seconds: float = 1e6, nodes: int = 10) -> State:
    jobs = [make_job(f"j{n}", types=OWN, hours=4, deadline_seconds=deadline_seconds) for n in range(count)]
    return make_state(jobs, make_fleet(nodes, OWN))


def test_limited_machine_has_a_price_while_it_is_scarce() -> None:
    """The price makes a rented node no more expensive than it, and no more than that."""
    prices = price_of(owned(20, deadline_seconds=4 * 3600))
    rented, own = OWN[0].usd_per_second, OWN[3].usd_per_second
    assert (prices[:3, 0] < 0.02 * rented).all()
    assert rented - own <= prices[3, 0] / 2 * 1.1
    assert prices[3, 0] / 2 <= rented


def test_limited_machine_has_no_price_if_there_is_time_for_all_jobs() -> None:
    assert price_of(owned(4))[3, 0] < 0.1 * OWN[3].usd_per_second


def test_periods_cover_the_busy_time_of_a_limited_machine() -> None:
    state = owned(20)
    busy = busy_seconds(state.fleet, slot_table(state.fleet), remaining_seconds(state))
    assert busy == pytest.approx(20 * 4 * 3600 / 2**0.75)
    starts = period_starts(3600.0, busy_seconds=busy)
    assert starts[-1] >= busy
    assert starts[: len(EDGES)] == pytest.approx(period_starts(3600.0))
    assert busy_seconds(make_fleet(10), slot_table(make_fleet(10)), np.ones((1, 7))) == 0


# arrivals and the next event


def test_expected_arrivals_fall_while_none_come() -> None:
    state = make_state([make_job(f"j{number}") for number in range(20)], now_seconds=100)
    later = replace(state, now_seconds=1e6)
    assert expected_arrivals_per_second(state) == pytest.approx(0.7 * arrivals_per_second(state))
    assert expected_arrivals_per_second(later) == pytest.approx(0.7 * 2 / 1e6)


@given(st.floats(0, 1), st.floats(0, 1e6))
def test_next_event_is_no_later_than_the_first_end(rate: float, first_end: float) -> None:
    event = next_event(rate, first_end)
    assert event.weights.sum() == pytest.approx(1)
    assert ((event.seconds >= 0) & (event.seconds <= first_end * (1 + 1e-9))).all()


def test_mean_of_the_next_event_agrees_with_its_formula() -> None:
    """E min(Exp(λ), F) = (1 - e^(-λF))/λ; five quantiles come within 3 % of it."""
    assert next_event(1e-3, 2000.0).mean_seconds == pytest.approx(-math.expm1(-2.0) / 1e-3, rel=0.03)


def test_without_arrivals_the_next_event_is_the_first_end() -> None:
    assert next_event(0.0, 500.0).mean_seconds == 500.0


# available slots


DELAYS = Delays(boot_seconds=100, checkpoint_seconds=30, restart_seconds=60)


def half_done(job: str, *, node: int, gpus: int) -> QueuedJob:
    return QueuedJob(job=make_job(job), done=0.5, expected_done=0.5, nodes=(node,), gpus=gpus)


def test_job_is_idle_on_every_slot_except_its_current_one() -> None:
    rented = RentedNode(id=7, type="NC12", rented_seconds=0, ready_seconds=0)
    state = make_state([half_done("a", node=7, gpus=2)], nodes=(rented,), delays=DELAYS)
    available = available_slots(state)
    current = state.fleet.slots.index(Slot("NC12", 2))
    count = len(state.fleet.slots)
    assert current_slots(state).tolist() == [current]
    assert available.idle_seconds[0, current] == 0
    assert set(np.delete(available.idle_seconds[0, :count], current)) == {90}
    assert set(available.idle_seconds[0, count:]) == {190}


def test_job_without_progress_only_waits_for_the_boot() -> None:
    available = available_slots(make_state([make_job()], delays=DELAYS))
    assert set(available.idle_seconds[0, : len(K80) + 4]) == {0}
    assert set(available.idle_seconds[0, len(K80) + 4 :]) == {100}


def test_available_slots_without_delays_are_the_fleet() -> None:
    state = make_state([make_job()])
    assert available_slots(state).fleet is state.fleet


def test_slots_beyond_a_quota_or_a_limit_are_infeasible() -> None:
    fleet = make_fleet(2, gangs=(Slot("NC6", 1, 3),), quotas=(("ann", 2),))
    jobs = [
        replace(job, seconds=(*job.seconds, 100.0)) for job in (make_job("a", user="ann"), make_job("b", user="bob"))
    ]
    state = make_state(jobs, fleet)
    possible = np.isfinite(feasible_seconds(state, remaining_seconds(state)))
    assert possible[0].tolist() == [slot.gpus <= 2 and slot.nodes == 1 for slot in fleet.slots]
    assert possible[1].tolist() == [slot.nodes == 1 for slot in fleet.slots]


def test_jobs_that_share_a_node_stay_together() -> None:
    nodes = tuple(RentedNode(id=number, type="NC24", rented_seconds=0, ready_seconds=0) for number in (0, 1))
    jobs = [half_done("a", node=0, gpus=2), half_done("b", node=1, gpus=2)]
    jobs += [half_done("c", node=1, gpus=2), half_done("d", node=0, gpus=2)]
    state = make_state(jobs, nodes=nodes, delays=DELAYS)
    two = state.fleet.slots.index(Slot("NC24", 2))
    packing = Packing(slots=np.full(4, two), nodes=((Pattern(2, ((two, 2),)), 2),), usd=0, bound_usd=0)
    assert set(match_to_rented_nodes(state, arrange_nodes(state, available_slots(state), packing))) == {
        NodePlan(type="NC24", jobs=(("a", 2), ("d", 2)), node=0),
        NodePlan(type="NC24", jobs=(("b", 2), ("c", 2)), node=1),
    }


# costs


def test_faster_slot_leaves_less_to_pay() -> None:
    state = make_state([make_job(hours=8, deadline_seconds=4 * 3600)])
    look_ahead = LookAhead(state, available_slots(state), remaining_seconds(state))
    costs = look_ahead.costs(1000.0)
    of_largest = [index for index, slot in enumerate(state.fleet.slots) if slot.type == "NC24"]
    assert (np.diff(costs.job_usd[0, of_largest]) < 0).all()
    assert (costs.job_usd[0] < costs.wait_usd[0]).all()


def test_cost_is_infinite_where_a_job_cannot_run() -> None:
    job = make_job()
    state = make_state([replace(job, seconds=(math.inf, *job.seconds[1:]))])
    costs = LookAhead(state, available_slots(state), remaining_seconds(state)).costs(1000.0)
    assert np.isinf(costs.job_usd[0]).tolist() == [True] + [False] * 6


# reclaims


def test_no_reclaims_leave_times_unchanged() -> None:
    left = np.array([[100.0, math.inf]])
    assert expected_seconds_with_reclaims(left, np.zeros(2), DELAYS) is left


@pytest.mark.parametrize("every", [60.0, 600.0, math.inf], ids=str)
def test_expected_time_with_reclaims_agrees_with_simulation(every: float) -> None:
    """Simulated: intervals of `every` seconds, each restarted when the node is reclaimed."""
    rate, work = 1 / 900, 1200.0
    rng = np.random.default_rng(0)
    took = np.zeros(4000)
    intervals = max(round(work / every), 1) if math.isfinite(every) else 1
    for number in range(len(took)):
        for _ in range(intervals):
            while (until := rng.exponential(1 / rate)) < work / intervals:
                took[number] += until
            took[number] += work / intervals
    delays = Delays(checkpoint_every_seconds=every)
    assert expected_seconds_with_reclaims(np.array([[work]]), np.array([rate]), delays)[0, 0] == pytest.approx(
        took.mean(), rel=0.05
    )
