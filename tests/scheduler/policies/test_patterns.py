"""Nodes counted by pattern: the optimum agrees with brute force, and large queues have a bound."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.every_decision import every_decision
from tests.scheduler.makers import AZURE, K80, make_fleet, make_job, make_state
from tests.scheduler.small_states import gang_state, quota_state, random_state
from trainfare.model.queue import (
    Decision,
    Fleet,
    Job,
    NodePlan,
    NodeType,
    QueuedJob,
    RentedNode,
    Slot,
    State,
    single_node_slots,
)
from trainfare.scheduler.legal import decision_violations
from trainfare.scheduler.packing import pack as pack_module
from trainfare.scheduler.packing.pack import pack
from trainfare.scheduler.packing.pattern_model import node_patterns
from trainfare.scheduler.packing.pattern_plans import plans_from_packing
from trainfare.scheduler.policies.patterns import patterns
from trainfare.scheduler.policies.per_node import per_node
from trainfare.scheduler.pricing.objective import assigned_slots, decision_usd
from trainfare.scheduler.tables import remaining_seconds, slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def least_usd(state: State) -> float:
    """The least cost of all decisions that run a job."""
    return min(decision_usd(state, nodes) for nodes in every_decision(state) if nodes)


# the papers' decision


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_optimum_agrees_with_brute_force(seed: int) -> None:
    state = random_state(seed)
    found = patterns(state)
    assert decision_violations(state, found) == ()
    assert found.usd == pytest.approx(decision_usd(state, found.nodes))
    assert found.usd == pytest.approx(least_usd(state), rel=1e-5)
    assert found.bound_usd is not None
    assert found.usd is not None
    assert found.bound_usd <= found.usd


@pytest.mark.parametrize("seed", range(6))
def test_optimum_with_gangs_agrees_with_brute_force(seed: int) -> None:
    state = gang_state(seed)
    found = patterns(state)
    assert decision_violations(state, found) == ()
    assert found.usd == pytest.approx(least_usd(state), rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_optimum_with_quotas_and_limits_agrees_with_brute_force(seed: int) -> None:
    state = quota_state(seed)
    found = patterns(state)
    assert decision_violations(state, found) == ()
    assert found.usd == pytest.approx(least_usd(state), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_columns_for_every_node_give_the_same_cost(seed: int) -> None:
    state = busy_state(seed, nodes=3, jobs=6, types=K80)
    assert patterns(state).usd == pytest.approx(per_node(state).usd, rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_more_nodes_never_cost_more(seed: int) -> None:
    state = busy_state(seed, nodes=1, jobs=12)
    usd = [patterns(replace(state, fleet=replace(state.fleet, nodes=nodes))).usd or 0.0 for nodes in range(1, 7)]
    assert all(more <= fewer * (1 + 1e-5) for fewer, more in pairwise(usd))


def test_names_and_order_of_jobs_do_not_matter() -> None:
    state = busy_state(5, nodes=4, jobs=15)
    renamed = tuple(replace(each, job=replace(each.job, id=f"other {each.job.id}")) for each in reversed(state.jobs))
    assert patterns(replace(state, jobs=renamed)).usd == pytest.approx(patterns(state).usd, rel=1e-5)


def test_decision_for_hundreds_of_jobs_has_a_tight_bound() -> None:
    state = busy_state(0, nodes=30, jobs=200)
    found = patterns(state)
    assert decision_violations(state, found) == ()
    assert found.usd == pytest.approx(found.bound_usd, rel=2e-6)


def test_empty_queue_rents_nothing() -> None:
    found = patterns(make_state([]))
    assert (found.nodes, found.usd, found.bound_usd) == ((), 0, 0)


def test_jobs_without_a_quota_wait() -> None:
    state = make_state([make_job(user="ann")], make_fleet(quotas=(("ann", 0),)))
    assert patterns(state).nodes == ()


def test_one_job_runs_even_if_waiting_is_free() -> None:
    state = make_state([make_job("a", deadline_seconds=math.inf), make_job("b", deadline_seconds=math.inf)])
    assert sum(len(node.jobs) for node in patterns(state).nodes) >= 1


def test_job_that_is_late_everywhere_minimises_rent_and_lateness() -> None:
    state = make_state([make_job(deadline_seconds=0.0)], now_seconds=3600)
    assert patterns(state).usd == pytest.approx(least_usd(state))


def test_slots_where_a_job_cannot_run_are_not_used() -> None:
    only = tuple(100.0 if slot == Slot("NC24", 3) else math.inf for slot in make_fleet().slots)
    jobs = [replace(make_job(f"j{number}", deadline_seconds=0.0), seconds=only) for number in range(3)]
    found = patterns(make_state(jobs, now_seconds=10))
    assert [(node.type, [gpus for _, gpus in node.jobs]) for node in found.nodes] == [("NC24", [3])] * 2


def test_running_jobs_stay_if_nothing_is_better() -> None:
    state = busy_state(2, nodes=4, jobs=10)
    first = patterns(state)
    again = patterns(carried_out(state, first))
    assert Counter(again.nodes) == Counter(replace(plan, node=number) for number, plan in enumerate(first.nodes))


# patterns themselves


def test_patterns_are_the_partitions_of_the_gpus() -> None:
    eight = (NodeType(name="big", gpu="A", gpus=8, usd_per_hour=1.0),)
    assert [len(node_patterns(make_fleet(types=types))) for types in (K80[:1], K80[1:2], K80[2:], eight)] == [
        1,
        2,
        5,
        22,
    ]


def test_patterns_leave_no_room_for_another_part() -> None:
    kind = NodeType(name="big", gpu="A", gpus=7, usd_per_hour=1.0)
    fleet = Fleet(nodes=2, types=(kind,), slots=(Slot("big", 2), Slot("big", 4), Slot("big", 7, 2)))
    found = [(pattern.parts, pattern.nodes) for pattern in node_patterns(fleet)]
    assert sorted(found) == [(((0, 3),), 1), (((1, 1), (0, 1)), 1), (((2, 1),), 2)]


# packing at given prices


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_packing_agrees_with_brute_force(seed: int) -> None:
    state = random_state(seed)
    assert_packed_best(state, seed)


@pytest.mark.parametrize("seed", range(5))
def test_packing_with_gangs_quotas_and_limits_agrees_with_brute_force(seed: int) -> None:
    assert_packed_best(gang_state(seed), seed)
    assert_packed_best(quota_state(seed), seed)


def assert_packed_best(state: State, seed: int) -> None:
    job_usd, wait_usd, node_usd = random_prices(state, seed)
    prices = dict(zip((kind.name for kind in state.fleet.types), node_usd.tolist(), strict=True))
    rows = {queued.job.id: row for row, queued in enumerate(state.jobs)}

    def usd(nodes: tuple[NodePlan, ...]) -> float:
        assigned = assigned_slots(state, nodes)
        saved = sum(wait_usd[rows[job]] - job_usd[rows[job], slot] for job, slot in assigned.items())
        return float(wait_usd.sum() - saved + sum(prices[plan.type] for plan in nodes))

    found = pack(state.fleet, job_usd, wait_usd, node_usd, users=[each.job.user for each in state.jobs])
    nodes = plans_from_packing(state, found)
    assert decision_violations(state, Decision(nodes=nodes)) == ()
    assert usd(nodes) == pytest.approx(found.usd)
    assert found.usd == pytest.approx(min(usd(nodes) for nodes in every_decision(state)), rel=1e-5)
    assert found.bound_usd <= found.usd


def random_prices(state: State, seed: int) -> "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]":
    rng = np.random.default_rng(seed)
    shape = (len(state.jobs), len(state.fleet.slots))
    job_usd = np.where(np.isfinite(remaining_seconds(state)), rng.uniform(1, 5, shape), np.inf)
    return job_usd, rng.uniform(2, 8, shape[0]), rng.uniform(0, 2, len(state.fleet.types))


def test_packing_without_jobs_is_empty() -> None:
    fleet = make_fleet()
    found = pack(fleet, np.empty((0, len(fleet.slots))), np.empty(0), np.ones(3))
    assert (found.usd, found.nodes, len(found.slots)) == (0, (), 0)


def test_job_waits_if_no_slot_is_better() -> None:
    state = make_state([make_job()])
    found = pack(state.fleet, np.full((1, 7), 3.0), np.array([3.0]), np.zeros(3))
    assert (found.slots.tolist(), found.nodes, found.usd) == ([-1], (), 3)


@pytest.mark.parametrize(
    ("jobs", "quotas"), [(160, ()), (160, (("ann", 9), ("bob", 4))), (700, (("ann", 31),))], ids=str
)
def test_rounding_loses_little_and_respects_every_limit(jobs: int, quotas: tuple[tuple[str, int], ...]) -> None:
    kinds = (*AZURE[:2], replace(AZURE[2], max_nodes=jobs // 40), *AZURE[3:])
    state = busy_state(1, nodes=jobs // 5, jobs=jobs, types=kinds, gangs=(Slot("NV24", 4, 2),), quotas=quotas)
    found = pack(state.fleet, *realistic_prices(state), users=[each.job.user for each in state.jobs], gap=1e-4)
    assert decision_violations(state, Decision(nodes=plans_from_packing(state, found))) == ()
    assert found.bound_usd <= found.usd <= found.bound_usd * (1 + 1e-3)


def test_rounded_and_pruned_packing_is_within_its_bound_of_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    state = busy_state(4, nodes=12, jobs=60)
    prices = realistic_prices(state)
    exact = pack(state.fleet, *prices)
    for name, value in (
        ("EXACT_JOBS", 10),
        ("ALL_COLUMNS_JOBS", 20),
        ("COLUMNS_PER_JOB", 2),
        ("PRICING_SAMPLE_JOBS", 20),
    ):
        monkeypatch.setattr(pack_module, name, value)
        rounded = pack(state.fleet, *prices)
        assert rounded.bound_usd <= exact.usd * (1 + 1e-6)
        assert exact.usd * (1 - 1e-5) <= rounded.usd <= 1.01 * exact.usd


def test_invalid_prices_are_refused() -> None:
    fleet = make_fleet(quotas=(("ann", 1),))
    with pytest.raises(ValueError, match="finite"):
        pack(make_fleet(), np.ones((1, 7)), np.array([np.inf]), np.ones(3))
    with pytest.raises(ValueError, match="needs a user"):
        pack(fleet, np.ones((1, 7)), np.array([2.0]), np.ones(3))


def test_jobs_that_share_a_node_stay_together() -> None:
    kinds = K80[2:]
    jobs = [QueuedJob(job=make_job(f"j{number}", types=kinds), nodes=(number % 3,), gpus=2) for number in range(6)]
    nodes = tuple(RentedNode(id=number, type="NC24", rented_seconds=0, ready_seconds=0) for number in range(3))
    state = make_state(jobs, make_fleet(3, kinds), nodes=nodes)
    prices = np.where(slot_table(state.fleet).gpus == 2, 1.0, 9.0)
    plans = plans_from_packing(state, pack(state.fleet, np.tile(prices, (6, 1)), np.full(6, 5.0), np.ones(1)))
    assert {frozenset(job for job, _ in plan.jobs) for plan in plans} == {
        frozenset(pair) for pair in (("j0", "j3"), ("j1", "j4"), ("j2", "j5"))
    }


def busy_state(
    seed: int,
    *,
    nodes: int,
    jobs: int,
    types: tuple[NodeType, ...] = AZURE,
    gangs: tuple[Slot, ...] = (),
    quotas: tuple[tuple[str, int], ...] = (),
) -> State:
    """More jobs than fit, with deadlines that some can meet; a gang is as fast as one node with all its GPUs."""
    rng = np.random.default_rng(seed)
    fleet = Fleet(nodes=nodes, types=types, slots=single_node_slots(types) + gangs, quotas=quotas)
    made = []
    for number in range(jobs):
        base, power = float(rng.uniform(2000, 15_000)), float(rng.uniform(0.5, 0.95))
        speed = {"K80": 1.0, "M60": float(rng.uniform(0.7, 1.5))}
        kinds = {kind.name: kind.gpu for kind in types}
        seconds = tuple(base / speed[kinds[slot.type]] / (slot.gpus * slot.nodes) ** power for slot in fleet.slots)
        job = Job(
            id=f"j{number}",
            submitted_seconds=0.0,
            deadline_seconds=1000 + float(rng.uniform(0.5, 3)) * min(seconds),
            late_usd_per_second=2 * float(rng.uniform(0.0015, 0.0075)),
            seconds=seconds,
            user=str(rng.choice(["ann", "bob", "eve"])),
        )
        made.append(QueuedJob(job=job, done=float(rng.uniform(0, 0.8))))
    return make_state(made, fleet, now_seconds=1000)


def realistic_prices(state: State) -> "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]":
    """Costs like those of a look-ahead over a quarter of an hour: the rest costs its share, waiting slightly more."""
    rng = np.random.default_rng(0)
    left, slots = remaining_seconds(state), slot_table(state.fleet)
    cheapest = (slots.share[None, :] * left).min(axis=1)
    job_usd = (cheapest * rng.uniform(0.8, 1.5, len(left)))[:, None] * (1 - np.minimum(1, 900 / left))
    late = 0.005 * np.maximum(0, left - 1.5 * left.min(axis=1, keepdims=True)) * 0.1
    wait_usd = cheapest * rng.uniform(1, 1.5, len(left)) + late.max(axis=1)
    return job_usd + late, wait_usd, np.array([900 * kind.usd_per_second for kind in state.fleet.types])


def carried_out(state: State, decision: Decision) -> State:
    """The state just after the decision: the nodes are rented and the jobs run there."""
    nodes = tuple(
        RentedNode(id=number, type=plan.type, rented_seconds=1000, ready_seconds=1000)
        for number, plan in enumerate(decision.nodes)
    )
    where = {job: (number, gpus) for number, plan in enumerate(decision.nodes) for job, gpus in plan.jobs}
    jobs = tuple(
        replace(each, nodes=(where[each.job.id][0],), gpus=where[each.job.id][1]) if each.job.id in where else each
        for each in state.jobs
    )
    return replace(state, nodes=nodes, jobs=jobs)
