"""A run on spot, with real agents: it learns from a metadata service that its machine is taken back, saves, and goes on
elsewhere; refusals are remembered."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.app.running.worlds import World, make_world
from tests.makers import make_candidate, make_offer
from tests.rigs.metadata import Metadata, metadata_service
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.run import attend
from trainfare.clouds import driver
from trainfare.clouds.door import NoticeService, notice_service
from trainfare.clouds.fake import OFFER, FakeDoor, Faults
from trainfare.clouds.local import LocalDoor
from trainfare.model.offer import Candidate
from trainfare.runner.status import RunStatus
from trainfare.store.open import open_history
from trainfare.views.runs import loss_sentence

pytestmark = pytest.mark.loopback

PROGRAM = Path(__file__).parents[2] / "programs" / "resumes.py"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.2))
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    made = make_world(tmp_path)
    yield made
    made.door.misbehave(Faults())
    for machine in made.door.machines():
        made.door.terminate(machine.key)


@pytest.fixture
def service() -> Iterator[Metadata]:
    with metadata_service() as made:
        yield made


def test_an_announced_interruption_loses_nothing_that_the_program_can_save(
    world: World, service: Metadata, tmp_path: Path
) -> None:
    world.door.misbehave(Faults(metadata=service.address))
    run = world.start(PROGRAM.read_text(), "--hold-at", "23", resume_flag="--resume {}")

    def announce_once(status: RunStatus) -> None:
        if status.life.attempt == 1 and status.life.state == "training" and status.life.checkpoint is not None:
            service.takes_back_at = service.takes_back_at or datetime.now(UTC).timestamp() + 90
        elif status.life.state != "training":
            service.takes_back_at = None  # the next machine is another one

    status = attend(run.id, settings=world.settings, poll_seconds=0.05, on_status=announce_once)
    assert (status.life.outcome, status.life.attempt, status.life.reclaims) == ("succeeded", 2, 1)
    (ended,) = [fact for fact in status.facts if fact.kind == "program ended" and fact.interrupted]
    assert ended.reclaimed
    assert (ended.text or "").startswith("The provider takes the machine back at ")
    launches = [fact for fact in status.facts if fact.kind == "launch intended"]
    assert launches[1].checkpoint is not None
    folder = Path(world.settings.runs) / run.id / "checkpoints" / launches[1].checkpoint.name
    assert json.loads((folder / "out" / "last.ckpt").read_text())["step"] == 23, "it saved when it was asked to end"
    assert status.receipt.reclaims == 1
    assert (loss_sentence(status.receipt) or "").startswith("The provider took machines back 1 time.")
    by_hand = tmp_path / "by_hand"
    by_hand.mkdir()
    subprocess.run([sys.executable, str(PROGRAM)], cwd=by_hand, check=True)
    assert (world.home / "weights.json").read_text() == (by_hand / "weights.json").read_text()
    assert world.door.machines() == ()


def test_a_refusal_is_remembered_with_its_cause_and_its_offer(world: World) -> None:
    world.door.misbehave(Faults(no_capacity=True))
    run = world.start("pass")
    before = datetime.now(UTC) - timedelta(seconds=1)
    assert attend(run.id, settings=world.settings, poll_seconds=0.02).life.outcome == "failed"
    with open_history(world.settings.store) as history:
        (fact,) = history.facts.refusals(since=before)
    assert (fact.refusal, fact.candidate) == ("capacity", run.candidate)


@pytest.mark.parametrize(
    ("candidate", "provider"),
    [
        (make_candidate(offer=make_offer(market="spot")), "aws"),
        (make_candidate(offer=make_offer(market="on_demand")), None),
        (Candidate(offer=OFFER, nodes=1, batch_size=None), None),
    ],
)
def test_only_spot_machines_of_a_known_provider_are_asked_for_notices(
    candidate: Candidate, provider: str | None, tmp_path: Path
) -> None:
    found = notice_service(LocalDoor(tmp_path, ()), candidate)
    assert (found.provider if found else None) == provider
    door = FakeDoor(tmp_path / "fake")
    door.misbehave(Faults(metadata="127.0.0.1:1"))
    spot = candidate.offer.market == "spot"
    assert notice_service(door, candidate) == (NoticeService(provider="aws", address="127.0.0.1:1") if spot else None)
