"""Queues in folders: read, written, and invalid tables."""

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scheduler.makers import AZURE, random_instance
from trainfare.errors import UsageError
from trainfare.measurements.instances import LoadedInstance, read_instance, write_instance
from trainfare.model.queue import Instance, Job, NodeType, Slot

JOBS = """job,submitted_s,deadline_s,tardiness_usd_per_s
a,0.000,5000.0,0.01
b,100.5,9000.0,0.005
"""
TIMES = """job,vm_type,vm_gpus,vm_usd_per_hour,gpus_used,seconds
a,NC6,1,0.56,1,4000.0
a,NC12,2,1.13,1,4000.0
a,NC12,2,1.13,2,2500.0
a,NV6,1,0.62,1,3000.0
b,NC6,1,0.56,1,2000.0
b,NC12,2,1.13,1,2000.0
b,NC12,2,1.13,2,1100.0
b,NV6,1,0.62,1,2600.0
"""
REAL = Path(__file__).parents[2].parent / "shared" / "facts" / "ardagna" / "instances"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "times.csv").write_text(TIMES)
    return tmp_path


def edited(folder: Path, name: str, old: str, new: str) -> Path:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    return folder


def error_message(folder: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_instance(folder)
    return str(caught.value)


def test_folder_is_read_as_jobs_by_slots(folder: Path) -> None:
    read = read_instance(folder)
    assert read.excluded == ()
    assert read.instance.slots == (Slot("NC6", 1), Slot("NC12", 1), Slot("NC12", 2), Slot("NV6", 1))
    assert [job.id for job in read.instance.jobs] == ["a", "b"]
    assert read.instance.jobs[1] == Job(
        id="b",
        submitted_seconds=100.5,
        deadline_seconds=9000,
        late_usd_per_second=0.005,
        seconds=(2000, 2000, 1100, 2600),
    )
    assert read.instance.true_seconds == ()


def test_types_with_equal_times_have_the_same_gpu(folder: Path) -> None:
    gpus = {each.name: each.gpu for each in read_instance(folder).instance.types}
    assert gpus["NC6"] == gpus["NC12"] != gpus["NV6"]


def test_one_different_time_gives_different_gpus(folder: Path) -> None:
    edited(folder, "times.csv", "b,NC12,2,1.13,1,2000.0", "b,NC12,2,1.13,1,2000.1")
    gpus = {each.name: each.gpu for each in read_instance(folder).instance.types}
    assert gpus["NC6"] != gpus["NC12"]


def test_gpu_column_is_used(folder: Path) -> None:
    lines = TIMES.splitlines()
    with_gpu = [f"{lines[0]},gpu"] + [f"{line},{'M60' if 'NV' in line else 'K80'}" for line in lines[1:]]
    (folder / "times.csv").write_text("\n".join(with_gpu))
    assert [each.gpu for each in read_instance(folder).instance.types] == ["K80", "K80", "M60"]


def test_job_cannot_run_on_a_slot_without_a_time(folder: Path) -> None:
    edited(folder, "times.csv", "b,NC12,2,1.13,2,1100.0\n", "")
    assert read_instance(folder).instance.jobs[1].seconds == (2000, 2000, math.inf, 2600)


def test_jobs_are_sorted_by_submission(folder: Path) -> None:
    edited(folder, "jobs.csv", "a,0.000", "a,700")
    assert [job.id for job in read_instance(folder).instance.jobs] == ["b", "a"]


@pytest.mark.parametrize(
    ("old", "new"), [("\n", "\r\n"), ("job,", "\ufeffjob,"), (",", " , ")], ids=["crlf", "bom", "spaces"]
)
def test_line_ends_bom_and_spaces_do_not_matter(folder: Path, old: str, new: str) -> None:
    expected = read_instance(folder)
    for name in ("jobs.csv", "times.csv"):
        text = (folder / name).read_text()
        (folder / name).write_bytes((text.replace(old, new, 1 if "job" in old else -1)).encode())
    assert read_instance(folder) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [("b,100.5,9000.0", "b,100.5,50"), ("9000.0,0.005", "9000.0,0"), ("9000.0", "inf"), ("9000.0", "")],
    ids=["deadline before submission", "no weight", "infinite deadline", "no deadline"],
)
def test_unusual_jobs_that_can_be_scheduled_are_read(folder: Path, old: str, new: str) -> None:
    read = read_instance(edited(folder, "jobs.csv", old, new))
    assert (len(read.instance.jobs), read.excluded) == (2, ())


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("times.csv", "1100.0", "nan", "line 8, column seconds: 'nan' is not a number"),
        ("times.csv", "1100.0", "-4", "line 8, column seconds: -4 is not above zero"),
        ("times.csv", "1100.0", "0", "line 8, column seconds: 0 is not above zero"),
        ("times.csv", "1100.0", "soon", "line 8, column seconds: 'soon' is not a number"),
        ("times.csv", "1100.0", "", "line 8, column seconds: the cell is empty"),
        ("times.csv", "b,NV6,1,0.62,1,2600.0\n", "c,NV6,1,0.62,1,2600.0\n", "jobs.csv does not list it"),
        ("jobs.csv", "9000.0", "late", "line 3, column deadline_s: 'late' is not a number"),
        ("jobs.csv", "9000.0", "-inf", "line 3, column deadline_s: -inf is not a deadline"),
        ("jobs.csv", "100.5", "-1", "line 3, column submitted_s: -1 is negative or infinite"),
        ("jobs.csv", "0.005", "-0.005", "line 3, column tardiness_usd_per_s: -0.005 is negative or infinite"),
        (
            "jobs.csv",
            "b,100",
            "a job in no other table,100",
            "line 3, column job: it has no finite time on any machine",
        ),
    ],
    ids=["nan", "negative", "zero", "text", "empty", "unknown", "deadline", "forever", "before", "weight", "nowhere"],
)
def test_invalid_job_is_excluded_with_a_reason_and_the_others_are_read(
    folder: Path, name: str, old: str, new: str, says: str
) -> None:
    read = read_instance(edited(folder, name, old, new))
    assert "a" in [job.id for job in read.instance.jobs]
    assert any(says in str(each.reason.values["text"]) for each in read.excluded), read.excluded


