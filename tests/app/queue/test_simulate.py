"""A queue from its folder to what it comes to, for one policy and for several."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.figures.reading import title, views
from tests.scheduler.makers import K80, make_job, random_instance
from trainfare.app.queue.schedule_records import compared_record, simulated_record
from trainfare.app.queue.simulate import (
    REAL,
    SimulationReport,
    SimulationProgress,
    bound_queue,
    compare_policies,
    generate_instance,
    simulate_queue,
)
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.measurements.instances import read_instance, write_instance
from trainfare.model.queue import Delays, Instance, Slot, single_node_slots
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.legal import schedule_violations

QUEUE = random_instance(7, jobs=6, load=4)


def instance(**changes: object) -> Instance:
    made = Instance(types=K80, slots=single_node_slots(K80), jobs=(make_job("j1"), make_job("j2")))
    return replace(made, **changes)  # type: ignore[arg-type] # fields by name, wrong ones too


def test_a_folder_and_the_instance_in_it_come_to_the_same(tmp_path: Path) -> None:
    write_instance(tmp_path, QUEUE)
    of_folder = simulate_queue(tmp_path, nodes=2, policy="greedy")
    assert of_folder.outcome.total_usd == simulate_queue(QUEUE, nodes=2, policy="greedy").outcome.total_usd
    assert simulate_queue(str(tmp_path), nodes=2, policy="greedy").left_out == ()


def test_the_outcome_is_that_of_the_schedule_which_is_legal_and_above_the_bound() -> None:
    found = simulate_queue(QUEUE, nodes=2, policy="greedy")
    assert schedule_violations(found.schedule) == ()
    assert replace(evaluate(found.schedule), decision_p50_seconds=0) == replace(found.outcome, decision_p50_seconds=0)
    assert found.gap is not None
    assert found.gap >= 0
    assert found.outcome.decision_p99_seconds > 0


def test_ours_decides_when_no_policy_is_named() -> None:
    assert simulate_queue(random_instance(3, jobs=2), nodes=1).outcome.policy == "trainfare"


def test_paper_mode_has_no_delays_and_real_mode_has_those_that_are_not_stated() -> None:
    assert simulate_queue(QUEUE, nodes=2, policy="fifo").schedule.delays == Delays()
    assert simulate_queue(QUEUE, nodes=2, policy="fifo", mode="real").schedule.delays == REAL
    mine = simulate_queue(QUEUE, nodes=2, policy="fifo", mode="real", boot_seconds=600).schedule.delays
    assert mine == replace(REAL, boot_seconds=600)


def test_boots_cost_money() -> None:
    paper = simulate_queue(QUEUE, nodes=2, policy="fifo").outcome
    real = simulate_queue(QUEUE, nodes=2, policy="fifo", mode="real").outcome
    assert real.rental_usd > paper.rental_usd


def test_with_an_error_jobs_truly_take_another_time_by_the_seed() -> None:
    exact, one, same, other = (
        simulate_queue(QUEUE, nodes=2, policy="greedy", error=error, seed=seed)
        for error, seed in ((None, 1), (0.3, 1), (0.3, 1), (0.3, 2))
    )
    assert exact.schedule.true_seconds == tuple(job.seconds for job in QUEUE.jobs)
    assert one.schedule.true_seconds == same.schedule.true_seconds != other.schedule.true_seconds
    assert {job.log_error for job in one.schedule.jobs} == {0.3}
    factors = {
        round(true / job.seconds[0], 9) for job, (true, *_) in zip(QUEUE.jobs, one.schedule.true_seconds, strict=True)
    }
    assert len(factors) == len(QUEUE.jobs)


def test_one_watches_how_far_it_is() -> None:
    seen: list[SimulationProgress] = []
    simulate_queue(QUEUE, nodes=2, policy="greedy", watch=seen.append)
    assert seen[0].ended == 0
    assert all(each.waiting + each.running + each.ended <= each.jobs == 6 for each in seen)
    assert [each.ended for each in seen] == sorted(each.ended for each in seen)


def test_a_tick_asks_the_policy_more_often() -> None:
    with_ticks = simulate_queue(QUEUE, nodes=2, policy="greedy", tick_seconds=300)
    assert with_ticks.outcome.decisions > simulate_queue(QUEUE, nodes=2, policy="greedy").outcome.decisions


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"nodes": 0}, "give --nodes 1 or more"),
        ({"policy": "gredy"}, "Did you mean greedy"),
        ({"mode": "reel"}, "Did you mean real"),
        ({"boot_seconds": 60.0, "restart_seconds": 1.0}, "--boot, --restart needs --mode real"),
        ({"mode": "real", "boot_seconds": -1.0}, "boot_seconds"),
        ({"tick_seconds": 0.0}, "leave --tick out"),
        ({"error": -0.2}, "--error must be a number such as 0.2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_what_is_asked_wrongly_is_said_with_what_to_do(asked: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        simulate_queue(QUEUE, **({"nodes": 2, "policy": "fifo"} | asked))  # type: ignore[arg-type] # fields by name, wrong ones too
    assert words in str(caught.value)


def test_a_queue_without_jobs_is_said() -> None:
    with pytest.raises(UsageError, match="no jobs in this queue"):
        simulate_queue(instance(jobs=()), nodes=1, policy="fifo")


def test_a_job_that_can_never_run_is_named_before_anything_is_simulated() -> None:
    alone = tuple(math.inf for _ in single_node_slots(K80))
    gang = replace(make_job("gang"), seconds=(*alone, 3600.0))
    queue = instance(slots=(*single_node_slots(K80), Slot("NC24", 4, 3)), jobs=(gang,))
    with pytest.raises(InfeasibleError, match=r"job gang is left out: it can never run, .* with 2 nodes"):
        simulate_queue(queue, nodes=2, policy="greedy")
    mine = instance(jobs=(make_job("mine", user="ann"),), quotas=(("ann", 0),))
    with pytest.raises(InfeasibleError, match="quota of 0 GPUs that ann has"):
        simulate_queue(mine, nodes=2, policy="greedy")
    none = tuple(replace(each, max_nodes=0) for each in K80)
    with pytest.raises(InfeasibleError, match="job j1 is left out: it can never run"):
        bound_queue(instance(types=none), nodes=2)


def test_jobs_that_lose_their_nodes_for_ever_are_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainfare.scheduler.simulation.simulate.IN_VAIN", 50)
    spot = tuple(replace(each, reclaims_per_hour=1000.0) for each in K80)
    with pytest.raises(InfeasibleError, match="--checkpoint-every"):
        simulate_queue(instance(types=spot), nodes=2, policy="fifo")


def test_policies_are_compared_cheapest_first_and_each_is_told_at_once() -> None:
    told: list[SimulationReport] = []
    found = compare_policies(QUEUE, nodes=2, policies=["fifo", "greedy", "FIFO", "edf"], on_finished=told.append)
    totals = [each.outcome.total_usd for each in found.simulated]
    assert [each.outcome.policy for each in told] == ["fifo", "greedy", "edf"]
    assert totals == sorted(totals)
    assert len({each.bound.usd for each in found.simulated}) == 1


def test_a_typo_among_policies_is_found_before_the_first_one_runs() -> None:
    told: list[SimulationReport] = []
    with pytest.raises(NotFoundError, match="Did you mean edf"):
        compare_policies(QUEUE, nodes=2, policies=["fifo", "edff"], on_finished=told.append)
    assert told == []


def test_the_largest_model_is_left_out_of_large_fleets_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainfare.app.queue.simulate.POLICIES", {"fifo": "first_principles", "per_node": "per_node"})
    small = compare_policies(random_instance(3, jobs=1), nodes=2)
    large = compare_policies(random_instance(3, jobs=1), nodes=9)
    assert {each.outcome.policy for each in small.simulated} == {"fifo", "per_node"}
    assert [each.outcome.policy for each in large.simulated] == ["fifo"]
    assert large.skipped[0][0] == "per_node"
    assert "beyond 8 nodes" in large.skipped[0][1]


def test_the_bound_holds_for_every_policy() -> None:
    bound = bound_queue(QUEUE, nodes=2)
    found = compare_policies(QUEUE, nodes=2, policies=["fifo", "edf", "priority", "greedy"])
    assert all(each.outcome.total_usd >= bound.bound.usd for each in found.simulated)
    assert (bound.jobs, bound.nodes) == (6, 2)


def test_a_queue_is_made_from_a_seed_and_read_back_as_it_was(tmp_path: Path) -> None:
    made = generate_instance(nodes=2, jobs=5, seed=4, error=0.2, users=2, quota_gpus=6, into=tmp_path / "new")
    assert read_instance(tmp_path / "new").instance == made
    assert generate_instance(nodes=2, jobs=5, seed=4, error=0.2, users=2, quota_gpus=6) == made
    assert generate_instance(nodes=2, jobs=5, seed=5) != generate_instance(nodes=2, jobs=5, seed=4)
    assert len(generate_instance(nodes=2).jobs) == 20


def test_spot_and_gangs_are_there_when_asked_for() -> None:
    plain = generate_instance(nodes=3, jobs=2)
    assert max(slot.nodes for slot in plain.slots) == 1
    assert max(each.reclaims_per_hour for each in plain.types) == 0
    made = generate_instance(nodes=3, jobs=2, spot=True, gangs=True)
    assert {slot.nodes for slot in made.slots} == {1, 2}  # four nodes are more than there are
    price = {each.name: each.usd_per_hour for each in made.types}
    assert price["NC24 spot"] == pytest.approx(0.4 * price["NC24"])


def test_a_queue_is_never_written_over_unasked(tmp_path: Path) -> None:
    generate_instance(nodes=2, jobs=5, into=tmp_path)
    before = (tmp_path / "jobs.csv").read_text()
    with pytest.raises(UsageError, match=r"holds jobs\.csv already.*--force"):
        generate_instance(nodes=2, jobs=5, seed=1, into=tmp_path)
    assert (tmp_path / "jobs.csv").read_text() == before
    generate_instance(nodes=2, jobs=5, seed=1, into=tmp_path, force=True)
    assert (tmp_path / "jobs.csv").read_text() != before


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"load": 1.0, "mean_arrival_seconds": 30.0}, "give one of them"),
        ({"quota_gpus": 4}, "give --users"),
        ({"jobs": 0}, "give --jobs 1 or more"),
        ({"nodes": 0}, "nodes must be positive"),
        ({"load": 0.0}, "load must be positive"),
        ({"into": __file__}, "is a file"),
        ({"into": f"{__file__}/below"}, "cannot be written"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_queue_that_cannot_be_made_is_said_with_what_to_do(asked: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        generate_instance(**({"nodes": 2} | asked))  # type: ignore[arg-type] # fields by name, wrong ones too
    assert words in str(caught.value)


@pytest.mark.parametrize("policy", ["fifo", "greedy", "trainfare"])
def test_spot_gangs_and_quotas_go_through_a_whole_simulation(policy: str) -> None:
    queue = generate_instance(nodes=3, jobs=4, spot=True, gangs=True, users=2, quota_gpus=6, error=0.2, seed=1)
    found = simulate_queue(queue, nodes=3, policy=policy, mode="real")
    assert schedule_violations(found.schedule) == ()
    assert found.outcome.total_usd >= found.bound.usd


def test_figures_are_drawn_of_one_policy_and_of_several() -> None:
    found = compare_policies(QUEUE, nodes=2, policies=["fifo", "greedy", "edf"])
    one = found.simulated[0].figure()
    assert title(one.spec).startswith(f"{found.simulated[0].outcome.policy}: ")
    assert one.narrow is not None
    best, fifo = found.simulated[0].outcome.policy, found.figure(["fifo"])
    assert [title(view).split(":")[0] for view in views(fifo.spec)[1:]] == ["fifo"]
    drawn = [title(view).split(":")[0] for view in views(found.figure().spec)[1:]]
    assert drawn == list(dict.fromkeys([best, "greedy"]))


def test_a_record_has_the_outcome_and_every_job_and_is_plain_json() -> None:
    endless = instance(jobs=(make_job("j1", deadline_seconds=math.inf), make_job("j2", deadline_seconds=60.0)))
    record = simulated_record(simulate_queue(endless, nodes=1, policy="fifo"))
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    first, second = record["jobs"]
    assert (first["job"], first["deadline_s"], first["late_s"]) == ("j1", None, 0)
    assert second["late_s"] == pytest.approx(second["ended_s"] - 60)
    assert second["late_usd"] == pytest.approx(second["late_s"] * 0.005) == pytest.approx(record["tardiness_usd"])
    assert record["total_usd"] == pytest.approx(record["rental_usd"] + record["tardiness_usd"])
    assert record["gap"] == pytest.approx(record["total_usd"] / record["lower_bound_usd"] - 1)
    assert (
        sum(
            allocation["gpus"] * (allocation["end_s"] - allocation["start_s"])
            for job in record["jobs"]
            for allocation in job["stretches"]
        )
        > 0
    )


def test_the_record_of_a_comparison_has_a_line_a_policy() -> None:
    record = compared_record(compare_policies(QUEUE, nodes=2, policies=["fifo", "greedy"]))
    assert record["best"] == record["policies"][0]["policy"]
    assert {"total_usd", "late_jobs", "decision_p99_s", "gap"} <= set(record["policies"][1])


def test_the_rent_is_the_sum_of_the_rentals_in_the_record() -> None:
    found = simulate_queue(QUEUE, nodes=2, policy="greedy", mode="real")
    record = simulated_record(found)
    price = {each.name: each.usd_per_hour for each in QUEUE.types}
    by_hand = sum((each["end_s"] - each["start_s"]) * price[each["vm_type"]] / 3600 for each in record["rentals"])
    assert by_hand == pytest.approx(record["rental_usd"]) == pytest.approx(sum(r["usd"] for r in record["rentals"]))
    assert all(each["ready_s"] - each["start_s"] == pytest.approx(120) for each in record["rentals"])
    rented = {each["node"] for each in record["rentals"]}
    assert {node for job in record["jobs"] for s in job["stretches"] for node in s["nodes"]} <= rented
    assert record["checkpoint_every_s"] == 600
    assert simulated_record(simulate_queue(QUEUE, nodes=2, policy="fifo"))["checkpoint_every_s"] is None


@pytest.mark.parametrize("policy", ["fifo", "greedy", "trainfare"])
def test_a_queue_by_unix_time_is_scheduled_as_one_that_starts_at_zero(policy: str) -> None:
    """Not a tenth of a second is rounded away, and policies see how often jobs come."""
    first, zero = QUEUE.jobs[0].submitted_seconds, 1.76e9

    def at(start: float) -> Instance:
        shift = start - first
        jobs = tuple(
            replace(
                job,
                submitted_seconds=job.submitted_seconds + shift,
                deadline_seconds=job.deadline_seconds + shift,
                seconds=tuple(each / 3600 for each in job.seconds),
            )
            for job in QUEUE.jobs
        )
        return replace(QUEUE, jobs=jobs)

    here, there = (simulate_queue(at(start), nodes=2, policy=policy) for start in (0.0, zero))
    assert there.outcome.total_usd == pytest.approx(here.outcome.total_usd, rel=1e-4)
    assert there.outcome.total_usd >= there.bound.usd
    ends = dict(there.schedule.ended_seconds)
    assert all(ends[name] == pytest.approx(end + zero, abs=1e-3) for name, end in here.schedule.ended_seconds)
    assert there.schedule.jobs[0].submitted_seconds == zero
