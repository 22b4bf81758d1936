"""The scheduling benchmark runs, stores and prints cases, on very small queues."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.schedule import run as run_module
from benchmarks.schedule import scale
from benchmarks.schedule.__main__ import print_table
from benchmarks.schedule.cases import PARTS, BenchmarkOptions
from benchmarks.schedule.predictions import RatioPrediction, with_predictions
from benchmarks.schedule.run import Case, run_all, run_case
from benchmarks.schedule.traces import at_load
from tests.scheduler.makers import random_instance
from trainfare.model.queue import Instance, Slot
from trainfare.scheduler.bounds.lower_bound import lower_bound
from trainfare.scheduler.simulation.generate import QueueSetting, generate, with_prediction_error
from trainfare.scheduler.tables import min_node_seconds

TINY = QueueSetting(nodes=2, jobs=4)


def cases(*policies: str, seeds: int = 1) -> list[Case]:
    return [
        Case(setting="tiny", policy=name, nodes=2, seed=seed, generated=TINY)
        for seed in range(seeds)
        for name in policies
    ]


def test_interrupted_run_continues_where_it_was(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    first = run_all(cases("greedy"), processes=1, results=results)
    results.write_text(json.dumps({**first[0], "total_usd": 123.0}) + "\n")
    again = run_all(cases("greedy", "fifo"), processes=1, results=results)
    assert [(row["policy"], row["total_usd"] == 123.0) for row in again] == [("greedy", True), ("fifo", False)]
    assert len(results.read_text().splitlines()) == 2


def test_table_has_a_block_for_each_setting_with_the_cheapest_policy_first(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [run_case(case) for case in cases("fifo", "greedy", seeds=2)]
    first, second = sorted(("fifo", "greedy"), key=lambda name: sum(
        float(row["total_usd"] or 0) for row in rows if row["policy"] == name))  # fmt: skip
    print_table(rows, {("tiny", "greedy"): 42.0})
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == "tiny, 2 nodes, 2 queue(s)"
    assert [line.split()[0] for line in shown[3:]] == [first, second]
    greedy = next(line for line in shown if line.startswith("greedy"))
    assert "1.000 ± 0.000" in greedy
    assert greedy.endswith("42.00")


def test_cases_of_every_part_have_distinct_keys() -> None:
    options = BenchmarkOptions(nodes=(2,), loads=(0.5, 1.0), seeds=2, policies=("greedy",))
    for part in PARTS.values():
        keys = [case.key for case in part(options)]
        assert len(set(keys)) == len(keys)


def test_bound_is_computed_once_for_each_queue_whatever_the_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Instance] = []

    def counted(instance: Instance, nodes: int) -> object:
        computed.append(instance)
        return lower_bound(instance, nodes)

    monkeypatch.setattr(run_module, "lower_bound", counted)
    wrong = with_prediction_error(generate(TINY, 5), 0.3, seed=0)
    known = replace(wrong, jobs=tuple(replace(job, seconds=true, log_error=0.0) for job, true in
                                      zip(wrong.jobs, wrong.true_seconds, strict=True)), true_seconds=())  # fmt: skip
    rows = [
        run_case(Case(setting="tiny", policy=name, nodes=2, given=queue))
        for queue in (wrong, known)
        for name in ("greedy", "edf")
    ]
    assert len(computed) == 1
    assert {row["bound_usd"] for row in rows} == {lower_bound(wrong, 2).usd}


def test_scale_times_decisions_on_a_full_queue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scale, "DECISIONS", 3)
    found = scale.scale((5,), ("greedy",))
    assert [(each.policy, each.nodes, each.jobs, each.decisions) for each in found] == [("greedy", 5, 22, 3)]
    assert 0 < found[0].p50_seconds <= found[0].p99_seconds
    scale.print_scale(found, as_json=False, plot=None)
    assert capsys.readouterr().out.splitlines()[1].startswith("greedy")


def test_load_of_a_trace_is_set_by_scaling_its_submissions() -> None:
    queue = random_instance(3, jobs=5)
    found = at_load(queue, 0.8, 3)
    assert min_node_seconds(found) / (3 * found.jobs[-1].submitted_seconds) == pytest.approx(0.8)
    for before, after in zip(queue.jobs, found.jobs, strict=True):
        assert after.seconds == before.seconds
        assert after.deadline_seconds - after.submitted_seconds == pytest.approx(
            before.deadline_seconds - before.submitted_seconds
        )


def test_predictions_keep_true_times_deadlines_and_infeasible_slots() -> None:
    queue = random_instance(3, jobs=2)
    impossible = (math.inf, *queue.jobs[0].seconds[1:])
    queue = replace(queue, jobs=(replace(queue.jobs[0], seconds=impossible), queue.jobs[1]))
    gpu_of = {each.name: each.gpu for each in queue.types}
    predictions = {
        (("model", 16.0), Slot(gpu_of[slot.type], slot.gpus, slot.nodes)): RatioPrediction(ratio=1.5, deviation=0.2)
        for slot in queue.slots
    }
    found = with_predictions(queue, {job.id: ("model", 16.0) for job in queue.jobs}, predictions)
    assert found.true_seconds == tuple(job.seconds for job in queue.jobs)
    for before, after in zip(queue.jobs, found.jobs, strict=True):
        assert after.seconds == tuple(1.5 * seconds for seconds in before.seconds)
        assert (after.log_error, after.deadline_seconds) == (0.2, before.deadline_seconds)
