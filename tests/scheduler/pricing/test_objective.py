"""The papers' cost of one decision, term by term."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.scheduler.makers import AZURE, K80, make_fleet, make_job, make_state
from tests.scheduler.small_states import gang_state, random_state
from trainfare.model.queue import Job, NodePlan, QueuedJob, Slot, State
from trainfare.scheduler.policies.greedy import greedy_plans
from trainfare.scheduler.pricing.objective import assigned_slots, decision_usd, late_usd, postponed_usd
from trainfare.scheduler.tables import remaining_seconds

HOUR = 3600.0


def _by_hand(state: State, nodes: list[NodePlan]) -> float:
    """The formula, implemented job by job."""
    prices = {each.name: each.usd_per_hour / HOUR for each in state.fleet.types}
    total = 0.0
    seconds = {}
    for queued in state.jobs:
        on = [(plan.type, dict(plan.jobs)[queued.job.id]) for plan in nodes if queued.job.id in dict(plan.jobs)]
        times = [each * (1 - queued.done) for each in queued.job.seconds]
        if on:
            slot = Slot(on[0][0], on[0][1], len(on))
            seconds[queued.job.id] = times[state.fleet.slots.index(slot)]
            ends = state.now_seconds + seconds[queued.job.id]
            total += queued.job.late_usd_per_second * max(0.0, ends - queued.job.deadline_seconds)
        else:
            ends = state.now_seconds + max(each for each in times if math.isfinite(each))
            total += 100 * queued.job.late_usd_per_second * max(0.0, ends - queued.job.deadline_seconds)
    return total + sum(prices[plan.type] * min(seconds[job] for job, _ in plan.jobs) for plan in nodes)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("maker", [random_state, gang_state], ids=["plain", "gangs"])
def test_cost_agrees_with_the_formula(maker: Callable[[int], State], seed: int) -> None:
    state = maker(seed)
    nodes = greedy_plans(state, remaining_seconds(state))
    assert decision_usd(state, nodes) == pytest.approx(_by_hand(state, nodes))


def test_node_is_paid_until_its_first_job_ends() -> None:
    state = make_state([make_job("short", hours=1), make_job("long", hours=3)])
    nodes = [NodePlan(type="NC12", jobs=(("short", 1), ("long", 1)))]
    assert decision_usd(state, nodes) == pytest.approx(1.13)


def test_running_job_pays_its_lateness() -> None:
    state = make_state([make_job(hours=2, deadline_seconds=HOUR, late_usd_per_second=0.01)])
    assert decision_usd(state, [NodePlan(type="NC6", jobs=(("j1", 1),))]) == pytest.approx(2 * 0.56 + 36)


def test_waiting_job_pays_a_hundred_times_its_worst_lateness() -> None:
    state = make_state([make_job(hours=2, deadline_seconds=HOUR, late_usd_per_second=0.01)])
    assert decision_usd(state, []) == pytest.approx(100 * 36)


def test_waiting_is_free_if_the_slowest_slot_is_in_time() -> None:
    assert decision_usd(make_state([make_job(hours=2)]), []) == 0


def test_job_without_a_deadline_is_never_late() -> None:
    state = make_state([make_job(deadline_seconds=math.inf)])
    assert decision_usd(state, []) == 0
    assert late_usd(state, remaining_seconds(state)).max() == 0


def test_slots_on_which_a_job_cannot_run_are_not_its_worst() -> None:
    times = (HOUR, *[math.inf] * (len(make_fleet().slots) - 1))
    job = Job(id="j1", submitted_seconds=0, deadline_seconds=1800, late_usd_per_second=0.01, seconds=times)
    state = make_state([job])
    assert postponed_usd(state, remaining_seconds(state)).tolist() == [pytest.approx(100 * 18)]
    assert np.isinf(late_usd(state, remaining_seconds(state))[0, 1:]).all()


def test_progress_shortens_the_paid_time() -> None:
    state = make_state([QueuedJob(job=make_job(hours=2), done=0.75)])
    assert decision_usd(state, [NodePlan(type="NC6", jobs=(("j1", 1),))]) == pytest.approx(0.28)


def test_other_remaining_times_can_be_given() -> None:
    state = make_state([make_job(hours=2)])
    nodes = [NodePlan(type="NC6", jobs=(("j1", 1),))]
    assert decision_usd(state, nodes, 2 * remaining_seconds(state)) == pytest.approx(2 * decision_usd(state, nodes))


def test_empty_node_is_paid_until_the_first_end() -> None:
    state = make_state([make_job(hours=2)], make_fleet(types=AZURE[:3]))
    nodes = [NodePlan(type="NC6", jobs=(("j1", 1),)), NodePlan(type="NC12", jobs=())]
    assert decision_usd(state, nodes) == pytest.approx(2 * (0.56 + 1.13))


def test_gang_pays_for_all_its_nodes() -> None:
    fleet = make_fleet(2, K80, gangs=(Slot("NC24", 4, 2),))
    plain = make_job(hours=2)
    seconds = (*plain.seconds, HOUR)
    job = Job(id="j1", submitted_seconds=0, deadline_seconds=HOUR, late_usd_per_second=0.01, seconds=seconds)
    state = make_state([job], fleet)
    nodes = [NodePlan(type="NC24", jobs=(("j1", 4),))] * 2
    assert assigned_slots(state, nodes) == {"j1": len(fleet.slots) - 1}
    assert decision_usd(state, nodes) == pytest.approx(4.5)


def test_allocation_that_is_no_slot_is_refused() -> None:
    state = make_state([make_job()])
    with pytest.raises(ValueError, match="no slot of the fleet"):
        decision_usd(state, [NodePlan(type="NC6", jobs=(("j1", 1),))] * 2)


def test_empty_queue_costs_nothing() -> None:
    assert decision_usd(make_state([]), []) == 0
