import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainfare.errors import UsageError
from trainfare.measurements.instances import LoadedInstance
from trainfare.measurements.job_traces import MACHINES, read_job_trace
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


def read(folder: Path, **options: Any) -> LoadedInstance:
    return read_job_trace(folder / "a.trace", folder / "throughput.csv", **{"types": TYPES, **options})


def test_a_job_takes_its_steps_at_the_rate_that_was_measured(folder: Path) -> None:
    instance = read(folder).instance
    assert instance.slots == (Slot("small", 1), Slot("big", 1), Slot("big", 2), Slot("big", 8), Slot("fast", 1))
    assert [job.id for job in instance.jobs] == ["J2", "J1"]
    assert instance.jobs[1].seconds == (200.0, 200.0, 125.0, 40.0, 20.0)
    assert instance.jobs[1].submitted_seconds == 60.5


def test_what_was_not_timed_somewhere_cannot_run_there(folder: Path) -> None:
    assert read(folder).instance.jobs[0].seconds == (math.inf,) * 4 + (50,)


def test_both_forms_of_a_line_say_the_same(folder: Path) -> None:
    short = read(folder).instance.jobs[1]
    (folder / "a.trace").write_text(LONG_TRACE)
    long = read(folder).instance.jobs[0]
    assert (long.seconds, long.submitted_seconds) == (short.seconds, short.submitted_seconds)


def test_gpus_over_many_servers_are_gangs_of_machines_with_one(folder: Path) -> None:
    instance = read(folder, gangs=True).instance
    assert instance.slots[-1] == Slot("small", 1, 2)
    assert instance.jobs[1].seconds[-1] == pytest.approx(1000 / 7)


def test_gangs_do_not_move_deadlines(folder: Path) -> None:
    alone, together = (read(folder, gangs=gangs, types=(SMALL, FAST)).instance.jobs for gangs in (False, True))
    assert min(together[1].seconds[:2]) == alone[1].shortest_seconds
    assert [job.deadline_seconds for job in alone] == [job.deadline_seconds for job in together]


def test_a_job_that_runs_on_gangs_alone_has_its_deadline_from_these(folder: Path) -> None:
    job = read(folder, gangs=True, asked_only=True, types=(SMALL, FAST)).instance.jobs[1]
    assert job.seconds[:2] == (math.inf, math.inf)
    assert 1 <= (job.deadline_seconds - job.submitted_seconds) / (1000 / 7) <= 3


def test_the_first_jobs_are_those_of_the_whole_queue(folder: Path) -> None:
    (folder / "a.trace").write_text(TRACE * 5)
    assert read(folder, jobs=7).instance.jobs == read(folder).instance.jobs[:7]


def test_lines_after_the_first_jobs_are_not_complained_of(folder: Path) -> None:
    (folder / "a.trace").write_text(f"before\n{TRACE.splitlines()[1]}\nafter\n{TRACE.splitlines()[0]}\nat the end\n")
    assert [sentence[:6] for sentence in read(folder, jobs=1).left_out] == ["job J1"]
    assert [sentence[:6] for sentence in read(folder, jobs=2).left_out] == ["job J1", "job J3", "job J5"]


def test_servers_are_one_or_many(folder: Path) -> None:
    (folder / "throughput.csv").write_text(THROUGHPUT.replace("one,8", "two,8"))
    with pytest.raises(UsageError, match=r"throughput\.csv, line 4, column servers: 'two' is neither one nor many"):
        read(folder)


def test_one_gpu_is_timed_on_one_server(folder: Path) -> None:
    """The table of many servers has another time of it, 4 steps a second."""
    assert read(folder, gangs=True).instance.jobs[1].seconds[0] == 200


def test_the_number_of_gpus_that_was_asked_for_may_be_binding(folder: Path) -> None:
    read_so = read(folder, asked_only=True, gangs=True)
    assert [math.isfinite(seconds) for seconds in read_so.instance.jobs[1].seconds] == [False] * 2 + [True] + [
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


def test_a_seed_is_one_queue(folder: Path) -> None:
    assert read(folder, seed=1) == read(folder, seed=1) != read(folder, seed=2)


def test_wrong_predictions_leave_the_truth_as_it_is(folder: Path) -> None:
    (folder / "a.trace").write_text(TRACE * 200)
    right, wrong = read(folder).instance, read(folder, log_error=0.3).instance
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
        (TRACE.splitlines()[0].replace("size 16", "size 17"), "ResNet-18 with batch size 17 was timed on none"),
        (TRACE.splitlines()[0].replace("size 16", "size 32"), "ResNet-18 with batch size 32 was timed on none"),
    ],
    ids=["fields", "words", "no steps", "nan", "before", "unseen letters", "unknown", "did not run"],
)
def test_a_bad_line_is_left_out_with_a_sentence_and_the_others_go_on(folder: Path, line: str, says: str) -> None:
    (folder / "a.trace").write_text(f"{TRACE}\n{line}\n")
    found = read(folder)
    assert len(found.instance.jobs) == 2
    assert len(found.left_out) == 1
    assert says in found.left_out[0]


def test_a_trace_without_any_good_line_is_an_error(folder: Path) -> None:
    (folder / "a.trace").write_text("what is this?")
    with pytest.raises(UsageError, match="no job of"):
        read(folder)


def test_machines_of_which_nothing_was_timed_are_an_error(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"throughput\.csv has no throughput of H100"):
        read(folder, types=(NodeType(name="new", gpu="H100", gpus=8, usd_per_hour=30),))


def test_files_that_are_not_there_are_named(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"throughput\.csv"):
        read_job_trace(folder / "a.trace", folder / "nowhere" / "throughput.csv")
    with pytest.raises(UsageError, match=r"b\.trace"):
        read_job_trace(folder / "b.trace", folder / "throughput.csv")
    (folder / "b.trace").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not text"):
        read_job_trace(folder / "b.trace", folder / "throughput.csv")


def test_an_empty_trace_is_an_empty_queue(folder: Path) -> None:
    (folder / "a.trace").write_text("")
    assert read(folder).instance.jobs == ()


def test_the_machines_have_the_gpus_of_the_table() -> None:
    assert {each.gpu for each in MACHINES} == {"K80", "P100", "V100"}
