"""A training with Lightning that loses its machine goes on from its checkpoint, without being told how."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.app.running.worlds import make_world
from tests.needs import need_installed
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.run import attend
from trainfare.app.running.status import read_output
from trainfare.clouds import driver
from trainfare.runner.status import RunStatus

PROGRAMS = Path(__file__).parents[2] / "programs"


def test_lightning_goes_on_from_its_checkpoint_with_the_weights_of_an_undisturbed_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_installed("lightning")
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.3))
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    world = make_world(tmp_path)
    program = (PROGRAMS / "lightning_resumes.py").read_text()
    taken: list[str] = []

    def take_back(status: RunStatus) -> None:
        if status.life.checkpoint is not None and not taken:
            taken.append(f"{status.run.id}-1")
            world.door.reclaim(taken[0])

    run = world.start(program, "--hold-at", "35")
    status = attend(run.id, settings=world.settings, poll_seconds=0.1, on_status=take_back)
    assert (status.life.outcome, status.life.attempt) == ("succeeded", 2)
    assert read_output(run.id, settings=world.settings).decode().split()[-1] in ("10", "20", "30")

    by_hand = tmp_path / "by-hand"
    by_hand.mkdir()
    subprocess.run([sys.executable, str(PROGRAMS / "lightning_resumes.py")], cwd=by_hand, check=True)
    assert (world.home / "weights.bin").read_bytes() == (by_hand / "weights.bin").read_bytes()
    assert world.door.machines() == ()
