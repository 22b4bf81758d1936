"""Runs on a real Slurm cluster: from the agreement to the receipt, in the queue, on two nodes, and through losses."""

import json
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.app.probing.worlds import PROGRAM
from tests.cli.commands import succeed
from tests.clouds.contract import wait_until
from tests.rigs.fixtures import cluster, fresh_rig, needs_hosts, needs_slurm, user_of_cluster
from tests.rigs.hosts import HostRig
from tests.rigs.slurm import SlurmRig, slurm_rig
from trainfare.app.probing import distant
from trainfare.app.running.check_doors import check_doors
from trainfare.app.running.run import RunOptions, agree, attend, reap, start_run, stop_run
from trainfare.app.running.status import read_output, show_run
from trainfare.clouds import driver
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings
from trainfare.views.runs import state_sentence

__all__ = ["cluster", "fresh_rig", "user_of_cluster"]

pytestmark = needs_slurm

PROGRAMS = Path(__file__).parents[2] / "programs"
SOURCE = "import os; open('model-' + os.environ['SLURM_NODEID'], 'w').write('weights'); print('trained', flush=True)"
MEETS = """
import os, socket, time
rank, address = os.environ["RANK"], (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == "0":
    socket.create_server(("", address[1])).accept()
else:
    for _ in range(300):
        try:
            peer = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.1)
open("met-" + rank, "w").write(address[0])
"""
TASK = f"num_nodes: 2\nrun: |\n  exec {sys.executable} train.py\n"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "machines.toml").write_text(
        "[lab]\nslurm = true\nusd_per_hour = 0.36\n[lab.partitions.short]\nusd_per_hour = 3.6\n"
    )
    found = Settings(
        store=str(tmp_path / "h.db"),
        machines=str(tmp_path / "machines.toml"),
        prices=str(tmp_path / "prices"),
        runs=str(tmp_path / "runs"),
    )
    for name in ("store", "machines", "prices", "runs"):
        monkeypatch.setenv(f"TRAINFARE_{name.upper()}", getattr(found, name))
    return found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SOURCE)
    (folder / "task.yaml").write_text(TASK)
    monkeypatch.chdir(folder)
    return folder


def start(settings: Settings, results: Path, *command: str, **options: object) -> str:
    wanted = RunOptions(on="slurm/lab-cpu", results=results, **options)  # type: ignore[arg-type] # fields of RunOptions
    run = agree(command or (sys.executable, "train.py"), wanted, settings=settings)
    start_run(run, settings=settings)
    return run.id


def folders() -> list[Path]:
    return list((Path.home() / ".trainfare" / "slurm").glob("[!.]*"))


@pytest.mark.usefixtures("project", "user_of_cluster", "settings")
def test_a_run_in_commands_and_nothing_is_left(cluster: SlurmRig, tmp_path: Path) -> None:
    doors = json.loads(succeed("doors", "--json").stdout)
    (lab,) = [door for door in doors if door["door"] == "slurm"]
    assert (lab["ready"], lab["machines"]) == (True, ["slurm/lab-cpu", "slurm/lab-short"])
    assert lab["text"].startswith("slurm")
    words = ("--results", str(tmp_path / "home"), "--", sys.executable, "train.py")
    record = json.loads(succeed("run", "--on", "slurm/lab-cpu", "-y", "--json", *words).stdout)
    assert (record["outcome"], record["machine"], record["attempt"]) == ("succeeded", "slurm/lab-cpu", 1)
    assert (tmp_path / "home" / "model-0").read_text() == "weights"
    assert succeed("logs", record["id"]).stdout == "trained\n"
    assert "training" in succeed("receipt", record["id"]).stdout
    assert "Nothing is left behind." in succeed("reap").stderr
    assert folders() == []
    assert cluster.jobs() == []
    listed = json.loads(succeed("catalog", "list", "--provider", "slurm", "--json").stdout)
    assert {row["machine"]: row["usd_per_hour"] for row in listed} == {
        "slurm/lab-cpu": 0.36,
        "slurm/lab-short": 3.6,
    }


@pytest.mark.usefixtures("project", "user_of_cluster", "cluster")
def test_two_nodes_are_one_run(settings: Settings, tmp_path: Path) -> None:
    run_id = start(settings, tmp_path / "home", "task.yaml")
    ended = attend(run_id, settings=settings, poll_seconds=0.1)
    assert (ended.life.outcome, ended.run.candidate.nodes) == ("succeeded", 2)
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["model-0", "model-1"]
    assert read_output(run_id, settings=settings) == b"trained\ntrained\n"
    assert folders() == []


@pytest.mark.usefixtures("user_of_cluster")
def test_nodes_that_got_their_program_in_the_queue_find_each_other(
    cluster: SlurmRig, settings: Settings, project: Path, tmp_path: Path
) -> None:
    (project / "train.py").write_text(MEETS)
    blocker = cluster.block()
    run_id = start(settings, tmp_path / "home", nodes=2)

    def leave(_status: RunStatus) -> None:
        if folders() and all((folders()[0] / node / "begin").exists() for node in "01"):
            raise KeyboardInterrupt  # no one knows the addresses yet, and no one watches when the job starts

    with pytest.raises(KeyboardInterrupt):
        attend(run_id, settings=settings, poll_seconds=0.1, on_status=leave)
    assert json.loads((folders()[0] / "0" / "place.json").read_text())["addresses"] is None
    cluster.run("scancel", blocker)
    wait_until((folders()[0] / "1" / "results.json").exists, "that the nodes have met while no one watches")
    ended = attend(run_id, settings=settings, poll_seconds=0.1)
    assert (ended.life.outcome, ended.run.launcher) == ("succeeded", "env")
    assert (tmp_path / "home" / "met-1").read_text() == "127.0.0.1"


