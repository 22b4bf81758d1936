"""Our policy: legal, never worse than Greedy by its score, with a bound, and obvious choices."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.makers import AZURE, K80, make_fleet, make_job, make_state, random_instance
from tests.scheduler.published import NODES, published, published_costs
from tests.scheduler.small_states import gang_state, quota_state, random_state
from trainfare.model.queue import (
    Decision,
    Delays,
    Instance,
    Job,
    NodePlan,
    NodeType,
    QueuedJob,
    RentedNode,
    State,
    single_node_slots,
)
from trainfare.model.schedule import ScheduleOutcome
from trainfare.scheduler.bounds.lower_bound import lower_bound
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.highs import SolverError
from trainfare.scheduler.legal import decision_violations, schedule_violations
from trainfare.scheduler.policies.greedy import greedy, greedy_plans
from trainfare.scheduler.policies.registry import Policy
from trainfare.scheduler.policies.trainfare import CAUTION, trainfare
from trainfare.scheduler.pricing.available_slots import available_slots, seconds_until_end
from trainfare.scheduler.pricing.lookahead import DecisionCosts, LookAhead
from trainfare.scheduler.pricing.profitable_nodes import drop_unprofitable_nodes
from trainfare.scheduler.pricing.score import candidate_plan
from trainfare.scheduler.simulation.generate import QueueSetting, generate
from trainfare.scheduler.simulation.simulate import simulate
from trainfare.scheduler.tables import corrected_remaining_seconds, remaining_seconds

REAL_DELAYS = Delays(boot_seconds=120, checkpoint_seconds=30, restart_seconds=60, checkpoint_every_seconds=600)

seeds = st.integers(0, 2**32 - 1)


def simulated_outcome(
    instance: Instance, policy: Policy, *, nodes: int = 2, delays: Delays | None = None
) -> ScheduleOutcome:
    schedule = simulate(instance, policy, name="tried", nodes=nodes, delays=delays or Delays())
    assert schedule_violations(schedule) == ()
    return evaluate(schedule)


def slot_of(decision: Decision, job: str) -> tuple[str, int] | None:
    """The (type, GPUs) that the decision gives to the job."""
    return next(((plan.type, gpus) for plan in decision.nodes for name, gpus in plan.jobs if name == job), None)


def greedy_score(state: State) -> float:
    """The look-ahead score of Greedy's decision with its own first end."""
    left = corrected_remaining_seconds(state, quantile=CAUTION)
    available = available_slots(state)
    plan = candidate_plan(state, available, greedy_plans(state, left))
    first_end = plan.first_end_seconds(seconds_until_end(available, left))
    return plan.score_usd(LookAhead(state, available, left).costs(first_end))


# invariants


@settings(max_examples=6, deadline=None)
@given(seeds)
def test_queue_has_a_legal_schedule(seed: int) -> None:
    assert simulated_outcome(random_instance(seed, jobs=6, types=AZURE, load=3), trainfare).jobs == 6


@settings(max_examples=4, deadline=None)
@given(seeds)
def test_queue_has_a_legal_schedule_with_delays(seed: int) -> None:
    assert simulated_outcome(random_instance(seed, jobs=6, load=3), trainfare, delays=REAL_DELAYS).jobs == 6


@pytest.mark.parametrize("kind", [random_state, gang_state, quota_state], ids=["plain", "gangs", "quotas"])
@pytest.mark.parametrize("delays", [Delays(), REAL_DELAYS], ids=["no delays", "delays"])
@settings(max_examples=10, deadline=None)
@given(seeds)
def test_every_decision_can_be_carried_out(kind: object, delays: Delays, seed: int) -> None:
    assert callable(kind)
    state = replace(kind(seed), delays=delays)
    assert decision_violations(state, trainfare(state)) == ()


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_score_is_never_above_that_of_greedy(seed: int) -> None:
    state = random_state(seed)
    decision = trainfare(state)
    assert decision.usd is not None
    assert decision.usd <= greedy_score(state) + 1e-9


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_bound_is_not_above_the_score(seed: int) -> None:
    decision = trainfare(random_state(seed))
    assert decision.usd is not None
    assert decision.bound_usd is not None
    assert math.isfinite(decision.bound_usd)
    assert decision.bound_usd <= decision.usd


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_same_state_gives_the_same_decision(seed: int) -> None:
    assert trainfare(random_state(seed)) == trainfare(random_state(seed))


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_names_do_not_matter(seed: int) -> None:
    state = random_state(seed)
    names = {each.job.id: f"z{len(state.jobs) - number}" for number, each in enumerate(state.jobs)}
    renamed = replace(
        state, jobs=tuple(replace(each, job=replace(each.job, id=names[each.job.id])) for each in state.jobs)
    )
    plans = tuple(
        replace(plan, jobs=tuple((names[job], gpus) for job, gpus in plan.jobs)) for plan in trainfare(state).nodes
    )
    assert trainfare(renamed).nodes == plans


