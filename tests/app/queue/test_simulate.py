"""Simulations of a queue under one policy and several, bounds and generated queues."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.figures.reading import title, views
from tests.scheduler.makers import K80, make_job, random_instance
from trainfare.app.queue.figures import draw_comparison, draw_simulation
from trainfare.app.queue.simulate import bound_queue, compare_policies, generate_instance, simulate_queue
from trainfare.errors import InfeasibleError, NotFoundError, Remedy, UsageError
from trainfare.measurements.instances import read_instance, write_instance
from trainfare.model.queue import Decision, Delays, Instance, NodePlan, Slot, State, single_node_slots
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.legal import schedule_violations
from trainfare.scheduler.policies.first_principles import fifo
from trainfare.scheduler.simulation.options import REAL_DELAYS, Mode, SimulationOptions

if TYPE_CHECKING:
    from trainfare.scheduler.simulation.report import SimulationReport
    from trainfare.scheduler.simulation.simulate import SimulationProgress

QUEUE = random_instance(7, jobs=6, load=4)
REAL = SimulationOptions(mode="real")


def instance(**changes: Any) -> Instance:
    made = Instance(types=K80, slots=single_node_slots(K80), jobs=(make_job("j1"), make_job("j2")))
    return replace(made, **changes)


# One policy


def test_folder_and_its_instance_have_the_same_cost(tmp_path: Path) -> None:
    write_instance(tmp_path, QUEUE)
    from_folder = simulate_queue(tmp_path, nodes=2, policy="greedy")
    assert from_folder.outcome.total_usd == simulate_queue(QUEUE, nodes=2, policy="greedy").outcome.total_usd
    assert simulate_queue(str(tmp_path), nodes=2, policy="greedy").excluded == ()


def test_report_has_a_legal_schedule_its_outcome_and_a_bound_below() -> None:
    report = simulate_queue(QUEUE, nodes=2, policy="greedy")
    assert schedule_violations(report.schedule) == ()
    measured = {"decision_p50_seconds": 0.0}
    assert replace(evaluate(report.schedule), **measured) == replace(report.outcome, **measured)  # type: ignore[arg-type] # one float field
    assert report.gap is not None
    assert report.gap >= 0
    assert report.outcome.decision_p99_seconds > 0


def test_default_policy_is_ours() -> None:
    assert simulate_queue(random_instance(3, jobs=2), nodes=1).outcome.policy == "trainfare"


def test_mode_determines_the_delays() -> None:
    assert simulate_queue(QUEUE, nodes=2, policy="fifo").schedule.delays == Delays()
    assert simulate_queue(QUEUE, nodes=2, policy="fifo", options=REAL).schedule.delays == REAL_DELAYS
    stated = SimulationOptions(mode="real", boot_seconds=600)
    report = simulate_queue(QUEUE, nodes=2, policy="fifo", options=stated)
    assert report.schedule.delays == replace(REAL_DELAYS, boot_seconds=600)
    assert report.mode == "real"


def test_boots_cost_money() -> None:
    paper = simulate_queue(QUEUE, nodes=2, policy="fifo").outcome
    real = simulate_queue(QUEUE, nodes=2, policy="fifo", options=REAL).outcome
    assert real.rental_usd > paper.rental_usd


def test_error_changes_true_times_by_the_seed() -> None:
    exact, one, same, other = (
        simulate_queue(QUEUE, nodes=2, policy="greedy", options=SimulationOptions(error=error, seed=seed))
        for error, seed in ((None, 1), (0.3, 1), (0.3, 1), (0.3, 2))
    )
    assert exact.schedule.true_seconds == tuple(job.seconds for job in QUEUE.jobs)
    assert one.schedule.true_seconds == same.schedule.true_seconds != other.schedule.true_seconds
    assert {job.log_error for job in one.schedule.jobs} == {0.3}
    factors = {
        round(true / job.seconds[0], 9) for job, (true, *_) in zip(QUEUE.jobs, one.schedule.true_seconds, strict=True)
    }
    assert len(factors) == len(QUEUE.jobs)


def test_progress_is_reported_after_each_decision() -> None:
    found: list[SimulationProgress] = []
    simulate_queue(QUEUE, nodes=2, policy="greedy", on_progress=found.append)
    assert found[0].ended == 0
    assert all(each.waiting + each.running + each.ended <= each.jobs == 6 for each in found)
    assert [each.ended for each in found] == sorted(each.ended for each in found)


def test_tick_adds_decisions() -> None:
    with_ticks = simulate_queue(QUEUE, nodes=2, policy="greedy", options=SimulationOptions(tick_seconds=300))
    assert with_ticks.outcome.decisions > simulate_queue(QUEUE, nodes=2, policy="greedy").outcome.decisions


def test_tick_that_is_too_short_for_the_queue_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        simulate_queue(QUEUE, nodes=2, policy="fifo", options=SimulationOptions(tick_seconds=1e-6))
    assert caught.value.field == "tick_seconds"


@pytest.mark.parametrize("nodes", [0, 10**9])
def test_number_of_nodes_out_of_range_is_refused(nodes: int) -> None:
    with pytest.raises(UsageError) as caught:
        simulate_queue(QUEUE, nodes=nodes, policy="fifo")
    assert caught.value.field == "nodes"


def test_unknown_policy_error_names_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="Did you mean greedy"):
        simulate_queue(QUEUE, nodes=2, policy="gredy")


def test_queue_without_jobs_is_refused() -> None:
    with pytest.raises(UsageError, match="this queue has no jobs"):
        simulate_queue(instance(jobs=()), nodes=1, policy="fifo")


def test_excluded_jobs_are_reported_and_the_others_are_simulated() -> None:
    bad = make_job("bad", late_usd_per_second=1e300)
    report = simulate_queue(instance(jobs=(make_job("good"), bad)), nodes=2, policy="greedy")
    assert [name for name, _ in report.schedule.ended_seconds] == ["good"]
    assert [each.job for each in report.excluded] == ["bad"]
    assert bound_queue(instance(jobs=(make_job("good"), bad)), nodes=2).jobs == 1


def test_queue_whose_jobs_can_never_run_is_infeasible() -> None:
    alone = tuple(math.inf for _ in single_node_slots(K80))
    gang = replace(make_job("gang"), seconds=(*alone, 3600.0))
    queue = instance(slots=(*single_node_slots(K80), Slot("NC24", 4, 3)), jobs=(gang,))
    with pytest.raises(InfeasibleError, match=r"job gang is left out: it can never run: .* with 2 nodes"):
        simulate_queue(queue, nodes=2, policy="greedy")
    mine = instance(jobs=(make_job("mine", user="ann"),), quotas=(("ann", 0),))
    with pytest.raises(InfeasibleError, match="the quota of 0 GPUs of ann"):
        simulate_queue(mine, nodes=2, policy="greedy")
    none = tuple(replace(each, max_nodes=0) for each in K80)
    with pytest.raises(InfeasibleError, match="job j1 is left out: it can never run"):
        bound_queue(instance(types=none), nodes=2)


def test_jobs_that_always_lose_their_nodes_are_infeasible_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainfare.scheduler.simulation.simulate.MAX_IDLE_DECISIONS", 50)
    spot = tuple(replace(each, reclaims_per_hour=1000.0) for each in K80)
    with pytest.raises(InfeasibleError, match="never finishes the jobs") as caught:
        simulate_queue(instance(types=spot), nodes=2, policy="fifo")
    assert Remedy({"mode": "real", "checkpoint_every_seconds": 600}) in caught.value.remedies


def test_generated_errors_are_within_the_limits() -> None:
    options = SimulationOptions(error=2.0)
    assert simulate_queue(random_instance(1, jobs=3), nodes=2, policy="fifo", options=options).excluded == ()


@pytest.mark.parametrize("policy", ["fifo", "greedy", "patterns", "trainfare"])
@pytest.mark.parametrize("mode", ["paper", "real"])
def test_queue_full_of_ties_has_a_legal_schedule(policy: str, mode: Mode) -> None:
    types = (*K80, *(replace(each, name=f"{each.name} copy") for each in K80))
    slots = single_node_slots(types)
    jobs = tuple(
        replace(make_job(f"j {i}", deadline_seconds=0.0, late_usd_per_second=0.0), seconds=(60.0,) * len(slots))
        for i in range(5)
    )
    queue = Instance(types=types, slots=slots, jobs=jobs)
    report = simulate_queue(queue, nodes=2, policy=policy, options=SimulationOptions(mode=mode))
    assert schedule_violations(report.schedule) == ()
    assert len(report.schedule.ended_seconds) == 5


@pytest.mark.parametrize("policy", ["fifo", "greedy", "trainfare"])
def test_spot_gangs_and_quotas_have_a_legal_schedule(policy: str) -> None:
    queue = generate_instance(nodes=3, jobs=4, spot=True, gangs=True, users=2, quota_gpus=6, error=0.2, seed=1)
    report = simulate_queue(queue, nodes=3, policy=policy, options=REAL)
    assert schedule_violations(report.schedule) == ()
    assert report.outcome.total_usd >= report.bound.usd


@pytest.mark.parametrize("policy", ["fifo", "greedy", "trainfare"])
def test_queue_in_unix_time_is_scheduled_like_one_that_starts_at_zero(policy: str) -> None:
    """Times are not rounded by a tenth of a second, and policies see the rate of arrivals."""
    first, unix = QUEUE.jobs[0].submitted_seconds, 1.76e9

    def starting_at(start: float) -> Instance:
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

    at_zero, at_unix = (simulate_queue(starting_at(start), nodes=2, policy=policy) for start in (0.0, unix))
    assert at_unix.outcome.total_usd == pytest.approx(at_zero.outcome.total_usd, rel=1e-4)
    assert at_unix.outcome.total_usd >= at_unix.bound.usd
    ends = dict(at_unix.schedule.ended_seconds)
    assert all(ends[name] == pytest.approx(end + unix, abs=1e-3) for name, end in at_zero.schedule.ended_seconds)
    assert at_unix.schedule.jobs[0].submitted_seconds == unix


# Several policies


def test_policies_are_ranked_by_cost_and_reported_as_they_finish() -> None:
    finished: list[SimulationReport] = []
    names = ["fifo", "greedy", "FIFO", "edf"]
    comparison = compare_policies(QUEUE, nodes=2, policies=names, on_finished=finished.append)
    totals = [each.outcome.total_usd for each in comparison.reports]
    assert [each.outcome.policy for each in finished] == ["fifo", "greedy", "edf"]
    assert totals == sorted(totals)
    assert len({each.bound.usd for each in comparison.reports}) == 1


def test_unknown_policy_is_found_before_the_first_simulation() -> None:
    finished: list[SimulationReport] = []
    with pytest.raises(NotFoundError, match="Did you mean edf"):
        compare_policies(QUEUE, nodes=2, policies=["fifo", "edff"], on_finished=finished.append)
    assert finished == []


def test_per_node_is_skipped_for_large_fleets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainfare.app.queue.simulate.POLICIES", {"fifo": "first_principles", "per_node": "per_node"})
    small = compare_policies(random_instance(3, jobs=1), nodes=2)
    large = compare_policies(random_instance(3, jobs=1), nodes=9)
    assert {each.outcome.policy for each in small.reports} == {"fifo", "per_node"}
    assert [each.outcome.policy for each in large.reports] == ["fifo"]
    (skipped,) = large.skipped
    assert (skipped.policy, skipped.reason.code, skipped.reason.values) == (
        "per_node",
        "too_many_variables",
        {"nodes": 8},
    )


def fails(state: State) -> Decision:
    raise ValueError("the model has no optimum")


def decides_invalidly(state: State) -> Decision:
    return Decision(nodes=(NodePlan(type="NC6", jobs=(("unknown", 1),)),))


@pytest.mark.parametrize("policy", [fails, decides_invalidly])
def test_failing_policy_is_infeasible_alone_and_skipped_in_a_comparison(
    monkeypatch: pytest.MonkeyPatch, policy: object
) -> None:
    monkeypatch.setattr("trainfare.app.queue.simulate.load_policy", lambda name: fifo if name == "fifo" else policy)
    with pytest.raises(InfeasibleError, match=r"greedy .*at 0 s.*Use another policy"):
        simulate_queue(instance(), nodes=1, policy="greedy")
    comparison = compare_policies(instance(), nodes=1, policies=["greedy", "fifo"])
    assert [each.outcome.policy for each in comparison.reports] == ["fifo"]
    assert [each.policy for each in comparison.skipped] == ["greedy"]
    with pytest.raises(InfeasibleError, match="no policy finishes this queue: greedy was skipped"):
        compare_policies(instance(), nodes=1, policies=["greedy"])


def test_bound_holds_for_every_policy() -> None:
    bound = bound_queue(QUEUE, nodes=2)
    comparison = compare_policies(QUEUE, nodes=2, policies=["fifo", "edf", "priority", "greedy"])
    assert all(each.outcome.total_usd >= bound.bound.usd for each in comparison.reports)
    assert (bound.jobs, bound.nodes) == (6, 2)


def test_bound_is_valid_if_its_model_cannot_be_solved() -> None:
    late = tuple(make_job(f"j{i}", deadline_seconds=1000.0, late_usd_per_second=1e6) for i in range(4))
    short = tuple(
        replace(make_job(f"j{i}", submitted_seconds=1e9, deadline_seconds=1e9), seconds=(2e-3,) * 7) for i in range(4)
    )
    for jobs in (late, short):
        report = simulate_queue(instance(jobs=jobs), nodes=2, policy="greedy")
        assert 0 < report.bound.usd <= report.outcome.total_usd


def test_figures_show_one_policy_or_several() -> None:
    comparison = compare_policies(QUEUE, nodes=2, policies=["fifo", "greedy", "edf"])
    best = comparison.reports[0].outcome.policy
    one = draw_simulation(comparison.reports[0])
    assert title(one.spec).startswith(f"{best}: ")
    assert one.narrow is not None
    only_fifo = draw_comparison(comparison, ["fifo"])
    assert [title(view).split(":")[0] for view in views(only_fifo.spec)[1:]] == ["fifo"]
    drawn = [title(view).split(":")[0] for view in views(draw_comparison(comparison).spec)[1:]]
    assert drawn == list(dict.fromkeys([best, "greedy"]))


# Generated queues


def test_generated_queue_is_reproducible_and_read_back(tmp_path: Path) -> None:
    made = generate_instance(nodes=2, jobs=5, seed=4, error=0.2, users=2, quota_gpus=6, into=tmp_path / "new")
    assert read_instance(tmp_path / "new").instance == made
    assert generate_instance(nodes=2, jobs=5, seed=4, error=0.2, users=2, quota_gpus=6) == made
    assert generate_instance(nodes=2, jobs=5, seed=5) != generate_instance(nodes=2, jobs=5, seed=4)
    assert len(generate_instance(nodes=2).jobs) == 20


def test_spot_and_gangs_are_generated_on_request() -> None:
    plain = generate_instance(nodes=3, jobs=2)
    assert max(slot.nodes for slot in plain.slots) == 1
    assert max(each.reclaims_per_hour for each in plain.types) == 0
    made = generate_instance(nodes=3, jobs=2, spot=True, gangs=True)
    assert {slot.nodes for slot in made.slots} == {1, 2}  # a gang of four exceeds the fleet
    price = {each.name: each.usd_per_hour for each in made.types}
    assert price["NC24 spot"] == pytest.approx(0.4 * price["NC24"])


def test_existing_queue_is_only_replaced_with_force(tmp_path: Path) -> None:
    generate_instance(nodes=2, jobs=5, into=tmp_path)
    before = (tmp_path / "jobs.csv").read_text()
    with pytest.raises(UsageError, match=r"already contains jobs\.csv") as caught:
        generate_instance(nodes=2, jobs=5, seed=1, into=tmp_path)
    assert caught.value.remedies == (Remedy({"force": True}),)
    assert (tmp_path / "jobs.csv").read_text() == before
    generate_instance(nodes=2, jobs=5, seed=1, into=tmp_path, force=True)
    assert (tmp_path / "jobs.csv").read_text() != before


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        ({"load": 1.0, "mean_arrival_seconds": 30.0}, "mean_arrival_seconds", "not both"),
        ({"quota_gpus": 4}, "quota_gpus", "the queue has none"),
        ({"users": 2, "quota_gpus": 0}, "quota_gpus", "give 1 or more"),
        ({"jobs": 0}, "jobs", "at least one job"),
        ({"nodes": 10**9}, "nodes", "at most 100,000 nodes"),
        ({"nodes": 0}, "nodes", "at least one node, got 0"),
        ({"load": 0.0}, "load", "must be a positive number, got 0"),
        ({"seed": -1}, "seed", "0 or larger"),
        ({"error": 1e3}, "error", "from 0 to 2"),
        ({"error": math.nan}, "error", "from 0 to 2"),
        ({"load": 1e-300}, None, "submitted too rarely"),
        ({"mean_arrival_seconds": 1e300}, None, "submitted too rarely"),
        ({"mean_arrival_seconds": 1e300, "arrivals": "poisson"}, None, "submitted too rarely"),
        ({"into": __file__}, "into", "is a file"),
        ({"into": f"{__file__}/below"}, "into", "cannot be written"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value or ("none",)),
)
def test_invalid_setting_is_refused(arguments: dict[str, Any], field: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        generate_instance(**({"nodes": 2, "jobs": 2} | arguments))
    assert caught.value.field == field
