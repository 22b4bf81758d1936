"""The commands around a run, through a provider that does not exist."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.commands import complaint, in_one_line, read_json, run, succeed
from trainfare.app.running.doors import FAKE_FOLDER

PROGRAM = "import pathlib; print('hello'); pathlib.Path('model.txt').write_text('weights')"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    monkeypatch.setenv("TRAINFARE_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(folder)
    return folder


def test_a_dry_run_says_what_it_would_do_and_starts_nothing(project: Path) -> None:
    result = succeed("run", "--on", "fake/small", "--dryrun", "--", sys.executable, "train.py")
    assert "train.py on fake small spot, at $1.00 an hour; how long it takes is unknown" in result.stderr
    assert not (project / "model.txt").exists()


def test_a_run_is_listed_shown_and_has_a_receipt(project: Path) -> None:
    ended = json.loads(succeed("run", "--on", "fake/small", "-y", "--json", "--", sys.executable, "train.py").stdout)
    assert (ended["state"], ended["outcome"], ended["exit_code"]) == ("ended", "succeeded", 0)
    assert ended["receipt"]["total"]["paid_usd"] > 0
    assert (project / "model.txt").read_text() == "weights"
    assert succeed("logs", ended["id"]).stdout == "hello\n"
    assert read_json("runs", "list")[0]["id"] == ended["id"]
    assert "succeeded: The program ended with exit code 0." in in_one_line("runs", "show", ended["id"])
    assert [line["part"] for line in read_json("receipt", ended["id"])["lines"]] == [
        "boot",
        "setup",
        "training",
        "collecting",
    ]
    assert succeed("reap").stderr == "Nothing is left behind.\n"


def test_a_failed_program_is_an_exit_code(project: Path) -> None:
    (project / "train.py").write_text("raise SystemExit(3)")
    result = run("run", "--on", "fake/small", "-y", "--", sys.executable, "train.py")
    assert result.exit_code == 1
    assert "failed: The program ended with exit code 3." in result.stderr


@pytest.mark.usefixtures("project")
def test_what_cannot_be_run_is_said() -> None:
    words = ("--", sys.executable, "train.py")
    assert "Did you mean fake/small?" in complaint("run", "--on", "fake/smal", "-y", *words)
    assert "cannot launch aws/p3.2xlarge" in complaint("run", "--on", "aws/p3.2xlarge", "-y", *words)
    assert "TOKEN is not set" in complaint("run", "--on", "fake/small", "--secret", "TOKEN", "-y", *words)
    assert "there is no terminal" in complaint("run", "--on", "fake/small", *words)
    assert "must be named" in complaint("run", *words)


def test_several_nodes_are_one_run_and_each_knows_its_place(project: Path) -> None:
    (project / "train.py").write_text(
        "import os, pathlib\n"
        "pathlib.Path('rank' + os.environ['RANK']).write_text(os.environ['MASTER_ADDR'] + ' ' + os.environ['MINE'])"
    )
    words = ("--nodes", "2", "--env", "MINE=yes", "--", sys.executable, "train.py")
    offered = succeed("run", "--on", "fake/small", "--dryrun", *words).stderr
    assert "on 2 × fake small spot, at $2.00 an hour, nodes joined by env;" in offered
    ended = json.loads(succeed("run", "--on", "fake/small", "-y", "--json", *words).stdout)
    assert (ended["outcome"], ended["nodes"], ended["launcher"]) == ("succeeded", 2, "env")
    assert [each["node"] for each in ended["traffic"]] == [0, 1]
    assert [(project / f"rank{node}").read_text() for node in (0, 1)] == ["127.0.0.1 yes"] * 2


@pytest.mark.usefixtures("project")
def test_a_launcher_must_exist_and_have_nodes_to_launch() -> None:
    words = ("-y", "--", sys.executable, "train.py")
    assert "there is no launcher mpi: torchrun," in complaint(
        "run", "--on", "fake/small", "--nodes", "2", "--launcher", "mpi", *words
    )
    assert "for programs on several nodes" in complaint("run", "--on", "fake/small", "--launcher", "env", *words)