# obvious choices


def test_empty_queue_rents_nothing() -> None:
    assert trainfare(make_state([])).nodes == ()


def test_single_job_takes_its_cheapest_slot_in_time() -> None:
    """One GPU is cheapest where more GPUs scale badly; the deadline leaves time for it."""
    job = make_job(hours=2, power=0.6, deadline_seconds=4 * 3600)
    assert slot_of(trainfare(make_state([job])), "j1") == ("NC6", 1)


def test_single_job_with_a_tight_deadline_takes_all_gpus() -> None:
    job = make_job(hours=2, power=0.6, deadline_seconds=2 * 3600 / 4**0.6 + 60)
    assert slot_of(trainfare(make_state([job])), "j1") == ("NC24", 4)


def test_job_past_its_deadline_takes_the_fastest_slot() -> None:
    job = make_job(hours=2, power=0.9, deadline_seconds=100, late_usd_per_second=0.01)
    assert slot_of(trainfare(make_state([job], now_seconds=5000)), "j1") == ("NC24", 4)


def test_job_whose_lateness_is_free_takes_the_cheapest_slot() -> None:
    job = make_job(hours=2, power=0.6, deadline_seconds=math.inf, late_usd_per_second=0)
    assert slot_of(trainfare(make_state([job])), "j1") == ("NC6", 1)


def test_job_whose_lateness_is_free_is_finished_in_the_end() -> None:
    others = random_instance(3, jobs=6, load=6)
    idle = make_job("idle", hours=3, deadline_seconds=0, late_usd_per_second=0)
    instance = replace(others, jobs=(idle, *others.jobs))
    assert simulated_outcome(instance, trainfare, nodes=1).jobs == 7


def test_job_beyond_its_quota_waits_and_the_others_run() -> None:
    fleet = make_fleet(2, quotas=(("ann", 0),))
    state = make_state([make_job("no", user="ann"), make_job("yes")], fleet)
    decision = trainfare(state)
    assert slot_of(decision, "no") is None
    assert slot_of(decision, "yes") is not None


# migrations


def running(job: str, node: int, gpus: int, *, done: float = 0.5) -> QueuedJob:
    made = make_job(job, hours=8, power=0.95, deadline_seconds=3.3 * 3600)
    return QueuedJob(job=made, done=done, expected_done=done, nodes=(node,), gpus=gpus)


def rented(*types: str) -> tuple[RentedNode, ...]:
    return tuple(
        RentedNode(id=number, type=kind, rented_seconds=0, ready_seconds=0) for number, kind in enumerate(types)
    )


def test_jobs_that_keep_their_gpus_stay_on_their_nodes() -> None:
    """They are in time only with two GPUs each."""
    jobs = [running("a", 0, 2), running("b", 1, 2), running("c", 0, 2), running("d", 1, 2)]
    state = make_state(jobs, make_fleet(2), nodes=rented("NC24", "NC24"), delays=REAL_DELAYS, now_seconds=3600)
    assert set(trainfare(state).nodes) == {
        NodePlan(type="NC24", jobs=(("a", 2), ("c", 2)), node=0),
        NodePlan(type="NC24", jobs=(("b", 2), ("d", 2)), node=1),
    }


def test_job_is_not_migrated_for_less_than_a_restart() -> None:
    """Without delays it changes to the cheaper type for its last minute; with delays it stays."""
    job = replace(running("a", 0, 1, done=0.998), job=make_job("a", hours=8, power=0.5, deadline_seconds=math.inf))
    state = make_state([job], make_fleet(1), nodes=rented("NC24"), now_seconds=3600)
    assert slot_of(trainfare(state), "a") != ("NC24", 1)
    assert trainfare(replace(state, delays=REAL_DELAYS)).nodes == (NodePlan(type="NC24", jobs=(("a", 1),), node=0),)