def test_invalid_job_still_declares_its_slots(folder: Path) -> None:
    for old in ("4000.0", "4000.0", "2500.0", "3000.0"):
        edited(folder, "times.csv", old, "nan")
    read = read_instance(folder)
    assert len(read.instance.slots) == 4
    assert len(read.excluded) == 1


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("jobs.csv", "b,100", "a,100", "jobs.csv, line 3, column job: a is already in line 2"),
        ("times.csv", "a,NC12,2,1.13,2", "a,NC12,2,1.13,1", "times.csv, line 4, column job: the same job"),
        ("times.csv", "a,NC12,2,1.13,2", "a,NC12,2,1.13,3", "line 4, column gpus_used: a NC12 has 2, not 3"),
        (
            "times.csv",
            "b,NC6,1,0.56",
            "b,NC6,1,0.57",
            "line 6, column vm_usd_per_hour: NC6 has 0.57 here",
        ),
        ("times.csv", "b,NC6,1,", "b,NC6,2,", "line 6, column vm_gpus"),
        ("times.csv", "b,NC6,1,0.56", "b,NC6,1,free", "line 6, column vm_usd_per_hour: 'free' is not a number"),
        ("times.csv", "b,NC6,1,0.56", "b,NC6,1,inf", "line 6, column vm_usd_per_hour"),
        ("times.csv", "b,NC6,1,0.56,1,", "b,NC6,1,0,56,1,", "line 6, column 7: there are more cells than columns"),
        ("times.csv", "b,NC6,1,0.56,1", "b,NC6,1,0.56,1.5", "line 6, column gpus_used: 1.5 is not a whole number"),
        ("times.csv", "b,NC6,1,0.56,1", "b,NC6,1,0.56,0", "line 6, column gpus_used: 0 is not a whole number"),
        ("times.csv", "b,NC6", ",NC6", "line 6, column job: the line has seconds but no job"),
        ("times.csv", "seconds", "hours", "times.csv, line 1: column seconds is missing"),
        ("jobs.csv", "deadline_s", "due", "jobs.csv, line 1: column deadline_s is missing"),
        ("jobs.csv", "job,", "job,job,", "line 1, column job: it occurs twice"),
        ("jobs.csv", "a,", '"a,', "is not a text table"),
    ],
    ids=[
        "job twice",
        "row twice",
        "too many GPUs",
        "two prices",
        "two sizes",
        "price in words",
        "infinite price",
        "decimal comma",
        "half a GPU",
        "no GPU",
        "no job",
        "no seconds",
        "no deadlines",
        "column twice",
        "open quotes",
    ],
)
def test_invalid_table_is_an_error_that_names_the_line(folder: Path, name: str, old: str, new: str, says: str) -> None:
    assert says in error_message(edited(folder, name, old, new))


ODD = st.sampled_from(
    ["", "nan", "inf", "-inf", "1e999", "-0", "1_0", "٣", "0x1", '"', "1,2", "\n", "\x00", "é" * 5, "1e300"]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["jobs.csv", "times.csv"]), st.integers(0, 60), ODD | st.text(max_size=4))
