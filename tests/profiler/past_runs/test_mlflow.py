"""Runs of MLflow, from the file store and from SQLite."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import median

import pytest

from tests.profiler.past_runs.samples import SAMPLES
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.past_runs.build_profile import profile_from_log
from trainfare.profiler.past_runs.mlflow import read
from trainfare.profiler.past_runs.run_log import RunLog, RunOverrides

RUN = next((SAMPLES / "mlruns").glob("*/*/metrics")).parent

SCHEMA = """
CREATE TABLE runs (run_uuid VARCHAR(32) NOT NULL, name VARCHAR(250), source_type VARCHAR(20), source_name VARCHAR(500),
    entry_point_name VARCHAR(50), user_id VARCHAR(256), status VARCHAR(9), start_time BIGINT, end_time BIGINT,
    source_version VARCHAR(50), lifecycle_stage VARCHAR(20), artifact_uri VARCHAR(200), experiment_id INTEGER,
    deleted_time BIGINT);
CREATE TABLE metrics (key VARCHAR(250) NOT NULL, value FLOAT NOT NULL, timestamp BIGINT NOT NULL,
    run_uuid VARCHAR(32) NOT NULL, step BIGINT DEFAULT '0' NOT NULL, is_nan BOOLEAN DEFAULT '0' NOT NULL);
CREATE TABLE params (key VARCHAR(250) NOT NULL, value VARCHAR(8000) NOT NULL, run_uuid VARCHAR(32) NOT NULL);
CREATE TABLE tags (key VARCHAR(250) NOT NULL, value VARCHAR(8000), run_uuid VARCHAR(32) NOT NULL);
"""
"""The tables that are read, as mlflow-skinny 3.17 makes them (without indices and foreign keys)."""


def profiled(log: RunLog) -> Profile:
    return profile_from_log(log, RunOverrides(), id="p1")[0]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Two runs: one of five steps with a NaN, and an older one."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as store, store:
        store.executescript(SCHEMA)
        for name, start in (("new", 1_794_797_000_000), ("old", 1_694_797_000_000)):
            values = (name, "FINISHED", start, start + 6000, "active")
            store.execute(
                "INSERT INTO runs (run_uuid, status, start_time, end_time, lifecycle_stage) VALUES (?, ?, ?, ?, ?)",
                values,
            )
            for step in range(5):
                point = ("loss", 1.0 if step == 2 else 1 / (step + 1), start + 1000 * (step + 1), name, step, step == 2)
                store.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", point)
            store.execute("INSERT INTO params VALUES ('batch_size', '32', ?)", (name,))
            store.execute("INSERT INTO tags VALUES ('mlflow.source.name', 'train.py', ?)", (name,))
    return path


def test_run_of_the_file_store() -> None:
    """The program slept 20 ms per iteration and 60 ms per validation."""
    profile = profiled(read(RUN))
    assert (profile.micro_batch_size, profile.epochs, profile.program.name) == (32, 3, "train.py")
    assert median(profile.iteration_seconds) == pytest.approx(0.021, abs=0.002)
    assert profile.validation_seconds == pytest.approx((0.06, 0.06), abs=0.01)
    assert len(profile.loss) == profile.run_iterations == 24
    assert profile.ending == "finished"
    assert profile.run_seconds == pytest.approx(0.7, abs=0.2)


def test_newest_run_of_a_store_is_read(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "mlruns", tmp_path / "mlruns")
    older = tmp_path / "mlruns" / "0" / "older"
    shutil.copytree(RUN, older)
    meta = older / "meta.yaml"
    meta.write_text(meta.read_text().replace("start_time: 17", "start_time: 16"))
    log = read(tmp_path / "mlruns")
    assert log.source.name == RUN.name
    assert "2 runs were found" in log.notes[0]
    assert read(tmp_path / "mlruns", run="older").source == older


def test_metric_with_a_slash_is_a_file_in_a_folder(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    (tmp_path / "run" / "metrics" / "train").mkdir()
    (tmp_path / "run" / "metrics" / "train_loss").rename(tmp_path / "run" / "metrics" / "train" / "loss")
    assert "train/loss" in read(tmp_path / "run").by_step


def test_invalid_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    with (tmp_path / "run" / "metrics" / "train_loss").open("ab") as file:
        file.write(b"179479716\n\xff\xfe x y\n\n1794797163000 nan 24\n")
    log = read(tmp_path / "run")
    assert "2 lines" in log.notes[0]
    assert len(log.by_step["train_loss"]) == 25


def test_run_of_the_sqlite_store(database: Path) -> None:
    for path in (database, f"sqlite:///{database}"):
        log = read(path)
        assert "the newest, new, was read" in log.notes[0]
        profile = profiled(log)
        assert profile.iteration_seconds == (1.0,) * 4
        assert profile.loss == (1.0, 0.5, None, 0.25, 0.2)
        assert (profile.micro_batch_size, profile.run_seconds, profile.ending) == (32, 6.0, "finished")
        assert profile.program.name == "train.py"


def test_run_can_be_selected_by_its_id(database: Path) -> None:
    log = read(database, run="old")
    assert log.notes == ()
    assert log.ended_at.year == 2023
    with pytest.raises(UsageError, match=r"no run older\. Its runs are new, old"):
        read(database, run="older")


def test_store_is_not_changed(database: Path) -> None:
    before = database.read_bytes()
    read(database)
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir()] == ["mlflow.db"]


@pytest.mark.parametrize("content", [b"", b"no database" * 100])
def test_file_that_is_not_a_store_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mlflow.db"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read as a store of MLflow"):
        read(path)


def test_empty_folder_is_refused_with_the_expected_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"contain a folder with meta\.yaml and metrics/"):
        read(tmp_path)


def test_server_is_refused() -> None:
    with pytest.raises(UsageError, match="a store at http:// cannot be read"):
        read("http://localhost:5000")
