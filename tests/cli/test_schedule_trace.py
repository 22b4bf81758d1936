"""`trainfare schedule import` as a shell sees it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.measurements.test_job_traces import THROUGHPUT, TRACE
from trainfare.cli.main import app
from trainfare.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "throughput.csv").write_text(THROUGHPUT)
    (tmp_path / "a.trace").write_text(TRACE)
    return tmp_path


def run(folder: Path, *flags: object) -> Result:
    files = (folder / "a.trace", "--throughputs", folder / "throughput.csv", "--into", folder / "queue")
    result = CliRunner().invoke(app, ["schedule", "import", *map(str, (*files, *flags))])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_help_fits_a_screen() -> None:
    shown = CliRunner().invoke(app, ["schedule", "import", "--help"]).stdout
    assert 5 < len(shown.splitlines()) <= 40
    assert max(map(len, shown.splitlines())) <= 80


def test_what_was_made_and_what_to_do_with_it_are_told(folder: Path) -> None:
    result = run(folder)
    assert result.stdout == "2 jobs in 1 min on 8 machine types\n"
    assert "1 node would have a load of 0.14" in result.stderr
    assert f"next: trainfare schedule compare --instance {folder / 'queue'} --nodes 1" in result.stderr
    simulated = ["schedule", "simulate", "--instance", str(folder / "queue"), "--nodes", "1", "--policy", "greedy"]
    assert "for 2 jobs on 1 node by greedy" in CliRunner().invoke(app, simulated).stdout


def test_jobs_that_are_left_out_are_named_a_few_of_many(folder: Path) -> None:
    (folder / "a.trace").write_text(TRACE + "nonsense\n" * 7)
    shown = run(folder).stdout
    assert "job J3 is left out: " in shown
    assert "2 more jobs are left out: --json tells them all" in shown
    assert len(json.loads(run(folder, "--force", "--json").stdout)["left_out"]) == 7


def test_json_tells_what_was_made(folder: Path) -> None:
    record = json.loads(run(folder, "--gangs", "--jobs", 1, "--seed", 3, "--error", 0.2, "--json").stdout)
    assert (record["job_count"], record["seed"], record["load"], record["nodes"]) == (1, 3, None, 1)
    assert record["instance"] == str(folder / "queue")
    assert record["left_out"] == []


def test_files_that_were_mixed_up_are_named(folder: Path) -> None:
    (folder / "throughput.csv").write_text(TRACE)
    with pytest.raises(UsageError, match=r"throughput\.csv, line 1: there is no column gpu"):
        run(folder)
