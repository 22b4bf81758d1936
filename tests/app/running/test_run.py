"""A run through a provider that misbehaves: it is carried out once, its results come home, and nothing is left."""

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.running.worlds import World, make_world
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.run import ask_to_stop, attend, reap, start_run, stop_run
from trainfare.app.running.status import read_output, show_run
from trainfare.clouds.door import Launch
from trainfare.clouds.fake import FakeDoor, Faults
from trainfare.errors import ExternalError
from trainfare.model.lease import run_lease_name
from trainfare.model.run import RunLimits
from trainfare.runner.status import RunStatus
from trainfare.store.open import open_history

PROGRAM = "import pathlib; print('hello', flush=True); pathlib.Path('model.txt').write_text('weights')"
LABELS = ("launch intended", "after launch", "after start", "program ended", "results fetched", "after terminate")
"""Points between two effects; `benchmarks.faults` kills at every one of them, many times."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    made = make_world(tmp_path)
    yield made
    made.door.misbehave(Faults())
    for machine in made.door.machines():
        made.door.terminate(machine.key)


def test_a_run_brings_its_results_home_and_leaves_no_machine(world: World) -> None:
    run = world.start(PROGRAM)
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert (status.life.outcome, status.life.exit_code) == ("succeeded", 0)
    assert (world.home / "model.txt").read_text() == "weights"
    assert read_output(run.id, settings=world.settings) == b"hello\n"
    assert world.door.machines() == ()
    assert status.receipt.total.paid_usd == pytest.approx(status.receipt.total.seconds / 3600, rel=0.5, abs=1 / 3600)


def test_a_program_that_fails_is_a_failed_run_whose_output_is_at_home(world: World) -> None:
    run = world.start("print('before'); raise SystemExit(3)")
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert (status.life.outcome, status.life.exit_code) == ("failed", 3)
    assert read_output(run.id, settings=world.settings) == b"before\n"


def test_a_program_that_does_not_exist_is_a_failed_run(world: World) -> None:
    run = world.start(PROGRAM)
    with open_history(world.settings.store) as history:
        missing = replace(history.runs.get(run.id), id="r2", program=replace(run.program, command=("no-such-program",)))
    start_run(missing, settings=world.settings)
    status = attend("r2", settings=world.settings, poll_seconds=0.02)
    assert (status.life.outcome, status.life.exit_code) == ("failed", 127)
    assert b"no-such-program could not be started" in read_output("r2", settings=world.settings)


def test_a_setup_that_fails_is_said_and_the_program_is_not_run(world: World) -> None:
    run = world.start(PROGRAM, setup="echo no such package >&2; exit 4")
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert (status.life.outcome, status.life.message) == ("failed", "The setup ended with exit code 4.")
    assert not (world.home / "model.txt").exists()
    assert b"no such package" in read_output(run.id, settings=world.settings)


def test_a_run_without_capacity_fails_and_costs_nothing(world: World) -> None:
    world.door.misbehave(Faults(no_capacity=True))
    status = attend(world.start(PROGRAM).id, settings=world.settings, poll_seconds=0.02)
    assert status.life.outcome == "failed"
    assert "no capacity" in (status.life.message or "")
    assert status.receipt.total.paid_usd == 0


def test_a_stop_lets_the_program_save_and_brings_its_results_home(world: World) -> None:
    run = world.start(
        "import pathlib, signal, sys, time\n"
        "def save(*_): pathlib.Path('model.txt').write_text('half'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    attend(run.id, settings=world.settings, until_started=True, poll_seconds=0.02)
    deadline = time.monotonic() + 500
    while b"ready" not in read_output(run.id, settings=world.settings):
        assert time.monotonic() < deadline
        reap(settings=world.settings)
    status = stop_run(run.id, settings=world.settings)
    assert (status.life.outcome, status.life.stop_reason) == ("stopped", "user")
    assert (world.home / "model.txt").read_text() == "half"
    assert world.door.machines() == ()


def test_a_longest_duration_stops_the_run(world: World) -> None:
    run = world.start("import time; time.sleep(600)")
    with open_history(world.settings.store) as history:
        limited = replace(history.runs.get(run.id), id="r2", limits=RunLimits(longest_seconds=3.0))
    start_run(limited, settings=world.settings)
    status = attend("r2", settings=world.settings, poll_seconds=0.02)
    assert (status.life.outcome, status.life.stop_reason) == ("stopped", "longest duration")


@pytest.mark.parametrize("label", LABELS)
def test_a_supervisor_that_is_killed_is_replaced_and_nothing_is_done_twice(world: World, label: str) -> None:
    world.door.misbehave(Faults(hidden_seconds=0.3, failing_calls=0.2, seed=len(label)))
    run = world.start("open('runs.txt', 'a').write('once\\n')")
    killed = world.attend_in_another_process(run, kill_at=label)
    assert killed == -signal.SIGKILL
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert status.life.outcome == "succeeded"
    assert (world.home / "runs.txt").read_text() == "once\n"
    assert [key for _, effect, key in world.door.log() if effect == "launched"] == [f"{run.id}-1"]
    world.door.misbehave(Faults())
    assert world.door.machines() == ()


def test_a_supervisor_that_wakes_before_its_launch_does_not_launch_what_another_one_has_ended(world: World) -> None:
    run = world.start(PROGRAM)
    with world.frozen_supervisor(run, at="before launch") as sleeper:
        assert attend(run.id, settings=world.settings, poll_seconds=0.02).life.outcome == "succeeded"
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(60) == 0
    assert [effect for _, effect, _ in world.door.log()] == ["launched", "terminated"]
    assert world.door.machines() == ()


def test_only_one_thread_of_a_process_supervises_a_run(world: World) -> None:
    run = world.start("import time; time.sleep(0.5)")
    followed = threading.Event()
    tokens: set[int | None] = set()
    follower = threading.Thread(
        target=attend,
        args=(run.id,),
        kwargs={"settings": world.settings, "poll_seconds": 0.02, "on_status": lambda _status: followed.set()},
    )

    def look(status: RunStatus) -> None:
        if status.life.is_running and follower.ident is None:
            follower.start()
            assert followed.wait(60)
        with open_history(world.settings.store) as history:
            lease = history.leases.current(run_lease_name(run.id))
        tokens.add(lease.token if lease else None)

    status = attend(run.id, settings=world.settings, poll_seconds=0.02, on_status=look)
    follower.join(60)
    assert status.life.outcome == "succeeded"
    assert tokens == {1}


def test_a_failed_termination_is_a_fact_even_if_a_remark_came_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, terminate = world.start(PROGRAM), FakeDoor.terminate
    failed: list[str] = []

    def fail_once(self: FakeDoor, key: str) -> None:
        if not failed:
            failed.append(key)
            ask_to_stop(run.id, settings=world.settings)
            raise ExternalError("The provider does not answer.")
        terminate(self, key)

    monkeypatch.setattr(FakeDoor, "terminate", fail_once)
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert [fact.text for fact in status.facts if fact.kind == "termination failed"] == [
        "The provider does not answer."
    ]


def test_the_reaper_ends_a_machine_that_no_run_needs(world: World) -> None:
    run = world.start(PROGRAM)
    launch = Launch(owner=run.owner, run_id="r0", attempt=1, candidate=run.candidate, expires_at=run.made_at)
    world.door.launch(launch)
    assert reap(settings=world.settings).terminated == ("r0-1",)
    assert world.door.machines() == ()


def test_the_reaper_leaves_machines_of_another_store_alone(world: World) -> None:
    run = world.start("import time; time.sleep(600)")
    attend(run.id, settings=world.settings, until_started=True, poll_seconds=0.02)
    other = replace(world.settings, store=str(world.folder / "other.db"))
    open_history(other.store).close()
    assert reap(settings=other).terminated == ()
    assert [machine.run_id for machine in world.door.machines()] == [run.id]
    assert stop_run(run.id, settings=world.settings).life.outcome == "stopped"


def test_a_machine_that_was_ended_elsewhere_is_a_lost_run(world: World) -> None:
    run = world.start("import time; time.sleep(600)")
    attend(run.id, settings=world.settings, until_started=True, poll_seconds=0.02)
    world.door.terminate(f"{run.id}-1")
    assert attend(run.id, settings=world.settings, poll_seconds=0.02).life.outcome == "lost"
    assert show_run(run.id, settings=world.settings).life.state == "ended"
