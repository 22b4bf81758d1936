"""Traces imported as queues."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.measurements.test_job_traces import THROUGHPUT, TRACE
from trainfare.app.queue.simulate import simulate_queue
from trainfare.app.queue.trace import import_trace
from trainfare.errors import Remedy, UsageError
from trainfare.measurements.instances import read_instance
from trainfare.measurements.job_traces import TraceOptions
from trainfare.scheduler.simulation.trace_import import TraceImport
from trainfare.scheduler.tables import min_node_seconds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "throughput.csv").write_text(THROUGHPUT)
    (tmp_path / "a.trace").write_text(TRACE)
    return tmp_path


def imported(folder: Path, *, into: Path | None = None, force: bool = False, **options: Any) -> TraceImport:
    files = folder / "a.trace", folder / "throughput.csv"
    return import_trace(*files, TraceOptions(**options), into=into, force=force)


def test_written_queue_equals_the_imported_one_and_can_be_simulated(folder: Path) -> None:
    found = imported(folder, into=folder / "queue", error=0.2, gangs=True)
    read = read_instance(folder / "queue").instance
    assert (read.jobs, read.true_seconds, set(read.slots)) == (
        found.instance.jobs,
        found.instance.true_seconds,
        set(found.instance.slots),
    )
    assert simulate_queue(folder / "queue", nodes=2, policy="greedy").outcome.jobs == 2


def test_invalid_job_is_excluded_and_the_others_are_written(folder: Path) -> None:
    (folder / "a.trace").write_text(f"{TRACE}nonsense\n")
    found = imported(folder, into=folder / "queue")
    assert [job.id for job in read_instance(folder / "queue").instance.jobs] == ["J2", "J1"]
    assert [each.job for each in found.excluded] == ["J3"]


def test_load_is_node_time_divided_by_submission_time(folder: Path) -> None:
    found = imported(folder)
    # J1 on one of eight K80s for 200 s, on two for 125 s, on all for 40 s, on a V100 for 20 s; J2 on a V100 for 50 s
    assert min_node_seconds(found.instance) == pytest.approx(min(200 / 8, 125 / 4, 40, 20 / 8) + 50 / 8)
    assert found.load == pytest.approx((2.5 + 6.25) / 60.5)
    assert found.nodes == 1
    quick = replace(found.instance.jobs[1], submitted_seconds=5.0)
    assert replace(found, instance=replace(found.instance, jobs=(found.instance.jobs[0], quick))).nodes == 2


def test_jobs_submitted_at_once_have_no_load_and_a_node_each(folder: Path) -> None:
    (folder / "a.trace").write_text(TRACE.replace("60.5", "0"))
    found = imported(folder)
    assert (found.load, found.nodes) == (None, 2)


def test_job_that_needs_a_gang_has_its_nodes(folder: Path) -> None:
    (folder / "throughput.csv").write_text(THROUGHPUT.replace("k80,one,2,", "k80,one,4,"))
    found = imported(folder, gangs=True, requested_gpus_only=True)
    assert [slot.nodes for slot, t in zip(found.instance.slots, found.instance.jobs[1].seconds, strict=True)
            if t < math.inf] == [2]  # fmt: skip
    assert found.nodes == 2


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"jobs": 0}, "jobs"),
        ({"error": math.nan}, "error"),
        ({"seed": -1}, "seed"),
        ({"into": "a.trace"}, "into"),
        ({"into": "a.trace/queue"}, "into"),
    ],
    ids=["no jobs", "error", "seed", "file", "below a file"],
)
def test_invalid_options_name_their_field(folder: Path, options: dict[str, Any], field: str) -> None:
    if "into" in options:
        options = {"into": folder / str(options["into"])}
    with pytest.raises(UsageError) as caught:
        imported(folder, **options)
    assert caught.value.field == field


def test_empty_trace_is_refused(folder: Path) -> None:
    (folder / "a.trace").write_text("\n")
    with pytest.raises(UsageError, match="contains no jobs"):
        imported(folder, into=folder / "queue")
    assert not (folder / "queue").exists()


def test_existing_queue_is_only_replaced_with_force(folder: Path) -> None:
    imported(folder, into=folder / "queue", seed=1)
    before = (folder / "queue" / "jobs.csv").read_text()
    with pytest.raises(UsageError) as caught:
        imported(folder, into=folder / "queue", seed=2)
    assert caught.value.remedies == (Remedy({"force": True}),)
    assert (folder / "queue" / "jobs.csv").read_text() == before
    imported(folder, into=folder / "queue", seed=2, force=True)
    assert (folder / "queue" / "jobs.csv").read_text() != before