def test_every_cell_is_read_or_gives_a_usage_error(folder: Path, name: str, position: int, odd: str) -> None:
    rows = [line.split(",") for line in (JOBS if name == "jobs.csv" else TIMES).splitlines()]
    row = rows[position // len(rows[0]) % len(rows)]
    row[position % len(row)] = odd
    (folder / "jobs.csv").write_text(JOBS)
    (folder / "times.csv").write_text(TIMES)
    (folder / name).write_text("\n".join(",".join(cells) for cells in rows), errors="surrogatepass")
    with contextlib.suppress(UsageError):
        read = read_instance(folder)
        assert len(read.instance.jobs) + len(read.excluded) >= 2


def test_missing_files_are_named(folder: Path) -> None:
    assert "there is no folder" in error_message(folder / "elsewhere")
    (folder / "times.csv").unlink()
    assert "times.csv" in error_message(folder)
    (folder / "times.csv").mkdir()
    assert "is a folder" in error_message(folder)


def test_binary_file_is_an_error(folder: Path) -> None:
    (folder / "jobs.csv").write_bytes(b"job\xff\xfe\x00")
    assert "is not a text table" in error_message(folder)


def test_folder_without_a_valid_job_is_an_error(folder: Path) -> None:
    (folder / "jobs.csv").write_text(JOBS.replace("a,0", "c,0").replace("b,100", "d,100"))
    assert "no job of" in error_message(folder)


def test_empty_queue_has_machines_and_no_jobs(folder: Path) -> None:
    (folder / "jobs.csv").write_text(JOBS.splitlines()[0])
    read = read_instance(folder)
    assert (read.instance.jobs, len(read.instance.types), len(read.excluded)) == ((), 3, 2)


def test_queue_without_machines_is_an_error(folder: Path) -> None:
    (folder / "jobs.csv").write_text(JOBS.splitlines()[0])
    (folder / "times.csv").write_text(TIMES.splitlines()[0])
    assert "no machine is known" in error_message(folder)


def test_quotas_are_read_and_must_be_unique(folder: Path) -> None:
    (folder / "quotas.csv").write_text("user,gpus\nada,4\nbob,0\n")
    assert read_instance(folder).instance.quotas == (("ada", 4), ("bob", 0))
    (folder / "quotas.csv").write_text("user,gpus\nada,4\nada,0\n")
    assert "ada already has a quota" in error_message(folder)


def rich_instance() -> Instance:
    """An instance with everything that a folder can hold: gangs, spot, limits, users, errors, true times, quotas."""
    types = (
        NodeType(name="big", gpu="K80", gpus=2, usd_per_hour=1.1),
        NodeType(name="big spot", gpu="K80", gpus=2, usd_per_hour=0.4, reclaims_per_hour=0.1, max_nodes=3),
        NodeType(name="none, available", gpu="P100", gpus=1, usd_per_hour=9, max_nodes=0),
    )
    slots = (
        *(Slot(each.name, gpus) for each in types for gpus in range(1, each.gpus + 1)),
        Slot("big", 2, nodes=4),
    )
    jobs = tuple(
        Job(
            id=f"job {number}",
            submitted_seconds=number / 3,
            deadline_seconds=math.inf if number else 5.0,
            late_usd_per_second=0.1,
            seconds=(7 / 3, 2, 7 / 3, 2, math.inf, 0.6),
            log_error=0.2,
            user="ada",
        )
        for number in range(2)
    )
    true = ((7.0, 6, 7, 6, math.inf, 2), jobs[1].seconds)
    return Instance(types=types, slots=slots, jobs=jobs, true_seconds=true, quotas=(("ada", 3),))


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32 - 1))
def test_written_instance_is_read_back(tmp_path: Path, seed: int) -> None:
    instance = random_instance(seed, types=AZURE)
    write_instance(tmp_path, instance)
    assert read_instance(tmp_path) == LoadedInstance(instance=instance, excluded=())


def test_every_field_of_an_instance_is_written(tmp_path: Path) -> None:
    instance = rich_instance()
    write_instance(tmp_path / "new" / "folder", instance)
    assert read_instance(tmp_path / "new" / "folder").instance == instance


def test_queue_without_jobs_is_written_with_its_machines(tmp_path: Path) -> None:
    instance = Instance(types=AZURE, slots=random_instance(0, types=AZURE).slots, jobs=())
    write_instance(tmp_path, rich_instance())
    write_instance(tmp_path, instance)
    assert read_instance(tmp_path) == LoadedInstance(instance=instance, excluded=())


@pytest.mark.skipif(not REAL.is_dir(), reason="the published instances are not next to the checkout")
def test_published_instances_are_read_unchanged() -> None:
    read = read_instance(REAL / "10-100-0-high")
    assert (len(read.instance.jobs), len(read.instance.slots), read.excluded) == (100, 14, ())
    assert len({each.gpu for each in read.instance.types}) == 2


@pytest.mark.parametrize(
    "name", ["a\x1b[31m", '"a\nb"', "a\x07", "a\u2028b"], ids=["escape", "line", "bell", "separator"]
)
def test_names_with_control_characters_are_refused(folder: Path, name: str) -> None:
    edited(folder, "jobs.csv", "\na,", f"\n{name},")
    assert "contains control characters" in error_message(folder)
