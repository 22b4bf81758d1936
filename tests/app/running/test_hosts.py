"""Runs on hosts that are reached by a real ssh: from the agreement to the results, through cuts and reboots."""

import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.rigs.fixtures import fresh_rig, needs_hosts
from tests.rigs.hosts import HostRig
from trainfare.app.running import supervise
from trainfare.app.running.doors import open_door
from trainfare.app.running.run import RunOptions, agree, attend, reap, start_run
from trainfare.clouds import driver
from trainfare.clouds.door import MachineUnreachableError
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings

__all__ = ["fresh_rig"]

pytestmark = needs_hosts

PROGRAMS = Path(__file__).parents[2] / "programs"
SOURCE = """
import time
for epoch in range(40):
    print("epoch", epoch, flush=True)
    time.sleep(0.1)
open("model.pt", "wb").write(bytes(range(256)) * 1000)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "machines.toml").write_text('[box]\nssh = "h1"\nusd_per_hour = 0.36\n')
    return Settings(
        store=str(tmp_path / "h.db"),
        machines=str(tmp_path / "machines.toml"),
        prices=str(tmp_path / "prices"),
        runs=str(tmp_path / "runs"),
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SOURCE)
    monkeypatch.chdir(folder)
    return folder


def start(settings: Settings, on: str, results: Path) -> str:
    run = agree([sys.executable, "train.py"], RunOptions(on=on, results=results), settings=settings)
    start_run(run, settings=settings)
    return run.id


@pytest.mark.usefixtures("project")
def test_a_run_on_a_host_ends_with_its_results_at_home_and_nothing_left(
    fresh_rig: HostRig, settings: Settings, tmp_path: Path
) -> None:
    host = fresh_rig.add("h1")
    run_id = start(settings, "ssh/box", tmp_path / "results")
    ended = attend(run_id, settings=settings, poll_seconds=0.1)
    assert ended.life.outcome == "succeeded"
    assert (tmp_path / "results" / "model.pt").stat().st_size == 256_000
    assert host.run("ls", "-A", "/srv/home/.trainfare") == b""
    assert [command for command in host.processes() if "agent" in command] == []
    (offer,) = open_door(settings, "ssh/box").offers()
    assert (offer.vm_type.vcpus, offer.usd_per_hour) == (len(os.sched_getaffinity(0)), 0.36)


@pytest.mark.usefixtures("project")
def test_a_run_survives_a_cable_that_is_cut(fresh_rig: HostRig, settings: Settings, tmp_path: Path) -> None:
    host = fresh_rig.add("h1")
    run_id = start(settings, "ssh/h1", tmp_path / "results")
    attend(run_id, settings=settings, poll_seconds=0.1, until_started=True)
    host.cut()
    threading.Timer(4.0, host.restore).start()
    assert attend(run_id, settings=settings, poll_seconds=0.1).life.outcome == "succeeded"
    assert (tmp_path / "results" / "model.pt").stat().st_size == 256_000


@pytest.mark.usefixtures("project")
def test_a_run_whose_host_reboots_ends_and_leaves_nothing(
    fresh_rig: HostRig, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "SILENT_SECONDS", 1.0)
    host = fresh_rig.add("h1")
    run_id = start(settings, "ssh/h1", tmp_path / "results")
    attend(run_id, settings=settings, poll_seconds=0.1, until_started=True)
    host.reboot()
    assert attend(run_id, settings=settings, poll_seconds=0.1).life.outcome in ("failed", "lost")
    assert host.run("ls", "-A", "/srv/home/.trainfare") == b""
    assert reap(settings=settings).terminated == ()


def test_a_pytorch_training_goes_on_after_a_reboot_of_its_host(
    fresh_rig: HostRig, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.3))
    project, by_hand = tmp_path / "training", tmp_path / "by_hand"
    for folder in (project, by_hand):
        folder.mkdir()
        for name in ("torch_resumes.py", "without_compiler.py"):
            shutil.copy(PROGRAMS / name, folder)
    monkeypatch.chdir(project)
    host, results = fresh_rig.add("h1"), tmp_path / "results"
    command = [sys.executable, "torch_resumes.py", "--hold-at", "35"]
    options = RunOptions(on="ssh/h1", results=results, resume_flag="--resume {}", install="none")
    run = agree(command, options, settings=settings)
    start_run(run, settings=settings)
    reboots: list[int] = []

    def reboot_once(status: RunStatus) -> None:
        if status.life.checkpoint is not None and not reboots:
            reboots.append(status.progress.iterations)
            host.reboot()

    ended = attend(run.id, settings=settings, poll_seconds=0.1, on_status=reboot_once)
    assert (ended.life.outcome, ended.life.attempt) == ("succeeded", 2)
    (warning,) = ended.life.warnings
    assert "It goes on from the checkpoint last.pt" in warning
    assert re.search(r"iteration 30\. Lost: \d+ iterations", warning)
    assert ended.life.resumed_from is not None
    assert ended.progress.iterations == 60, "the count goes on"
    subprocess.run([sys.executable, "torch_resumes.py"], cwd=by_hand, check=True)
    assert (results / "weights.pt").read_bytes() == (by_hand / "weights.pt").read_bytes()
    assert host.run("ls", "-A", "/srv/home/.trainfare") == b""


@pytest.mark.usefixtures("project", "fresh_rig")
def test_a_host_that_does_not_exist_is_refused_before_anything_is_stored(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(MachineUnreachableError, match="nowhere: there is no host of that name"):
        start(settings, "ssh/nowhere", tmp_path / "results")
