"""Job traces with measured throughputs, read as queues."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainfare.errors import UsageError
from trainfare.measurements.instances import LoadedInstance
from trainfare.measurements.job_traces import MACHINES, TraceOptions, read_job_trace
from trainfare.model.queue import NodeType, Slot

THROUGHPUT = """gpu,servers,gpus,model,batch_size_per_gpu,steps_per_second_summed_over_workers
k80,one,1,ResNet-18,16,5
k80,one,2,ResNet-18,16,8
k80,one,8,ResNet-18,16,25
k80,many,1,ResNet-18,16,4
k80,many,2,ResNet-18,16,7
v100,one,1,ResNet-18,16,50
v100,one,1,A3C,,10
v100,one,1,ResNet-18,32,
"""
TRACE = """ResNet-18 (batch size 16)\tcd here && python3 main.py\t--steps\t1\t1000\t60.5\t2
A3C\tcd there && python3 main.py\t--steps\t1\t500\t0.0\t1
"""
LONG_TRACE = "ResNet-18 (batch size 16)\tpython3 main.py\timages\t--steps\t1\t1000\t2\t1\t-1.000000\t60.5\n"
SMALL = NodeType(name="small", gpu="K80", gpus=1, usd_per_hour=1)
BIG = NodeType(name="big", gpu="K80", gpus=8, usd_per_hour=8)
FAST = NodeType(name="fast", gpu="V100", gpus=1, usd_per_hour=3)
TYPES = (SMALL, BIG, FAST)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "throughput.csv").write_text(THROUGHPUT)
    (tmp_path / "a.trace").write_text(TRACE)
    return tmp_path


def read(folder: Path, *, types: tuple[NodeType, ...] = TYPES, **options: Any) -> LoadedInstance:
    return read_job_trace(folder / "a.trace", folder / "throughput.csv", TraceOptions(**options), types=types)


def test_time_is_steps_divided_by_the_measured_rate(folder: Path) -> None:
    instance = read(folder).instance
    assert instance.slots == (Slot("small", 1), Slot("big", 1), Slot("big", 2), Slot("big", 8), Slot("fast", 1))
    assert [job.id for job in instance.jobs] == ["J2", "J1"]
    assert instance.jobs[1].seconds == (200.0, 200.0, 125.0, 40.0, 20.0)
    assert instance.jobs[1].submitted_seconds == 60.5


def test_job_cannot_run_where_its_model_was_not_measured(folder: Path) -> None:
    assert read(folder).instance.jobs[0].seconds == (math.inf,) * 4 + (50,)


def test_both_line_formats_give_the_same_job(folder: Path) -> None:
    short = read(folder).instance.jobs[1]
    (folder / "a.trace").write_text(LONG_TRACE)
    long = read(folder).instance.jobs[0]
    assert (long.seconds, long.submitted_seconds) == (short.seconds, short.submitted_seconds)


def test_gpus_on_many_servers_are_gangs_of_single_gpu_machines(folder: Path) -> None:
    instance = read(folder, gangs=True).instance
    assert instance.slots[-1] == Slot("small", 1, 2)
    assert instance.jobs[1].seconds[-1] == pytest.approx(1000 / 7)


def test_gangs_do_not_change_deadlines(folder: Path) -> None:
    alone, together = (read(folder, gangs=gangs, types=(SMALL, FAST)).instance.jobs for gangs in (False, True))
    assert min(together[1].seconds[:2]) == alone[1].shortest_seconds
    assert [job.deadline_seconds for job in alone] == [job.deadline_seconds for job in together]


def test_deadline_of_a_job_that_needs_a_gang_uses_its_gang_time(folder: Path) -> None:
    job = read(folder, gangs=True, requested_gpus_only=True, types=(SMALL, FAST)).instance.jobs[1]
    assert job.seconds[:2] == (math.inf, math.inf)
    assert 1 <= (job.deadline_seconds - job.submitted_seconds) / (1000 / 7) <= 3


def test_first_jobs_equal_those_of_the_complete_queue(folder: Path) -> None:
    (folder / "a.trace").write_text(TRACE * 5)
    assert read(folder, jobs=7).instance.jobs == read(folder).instance.jobs[:7]


def test_errors_after_the_first_jobs_are_not_reported(folder: Path) -> None:
    (folder / "a.trace").write_text(f"before\n{TRACE.splitlines()[1]}\nafter\n{TRACE.splitlines()[0]}\nat the end\n")
    assert [each.job for each in read(folder, jobs=1).excluded] == ["J1"]
    assert [each.job for each in read(folder, jobs=2).excluded] == ["J1", "J3", "J5"]


def test_servers_must_be_one_or_many(folder: Path) -> None:
    (folder / "throughput.csv").write_text(THROUGHPUT.replace("one,8", "two,8"))
    with pytest.raises(UsageError, match=r"throughput\.csv, line 4, column servers: 'two' is neither one nor many"):
        read(folder)


def test_single_gpu_time_is_that_of_one_server(folder: Path) -> None:
    """The table has another rate for many servers, 4 steps a second."""
    assert read(folder, gangs=True).instance.jobs[1].seconds[0] == 200


def test_requested_number_of_gpus_can_be_enforced(folder: Path) -> None:
    found = read(folder, requested_gpus_only=True, gangs=True)
    assert [math.isfinite(seconds) for seconds in found.instance.jobs[1].seconds] == [False] * 2 + [True] + [
        False,
        False,
        True,
    ]


def test_deadlines_and_weights_follow_the_rule_of_the_papers(folder: Path) -> None:
    (folder / "a.trace").write_text(TRACE * 50)
    jobs = read(folder).instance.jobs
    slacks = [(job.deadline_seconds - job.submitted_seconds) / job.shortest_seconds for job in jobs]
    assert 1 <= min(slacks) < 1.3 < 2.7 < max(slacks) <= 3
    assert all(0.003 <= job.late_usd_per_second <= 0.015 for job in jobs)


def test_same_seed_gives_the_same_queue(folder: Path) -> None:
    assert read(folder, seed=1) == read(folder, seed=1) != read(folder, seed=2)


def test_prediction_errors_do_not_change_true_times(folder: Path) -> None:
    (folder / "a.trace").write_text(TRACE * 200)
    right, wrong = read(folder).instance, read(folder, error=0.3).instance
    assert wrong.true_seconds == tuple(job.seconds for job in right.jobs)
    errors = [math.log(true[-1] / job.seconds[-1]) for true, job in zip(wrong.true_seconds, wrong.jobs, strict=True)]
    assert np.std(errors) == pytest.approx(0.3, rel=0.15)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ResNet-18 (batch size 16)\tone\ttwo", "line 4 has 3 fields"),
        (TRACE.splitlines()[0].replace("1000", "many"), "line 4, field 5: 'many' is not a number of steps"),
        (TRACE.splitlines()[0].replace("1000", "0"), "line 4, field 5: steps must be at least 1"),
        (TRACE.splitlines()[0].replace("1000", "nan"), "line 4, field 5: steps must be at least 1"),
        (TRACE.splitlines()[0].replace("60.5", "-1"), "line 4, field 6: submitted must be at least 0"),
        (TRACE.splitlines()[0].replace("ResNet-18", "Res\x1b[2JNet"), r"line 4, field 1: 'Res\x1b[2JNet"),
        (TRACE.splitlines()[0].replace("size 16", "size 17"), "ResNet-18 with batch size 17 was measured on none"),
        (TRACE.splitlines()[0].replace("size 16", "size 32"), "ResNet-18 with batch size 32 was measured on none"),
    ],
    ids=["fields", "words", "no steps", "nan", "before", "unseen letters", "unknown", "did not run"],
)
def test_invalid_line_is_excluded_with_a_reason_and_the_others_are_read(folder: Path, line: str, says: str) -> None:
    (folder / "a.trace").write_text(f"{TRACE}\n{line}\n")
    found = read(folder)
    assert len(found.instance.jobs) == 2
    assert [each.job for each in found.excluded] == ["J4"]
    assert says in str(found.excluded[0].reason.values["text"])


def test_trace_without_a_valid_line_is_an_error(folder: Path) -> None:
    (folder / "a.trace").write_text("what is this?")
    with pytest.raises(UsageError, match="no job of"):
        read(folder)


def test_machines_without_measurements_are_an_error(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"throughput\.csv has no throughput of H100"):
        read(folder, types=(NodeType(name="new", gpu="H100", gpus=8, usd_per_hour=30),))


def test_missing_files_are_named(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"throughput\.csv"):
        read_job_trace(folder / "a.trace", folder / "nowhere" / "throughput.csv")
    with pytest.raises(UsageError, match=r"b\.trace"):
        read_job_trace(folder / "b.trace", folder / "throughput.csv")
    (folder / "b.trace").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not text"):
        read_job_trace(folder / "b.trace", folder / "throughput.csv")


def test_empty_trace_gives_an_empty_queue(folder: Path) -> None:
    (folder / "a.trace").write_text("")
    assert read(folder).instance.jobs == ()


def test_machines_have_the_gpus_of_the_table() -> None:
    assert {each.gpu for each in MACHINES} == {"K80", "P100", "V100"}
