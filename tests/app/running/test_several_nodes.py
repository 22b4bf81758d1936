"""A program on two nodes, each of which saves a part of the checkpoint: it comes home and goes back as a whole."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.app.running.worlds import World, make_world
from trainfare.app.running import supervise
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.run import attend, start_run
from trainfare.app.running.status import run_folder
from trainfare.clouds import driver
from trainfare.clouds.fake import Faults
from trainfare.clouds.local_shell import LocalShell
from trainfare.model.run import Checkpoint, Run
from trainfare.runner.status import RunStatus

SOURCE = """
import json, os, pathlib, signal, sys, time
rank = int(os.environ["SKYPILOT_NODE_RANK"])
place = pathlib.Path(f"out/rank{rank}.ckpt")
state = json.loads(place.read_text()) if "--resume" in sys.argv else {"rank": rank, "step": 0}
resumed = state["step"]
print("from step", resumed, flush=True)
def save():
    place.parent.mkdir(exist_ok=True)
    fresh = place.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    os.utime(fresh, (time.time() - 10, time.time() - 10))
    fresh.replace(place)
def save_and_exit(*_):
    save()
    sys.exit(143)
signal.signal(signal.SIGTERM, save_and_exit)
while state["step"] < 40:
    state["step"] += 1
    if state["step"] % 10 == 0:
        save()
    while state["step"] == 23 and not resumed:
        time.sleep(0.1)
pathlib.Path(f"weights{rank}.json").write_text(json.dumps({**state, "resumed": resumed}))
"""
FAILS = """
import os, sys, time
if os.environ["SKYPILOT_NODE_RANK"] == "1":
    sys.exit(3)
time.sleep(600)
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.2))
    monkeypatch.setattr(supervise, "SILENT_SECONDS", 1.0)
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    made = make_world(tmp_path)
    yield made
    made.door.misbehave(Faults())
    for machine in made.door.machines():
        made.door.terminate(machine.key)


def start_on_two_nodes(world: World, source: str) -> Run:
    alone = world.start(source, resume_flag="--resume {}", variables={"SKYPILOT_NUM_NODES": "2"})
    run = replace(alone, id=f"{alone.id}g", candidate=replace(alone.candidate, nodes=2))
    start_run(run, settings=world.settings)
    return run


def test_the_loss_of_one_node_ends_both_and_they_go_on_from_the_last_checkpoint_of_both(world: World) -> None:
    run = start_on_two_nodes(world, SOURCE)
    lost: list[Checkpoint] = []

    def lose_a_node(status: RunStatus) -> None:
        if status.life.checkpoint is not None and not lost:
            lost.append(status.life.checkpoint)
            driver.end(LocalShell(folder=world.folder / "provider" / "machines" / f"{run.id}-1" / "1"))

    status = attend(run.id, settings=world.settings, poll_seconds=0.02, on_status=lose_a_node)
    assert (status.life.outcome, status.life.attempt) == ("succeeded", 2)
    (checkpoint,) = lost
    assert checkpoint.files == ("out/rank0.ckpt",)
    assert [(part.node, part.files) for part in checkpoint.others] == [(1, ("out/rank1.ckpt",))]
    home = run_folder(world.settings, run.id) / "checkpoints" / checkpoint.name
    assert json.loads((home / ".node-1" / "out" / "rank1.ckpt").read_text()) == {"rank": 1, "step": 20}
    for rank in (0, 1):
        weights = json.loads((world.home / f"weights{rank}.json").read_text())
        assert weights == {"rank": rank, "step": 40, "resumed": 20}, "each went on from its own part"
    assert status.receipt.attempts == 2
    assert world.door.machines() == ()


def test_a_program_that_fails_on_one_node_ends_everywhere_at_once(world: World) -> None:
    run = start_on_two_nodes(world, FAILS)
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert (status.life.outcome, status.life.exit_code, status.life.attempt) == ("failed", 3, 1)
    assert status.receipt.total.seconds < 60, "not after the ten minutes in which results are collected"
    assert world.door.machines() == ()
