"""The benchmark of slices, on programs that follow the formula."""

import math
from collections.abc import Iterator

import pytest

from benchmarks.accuracy.this_machine import SLICES, judge, predictions, programs
from tests.makers import make_profile
from trainfare.model.machine import Host
from trainfare.model.profile import Profile


def profiles() -> Iterator[Profile]:
    """Profiles of 0.1 s of work per iteration, 60% of it on all threads, which spin half of their idle time."""
    for name, cores in SLICES.items():
        threads = math.ceil(cores)
        elapsed = 0.1 * (0.4 + 0.6 / threads)
        used = 0.1 + 0.5 * (threads * elapsed - 0.1)
        seconds = max(used / cores, elapsed)
        yield make_profile(
            id=f"p{name}",
            host=Host(name="here", cores=threads, vm_type=f"local/{name}"),
            cpu_use=used / seconds,
            init_seconds=2.0 / min(1.0, cores),
            iteration_seconds=(1.0, *[seconds] * 20),
            loss=(),
        )


def test_every_slice_is_predicted_from_each_other_and_from_all_others() -> None:
    rows = [row for row in predictions(list(profiles())) if row.what == "iteration"]
    assert len(rows) == len({(row.known, row.asked) for row in rows}) == 9
    assert not any(row.asked in row.known for row in rows)


def test_programs_that_follow_the_formula_are_covered_and_beat_the_baselines() -> None:
    for judged in judge(list(predictions(list(profiles()))), note="synthetic"):
        scores = judged.scores()
        ours, baselines = scores["ours"], scores["baselines"]
        assert isinstance(ours, dict)
        assert isinstance(baselines, dict)
        assert ours["coverage"] == pytest.approx(100)
        assert ours["mape"] < min(each["mape"] for each in baselines.values())


def test_program_runs_on_all_slices_before_the_next_begins() -> None:
    for tasks in programs(repeat=2):
        assert len({(task.framework, task.batch_size) for task in tasks}) == 1
        assert len({task.slice for task in tasks}) == len(tasks) >= 2
