"""Queues that nobody would make on purpose: who is left out goes with a sentence, and the others are scheduled."""

import math
from dataclasses import replace

import pytest

from tests.scheduler.makers import K80, make_job, random_instance
from trainfare.app.queue.simulate import bound_queue, compare_policies, generate_instance, simulate_queue
from trainfare.errors import InfeasibleError, UsageError
from trainfare.model.queue import Decision, Instance, NodePlan, Slot, State, single_node_slots
from trainfare.scheduler.legal import schedule_violations
from trainfare.scheduler.policies.first_principles import fifo

WHOLE = (*single_node_slots(K80), Slot("NC24", 4, 3))


def queue(*jobs: object, **changes: object) -> Instance:
    made = Instance(types=K80, slots=single_node_slots(K80), jobs=(make_job("good"), *jobs))  # type: ignore[arg-type] # wrong fields are what is tried
    return replace(made, **changes)  # type: ignore[arg-type] # wrong fields are what is tried


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(make_job("bad"), seconds=(1e300,) * 7), "it takes 1e+300 s"),
        (replace(make_job("bad"), seconds=(1e-9,) * 7), "it takes 1e-09 s"),
        (make_job("bad", submitted_seconds=1e12), "it is submitted after 1e+12 s"),
        (make_job("bad", deadline_seconds=-1e300), "its deadline is -1e+300 s"),
        (make_job("bad", late_usd_per_second=1e300), "a second late costs 1e+300 $"),
        (make_job("bad", log_error=1e3), "its log_error is 1000"),
    ],
    ids=["endless", "instant", "submitted", "deadline", "weight", "error"],
)
def test_numbers_that_no_reckoning_bears_leave_their_job_out(bad: object, words: str) -> None:
    found = simulate_queue(queue(bad), nodes=2, policy="greedy")
    assert [name for name, _ in found.schedule.ended_seconds] == ["good"]
    assert found.left_out[0].startswith(f"job bad is left out: {words}")


def test_a_job_that_no_node_can_take_is_left_out_and_the_others_go_on() -> None:
    gang = replace(make_job("gang"), seconds=(*(math.inf for _ in single_node_slots(K80)), 3600.0))
    good = replace(make_job("good"), seconds=(*make_job().seconds, 900.0))
    found = simulate_queue(queue(jobs=(gang, good), slots=WHOLE), nodes=2, policy="greedy")
    assert [name for name, _ in found.schedule.ended_seconds] == ["good"]
    assert "job gang is left out: it can never run" in found.left_out[0]
    assert simulate_queue(queue(jobs=(gang, good), slots=WHOLE), nodes=3, policy="greedy").left_out == ()
    poor = simulate_queue(queue(make_job("poor", user="ann"), quotas=(("ann", 0),)), nodes=1, policy="fifo")
    assert "the quota of 0 GPUs that ann has" in poor.left_out[0]
    assert bound_queue(queue(make_job("poor", user="ann"), quotas=(("ann", 0),)), nodes=1).jobs == 1


def test_true_times_go_with_their_jobs_when_one_is_left_out() -> None:
    bad = make_job("bad", submitted_seconds=0.0, late_usd_per_second=1e300)
    made = queue(bad, true_seconds=((7200.0,) * 7, (60.0,) * 7))
    assert simulate_queue(made, nodes=1, policy="fifo").schedule.true_seconds == ((7200.0,) * 7,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"usd_per_hour": 1e300}, r"NC6 costs 1e\+300 \$ an hour"),
        ({"gpus": 10**9}, r"NC6 has 1e\+09 GPUs"),
        ({"reclaims_per_hour": 1e9}, r"NC6 is taken back 1e\+09 times an hour"),
    ],
    ids=["price", "gpus", "reclaims"],
)
def test_machines_that_cannot_be_are_an_error(changes: dict[str, float], words: str) -> None:
    kind = replace(K80[0], **changes)  # type: ignore[arg-type] # wrong fields are what is tried
    job = replace(make_job(), seconds=(60.0,))
    with pytest.raises(UsageError, match=words):
        simulate_queue(Instance(types=(kind,), slots=(Slot(kind.name, 1),), jobs=(job,)), nodes=1, policy="fifo")