# spot

SPOT = (
    NodeType(name="NC6", gpu="K80", gpus=1, usd_per_hour=0.56),
    NodeType(name="NC6 spot", gpu="K80", gpus=1, usd_per_hour=0.2, reclaims_per_hour=0.2),
)


def test_job_with_slack_runs_on_spot() -> None:
    job = make_job(types=SPOT, hours=5, deadline_seconds=50 * 3600)
    state = make_state([job], make_fleet(1, SPOT), delays=REAL_DELAYS)
    assert slot_of(trainfare(state), "j1") == ("NC6 spot", 1)


def test_job_without_slack_runs_on_demand() -> None:
    job = make_job(types=SPOT, hours=5, deadline_seconds=5.05 * 3600, late_usd_per_second=0.1)
    state = make_state([job], make_fleet(1, SPOT), delays=replace(REAL_DELAYS, checkpoint_every_seconds=7200))
    assert slot_of(trainfare(state), "j1") == ("NC6", 1)


# a machine that the user owns, next to rented ones

OWN = (*K80, NodeType(name="own", gpu="K80", gpus=2, usd_per_hour=0.1, max_nodes=1))


def job_for_own(name: str, *, deadline_hours: float = math.inf, submitted_seconds: float = 0) -> Job:
    return make_job(
        name,
        types=OWN,
        hours=3,
        submitted_seconds=submitted_seconds,
        deadline_seconds=deadline_hours * 3600,
        late_usd_per_second=0.005 if deadline_hours < math.inf else 0.0,
    )


def with_own(jobs: Sequence[Job]) -> Instance:
    return Instance(types=OWN, slots=single_node_slots(OWN), jobs=tuple(jobs))


@pytest.mark.parametrize("delays", [Delays(), REAL_DELAYS], ids=["no delays", "delays"])
@pytest.mark.parametrize("deadline_hours", [48, math.inf], ids=["slack", "no deadline"])
def test_jobs_with_slack_wait_for_the_owned_machine(delays: Delays, deadline_hours: float) -> None:
    """Six jobs fill it for nine hours at $0.1 an hour; renting for one of them costs $1.68."""
    instance = with_own([job_for_own(f"j{n}", deadline_hours=deadline_hours) for n in range(6)])
    done = simulated_outcome(instance, trainfare, nodes=4, delays=delays)
    assert done.late_jobs == 0
    assert done.total_usd < 1.05 * 0.1 * 9


def test_nodes_are_rented_for_jobs_that_would_be_late_on_the_owned_machine() -> None:
    """Six jobs prefer it for three hours, and two fit."""
    instance = with_own([job_for_own(f"j{n}", deadline_hours=3.2) for n in range(6)])
    done = simulated_outcome(instance, trainfare, nodes=6)
    assert done.late_jobs == 0
    assert done.total_usd < 1.05 * (0.3 + 4 * 3 * 0.56)


def test_job_without_deadline_yields_the_owned_machine_and_is_finished_in_the_end() -> None:
    """It waits although other jobs keep the machine busy for a day; nothing is rented."""
    stream = [job_for_own(f"s{n}", deadline_hours=1.5 * n + 12, submitted_seconds=1.5 * 3600 * n) for n in range(16)]
    instance = with_own([job_for_own("idle"), *stream])
    done = simulated_outcome(instance, trainfare, nodes=3)
    assert done.jobs == 17
    assert done.late_jobs == 0


@pytest.mark.parametrize(
    ("quota", "deadline_hours", "rented"),
    [(1, 9.1, True), (1, 90, False), (2, 8.9, True), (8, 9.1, False), (1, math.inf, False)],
    ids=["no time", "time", "hardly time", "large quota", "no deadline"],
)
def test_job_does_not_wait_if_its_quota_leaves_no_time(quota: int, deadline_hours: float, rented: bool) -> None:
    """Three jobs of three GPU hours each; according to the look-ahead running one now gains nothing."""
    jobs = [replace(job_for_own(f"a{n}", deadline_hours=deadline_hours), user="ann") for n in range(3)]
    state = make_state(jobs, make_fleet(3, OWN, quotas=(("ann", quota),)))
    left, available = remaining_seconds(state), available_slots(state)
    plan = candidate_plan(state, available, [NodePlan(type="NC6", jobs=(("a0", 1),))])
    costs = DecisionCosts(job_usd=np.ones(left.shape), wait_usd=np.ones(3), node_usd=np.ones(len(OWN)))
    assert bool(drop_unprofitable_nodes(state, left, plan, costs, packed=0)) == rented


