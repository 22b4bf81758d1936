"""Files of Keras' CSVLogger."""

from pathlib import Path

import pytest

from tests.profiler.past_runs.samples import SAMPLES
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.past_runs.build_profile import profile_from_log
from trainfare.profiler.past_runs.keras_csv import read
from trainfare.profiler.past_runs.run_log import RunOverrides


def imported(path: Path) -> Profile:
    return profile_from_log(read(path), RunOverrides(), id="p1")[0]


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["keras.csv", "keras_batches.csv"])
def test_only_the_curve_is_known(name: str) -> None:
    profile = imported(SAMPLES / name)
    assert profile.framework == "keras"
    assert [epoch.number for epoch in profile.curve] == [1, 2, 3, 4]
    assert all(epoch.metrics.keys() == {"mae", "val_loss", "val_mae"} for epoch in profile.curve)
    assert profile.curve[0].loss is not None
    assert (profile.loss, profile.iteration_seconds, profile.run_seconds, profile.epochs) == ((), (), None, None)


def test_tabs_separate_columns_and_na_is_not_a_number(tmp_path: Path) -> None:
    curve = imported(table(tmp_path, "epoch\tloss\tval_loss\n0\t0.5\tNA\n1\tnan\t0.4\n")).curve
    assert (curve[0].loss, curve[0].metrics) == (0.5, {})
    assert (curve[1].loss, curve[1].metrics) == (None, {"val_loss": 0.4})


def test_resumed_run_starts_with_its_first_logged_epoch(tmp_path: Path) -> None:
    assert [epoch.number for epoch in imported(table(tmp_path, "epoch,loss\n5,0.5\n6,0.4\n")).curve] == [6, 7]


def test_epochs_appended_again_replace_the_earlier_ones(tmp_path: Path) -> None:
    path = table(tmp_path, "epoch,loss\n0,0.9\n1,0.8\n2,0.7\nepoch,loss\n1,0.6\n2,0.5\n")
    assert [epoch.loss for epoch in imported(path).curve] == [0.9, 0.6, 0.5]


def test_complete_columns_of_an_incomplete_line_are_used(tmp_path: Path) -> None:
    curve = imported(table(tmp_path, "epoch,loss,val_loss\n0,0.9,0.8\n1,0.7")).curve
    assert (curve[1].loss, curve[1].metrics) == (0.7, {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no column epoch"),
        (b"step,loss\n1,2\n", "Its columns are step, loss"),
        (b"epoch,loss\n", "no row with an epoch"),
        (b"epoch,loss\nx,y\n", "no row with an epoch"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "is not a CSV file: byte 0 is not text"),
        (b"epoch,loss\n0,\0\0\n", "is not a CSV file: it contains binary zeros"),
        (b"epoch,loss\n0," + b"1" * 200_000 + b"\n", "is not a CSV file"),
        (b"epoch,loss\n0," + b"1," * 700_000, "line of more than"),
    ],
)
def test_other_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read(path)


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; give the path of a CSV file in it"):
        read(tmp_path)


def test_other_table_is_referred_to_the_csv_reader(tmp_path: Path) -> None:
    path = table(tmp_path, "step,loss\n1,2\n")
    with pytest.raises(UsageError) as refusal:
        read(path)
    assert [(remedy.command, remedy.arguments) for remedy in refusal.value.remedies] == [
        ("import csv", {"path": str(path)})
    ]
