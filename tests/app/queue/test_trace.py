"""A trace of jobs from its file to a queue that policies play on."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.measurements.test_job_traces import THROUGHPUT, TRACE
from trainfare.app.queue.simulate import simulate_queue
from trainfare.app.queue.trace import TraceImport, import_trace, least_node_seconds
from trainfare.errors import UsageError
from trainfare.measurements.instances import read_instance


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "throughput.csv").write_text(THROUGHPUT)
    (tmp_path / "a.trace").write_text(TRACE)
    return tmp_path


def imported(folder: Path, **options: object) -> TraceImport:
    return import_trace(folder / "a.trace", folder / "throughput.csv", **options)  # type: ignore[arg-type] # options by name


def test_what_is_written_is_what_is_told_and_can_be_simulated(folder: Path) -> None:
    found = imported(folder, into=folder / "queue", error=0.2, gangs=True)
    read = read_instance(folder / "queue").instance
    assert (read.jobs, read.true_seconds, set(read.slots)) == (
        found.instance.jobs,
        found.instance.true_seconds,
        set(found.instance.slots),
    )
    assert simulate_queue(folder / "queue", nodes=2, policy="greedy").outcome.jobs == 2


def test_a_job_that_makes_no_sense_is_named_and_the_others_are_written(folder: Path) -> None:
    (folder / "a.trace").write_text(f"{TRACE}nonsense\n")
    found = imported(folder, into=folder / "queue")
    assert [job.id for job in read_instance(folder / "queue").instance.jobs] == ["J2", "J1"]
    assert [sentence.partition(":")[0] for sentence in found.left_out] == ["job J3 is left out"]


def test_a_load_of_one_is_what_the_fewest_nodes_can_do_while_jobs_come(folder: Path) -> None:
    found = imported(folder)
    # J1 on one of eight K80s for 200 s, on two for 125 s, on all for 40 s, on a V100 for 20 s; J2 on a V100 for 50 s
    assert least_node_seconds(found.instance) == pytest.approx(min(200 / 8, 125 / 4, 40, 20 / 8) + 50 / 8)
    assert found.load == pytest.approx((2.5 + 6.25) / 60.5)
    assert found.nodes == 1
    quick = replace(found.instance.jobs[1], submitted_seconds=5.0)
    assert replace(found, instance=replace(found.instance, jobs=(found.instance.jobs[0], quick))).nodes == 2


def test_jobs_that_come_at_once_have_no_load_and_a_node_each(folder: Path) -> None:
    (folder / "a.trace").write_text(TRACE.replace("60.5", "0"))
    found = imported(folder)
    assert (found.load, found.nodes) == (None, 2)


def test_a_gang_that_must_be_has_its_nodes(folder: Path) -> None:
    (folder / "throughput.csv").write_text(THROUGHPUT.replace("k80,one,2,", "k80,one,4,"))
    found = imported(folder, gangs=True, asked_gpus=True)
    assert [slot.nodes for slot, t in zip(found.instance.slots, found.instance.jobs[1].seconds, strict=True)
            if t < math.inf] == [2]  # fmt: skip
    assert found.nodes == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"jobs": 0}, "--jobs 1 or more"),
        ({"error": math.nan}, "--error must be"),
        ({"seed": -1}, "--seed"),
        ({"into": "a.trace"}, "is a file: name a folder"),
        ({"into": "a.trace/queue"}, "cannot be written"),
    ],
    ids=["no jobs", "error", "seed", "file", "below a file"],
)
def test_what_cannot_be_is_said(folder: Path, options: dict[str, object], says: str) -> None:
    if "into" in options:
        options = {"into": folder / str(options["into"])}
    with pytest.raises(UsageError, match=says):
        imported(folder, **options)


def test_an_empty_trace_is_no_queue(folder: Path) -> None:
    (folder / "a.trace").write_text("\n")
    with pytest.raises(UsageError, match="there are no jobs in"):
        imported(folder, into=folder / "queue")
    assert not (folder / "queue").exists()


def test_a_queue_that_is_there_is_kept_unless_it_may_go(folder: Path) -> None:
    imported(folder, into=folder / "queue", seed=1)
    before = (folder / "queue" / "jobs.csv").read_text()
    with pytest.raises(UsageError, match="--force"):
        imported(folder, into=folder / "queue", seed=2)
    assert (folder / "queue" / "jobs.csv").read_text() == before
    imported(folder, into=folder / "queue", seed=2, force=True)
    assert (folder / "queue" / "jobs.csv").read_text() != before
