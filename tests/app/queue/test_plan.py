"""What to do with the queue now, and what is expected to come of it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.app.queue_makers import A10G, HOUR, T4, T4X4, keep, on_a_t4, submitted
from trainfare.app.queue import plan as queue_plan
from trainfare.app.queue.plan import plan_queue, state_now, time_left
from trainfare.errors import InfeasibleError, NotFoundError
from trainfare.model.queue import Decision, State
from trainfare.scheduler.legal import decision_violations, schedule_violations
from trainfare.scheduler.policies.first_principles import fifo
from trainfare.settings import read_settings


def test_a_plan_says_what_runs_what_waits_and_what_it_costs() -> None:
    keep(on_a_t4())
    submitted("s1", ago=2 * HOUR)
    submitted("s2", ago=HOUR)
    plan = plan_queue(machines=[T4], nodes=1, policy="fifo")
    first, second = plan.jobs
    assert (first.node, first.waits_because) == (0, None)
    assert (second.node, second.waits_because) == (None, "the only node is taken")
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
def test_every_plan_is_legal_and_what_runs_now_is_what_was_decided(policy: str) -> None:
    keep(on_a_t4())
    for number in range(5):
        submitted(
            f"s{number}", most_gpus=2, within=(2 + number) * HOUR, epochs=100 + 50 * number, user=f"u{number % 2}"
        )
    plan = plan_queue(machines=[T4X4, A10G], nodes=2, policy=policy, quotas=[("u0", 2)], spot=policy == "greedy")
    assert plan.schedule is not None
    assert plan.table.instance is not None
    assert schedule_violations(plan.schedule) == ()
    assert decision_violations(state_now(plan.table, plan.table.instance, nodes=2), plan.decision) == ()
    running = {name: gpus for node in plan.decision.nodes for name, gpus in node.jobs}
    assert running
    assert {each.training.submission.id: each.slot.gpus for each in plan.jobs if each.node is not None} == running
    for each in plan.jobs:
        assert (each.waits_because is None) == (each.node is not None)
        assert each.begins_at <= each.ends_at
        assert (each.node is not None) <= (each.begins_at == plan.made_at)


def test_late_jobs_are_told_with_what_it_costs() -> None:
    keep(on_a_t4())
    submitted("s1", within=HOUR / 2)
    plan = plan_queue(machines=[T4], policy="fifo")
    (planned,) = plan.jobs
    assert planned.in_time is False
    assert planned.late_usd == pytest.approx(planned.late_seconds / 3600 * 30)
    assert plan.outcome is not None
    assert plan.outcome.tardiness_usd == pytest.approx(planned.late_usd)
    assert planned.chance is not None
    assert planned.chance < 0.05
    assert (time_left(planned) or "").endswith("late")


def test_a_deadline_far_off_is_surely_kept_and_one_that_just_fits_as_likely_as_not() -> None:
    keep(on_a_t4())
    submitted("far", within=1000 * HOUR)
    submitted("none", within=None)
    far, none = plan_queue(machines=[A10G], policy="fifo").jobs
    assert far.chance == pytest.approx(1.0, abs=1e-3)
    assert (none.chance, none.in_time, time_left(none)) == (None, None, None)
    submitted("just", within=far.ends_at - datetime.now(UTC))
    assert plan_queue(machines=[A10G], policy="fifo").jobs[-1].chance == pytest.approx(0.5, abs=0.05)


def test_a_quota_makes_jobs_wait_and_says_whose() -> None:
    keep(on_a_t4())
    submitted("s1", user="alice")
    submitted("s2", user="alice")
    plan = plan_queue(machines=[T4], policy="fifo", quotas=[("alice", 1)])
    assert plan.jobs[1].waits_because == "alice has all of the 1 GPU that alice may have"


def test_what_a_policy_holds_back_waits_without_end_to_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs, so nothing ends: the policy is asked again all the same."""

    def later(state: State) -> Decision:
        return fifo(state) if state.now_seconds >= 2 * 3600 else Decision(nodes=())

    monkeypatch.setattr(queue_plan, "policy_of", lambda _name: later)
    keep(on_a_t4())
    submitted("time", ago=HOUR)
    submitted("none", within=None)
    submitted("soon", within=HOUR)
    plan = plan_queue(machines=[T4], policy="later")
    whys = {planned.training.submission.id: planned.waits_because for planned in plan.jobs}
    assert whys == {
        "time": "the policy holds it back: it has time",
        "none": "the policy holds it back: it has no deadline",
        "soon": "the policy holds it back, though it will be late",
    }
    assert all(planned.begins_at > plan.made_at for planned in plan.jobs)


