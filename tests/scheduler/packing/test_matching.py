"""Planned nodes are matched to rented ones so that as many jobs stay as possible: checked against brute force."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.makers import K80, make_fleet, make_job, make_state
from tests.scheduler.scripted import plan
from trainfare.model.queue import Decision, NodePlan, QueuedJob, RentedNode, Slot, State
from trainfare.scheduler.legal import decision_violations
from trainfare.scheduler.packing.matching import match_to_rented_nodes

FLEET = make_fleet(8, gangs=(Slot("NC12", 2, 2), Slot("NC24", 4, 2)))


def running(*plans: NodePlan, ready: Sequence[float] = ()) -> State:
    """A state in which these plans run on nodes 0, 1, …; the queue has the jobs j0 … j9."""
    nodes = tuple(
        RentedNode(id=number, type=each.type, rented_seconds=0, ready_seconds=ready[number] if ready else 0)
        for number, each in enumerate(plans)
    )
    jobs = []
    for name in (f"j{number}" for number in range(10)):
        where = [(number, gpus) for number, each in enumerate(plans) for job, gpus in each.jobs if job == name]
        job = replace(make_job(name), seconds=(*make_job().seconds, 900.0, 600.0))
        jobs.append(QueuedJob(job=job, nodes=tuple(n for n, _ in where), gpus=where[0][1] if where else 0))
    return make_state(jobs, FLEET, nodes=nodes, now_seconds=100)


def staying_jobs(state: State, plans: Sequence[NodePlan]) -> int:
    """The number of running jobs that keep their nodes and GPUs."""
    now = {queued.job.id: {(node, queued.gpus) for node in queued.nodes} for queued in state.jobs if queued.nodes}
    then: dict[str, set[tuple[int | None, int]]] = {}
    for each in plans:
        for job, gpus in each.jobs:
            then.setdefault(job, set()).add((each.node, gpus))
    return sum(then.get(job) == where for job, where in now.items())


def test_same_plan_in_another_order_migrates_no_job() -> None:
    state = running(plan("NC12", ("j0", 1), ("j1", 1)), plan("NC6", ("j2", 1)), plan("NC12", ("j3", 2)))
    plans = (plan("NC12", ("j3", 2)), plan("NC12", ("j1", 1), ("j0", 1)), plan("NC6", ("j2", 1)))
    assert [each.node for each in match_to_rented_nodes(state, plans)] == [2, 0, 1]


def test_node_goes_to_the_plan_with_more_staying_jobs() -> None:
    state = running(plan("NC24", ("j0", 1), ("j1", 1), ("j2", 1), ("j3", 1)))
    plans = (plan("NC24", ("j0", 1)), plan("NC24", ("j1", 1), ("j2", 1)))
    assert [each.node for each in match_to_rented_nodes(state, plans)] == [None, 0]


def test_among_equally_many_jobs_those_with_progress_stay() -> None:
    state = running(plan("NC24", ("j0", 1), ("j1", 1)))
    with_progress = replace(state, jobs=(state.jobs[0], replace(state.jobs[1], done=0.1), *state.jobs[2:]))
    plans = (plan("NC24", ("j0", 1)), plan("NC24", ("j1", 1)))
    for each in (plans, plans[::-1]):
        assert [one.node for one in match_to_rented_nodes(with_progress, each) if one.jobs == (("j1", 1),)] == [0]


def test_job_with_another_number_of_gpus_does_not_count_as_staying() -> None:
    state = running(plan("NC24", ("j0", 1), ("j1", 1)))
    plans = (plan("NC24", ("j0", 2)), plan("NC24", ("j1", 1)))
    assert [each.node for each in match_to_rented_nodes(state, plans)] == [None, 0]


def test_rented_node_of_another_type_is_not_used() -> None:
    state = running(plan("NC24", ("j0", 1)))
    assert match_to_rented_nodes(state, (plan("NC12", ("j0", 1)),))[0].node is None


def test_rented_node_is_reused_before_a_new_one_is_booted() -> None:
    state = running(plan("NC12", ("j0", 1)), plan("NC12", ("j1", 1)))
    assert {each.node for each in match_to_rented_nodes(state, (plan("NC12", ("j2", 1)), plan("NC12", ("j3", 2))))} == {
        0,
        1,
    }


def test_node_ready_first_is_reused_first_by_a_plan_with_jobs() -> None:
    state = running(plan("NC12"), plan("NC12"), ready=(400, 50))
    assert [each.node for each in match_to_rented_nodes(state, (plan("NC12"), plan("NC12", ("j3", 2))))] == [0, 1]


def test_gang_keeps_its_nodes() -> None:
    gang = (plan("NC12", ("j0", 2)), plan("NC12", ("j0", 2)))
    state = running(plan("NC12", ("j1", 1)), *gang)
    found = match_to_rented_nodes(state, (*gang, plan("NC12", ("j1", 1), ("j2", 1))))
    assert {found[0].node, found[1].node} == {1, 2}
    assert found[2].node == 0


def test_gang_that_shrinks_to_one_node_does_not_stay() -> None:
    state = running(plan("NC12", ("j0", 2)), plan("NC12", ("j0", 2)))
    assert staying_jobs(state, match_to_rented_nodes(state, (plan("NC12", ("j0", 2)),))) == 0


def test_plan_that_names_a_node_keeps_it() -> None:
    state = running(plan("NC12", ("j0", 1)), plan("NC12", ("j1", 1)))
    found = match_to_rented_nodes(state, (plan("NC12", ("j0", 1)), plan("NC12", ("j1", 1), node=0)))
    assert [each.node for each in found] == [1, 0]


def test_empty_plans_and_no_rented_nodes() -> None:
    assert match_to_rented_nodes(running(plan("NC12", ("j0", 1))), ()) == ()
    assert match_to_rented_nodes(running(), (plan("NC12", ("j0", 1)),)) == (plan("NC12", ("j0", 1)),)


def random_plans(rng: np.random.Generator, *, max_nodes: int) -> tuple[NodePlan, ...]:
    """Up to `max_nodes` nodes filled with jobs and gangs, each job once."""
    names = [f"j{number}" for number in rng.permutation(10)]
    made: list[NodePlan] = []
    for _ in range(int(rng.integers(1, max_nodes + 1))):
        kind = K80[int(rng.integers(3))]
        if kind.gpus > 1 and rng.random() < 0.2:
            made += [plan(kind.name, (names.pop(), kind.gpus))] * 2
            continue
        left, jobs = kind.gpus, []
        while left and names and rng.random() < 0.8:
            jobs.append((names.pop(), int(rng.integers(1, min(left, 2) + 1))))
            left -= jobs[-1][1]
        made.append(plan(kind.name, *jobs))
    return tuple(made) if len(made) <= max_nodes else random_plans(rng, max_nodes=max_nodes)


def every_match(state: State, plans: Sequence[NodePlan]) -> list[tuple[NodePlan, ...]]:
    """All assignments of planned nodes to rented nodes of their type, or to new ones."""
    ids = [*(node.id for node in state.nodes), *[None] * len(plans)]
    kinds = {node.id: node.type for node in state.nodes}
    return [
        tuple(replace(each, node=node) for each, node in zip(plans, chosen, strict=True))
        for chosen in set(permutations(ids, len(plans)))
        if all(node is None or kinds[node] == each.type for each, node in zip(plans, chosen, strict=True))
    ]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_no_other_match_has_more_staying_jobs_or_fewer_boots(seed: int) -> None:
    rng = np.random.default_rng(seed)
    state, plans = running(*random_plans(rng, max_nodes=4)), random_plans(rng, max_nodes=4)
    found = match_to_rented_nodes(state, plans)
    assert [(each.type, each.jobs) for each in found] == [(each.type, each.jobs) for each in plans]
    assert decision_violations(state, Decision(nodes=found)) == ()
    best = max(
        (staying_jobs(state, each), sum(one.node is not None for one in each)) for each in every_match(state, plans)
    )
    assert (staying_jobs(state, found), sum(one.node is not None for one in found)) == best