def test_job_submitted_long_ago_runs_at_any_cost() -> None:
    """Three jobs prefer the two GPUs of the owned machine: one waits for it, but not for ever."""
    fleet, days = make_fleet(3, OWN), 4 * 24 * 3600.0
    fresh = make_state([job_for_own(f"j{n}", submitted_seconds=days) for n in range(3)], fleet, now_seconds=days)
    old = make_state([job_for_own(f"j{n}") for n in range(3)], fleet, now_seconds=days)
    assert [plan.type for plan in trainfare(fresh).nodes] == ["own"]
    assert sum(len(plan.jobs) for plan in trainfare(old).nodes) == 3


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_every_decision_with_limited_types_can_be_carried_out_and_runs_a_job(seed: int) -> None:
    state = random_state(seed)
    few = tuple(replace(each, max_nodes=1) if number % 2 else each for number, each in enumerate(state.fleet.types))
    waiting = tuple(replace(each, nodes=(), gpus=0) for each in state.jobs)
    state = replace(state, fleet=replace(state.fleet, types=few), nodes=(), jobs=waiting)
    decision = trainfare(state)
    assert decision_violations(state, decision) == ()
    assert not state.jobs or decision.nodes


# complete queues


def test_cheaper_than_greedy_near_full_load() -> None:
    instance = generate(QueueSetting(nodes=4, jobs=16, load=1.0), 0)
    assert (
        simulated_outcome(instance, trainfare, nodes=4).total_usd
        < simulated_outcome(instance, greedy, nodes=4).total_usd
    )


def test_cheaper_than_greedy_with_delays_and_fewer_migrations() -> None:
    instance = generate(QueueSetting(nodes=4, jobs=16, load=0.6), 0)
    ours = simulated_outcome(instance, trainfare, nodes=4, delays=REAL_DELAYS)
    theirs = simulated_outcome(instance, greedy, nodes=4, delays=REAL_DELAYS)
    assert ours.total_usd < theirs.total_usd
    assert ours.migrations < theirs.migrations


def test_cheaper_than_greedy_with_a_prediction_error_of_a_fifth() -> None:
    instance = generate(QueueSetting(nodes=4, jobs=16, load=0.8, log_error=0.2), 0)
    assert (
        simulated_outcome(instance, trainfare, nodes=4).total_usd
        < simulated_outcome(instance, greedy, nodes=4).total_usd
    )


@pytest.mark.parametrize("name", ["10-100-1-high", "10-100-0-low"])
def test_published_queue_costs_less_than_reported_and_is_near_the_bound(name: str) -> None:
    reported = published_costs()
    instance = published(name)
    ours = simulated_outcome(instance, trainfare, nodes=NODES).total_usd
    assert ours < float(reported[name, "Greedy"][-1])
    assert ours < float(reported[name, "PathRelinking"][-1])
    assert ours < 1.01 * lower_bound(instance, NODES).usd


def test_thousand_nodes_are_packed_within_one_percent_of_the_bound() -> None:
    instance = generate(QueueSetting(nodes=1000, jobs=2000), 0)
    done = np.random.default_rng(0).choice([0, 0.3, 0.6], len(instance.jobs)).tolist()
    jobs = [QueuedJob(job=job, done=part, expected_done=part) for job, part in zip(instance.jobs, done, strict=True)]
    state = make_state(jobs, instance.fleet(1000), now_seconds=instance.jobs[-1].submitted_seconds)
    decision = trainfare(state)
    assert decision.usd is not None
    assert decision.bound_usd is not None
    assert decision_violations(state, decision) == ()
    assert decision.usd <= 1.01 * decision.bound_usd


def test_greedy_decides_if_the_solver_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise SolverError("no solution")

    monkeypatch.setattr("trainfare.scheduler.policies.trainfare.pack", fails)
    state = make_state([make_job("a"), make_job("b")])
    assert trainfare(state).nodes == greedy(state).nodes
    assert trainfare(state).bound_usd is None
