"""FIFO, EDF and priority: one job per node, in order, to the end."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.scheduler.makers import K80, make_fleet, make_job, make_state, random_instance
from tests.scheduler.small_states import gang_state, quota_state, random_state
from trainfare.model.queue import Decision, Job, NodePlan, NodeType, QueuedJob, RentedNode, Slot, State
from trainfare.scheduler.legal import decision_violations, schedule_violations
from trainfare.scheduler.policies.first_principles import edf, fifo, priority
from trainfare.scheduler.simulation.simulate import simulate

HOUR = 3600.0
POLICIES = {"fifo": fifo, "edf": edf, "priority": priority}


def _runs(decision: Decision) -> set[str]:
    return {job for plan in decision.nodes for job, _ in plan.jobs}


def _three(nodes: int = 1) -> State:
    return make_state(
        [
            make_job("first", deadline_seconds=9 * HOUR, late_usd_per_second=0.002),
            make_job("urgent", deadline_seconds=5 * HOUR, late_usd_per_second=0.003),
            make_job("expensive", deadline_seconds=8 * HOUR, late_usd_per_second=0.007),
        ],
        make_fleet(nodes),
    )


@pytest.mark.parametrize(("name", "runs"), [("fifo", "first"), ("edf", "urgent"), ("priority", "expensive")])
def test_only_node_goes_to_the_first_job_by_the_rule(name: str, runs: str) -> None:
    assert _runs(POLICIES[name](_three())) == {runs}


def test_every_job_has_a_node_of_its_own() -> None:
    decision = fifo(_three(nodes=5))
    assert [len(plan.jobs) for plan in decision.nodes] == [1, 1, 1]


def test_cheapest_slot_in_time_is_chosen() -> None:
    """Four hours on one K80: 1 GPU is cheapest, 2 are the cheapest in 2.5 hours, 4 in 1.5."""
    for deadline, slot in ((4.1, ("NC6", 1)), (2.5, ("NC12", 2)), (1.5, ("NC24", 4))):
        job = make_job(hours=4, deadline_seconds=deadline * HOUR)
        (plan,) = fifo(make_state([job])).nodes
        assert (plan.type, plan.jobs[0][1]) == slot


def test_job_that_is_late_everywhere_takes_the_fastest_slot() -> None:
    (plan,) = fifo(make_state([make_job(deadline_seconds=1.0)])).nodes
    assert (plan.type, plan.jobs) == ("NC24", (("j1", 4),))


def test_running_job_keeps_its_node() -> None:
    node = RentedNode(id=7, type="NC6", rented_seconds=0, ready_seconds=0)
    running = QueuedJob(job=make_job("running", deadline_seconds=1.0), done=0.5, expected_done=0.5, nodes=(7,), gpus=1)
    urgent = make_job("urgent", deadline_seconds=2.0, late_usd_per_second=1.0)
    for each in POLICIES.values():
        decision = each(make_state([running, urgent], make_fleet(1), now_seconds=HOUR / 2, nodes=(node,)))
        assert decision.nodes == (NodePlan(type="NC6", jobs=(("running", 1),), node=7),)


def test_node_whose_job_ended_is_reused() -> None:
    node = RentedNode(id=7, type="NC6", rented_seconds=0, ready_seconds=0)
    (plan,) = fifo(make_state([make_job()], make_fleet(1), nodes=(node,))).nodes
    assert plan.node == 7


def test_job_takes_the_next_slot_if_a_type_is_limited() -> None:
    types = (replace(K80[0], max_nodes=1), *K80[1:])
    decision = fifo(make_state([make_job("a"), make_job("b")], make_fleet(2, types)))
    assert sorted(plan.type for plan in decision.nodes) == ["NC12", "NC6"]


def test_job_of_a_user_at_the_quota_waits_and_the_next_runs() -> None:
    fleet = make_fleet(3, quotas=(("ann", 1),))
    state = make_state([make_job("a", user="ann"), make_job("b", user="ann"), make_job("c", user="bob")], fleet)
    assert _runs(fifo(state)) == {"a", "c"}


def test_gang_takes_all_its_nodes() -> None:
    types = (NodeType(name="NC6", gpu="K80", gpus=1, usd_per_hour=0.5),)
    fleet = make_fleet(3, types, gangs=(Slot("NC6", 1, 2),))
    job = Job(id="g", submitted_seconds=0, deadline_seconds=HOUR, late_usd_per_second=0.1, seconds=(2 * HOUR, HOUR))
    decision = fifo(make_state([job], fleet))
    assert [plan.jobs for plan in decision.nodes] == [(("g", 1),), (("g", 1),)]


@pytest.mark.parametrize("name", POLICIES)
def test_empty_queue_rents_nothing(name: str) -> None:
    assert POLICIES[name](make_state([])).nodes == ()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("maker", [random_state, gang_state, quota_state], ids=["plain", "gangs", "quotas"])
def test_decisions_can_be_carried_out(name: str, maker: Callable[[int], State]) -> None:
    for seed in range(30):
        state = maker(seed)
        assert decision_violations(state, POLICIES[name](state)) == ()


@pytest.mark.parametrize("name", POLICIES)
def test_no_job_is_migrated(name: str) -> None:
    schedule = simulate(random_instance(3, jobs=12, load=4.0), POLICIES[name], name=name, nodes=2)
    assert schedule_violations(schedule) == ()
    slots: dict[str, set[tuple[tuple[int, ...], int]]] = {}
    for allocation in schedule.allocations:
        slots.setdefault(allocation.job, set()).add((allocation.nodes, allocation.gpus))
    assert {len(each) for each in slots.values()} == {1}


def test_slots_on_which_a_job_cannot_run_are_not_used() -> None:
    seconds = (math.inf,) * 3 + (9 * HOUR,) + (math.inf,) * 3
    job = Job(id="j1", submitted_seconds=0, deadline_seconds=HOUR, late_usd_per_second=0.1, seconds=seconds)
    (plan,) = fifo(make_state([job])).nodes
    assert (plan.type, plan.jobs) == ("NC24", (("j1", 1),))
