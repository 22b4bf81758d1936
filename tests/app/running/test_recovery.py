"""A run that loses its machine goes on from its last checkpoint at home, and ends with the weights of an undisturbed
one."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.app.running.worlds import World, make_world
from tests.clouds.contract import wait_until
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.moves import move_run
from trainfare.app.running.run import attend, reap
from trainfare.app.running.status import read_output, run_folder, show_run
from trainfare.clouds import driver
from trainfare.clouds.fake import Faults
from trainfare.errors import UsageError
from trainfare.runner import checkpoints, limits
from trainfare.runner.status import RunStatus

PROGRAM = Path(__file__).parents[2] / "programs" / "resumes.py"


@pytest.fixture(autouse=True)
def quick_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents look for checkpoints more often than every five seconds."""
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.2))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    made = make_world(tmp_path)
    yield made
    made.door.misbehave(Faults())
    for machine in made.door.machines():
        made.door.terminate(machine.key)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of the program when it is run by hand."""
    folder = tmp_path_factory.mktemp("by_hand")
    subprocess.run([sys.executable, str(PROGRAM)], cwd=folder, check=True)
    return (folder / "weights.json").read_text()


def once(condition: Callable[[RunStatus], bool], act: Callable[[], None]) -> Callable[[RunStatus], None]:
    """Acts the first time that a status fulfils a condition."""
    done: list[bool] = []

    def look(status: RunStatus) -> None:
        if not done and condition(status):
            done.append(True)
            act()

    return look


def has_checkpoint(status: RunStatus) -> bool:
    return status.life.checkpoint is not None


def test_a_run_that_loses_its_machine_goes_on_from_its_checkpoint(world: World, undisturbed: str) -> None:
    run = world.start(PROGRAM.read_text(), "--hold-at", "23", resume_flag="--resume {}")
    status = attend(
        run.id,
        settings=world.settings,
        poll_seconds=0.02,
        on_status=once(has_checkpoint, lambda: world.door.reclaim(f"{run.id}-1")),
    )
    assert (status.life.outcome, status.life.attempt) == ("succeeded", 2)
    assert (world.home / "weights.json").read_text() == undisturbed
    output = read_output(run.id, settings=world.settings).decode().split()
    assert output[-1] == "20", "it went on from the last checkpoint before the step at which it was held"
    assert any("goes on from the checkpoint out/last.ckpt" in text for text in status.life.warnings)
    assert status.receipt.attempts == 2
    assert world.door.machines() == ()


def test_without_a_way_to_go_on_the_last_checkpoint_is_among_the_results(world: World) -> None:
    run = world.start(PROGRAM.read_text(), "--hold-at", "23")
    status = attend(
        run.id,
        settings=world.settings,
        poll_seconds=0.02,
        on_status=once(has_checkpoint, lambda: world.door.reclaim(f"{run.id}-1")),
    )
    assert (status.life.outcome, status.life.attempt) == ("lost", 1)
    assert json.loads((world.home / "out" / "last.ckpt").read_text())["step"] == 20
    assert "without a way to go on" in (status.life.message or "")


def test_a_budget_stops_a_run_that_saves_and_its_checkpoint_comes_home(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SAVING_SHARE", 0.95)  # most of the budget is kept for the end, however slow it is
    monkeypatch.setattr(limits, "SAVING_SECONDS", 3600)
    run = world.start(PROGRAM.read_text(), "--hold-at", "23", budget_usd=100 / 3600)
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert (status.life.outcome, status.life.stop_reason) == ("stopped", "budget")
    assert json.loads((world.home / "out" / "last.ckpt").read_text())["step"] == 23, "it saved when it was asked to end"
    assert status.receipt.total.paid_usd <= 100 / 3600
    assert world.door.machines() == ()


def test_a_supervisor_that_is_killed_with_a_checkpoint_just_arrived_is_replaced(world: World, undisturbed: str) -> None:
    run = world.start(PROGRAM.read_text(), "--hold-at", "23", resume_flag="--resume {}")
    attend(run.id, settings=world.settings, poll_seconds=0.02, until_started=True)
    assert world.attend_in_another_process(run, kill_at="checkpoint arrived") == -signal.SIGKILL
    assert show_run(run.id, settings=world.settings).life.checkpoint is None
    status = attend(
        run.id,
        settings=world.settings,
        poll_seconds=0.02,
        on_status=once(has_checkpoint, lambda: world.door.reclaim(f"{run.id}-1")),
    )
    assert status.life.outcome == "succeeded"
    assert (world.home / "weights.json").read_text() == undisturbed
    assert [fact.kind for fact in status.facts].count("checkpoint fetched") <= status.life.attempt


def test_the_machine_of_a_frozen_supervisor_ends_by_itself_within_the_budget(world: World) -> None:
    run = world.start(PROGRAM.read_text(), "--hold-at", "23", budget_usd=12 / 3600)
    with world.frozen_supervisor(run, at="after start"):
        (machine,) = world.door.machines()
        wait_until(lambda: not world.door.machines(), "that the machine switches itself off")
    ended_at = (world.folder / "provider" / "machines" / machine.id / "off").stat().st_mtime
    assert machine.launched_at is not None
    seconds = ended_at - machine.launched_at.timestamp()
    assert 8 < seconds <= 12 + 5, "12 s are paid for; the rest is the load of the machine"
    status = attend(run.id, settings=world.settings, poll_seconds=0.02)
    assert (status.life.outcome, status.life.stop_reason) == ("stopped", "budget")
    assert status.receipt.total.paid_usd <= 13 / 3600, "the time after the machine had ended is not charged"


def test_a_run_moves_to_another_machine_and_goes_on_where_it_was(world: World, undisturbed: str) -> None:
    run = world.start(PROGRAM.read_text(), "--hold-at", "23", resume_flag="--resume {}")
    attend(run.id, settings=world.settings, poll_seconds=0.02, until_started=True)

    def trains() -> bool:
        reap(settings=world.settings)
        return "step" in output_of(world, run.id)

    wait_until(trains, "that it trains")
    status = move_run(run.id, "local/here", settings=world.settings)
    assert (status.life.outcome, status.life.attempt, status.life.moves) == ("succeeded", 2, 1)
    assert status.life.candidate is not None
    assert status.life.candidate.offer.vm_type.key == "local/here"
    assert "saved at step 23" in output_of(world, run.id)
    assert output_of(world, run.id).endswith("from step 23\n"), "nothing is lost"
    assert (world.home / "weights.json").read_text() == undisturbed
    assert world.door.machines() == ()


def test_a_run_that_could_not_go_on_elsewhere_is_not_moved(world: World) -> None:
    run = world.start(PROGRAM.read_text())
    with pytest.raises(UsageError, match="without a way to go on"):
        move_run(run.id, "local/here", settings=world.settings)
    able = world.start(PROGRAM.read_text(), resume_flag="auto")
    with pytest.raises(UsageError, match="is on fake/small already"):
        move_run(able.id, "fake/small", settings=world.settings)


@pytest.mark.parametrize("flag", ["--resume", "--resume '{}"])
def test_words_that_cannot_name_the_checkpoint_are_refused(world: World, flag: str) -> None:
    with pytest.raises(UsageError):
        world.start(PROGRAM.read_text(), resume_flag=flag)


def test_a_split_that_no_plan_has_is_refused(world: World) -> None:
    with pytest.raises(UsageError, match="no split plan"):
        world.start(PROGRAM.read_text(), resume_flag="auto", split=True)


@pytest.mark.parametrize(("damaged", "attempts"), [(1, 3), (2, 4)])
def test_a_checkpoint_that_cannot_be_loaded_is_followed_by_the_older_one_and_then_by_the_beginning(
    world: World, undisturbed: str, monkeypatch: pytest.MonkeyPatch, damaged: int, attempts: int
) -> None:
    monkeypatch.setattr(checkpoints, "MEAN_SECONDS_BETWEEN_LOSSES", 1e-9)  # each checkpoint comes home at once
    hold = "not arguments.resume:\n        time.sleep(0.1)\n"
    source = PROGRAM.read_text()
    assert hold in source
    first = "'-1/' in os.environ['TRAINFARE_LAUNCH']:\n        time.sleep(0.3)\n        save()\n"
    run = world.start(source.replace(hold, first), "--hold-at", "23", resume_flag="--resume {}", attempts=2)

    def damage_and_lose() -> None:
        life = show_run(run.id, settings=world.settings).life
        for each in (life.checkpoint, life.older_checkpoint)[:damaged]:
            assert each is not None
            (run_folder(world.settings, run.id) / "checkpoints" / each.name / "out" / "last.ckpt").write_text("{")
        world.door.reclaim(f"{run.id}-1")

    has_two = once(lambda status: status.life.older_checkpoint is not None, damage_and_lose)
    status = attend(run.id, settings=world.settings, poll_seconds=0.02, on_status=has_two)
    assert (status.life.outcome, status.life.attempt) == ("succeeded", attempts)
    assert (world.home / "weights.json").read_text() == undisturbed
    assert sum("could not go on from the checkpoint" in text for text in status.life.warnings) == damaged
    assert ("starts again from the beginning" in status.life.warnings[-1]) == (damaged == 2)


def output_of(world: World, run_id: str) -> str:
    return read_output(run_id, settings=world.settings).decode()
