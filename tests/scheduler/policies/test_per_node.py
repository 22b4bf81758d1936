"""The papers' MILP with columns for every node agrees with brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.every_decision import every_decision
from tests.scheduler.makers import K80, make_fleet, make_job, make_state
from tests.scheduler.small_states import gang_state, quota_state, random_state
from trainfare.model.queue import State
from trainfare.scheduler.legal import decision_violations
from trainfare.scheduler.policies.greedy import greedy
from trainfare.scheduler.policies.per_node import per_node
from trainfare.scheduler.pricing.objective import decision_usd


def least_usd(state: State) -> float:
    """The least cost of all decisions that run a job."""
    return min(decision_usd(state, nodes) for nodes in every_decision(state) if nodes)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_optimum_agrees_with_brute_force(seed: int) -> None:
    state = random_state(seed)
    found = per_node(state)
    assert decision_violations(state, found) == ()
    assert found.usd is not None
    assert found.usd == pytest.approx(decision_usd(state, found.nodes))
    assert found.usd == pytest.approx(least_usd(state), rel=1e-5)
    assert found.bound_usd is not None
    assert found.bound_usd <= found.usd


@pytest.mark.parametrize("seed", range(4))
def test_optimum_with_gangs_agrees_with_brute_force(seed: int) -> None:
    state = gang_state(seed)
    found = per_node(state)
    assert decision_violations(state, found) == ()
    assert found.usd == pytest.approx(least_usd(state), rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_optimum_with_quotas_and_limits_agrees_with_brute_force(seed: int) -> None:
    state = quota_state(seed)
    found = per_node(state)
    assert decision_violations(state, found) == ()
    assert found.usd == pytest.approx(least_usd(state), rel=1e-5)


def test_empty_queue_rents_nothing() -> None:
    found = per_node(make_state([]))
    assert (found.nodes, found.usd, found.bound_usd) == ((), 0, 0)


def test_jobs_without_a_quota_wait() -> None:
    state = make_state([make_job(user="ann")], make_fleet(quotas=(("ann", 0),)))
    assert per_node(state).nodes == ()


def test_one_job_runs_even_if_waiting_is_free() -> None:
    state = make_state([make_job("a", deadline_seconds=math.inf), make_job("b", deadline_seconds=math.inf)])
    assert sum(len(node.jobs) for node in per_node(state).nodes) >= 1


def test_time_limit_returns_a_decision_no_more_expensive_than_greedy_with_a_bound() -> None:
    rng = np.random.default_rng(1)
    jobs = [
        make_job(f"j{i}", hours=float(rng.uniform(1, 4)), deadline_seconds=float(rng.uniform(2e3, 9e3)))
        for i in range(12)
    ]
    state = make_state(jobs, make_fleet(6, K80))
    found = per_node(state, seconds=0.5)
    assert decision_violations(state, found) == ()
    assert found.usd is not None
    assert found.bound_usd is not None
    assert found.bound_usd <= found.usd <= decision_usd(state, greedy(state).nodes)
