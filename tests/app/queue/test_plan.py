"""Plans of the stored queue."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.app.queue_makers import A10G, HOUR, T4, T4X4, store, store_submission, t4_profile
from trainfare.app.queue import plan as plan_module
from trainfare.app.queue.plan import plan_queue as plan_stored_queue
from trainfare.app.queue.question import QueueQuestion
from trainfare.errors import InfeasibleError, NotFoundError
from trainfare.model.queue import Decision, State
from trainfare.scheduler.legal import decision_violations, schedule_violations
from trainfare.scheduler.policies.first_principles import fifo
from trainfare.scheduler.queue_plan import LAST_DATE, PlannedJob, QueuePlan, initial_state, moment_at
from trainfare.settings import read_settings
from trainfare.views.queue import deadline_margin


def plan_queue(**question: Any) -> QueuePlan:
    return plan_stored_queue(QueueQuestion(**question))


def wait_code(planned: PlannedJob) -> str | None:
    return None if planned.waits_because is None else planned.waits_because.code


def test_plan_has_running_and_waiting_jobs_and_their_cost() -> None:
    store(t4_profile())
    store_submission("s1", ago=2 * HOUR)
    store_submission("s2", ago=HOUR)
    plan = plan_queue(machines=[T4], nodes=1, policy="fifo")
    first, second = plan.jobs
    assert (first.node, first.waits_because) == (0, None)
    assert second.node is None
    assert wait_code(second) == "all_nodes_used"
    assert first.begins_at == plan.made_at
    assert second.begins_at == pytest.approx(first.ends_at, abs=timedelta(seconds=1))
    assert plan.schedule is not None
    assert schedule_violations(plan.schedule) == ()
    assert plan.outcome is not None
    assert plan.bound_usd is not None
    assert plan.outcome.total_usd >= plan.bound_usd > 0
    hours = (second.ends_at - plan.made_at) / HOUR
    assert plan.outcome.total_usd == pytest.approx(hours * plan.table.offers[T4].usd_per_hour, rel=0.05)


@pytest.mark.parametrize("policy", ["edf", "greedy", "trainfare"])
def test_plan_is_legal_and_agrees_with_its_decision(policy: str) -> None:
    store(t4_profile())
    for number in range(5):
        store_submission(
            f"s{number}", most_gpus=2, within=(2 + number) * HOUR, epochs=100 + 50 * number, user=f"u{number % 2}"
        )
    plan = plan_queue(machines=[T4X4, A10G], nodes=2, policy=policy, quotas=[("u0", 2)], spot=policy == "greedy")
    assert plan.schedule is not None
    assert plan.table.instance is not None
    assert schedule_violations(plan.schedule) == ()
    assert decision_violations(initial_state(plan.table, plan.table.instance, nodes=2), plan.decision) == ()
    running = {name: gpus for node in plan.decision.nodes for name, gpus in node.jobs}
    assert running
    assert {each.submission.id: each.slot.gpus for each in plan.jobs if each.node is not None} == running
    for each in plan.jobs:
        assert (each.waits_because is None) == (each.node is not None)
        assert each.begins_at <= each.ends_at
        assert (each.node is not None) <= (each.begins_at == plan.made_at)


def test_late_job_has_its_cost_of_lateness() -> None:
    store(t4_profile())
    store_submission("s1", within=HOUR / 2)
    plan = plan_queue(machines=[T4], policy="fifo")
    (planned,) = plan.jobs
    assert planned.in_time is False
    assert planned.late_usd == pytest.approx(planned.late_seconds / 3600 * 30)
    assert plan.outcome is not None
    assert plan.outcome.tardiness_usd == pytest.approx(planned.late_usd)
    assert planned.on_time_probability is not None
    assert planned.on_time_probability < 0.05
    assert (deadline_margin(planned) or "").endswith("late")


def test_probability_is_one_for_a_distant_deadline_and_a_half_for_one_that_just_fits() -> None:
    store(t4_profile())
    store_submission("far", within=1000 * HOUR)
    store_submission("none", within=None)
    far, none = plan_queue(machines=[A10G], policy="fifo").jobs
    assert far.on_time_probability == pytest.approx(1.0, abs=1e-3)
    assert (none.on_time_probability, none.in_time, deadline_margin(none)) == (None, None, None)
    store_submission("just", within=far.ends_at - datetime.now(UTC))
    assert plan_queue(machines=[A10G], policy="fifo").jobs[-1].on_time_probability == pytest.approx(0.5, abs=0.05)


def test_job_waits_if_the_quota_is_used() -> None:
    store(t4_profile())
    store_submission("s1", user="alice")
    store_submission("s2", user="alice")
    plan = plan_queue(machines=[T4], policy="fifo", quotas=[("alice", 1)])
    waits = plan.jobs[1].waits_because
    assert waits is not None
    assert (waits.code, waits.values) == ("quota_used", {"user": "alice", "gpus": 1})


def test_jobs_that_the_policy_holds_back_wait_and_run_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs, so nothing ends: the policy still decides again at ticks."""

    def later(state: State) -> Decision:
        return fifo(state) if state.now_seconds >= 2 * 3600 else Decision(nodes=())

    monkeypatch.setattr(plan_module, "load_policy", lambda _name: later)
    store(t4_profile())
    store_submission("time", ago=HOUR)
    store_submission("none", within=None)
    store_submission("soon", within=HOUR)
    plan = plan_queue(machines=[T4], policy="greedy")
    codes = {planned.submission.id: wait_code(planned) for planned in plan.jobs}
    assert codes == {"time": "held_back", "none": "held_back_without_deadline", "soon": "held_back_late"}
    assert all(planned.begins_at > plan.made_at for planned in plan.jobs)