@pytest.mark.usefixtures("project", "user_of_cluster")
def test_a_wait_in_the_queue_is_said_and_not_paid_and_the_program_starts_by_itself(
    cluster: SlurmRig, settings: Settings, tmp_path: Path
) -> None:
    blocker = cluster.block()
    run_id = start(settings, tmp_path / "home", budget_usd=1.0)
    seen: list[str] = []

    def look(status: RunStatus) -> None:
        seen.append(state_sentence(status))
        if any((folder / "0" / "begin").exists() for folder in folders()):
            raise KeyboardInterrupt  # the laptop is closed

    with pytest.raises(KeyboardInterrupt):
        attend(run_id, settings=settings, poll_seconds=0.1, on_status=look)
    waiting = show_run(run_id, settings=settings)
    assert "waits in the queue" in seen
    assert waiting.life.warnings[0] in ("It waits in the queue: Resources.", "It waits in the queue: Priority.")
    assert waiting.receipt.total.paid_usd == 0
    cluster.run("scancel", blocker)
    wait_until((folders()[0] / "0" / "results.json").exists, "that the program runs while no one watches")
    ended = attend(run_id, settings=settings, poll_seconds=0.1)
    assert ended.life.outcome == "succeeded"
    lines = {line.part: line for line in ended.receipt.lines}
    assert lines["queue"].seconds > 0
    assert lines["queue"].paid_usd == 0
    assert lines["boot"].paid_usd == pytest.approx(0.36 * lines["boot"].seconds / 3600)


@pytest.mark.usefixtures("project", "user_of_cluster")
def test_a_run_that_waits_can_be_stopped(cluster: SlurmRig, settings: Settings, tmp_path: Path) -> None:
    cluster.block()
    run_id = start(settings, tmp_path / "home")
    watch = threading.Thread(target=attend, args=(run_id,), kwargs={"settings": settings, "poll_seconds": 0.1})
    watch.start()
    wait_until(lambda: show_run(run_id, settings=settings).life.warnings, "that it waits")
    assert stop_run(run_id, settings=settings).life.outcome == "stopped"
    watch.join()
    assert cluster.jobs() == ["RUNNING"], "only the other job is left"
    assert folders() == []
    assert reap(settings=settings).terminated == ()


@pytest.mark.usefixtures("user_of_cluster")
def test_a_training_goes_on_after_its_node_has_died(
    cluster: SlurmRig, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.2))
    project, by_hand = tmp_path / "training", tmp_path / "by_hand"
    for folder in (project, by_hand):
        folder.mkdir()
        shutil.copy(PROGRAMS / "resumes.py", folder)
    monkeypatch.chdir(project)
    command = (sys.executable, "resumes.py", "--hold-at", "15")
    run_id = start(settings, tmp_path / "home", *command, resume_flag="--resume {}")
    deaths: list[str] = []

    def kill_once(status: RunStatus) -> None:
        if status.life.checkpoint is not None and not deaths:
            deaths.append("n1")
            cluster.kill_node("n1")

    try:
        ended = attend(run_id, settings=settings, poll_seconds=0.1, on_status=kill_once)
    finally:
        cluster.revive_node("n1")
    assert (ended.life.outcome, ended.life.attempt) == ("succeeded", 2)
    assert any("lost a node" in warning for warning in ended.life.warnings)
    subprocess.run([sys.executable, "resumes.py"], cwd=by_hand, check=True)
    assert (tmp_path / "home" / "weights.json").read_text() == (by_hand / "weights.json").read_text()
    assert folders() == []


@pytest.mark.usefixtures("user_of_cluster", "settings", "cluster")
def test_a_program_is_probed_in_a_job(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "train.py").write_text(PROGRAM)
    monkeypatch.setattr(distant, "POLL_SECONDS", 0.3)
    words = ("--iterations-per-epoch", "10", "-n", "15", "--json", "--", sys.executable, "train.py")
    (probe,) = json.loads(succeed("probe", "--on", "slurm/lab-cpu", *words).stdout)["probes"]
    assert (probe["machine"], probe["iterations"], probe["failure"]) == ("slurm/lab-cpu", 15, None)
    assert folders() == []


@needs_hosts
@pytest.mark.usefixtures("project")
def test_a_run_through_a_login_host(fresh_rig: HostRig, settings: Settings, tmp_path: Path) -> None:
    login = fresh_rig.add("login")
    Path(settings.machines).write_text('[far]\nslurm = true\nssh = "login"\n')
    with slurm_rig(login) as far:
        for program in ("sinfo", "squeue", "sbatch", "scancel", "srun", "scontrol"):
            conf = f"SLURM_CONF={far.folder / 'slurm.conf'}"
            login.add_program(program, f'#!/bin/sh\nexport {conf}\nexec /usr/bin/{program} "$@"\n')
        (status,) = [each for each in check_doors(settings=settings) if each.door == "slurm"]
        assert (status.is_ready, status.machines) == (True, ("slurm/far-cpu", "slurm/far-short"))
        wanted = RunOptions(on="slurm/far-cpu", results=tmp_path / "home", install="none")
        run = agree([sys.executable, "train.py"], wanted, settings=settings)
        start_run(run, settings=settings)
        ended = attend(run.id, settings=settings, poll_seconds=0.1)
        assert ended.life.outcome == "succeeded", ended.life.message
        assert (tmp_path / "home" / "model-0").read_text() == "weights"
        assert login.run("ls", "/srv/home/.trainfare/slurm") == b""
