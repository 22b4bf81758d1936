"""Results come home in parts, between which limits, requests to stop and the lease are looked at."""

import resource
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.app.running.worlds import World, make_world
from trainfare.app.running import supervise
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.results import fetch_results
from trainfare.app.running.run import ask_to_stop, attend, reap
from trainfare.app.running.status import show_run
from trainfare.clouds import receiving
from trainfare.clouds.fake import Faults
from trainfare.runner.decide import Patience
from trainfare.runner.status import RunStatus
from trainfare.views.runs import state_sentence

SIZE = 1 << 20
WRITES = f"import os\nopen('weights', 'wb').write(bytes({SIZE}))\nopen('log.txt', 'w').write('done')\n"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    made = make_world(tmp_path)
    yield made
    made.door.misbehave(Faults())
    for machine in made.door.machines():
        made.door.terminate(machine.key)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step receives one piece of 64 KiB."""
    monkeypatch.setattr(supervise, "PART_SECONDS", 0.0)
    monkeypatch.setattr(receiving, "FIRST_PART", 1 << 16)
    monkeypatch.setattr(receiving, "LARGEST_PART", 1 << 16)


def weights(world: World) -> Path:
    return world.home / "weights"


def given_up_soon(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(supervise, "Patience", partial(Patience, collect=seconds))


@pytest.mark.usefixtures("small_parts")
def test_progress_is_seen_and_a_stop_is_heard_while_results_come_home(world: World) -> None:
    run, seen = world.start(WRITES), list[RunStatus]()

    def look(status: RunStatus) -> None:
        if status.life.state == "collecting" and status.arrivals is not None:
            seen.append(show_run(run.id, settings=world.settings))
            assert not weights(world).exists(), "it has its name before it is whole"
            ask_to_stop(run.id, settings=world.settings)

    status = attend(run.id, settings=world.settings, poll_seconds=0.02, on_status=look)
    arrived = [each.arrivals.arrived_bytes for each in seen if each.arrivals is not None]
    assert len(arrived) >= 10
    assert arrived == sorted(arrived)
    assert state_sentence(seen[-1]).startswith("collecting, 1 of 2 files, ")
    assert status.life.stop_reason == "user"
    assert weights(world).stat().st_size == SIZE
    (collected,) = [fact for fact in status.facts if fact.kind == "results collected"]
    assert (collected.collected_files, collected.collected_bytes) == (2, SIZE + 4)
    assert [path.name for path in world.home.iterdir() if path.name.startswith(".")] == []


@pytest.mark.usefixtures("small_parts")
def test_a_pass_of_the_reaper_brings_all_results_home(world: World) -> None:
    run = world.start(WRITES)
    attend(run.id, settings=world.settings, poll_seconds=0.02, until_started=True)
    while show_run(run.id, settings=world.settings).life.state in ("setting up", "training"):
        reap(settings=world.settings)
    reap(settings=world.settings)
    assert weights(world).stat().st_size == SIZE


def test_results_that_stop_arriving_are_given_up_and_what_arrived_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up_soon(monkeypatch, 1.0)
    run = world.start(WRITES)

    def damage(status: RunStatus) -> None:
        for path in (world.folder / "provider" / "machines").glob("*/*/results.json"):
            if status.life.state in ("training", "collecting"):
                (path.parent / "work" / "weights").write_bytes(b"changed")

    status = attend(run.id, settings=world.settings, poll_seconds=0.02, on_status=damage)
    (lost,) = [fact for fact in status.facts if fact.kind == "results lost"]
    assert lost.text is not None
    assert "Missing: 1 file (weights), 1.05 MB." in lost.text
    assert f"can be had by trainfare results {run.id} FOLDER" in lost.text
    assert any(f"trainfare results {run.id} FOLDER" in warning for warning in status.life.warnings)
    assert (world.home / "log.txt").read_text() == "done"
    assert not weights(world).exists()
    found = fetch_results(run.id, world.folder / "elsewhere", settings=world.settings)
    assert list(found.files) == ["log.txt"]
    assert not found.complete
    assert world.door.machines() == ()


def test_a_computer_that_slept_does_not_give_results_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.start(WRITES)
    real = supervise.Supervisor.renew

    def sleep(supervisor: supervise.Supervisor) -> None:
        if supervisor._life.state == "collecting" and supervisor._tried_at is not None:
            supervisor._tried_at -= timedelta(hours=20)
        real(supervisor)

    monkeypatch.setattr(supervise.Supervisor, "renew", sleep)
    monkeypatch.setattr(supervise, "PART_SECONDS", 0.0)
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert status.life.outcome == "succeeded"
    assert weights(world).stat().st_size == SIZE


def test_a_full_disk_at_home_is_said_and_results_come_home_when_there_is_room(world: World) -> None:
    run = world.start(WRITES)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(status: RunStatus) -> None:
        """No file can grow beyond 800 000 bytes from the end of the program on, until it is said."""
        is_said = any("File too large" in warning for warning in status.life.warnings)
        is_full = status.life.state in ("training", "collecting") and not is_said
        resource.setrlimit(resource.RLIMIT_FSIZE, (800_000 if is_full else before[0], before[1]))

    try:
        status = attend(run.id, settings=world.settings, poll_seconds=0.02, on_status=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert any("home cannot be written: File too large" in warning for warning in status.life.warnings)
    assert status.life.outcome == "succeeded"
    assert weights(world).stat().st_size == SIZE
