"""What the benchmark of schedules plays, keeps and prints, on queues as small as can be."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.schedule import play, scale
from benchmarks.schedule.__main__ import print_table
from benchmarks.schedule.games import PARTS, Asked
from benchmarks.schedule.play import Game, play_all, played
from benchmarks.schedule.predicted import Guess, with_predictions
from benchmarks.schedule.traces import at_load
from tests.scheduler.makers import random_instance
from trainfare.app.queue.trace import least_node_seconds
from trainfare.model.queue import Instance, Slot
from trainfare.scheduler.bounds.lower_bound import lower_bound
from trainfare.scheduler.simulation.generate import QueueSetting, generate, with_prediction_error

TINY = QueueSetting(nodes=2, jobs=4)


def games(*policies: str, seeds: int = 1) -> list[Game]:
    return [
        Game(setting="tiny", policy=name, nodes=2, seed=seed, generated=TINY)
        for seed in range(seeds)
        for name in policies
    ]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    keep = tmp_path / "kept.jsonl"
    first = play_all(games("greedy"), processes=1, keep=keep)
    keep.write_text(json.dumps({**first[0], "total_usd": 123.0}) + "\n")
    again = play_all(games("greedy", "fifo"), processes=1, keep=keep)
    assert [(row["policy"], row["total_usd"] == 123.0) for row in again] == [("greedy", True), ("fifo", False)]
    assert len(keep.read_text().splitlines()) == 2


def test_the_table_has_a_block_a_setting_and_the_cheapest_policy_first(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [played(game) for game in games("fifo", "greedy", seeds=2)]
    cheap, dear = sorted(("fifo", "greedy"), key=lambda name: sum(
        float(row["total_usd"] or 0) for row in rows if row["policy"] == name))  # fmt: skip
    print_table(rows, {("tiny", "greedy"): 42.0})
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == "tiny, 2 nodes, 2 queue(s)"
    assert [line.split()[0] for line in shown[3:]] == [cheap, dear]
    greedy = next(line for line in shown if line.startswith("greedy"))
    assert "1.000 ± 0.000" in greedy
    assert greedy.endswith("42.00")


def test_every_part_names_games_of_its_own() -> None:
    asked = Asked(nodes=(2,), loads=(0.5, 1.0), seeds=2, policies=("greedy",))
    for part in PARTS.values():
        keys = [game.key for game in part(asked)]
        assert len(set(keys)) == len(keys)


def test_a_bound_is_found_once_a_queue_whatever_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Instance] = []

    def counted(instance: Instance, nodes: int) -> object:
        asked.append(instance)
        return lower_bound(instance, nodes)

    monkeypatch.setattr(play, "lower_bound", counted)
    wrong = with_prediction_error(generate(TINY, 5), 0.3, seed=0)
    known = replace(wrong, jobs=tuple(replace(job, seconds=true, log_error=0.0) for job, true in
                                      zip(wrong.jobs, wrong.true_seconds, strict=True)), true_seconds=())  # fmt: skip
    rows = [
        played(Game(setting="tiny", policy=name, nodes=2, given=queue))
        for queue in (wrong, known)
        for name in ("greedy", "edf")
    ]
    assert len(asked) == 1
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


def test_a_trace_is_brought_to_a_load_by_its_clock_alone() -> None:
    queue = random_instance(3, jobs=5)
    found = at_load(queue, 0.8, 3)
    assert least_node_seconds(found) / (3 * found.jobs[-1].submitted_seconds) == pytest.approx(0.8)
    for before, after in zip(queue.jobs, found.jobs, strict=True):
        assert after.seconds == before.seconds
        assert after.deadline_seconds - after.submitted_seconds == pytest.approx(
            before.deadline_seconds - before.submitted_seconds
        )


def test_predictions_leave_truth_and_deadlines_and_what_cannot_run() -> None:
    queue = random_instance(3, jobs=2)
    impossible = (math.inf, *queue.jobs[0].seconds[1:])
    queue = replace(queue, jobs=(replace(queue.jobs[0], seconds=impossible), queue.jobs[1]))
    gpu_of = {each.name: each.gpu for each in queue.types}
    told = {
        (("model", 16.0), Slot(gpu_of[slot.type], slot.gpus, slot.nodes)): Guess(ratio=1.5, deviation=0.2)
        for slot in queue.slots
    }
    found = with_predictions(queue, {job.id: ("model", 16.0) for job in queue.jobs}, told)
    assert found.true_seconds == tuple(job.seconds for job in queue.jobs)
    for before, after in zip(queue.jobs, found.jobs, strict=True):
        assert after.seconds == tuple(1.5 * seconds for seconds in before.seconds)
        assert (after.log_error, after.deadline_seconds) == (0.2, before.deadline_seconds)
