"""Programs in every form through the command line, exports of them, and bad input: said clearly, and nothing left."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import complaint, read_json, run, store, succeed
from tests.makers import make_plan, make_profile, make_program
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.clouds.fake import FakeDoor
from trainfare.settings import read_settings
from trainfare.store.open import open_history

CANARY = "canary-5f1c0a77"

TASK = f"""
name: digits
resources: {{accelerators: H100:1}}
envs: {{EPOCHS: 3}}
secrets: {{TOKEN: null}}
file_mounts: {{digits: ../digits}}
setup: echo setup >> setup.txt
run: |
  cat digits/train > weights.txt
  {sys.executable} train.py $EPOCHS
config:
  trainfare: {{machine: fake/small, budget: 5}}
"""

PROGRAM = """
import os, pathlib, sys
token = os.environ["TOKEN"]
launch = pathlib.Path(os.environ["TRAINFARE_LAUNCH"]) if "TRAINFARE_LAUNCH" in os.environ else pathlib.Path(".")
def contains(path):
    try:
        return token.encode() in path.read_bytes()
    except OSError:
        return False
leaks = [str(p) for p in launch.rglob("*") if p.is_file() and contains(p)]
leaks += [str(p) for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if contains(p)]
print("leaks", leaks, "token", token, "epochs", sys.argv[1:], os.environ.get("SKYPILOT_NODE_RANK"))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "train").write_text("0 1 2")
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    monkeypatch.setenv("TRAINFARE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("TRAINFARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRAINFARE_STORE", str(tmp_path / "history.db"))
    monkeypatch.chdir(folder)
    return folder


def nothing_was_started(folder: Path) -> bool:
    return read_json("runs", "list") == [] and FakeDoor(folder / "provider").machines() == ()


def files_with(text: str, folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def run_script(text: str, project: Path, tmp_path: Path) -> Path:
    """Carry a script out by hand; returns the folder of the program. For bash, options of Slurm are comments."""
    for result in ("weights.txt", "setup.txt"):
        (project / result).unlink(missing_ok=True)
    (tmp_path / "train.sh").write_text(text)
    done = subprocess.run(["bash", tmp_path / "train.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "epochs ['3']" in done.stdout
    return project


def run_task(text: str, project: Path, tmp_path: Path) -> Path:
    """Carry a task out as SkyPilot would: mounts, variables, setup and run, in a copy of the folder."""
    task, home = yaml.safe_load(text), tmp_path / "remote"
    assert task["workdir"] == str(project)
    shutil.copytree(project, home / "sky_workdir", ignore=lambda *_: {"weights.txt", "setup.txt", "digits"})
    for place, source in task["file_mounts"].items():
        shutil.copytree(source, home / place.removeprefix("~/"))
    for part in ("setup", "run"):
        environment = {**os.environ, "HOME": str(home), **task["envs"]}
        words = ["bash", "-c", task[part]]
        done = subprocess.run(words, cwd=home / "sky_workdir", env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    return home / "sky_workdir"


def test_a_task_file_runs_its_secret_leaks_nowhere_and_its_script_does_the_same(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", CANARY)
    (project / "task.yaml").write_text(TASK)
    result = succeed("run", "-y", "--json", "task.yaml")
    ended = json.loads(result.stdout)
    assert (ended["outcome"], ended["limits"]["budget_usd"]) == ("succeeded", 5.0)
    assert "have no effect here: resources.accelerators." in result.stderr
    assert "data digits:" in result.stderr
    assert (project / "weights.txt").read_text() == "0 1 2"
    printed = succeed("logs", ended["id"]).stdout
    assert "leaks [] token *** epochs ['3'] 0" in printed
    assert CANARY not in result.stdout + result.stderr + printed
    assert files_with(CANARY, tmp_path) == []

    exported = {to: read_json("export", to, ended["id"])["text"] for to in ("skypilot", "slurm", "script")}
    assert all(CANARY not in text and "TOKEN" in text for text in exported.values())
    assert succeed("export", "script", ended["id"], "-o", tmp_path / "train.sh").stderr.endswith("train.sh written\n")
    for to, tool in {"script": run_script, "slurm": run_script, "skypilot": run_task}.items():
        folder = tool(exported[to], project, tmp_path)
        assert (folder / "weights.txt").read_text() == "0 1 2"
        assert (folder / "setup.txt").read_text() == "setup\n"
    monkeypatch.delenv("TOKEN")
    refused = subprocess.run(["bash", tmp_path / "train.sh"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "TOKEN: must be set" in refused.stderr


def test_a_plan_is_exported_with_the_machine_that_it_chose(project: Path) -> None:
    profile = make_profile(program=make_program(directory=str(project)))
    store(profile)
    plan = make_plan()
    with open_history(read_settings().store) as history:
        history.plans.add(plan)
    text = succeed("export", "skypilot", plan.id).stdout
    assert f"instance_type: {plan.chosen.candidate.offer.vm_type.name}" in text
    assert "# predicted: " in text
    assert "there is no run or plan" in complaint("export", "slurm", "nothing")
    assert "skypilot" in run("export", "kubernetes", plan.id).stderr


def test_a_failed_setup_shows_its_last_lines(project: Path) -> None:
    words = ("--setup", "echo first; echo no such package >&2; exit 4", "--", sys.executable, "train.py")
    result = run("run", "--on", "fake/small", "-y", *words)
    assert result.exit_code == 1
    assert "  first\n  no such package\n" in result.stderr
    assert "failed: The setup ended with exit code 4." in result.stderr


def test_a_program_that_fails_at_once_shows_its_last_lines_without_its_secret(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", CANARY)
    (project / "train.py").write_text("import os; raise SystemExit('cannot log in with ' + os.environ['TOKEN'])")
    words = ("--secret", "TOKEN", "--json", "--", sys.executable, "train.py")
    result = run("run", "--on", "fake/small", "-y", *words)
    ended = json.loads(result.stdout)
    assert (result.exit_code, ended["exit_code"], ended["last_output"]) == (1, 1, ["cannot log in with ***"])
    assert CANARY not in result.output
    assert files_with(CANARY, tmp_path) == []
    assert FakeDoor(tmp_path / "provider").machines() == ()


def test_bad_input_is_said_before_anything_is_started(project: Path, tmp_path: Path) -> None:
    here = ("run", "--on", "fake/small", "-y")
    command = ("--", sys.executable, "train.py")
    for data, reason in {
        "http://169.254.169.254/latest/meta-data": "169.254.169.254 is not a public address",
        "nowhere": "there is no such file or folder here",
        "s3://bucket/x": "only http and https",
    }.items():
        assert reason in complaint(*here, "--data", data, *command)
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../../outside.py", "")
    assert "leads out of the archive. Nothing was unpacked." in complaint(*here, str(tmp_path / "bad.zip"))
    (project / "task.yaml").write_text("run: x\nsecrets: {TOKEN: null}\n")
    assert "the secret TOKEN is not set in the environment" in complaint(*here, "task.yaml")
    assert "is not NAME=VALUE" in complaint(*here, "--env", "EPOCHS", *command)
    assert "no folder" in complaint(*here, "--folder", "nowhere", *command)
    with (project / "dataset.bin").open("wb") as file:
        file.truncate(10_000_000_000)
    assert "too large to send" in complaint(*here, *command)
    assert "dataset.bin (10GB)" in complaint(*here, *command)
    assert nothing_was_started(tmp_path)
    assert not (tmp_path / "outside.py").exists()
    assert not list((tmp_path / "runs").rglob("*.py"))


def test_a_dry_run_says_what_would_be_sent(project: Path) -> None:
    (project / "requirements.txt").write_text("tiny\n")
    result = succeed("run", "--on", "fake/small", "--dryrun", "--data", "../digits", "--", "python", "train.py")
    assert "sends 2 files" in result.stderr
    assert "installs what requirements.txt names" in result.stderr
    assert "data digits: " in result.stderr
    words = ("run", "--on", "fake/small", "--dryrun", "--data", "../digits", "--env", "A=1", "--", "python", "train.py")
    shown = json.loads(succeed(*words[:-3], "--json", *words[-3:]).stdout)
    assert (shown["machine"], shown["variables"]) == ("fake/small", {"A": "1"})
    assert (shown["sending"]["files"], shown["sending"]["installs"]) == (2, "requirements.txt")
    assert [each["name"] for each in shown["sending"]["data"]] == ["digits"]
