"""Ray Train with PyTorch, profiled on this machine and run on two hosts that are reached by a real ssh."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.running.test_gangs import PROGRAMS, hosts, project, settings, told, train
from tests.clusters.conftest import RAY
from tests.rigs.fixtures import needs_hosts, rig, user_of_rig
from tests.rigs.hosts import SshHost
from trainfare.app.running.status import read_output
from trainfare.settings import Settings

__all__ = ["hosts", "project", "rig", "settings", "user_of_rig"]

PYTHON = Path(os.environ[RAY]) / "bin" / "python3"
TRAINFARE = Path(sys.executable).with_name("trainfare")
SEEN = 20
"""So many of the 40 iterations are seen at least: Ray kills its processes when the function has returned."""


@pytest.fixture
def program(project: Path) -> Path:
    return Path(shutil.copy(PROGRAMS / "gang_ray.py", project))


def test_the_training_function_is_profiled_in_the_processes_of_ray(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray writes a token there
    monkeypatch.setenv("TRAINFARE_STORE", str(tmp_path / "h.db"))
    command = [str(TRAINFARE), "profile", "--json", "--", str(PYTHON), program.name]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert (found["framework"], found["planned_iterations"]) == ("pytorch", 40)
    assert (found["world_size"], found["micro_batch_size"]) == (2, 8)
    seen = found["iteration_seconds"]
    print(f"\nprofile: {len(seen)} of 40 iterations of {1000 * sum(seen) / len(seen):.0f} ms were seen")
    assert SEEN <= len(seen) <= 40


@needs_hosts
@pytest.mark.usefixtures("user_of_rig")
def test_ray_train_on_two_hosts_is_one_run_with_one_receipt(
    hosts: list[SshHost], program: Path, settings: Settings, tmp_path: Path
) -> None:
    ended = train(settings, [str(PYTHON), program.name], nodes=2, launcher="ray")
    output = read_output(ended.run.id, settings=settings).decode(errors="replace")
    assert ended.life.outcome == "succeeded", output[-5000:]
    seconds, usd = ended.receipt.total.seconds, ended.receipt.total.paid_usd
    print(f"\ntwo hosts: {seconds:.0f} s, ${usd:.4f}; {ended.progress.iterations} of 40 iterations were seen")
    assert SEEN <= ended.progress.iterations <= 40
    assert all(each.sent_bytes > 0 for each in ended.traffic)
    found = told(tmp_path)["ray"]
    assert found["address"].startswith(hosts[0].address)
    workers = {each["rank"]: each for each in found["workers"]}
    assert {each["node"] for each in workers.values()} == {host.address for host in hosts[:2]}, "one on each host"
    assert {each["world"] for each in workers.values()} == {2}
    assert workers[0]["sum"] == workers[1]["sum"], "the gradients were averaged"
    for line in ended.receipt.lines:
        assert line.paid_usd == pytest.approx(2 * 0.36 * line.seconds / 3600), "both nodes are paid for"
    for host in hosts[:2]:
        assert host.run("ls", "-A", "/srv/home/.trainfare") == b""
        assert b"raylet" not in host.run("ps", "-eo", "args")
