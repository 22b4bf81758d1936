"""`trainfare schedule import`."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.commands import run, succeed
from tests.measurements.test_job_traces import THROUGHPUT, TRACE
from trainfare.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "throughput.csv").write_text(THROUGHPUT)
    (tmp_path / "a.trace").write_text(TRACE)
    return tmp_path


def import_trace(folder: Path, *flags: object) -> Result:
    files = (folder / "a.trace", "--throughputs", folder / "throughput.csv", "--into", folder / "queue")
    return succeed("schedule", "import", *files, *flags)


def test_help_fits_a_screen() -> None:
    shown = run("schedule", "import", "--help").stdout
    assert 5 < len(shown.splitlines()) <= 40
    assert max(map(len, shown.splitlines())) <= 80


def test_an_imported_queue_can_be_simulated(folder: Path) -> None:
    result = import_trace(folder)
    assert result.stdout == "2 jobs, submitted within 1 min, on 8 machine types\n"
    assert "1 node would have a load of 0.14" in result.stderr
    assert f"next: trainfare schedule compare --instance {folder / 'queue'} --nodes 1" in result.stderr
    options = ("--instance", folder / "queue", "--nodes", 1, "--policy", "greedy")
    assert "for 2 jobs on 1 node with greedy" in succeed("schedule", "simulate", *options).stdout


def test_a_few_of_many_excluded_jobs_are_named(folder: Path) -> None:
    (folder / "a.trace").write_text(TRACE + "nonsense\n" * 7)
    shown = import_trace(folder).stdout
    assert "job J3 is left out: " in shown
    assert "2 more jobs are left out; --json lists all" in shown
    assert len(json.loads(import_trace(folder, "--force", "--json").stdout)["left_out"]) == 7


def test_json_describes_the_queue(folder: Path) -> None:
    record = json.loads(import_trace(folder, "--gangs", "--jobs", 1, "--seed", 3, "--error", 0.2, "--json").stdout)
    assert (record["job_count"], record["seed"], record["load"], record["nodes"]) == (1, 3, None, 1)
    assert record["instance"] == str(folder / "queue")
    assert record["left_out"] == []


def test_swapped_files_are_an_error_that_names_the_column(folder: Path) -> None:
    (folder / "throughput.csv").write_text(TRACE)
    with pytest.raises(UsageError, match=r"throughput\.csv, line 1: column gpu is missing"):
        import_trace(folder)