def test_where_every_machine_is_yours_and_taken_that_is_said() -> None:
    machines = Path(read_settings().machines)
    machines.parent.mkdir(parents=True, exist_ok=True)
    machines.write_text('[bench]\nusd_per_hour = 0.1\ngpu = "T4"\ngpus = 1\nvcpus = 8\nmemory_gib = 32\n')
    keep(on_a_t4())
    submitted("s1")
    submitted("s2")
    plan = plan_queue(machines=["own/bench"], policy="greedy")
    assert sorted(str(planned.waits_because) for planned in plan.jobs) == ["None", "every machine is taken"]


def test_unless_told_there_are_as_many_nodes_as_jobs() -> None:
    keep(on_a_t4())
    for number in range(3):
        submitted(f"s{number}")
    plan = plan_queue(machines=[T4], policy="fifo")
    assert plan.nodes == 3
    assert all(planned.node is not None for planned in plan.jobs)


def test_a_policy_sees_when_jobs_came_and_never_that_it_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[State] = []

    def spy(state: State) -> Decision:
        seen.append(state)
        return fifo(state)

    monkeypatch.setattr(queue_plan, "policy_of", lambda _name: spy)
    keep(on_a_t4())
    submitted("s1", ago=10 * HOUR)
    submitted("s2", ago=4 * HOUR)
    plan_queue(machines=[T4], nodes=1, policy="spy")
    assert [state.now_seconds for state in seen] == sorted(state.now_seconds for state in seen)
    assert seen[0].now_seconds == pytest.approx(10 * 3600, abs=60)
    for state in seen:
        assert state.arrivals.jobs == 2
        assert state.arrivals.last_seconds == pytest.approx(6 * 3600, abs=60)


def test_an_empty_queue_is_an_empty_plan() -> None:
    plan = plan_queue()
    assert (plan.jobs, plan.unplanned, plan.schedule, plan.outcome, plan.gap) == ((), (), None, None, None)
    assert plan.decision.nodes == ()


def test_an_unknown_policy_is_named_with_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="Did you mean greedy"):
        plan_queue(policy="gredy")


def test_what_nobody_would_wait_for_is_left_out_and_the_rest_is_planned() -> None:
    keep(on_a_t4())
    submitted("long", epochs=10**12)
    submitted("dear", late_usd_per_hour=1e300)
    submitted("good")
    plan = plan_queue(machines=[T4], policy="fifo")
    assert [planned.training.submission.id for planned in plan.jobs] == ["good"]
    whys = {left.submission.id: left.why for left in plan.unplanned}
    assert "more than ten years for 1 000 000 000 000 epochs" in whys["long"]
    assert "an hour late costs 1e+300 $" in whys["dear"]


def test_a_moment_beyond_all_calendars_is_at_their_end() -> None:
    now = datetime.now(UTC)
    assert queue_plan._moment(now, 60) - now == timedelta(seconds=60)
    for seconds in (3e11, 1e15, 1e300):
        assert queue_plan._moment(now, seconds) == queue_plan.FARTHEST


def test_a_policy_that_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(state: State) -> Decision:
        raise ValueError("the model has no optimum")

    monkeypatch.setattr(queue_plan, "policy_of", lambda _name: fails)
    keep(on_a_t4())
    submitted("s1")
    with pytest.raises(InfeasibleError, match=r"later cannot decide .*: the model has no optimum\. Take another"):
        plan_queue(machines=[T4], policy="later")
