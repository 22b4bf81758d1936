"""`trainfare import`: a profile of a past run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.profiler.past_runs.samples import SAMPLES
from trainfare.cli.main import app
from trainfare.errors import UsageError

runner = CliRunner()


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    store = str(tmp_path / "history.db")
    monkeypatch.setenv("TRAINFARE_STORE", store)
    return store


def import_run(*arguments: str) -> Result:
    return runner.invoke(app, ["import", *arguments], catch_exceptions=False)


def test_the_card_is_followed_by_what_is_not_known() -> None:
    result = import_run("tensorboard", str(SAMPLES / "lightning"))
    assert result.exit_code == 0
    first, times, *_ = result.stdout.splitlines()
    assert first.startswith("Lightning · batch size unknown · 64 iterations per epoch")
    assert "then 6." in times
    assert "curve of 4 epochs: loss" in result.stdout
    assert "  machine it ran on  --on aws/g5.xlarge\n" in result.stderr
    assert "trainfare recommend cannot use it without: machine it ran on\n" in result.stderr
    assert "next:" not in result.stderr


def test_a_complete_profile_is_followed_by_the_next_command() -> None:
    result = import_run("tensorboard", str(SAMPLES / "lightning"), "--on", "aws/g5.xlarge", "--batch-size", "4")
    name = result.stderr.partition("profile ")[2].split()[0]
    assert f"next: trainfare recommend {name}\n" in result.stderr
    assert runner.invoke(app, ["profiles", "show", name]).exit_code == 0


def test_stdout_has_only_the_json() -> None:
    result = import_run("hf", str(SAMPLES / "hf"), "--samples", "100", "--json")
    record = json.loads(result.stdout)
    assert (record["origin"], record["samples"], record["run_iterations"]) == ("hf", 100, 39)
    assert [epoch["number"] for epoch in record["curve"]] == [1, 2, 3]


@pytest.mark.parametrize("option", ["--loss", "--loss-tag", "--loss-column"])
def test_the_loss_is_named_by_tag_or_column(option: str) -> None:
    record = json.loads(import_run("tensorboard", str(SAMPLES / "torch"), option, "Loss/train", "--json").stdout)
    assert len(record["loss"]) == 30


def test_options_name_the_columns_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("n,s,e,x\n" + "".join(f"{n},0.5,{n // 5},{1 / (n + 1)}\n" for n in range(10)))
    columns = ["--step-column", "n", "--time-column", "s", "--epoch-column", "e", "--loss-column", "x"]
    record = json.loads(import_run("csv", str(path), *columns, "--time-is", "duration", "--json").stdout)
    assert record["iteration_seconds"] == [0.5] * 10
    assert record["iterations_per_epoch"] == 5


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    result = import_run("comet", str(SAMPLES))
    assert result.exit_code == 2
    assert "'tensorboard'" in result.stderr


def test_names_in_a_log_are_not_markup(tmp_path: Path) -> None:
    path = tmp_path / "[red]x[bold].csv"
    path.write_text("epoch,loss,val_[bold]\n0,1,2\n1,1,2\n")
    result = import_run("keras-csv", str(path))
    assert "val_[bold] 2" in result.stdout
    assert "[red]x[bold].csv" in result.stderr


def test_a_wrong_path_is_one_paragraph_and_exit_code_2(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        import_run("wandb", str(tmp_path))
    command = [str(Path(sys.executable).with_name("trainfare")), "import", "wandb", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("trainfare: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