def test_a_gang_of_more_nodes_than_there_are_anywhere_is_an_error() -> None:
    job = replace(make_job(), seconds=(60.0, 6.0))
    slots = (Slot("NC6", 1), Slot("NC6", 1, 10**30))
    with pytest.raises(UsageError, match="a gang of"):
        simulate_queue(Instance(types=K80[:1], slots=slots, jobs=(job,)), nodes=1, policy="fifo")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"nodes": 10**9}, "more than can be planned"),
        ({"seed": -1}, "--seed is 0 or more"),
        ({"error": math.nan}, "--error must be a number"),
        ({"error": 50.0}, "--error must be a number"),
        ({"tick_seconds": math.nan}, "leave --tick out"),
        ({"tick_seconds": 1e-6}, "asks the policy more than 1e+06 times"),
        ({"mode": "real", "boot_seconds": 1e300}, "longer than can be reckoned with"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(f"{k}{v}" for k, v in value.items()),
)
def test_circumstances_that_cannot_be_are_said(asked: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        simulate_queue(queue(), **({"nodes": 2, "policy": "fifo"} | asked))  # type: ignore[arg-type] # wrong fields are what is tried
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "asked",
    [
        {"seed": -1},
        {"error": 1e3},
        {"error": math.nan},
        {"nodes": 10**9},
        {"load": 1e-300},
        {"mean_arrival_seconds": 1e300},
        {"mean_arrival_seconds": 1e300, "arrivals": "poisson"},
        {"users": 2, "quota_gpus": 0},
    ],
    ids=str,
)
def test_no_queue_is_generated_of_such(asked: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        generate_instance(**({"nodes": 2, "jobs": 2} | asked))  # type: ignore[arg-type] # wrong fields are what is tried


def test_the_bound_stands_where_its_model_cannot_be_solved() -> None:
    jobs = tuple(make_job(f"j{i}", deadline_seconds=1000.0, late_usd_per_second=1e6) for i in range(4))
    short = tuple(
        replace(make_job(f"j{i}", submitted_seconds=1e9, deadline_seconds=1e9), seconds=(2e-3,) * 7) for i in range(4)
    )
    for made in (jobs, short):
        found = simulate_queue(queue(jobs=made), nodes=2, policy="greedy")
        assert 0 < found.bound.usd <= found.outcome.total_usd


def fails(state: State) -> Decision:
    raise ValueError("the model has no optimum")


def decides_nonsense(state: State) -> Decision:
    return Decision(nodes=(NodePlan(type="NC6", jobs=(("nobody", 1),)),))


@pytest.mark.parametrize("wrong", [fails, decides_nonsense])
def test_a_policy_that_fails_is_said_alone_and_left_out_of_a_comparison(
    monkeypatch: pytest.MonkeyPatch, wrong: object
) -> None:
    monkeypatch.setattr("trainfare.app.queue.simulate.policy_of", lambda name: fifo if name == "fifo" else wrong)
    with pytest.raises(InfeasibleError, match=r"greedy .* at 0 s.*Take another policy"):
        simulate_queue(queue(), nodes=1, policy="greedy")
    found = compare_policies(queue(), nodes=1, policies=["greedy", "fifo"])
    assert [each.outcome.policy for each in found.simulated] == ["fifo"]
    assert found.skipped[0][0] == "greedy"
    with pytest.raises(InfeasibleError, match="no policy works this queue off"):
        compare_policies(queue(), nodes=1, policies=["greedy"])


@pytest.mark.parametrize("policy", ["fifo", "greedy", "patterns", "trainfare"])
@pytest.mark.parametrize("mode", ["paper", "real"])
def test_ties_of_all_kinds_are_scheduled_legally(policy: str, mode: str) -> None:
    twins = (*K80, *(replace(each, name=f"{each.name} twin") for each in K80))
    slots = single_node_slots(twins)
    jobs = tuple(
        replace(make_job(f"j {i}", deadline_seconds=0.0, late_usd_per_second=0.0), seconds=(60.0,) * len(slots))
        for i in range(5)
    )
    found = simulate_queue(Instance(types=twins, slots=slots, jobs=jobs), nodes=2, policy=policy, mode=mode)  # type: ignore[arg-type] # wrong fields are what is tried
    assert schedule_violations(found.schedule) == ()
    assert len(found.schedule.ended_seconds) == 5


def test_what_is_generated_is_within_the_limits() -> None:
    made = random_instance(1, jobs=3)
    assert simulate_queue(made, nodes=2, policy="fifo", error=2.0).left_out == ()
