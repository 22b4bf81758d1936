"""CSV files: the meaning of the columns and of the times."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.past_runs.build_profile import profile_from_log
from trainfare.profiler.past_runs.csv_table import read
from trainfare.profiler.past_runs.run_log import RunOverrides


def table(tmp_path: Path, header: str, *rows: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("\n".join((header, *rows)) + "\n")
    return path


def imported(path: Path, **options: Any) -> Profile:
    return profile_from_log(read(path, **options), RunOverrides(), id="p1")[0]


def test_wall_times_are_moments(tmp_path: Path) -> None:
    profile = imported(table(tmp_path, "Step,Wall time,Train Loss", *(f"{n},{100 + 2 * n},{1 / n}" for n in (1, 2, 3))))
    assert profile.iteration_seconds == (2.0, 2.0)
    assert profile.loss == pytest.approx((1.0, 1 / 2, 1 / 3))


def test_iso_8601_dates_are_moments(tmp_path: Path) -> None:
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows = (f"{n};{(start + timedelta(seconds=n)).isoformat()};0.5" for n in range(4))
    profile = imported(table(tmp_path, "iteration;time;loss", *rows))
    assert profile.iteration_seconds == (1.0,) * 3
    assert profile.measured_at == start + timedelta(seconds=3)


def test_milliseconds_since_1970_are_recognised_by_their_size(tmp_path: Path) -> None:
    profile = imported(table(tmp_path, "step,time,loss", *(f"{n},{1794797162774 + 20 * n},1" for n in range(4))))
    assert profile.iteration_seconds == pytest.approx((0.02,) * 3, rel=1e-4)
    assert profile.measured_at.year == 2026


def test_durations_by_their_name_time_the_first_iteration_too(tmp_path: Path) -> None:
    profile = imported(table(tmp_path, "step,step_time_ms,loss", "1,900,3", "2,100,2", "3,100,1"))
    assert profile.iteration_seconds == pytest.approx((0.9, 0.1, 0.1))
    assert profile.run_seconds is None  # the time between the steps is unknown


def test_decreasing_times_are_durations(tmp_path: Path) -> None:
    profile = imported(table(tmp_path, "epoch,seconds,loss", "1,31,3", "2,30,2", "3,30,1"))
    assert [epoch.seconds for epoch in profile.curve] == [31.0, 30.0, 30.0]


def test_times_that_rise_in_many_rows_are_moments(tmp_path: Path) -> None:
    profile = imported(table(tmp_path, "step,time,loss", *(f"{n},{n * 1.5},1" for n in range(8))))
    assert profile.iteration_seconds == (1.5,) * 7


def test_times_that_rise_in_few_rows_are_ambiguous(tmp_path: Path) -> None:
    path = table(tmp_path, "epoch,time,loss", "1,30,3", "2,31,2", "3,33,1")
    with pytest.raises(UsageError) as refusal:
        read(path)
    assert refusal.value.field == "time_is"
    assert [dict(remedy.arguments) for remedy in refusal.value.remedies] == [
        {"time_is": "moment"},
        {"time_is": "duration"},
    ]
    assert [epoch.seconds for epoch in imported(path, time_is="duration").curve] == [30.0, 31.0, 33.0]
    assert [epoch.seconds for epoch in imported(path, time_is="moment").curve] == [None, 1.0, 2.0]


def test_step_duration_counts_for_every_step_of_a_row(tmp_path: Path) -> None:
    profile = imported(table(tmp_path, "step,step_time,loss", *(f"{n},0.5,1" for n in range(10, 50, 10))))
    assert profile.iteration_seconds == (0.5,) * 4


def test_step_and_epoch_together_give_the_length_of_an_epoch(tmp_path: Path) -> None:
    rows = (f"{n // 5},{n},{n * 0.1:.3f},{1 / (n + 1)},{0.5 if n % 5 == 4 else ''}" for n in range(20))
    profile = imported(table(tmp_path, "epoch,step,elapsed,loss,val_acc", *rows))
    assert profile.iterations_per_epoch == 5
    assert [epoch.number for epoch in profile.curve] == [1, 2, 3, 4]
    assert profile.curve[0].metrics == {"val_acc": 0.5}


def test_columns_can_be_given_by_name(tmp_path: Path) -> None:
    path = table(tmp_path, "n,when,error", *(f"{n},{n * 2},1" for n in range(9)))
    with pytest.raises(UsageError, match=r"Its columns are n, when, error\.") as refusal:
        read(path)
    assert [list(remedy.arguments) for remedy in refusal.value.remedies] == [["step_column"], ["epoch_column"]]
    profile = imported(path, step_column="n", time_column="when")
    assert profile.iteration_seconds == (2.0,) * 8
    with pytest.raises(UsageError, match="no column 'x'") as refusal:
        read(path, step_column="x")
    assert refusal.value.field == "step_column"


def test_table_without_times_has_a_curve(tmp_path: Path) -> None:
    profile = imported(table(tmp_path, "epoch,train_loss,val_loss", "1,0.5,0.6", "2,0.4,NaN"))
    assert [epoch.seconds for epoch in profile.curve] == [None, None]
    assert profile.curve[1].metrics == {}


def test_rows_without_a_step_are_skipped_and_counted(tmp_path: Path) -> None:
    log = read(table(tmp_path, "step,loss", "1,0.5", "total,0.4", "2.5,1", "3,0.3"))
    assert list(log.by_step["loss"].steps) == [1, 3]
    assert "2 rows" in log.notes[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "It has no columns"),
        (b"step,loss\n", "no row with an integer step"),
        (b"step,time,loss\n1,noon,2\n", "'noon' is neither a number nor an ISO 8601 date"),
        (b"\xff\xfe\x00", "is not a CSV file"),
    ],
)
def test_file_that_is_not_a_training_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read(path)


def test_huge_table_is_read_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with path.open("w") as file:
        file.write("step,loss,note\n")
        file.writelines(f"{n},0.5,{'x' * 200}\n" for n in range(40_000))
    tracemalloc.start()
    try:
        read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 4