def test_job_waits_if_every_owned_machine_is_used() -> None:
    machines = Path(read_settings().machines)
    machines.parent.mkdir(parents=True, exist_ok=True)
    machines.write_text('[bench]\nusd_per_hour = 0.1\ngpu = "T4"\ngpus = 1\nvcpus = 8\nmemory_gib = 32\n')
    store(t4_profile())
    store_submission("s1")
    store_submission("s2")
    plan = plan_queue(machines=["own/bench"], policy="greedy")
    assert sorted(str(wait_code(planned)) for planned in plan.jobs) == ["None", "all_machines_used"]


def test_default_number_of_nodes_is_the_number_of_jobs() -> None:
    store(t4_profile())
    for number in range(3):
        store_submission(f"s{number}")
    plan = plan_queue(machines=[T4], policy="fifo")
    assert plan.nodes == 3
    assert all(planned.node is not None for planned in plan.jobs)


def test_policy_sees_true_arrivals_in_the_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[State] = []

    def recording_fifo(state: State) -> Decision:
        states.append(state)
        return fifo(state)

    monkeypatch.setattr(plan_module, "load_policy", lambda _name: recording_fifo)
    store(t4_profile())
    store_submission("s1", ago=10 * HOUR)
    store_submission("s2", ago=4 * HOUR)
    plan_queue(machines=[T4], nodes=1, policy="greedy")
    assert [state.now_seconds for state in states] == sorted(state.now_seconds for state in states)
    assert states[0].now_seconds == pytest.approx(10 * 3600, abs=60)
    for state in states:
        assert state.arrivals.jobs == 2
        assert state.arrivals.last_seconds == pytest.approx(6 * 3600, abs=60)


def test_empty_queue_gives_an_empty_plan() -> None:
    plan = plan_queue()
    assert (plan.jobs, plan.unplanned, plan.schedule, plan.outcome, plan.gap) == ((), (), None, None, None)
    assert plan.decision.nodes == ()


def test_unknown_policy_error_names_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="Did you mean greedy"):
        plan_queue(policy="gredy")


def test_jobs_beyond_the_limits_are_unplanned_and_the_rest_is_planned() -> None:
    store(t4_profile())
    store_submission("long", epochs=10**12)
    store_submission("expensive", late_usd_per_hour=1e300)
    store_submission("good")
    plan = plan_queue(machines=[T4], policy="fifo")
    assert [planned.submission.id for planned in plan.jobs] == ["good"]
    reasons = {unplanned.submission.id: unplanned.reason for unplanned in plan.unplanned}
    assert (reasons["long"].code, reasons["long"].values) == ("takes_too_long", {"epochs": 10**12})
    assert "an hour of lateness costs $1e+300" in str(reasons["expensive"].values["message"])


def test_moment_beyond_the_calendar_is_its_end() -> None:
    now = datetime.now(UTC)
    assert moment_at(now, 60) - now == timedelta(seconds=60)
    for seconds in (3e11, 1e15, 1e300):
        assert moment_at(now, seconds) == LAST_DATE


def test_failing_policy_is_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(state: State) -> Decision:
        raise ValueError("the model has no optimum")

    monkeypatch.setattr(plan_module, "load_policy", lambda _name: fails)
    store(t4_profile())
    store_submission("s1")
    with pytest.raises(InfeasibleError, match=r"greedy cannot decide .*: the model has no optimum\. Use another"):
        plan_queue(machines=[T4], policy="greedy")
