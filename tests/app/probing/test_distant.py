"""A probe on a machine behind a door, through everything that may happen to it; nothing is left behind."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.probing.worlds import ProbeWorld, make_probe_world
from trainfare.app.probing import distant
from trainfare.app.probing.distant import NotAffordableError, ProbeCancelledError
from trainfare.app.probing.ledger import Ledger
from trainfare.app.profiling.options import ProfileOptions
from trainfare.clouds.door import RefusedError
from trainfare.clouds.fake import Faults
from trainfare.errors import ExternalError, ProgramError
from trainfare.profiler.elsewhere import DistantMeasurement
from trainfare.profiler.stopping import STEADY


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distant, "POLL_SECONDS", 0.2)


@pytest.fixture
def world(tmp_path: Path) -> ProbeWorld:
    return make_probe_world(tmp_path)


def when(condition: Callable[[], bool], do: Callable[[], object]) -> threading.Thread:
    """Do something in another thread as soon as a condition holds."""

    def wait() -> None:
        deadline = time.monotonic() + 600.0
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.01)
        do()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def measuring(world: ProbeWorld, iterations: int = 1) -> Callable[[], bool]:
    return lambda: any(s.progress and s.progress.iterations >= iterations for s in world.seen)


def test_a_number_of_iterations_is_measured_and_the_machine_ends(tmp_path: Path) -> None:
    """The machine is shown late, and boots slowly."""
    world = make_probe_world(tmp_path, Faults(hidden_seconds=0.3, boot_seconds=0.6))
    probe = world.probe()
    found = probe.take()
    assert (found.run.ending, found.run.exit_code) == ("enough", 0)
    assert sum(event["event"] == "iteration" for event in found.run.events) == 20
    assert found.host.vm_type == "fake/small"
    assert found.host.cores
    assert "training" in found.run.log.text()
    first = min(event["start"] for event in found.run.events if event["event"] == "iteration")
    assert 0 < first - found.run.started < 60
    assert [s for s in world.stages if s not in ("setting up", "measuring")] == [
        "waiting",
        "launching",
        "sending",
        "ending",
    ]
    assert probe.usd == pytest.approx(probe.seconds / 3600, rel=0.01)
    assert world.is_clean


def test_a_rule_that_is_evaluated_here_stops_the_program_there(world: ProbeWorld) -> None:
    """The cable is cut for a while, which does no harm."""

    def cut() -> None:
        world.door.cut("probe-test-1")
        time.sleep(0.5)
        world.door.mend("probe-test-1")

    when(measuring(world), cut)
    found = world.probe(options=ProfileOptions(max_seconds=8.0)).take()
    assert found.run.ending in ("time_limit", "enough")
    numbers = [event["n"] for event in found.run.events if event["event"] == "iteration"]
    assert numbers == list(range(1, len(numbers) + 1)), "nothing is lost or read twice"
    assert len(numbers) > 5
    assert found.run.events[-1]["event"] == "stop"
    assert world.is_clean


def test_a_program_that_ignores_its_end_is_ended(world: ProbeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distant, "_STOPPED_SECONDS", 0.2)
    assert world.probe("endless").take().run.ending == "enough"
    assert world.is_clean


def test_a_program_that_fails_says_why(world: ProbeWorld) -> None:
    found = world.probe("crash").take()
    assert (found.run.ending, found.run.exit_code) == ("failed", 1)
    assert "the data is corrupt" in found.run.log.text()
    assert world.is_clean


def test_a_setup_that_fails_is_reported_with_its_output(world: ProbeWorld) -> None:
    with pytest.raises(ProgramError, match=r"exit code 3(.|\n)*no such package"):
        world.probe(setup="echo no such package; exit 3").take()
    assert world.is_clean


def test_an_interruption_ends_the_machine_and_keeps_what_was_measured(world: ProbeWorld) -> None:
    when(measuring(world, 3), world.cancelled.set)
    found = world.probe(options=ProfileOptions(iterations=100_000)).take()
    assert found.run.ending == "interrupted"
    assert sum(event["event"] == "iteration" for event in found.run.events) >= 3
    assert world.is_clean


def test_an_interruption_before_the_start_launches_nothing(world: ProbeWorld) -> None:
    world.cancelled.set()
    with pytest.raises(ProbeCancelledError):
        world.probe().take()
    assert world.door.log() == []


def test_money_that_does_not_last_for_a_probe_launches_nothing(world: ProbeWorld) -> None:
    with pytest.raises(NotAffordableError, match=r"1 min at \$1\.00 an hour"):
        world.probe(ledger=Ledger(0.01)).take()
    assert world.door.log() == []


def test_a_probe_is_stopped_when_the_money_is_used_up(world: ProbeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distant, "ENDING_SECONDS", 6.0)
    monkeypatch.setattr(distant, "FEWEST_SECONDS", 1.0)
    probe = world.probe(options=ProfileOptions(iterations=100_000), ledger=Ledger(24 / 3600))
    found = probe.take()
    assert (found.run.ending, probe.remark) == ("time_limit", "the budget was used up.")
    assert probe.usd <= 24 / 3600
    assert world.is_clean


@pytest.mark.parametrize(
    ("faults", "error", "text"),
    [
        (Faults(no_capacity=True), RefusedError, "no capacity"),
        (Faults(boot_fails=True), ExternalError, "it did not boot"),
    ],
)
def test_a_machine_that_does_not_come_is_an_error(
    tmp_path: Path, faults: Faults, error: type[Exception], text: str
) -> None:
    world = make_probe_world(tmp_path, faults)
    with pytest.raises(error, match=text):
        world.probe().take()
    assert world.is_clean


def test_a_machine_that_vanishes_is_given_up(world: ProbeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distant, "UNREACHABLE_SECONDS", 0.5)
    when(measuring(world), lambda: world.door.reclaim("probe-test-1"))
    probe = world.probe(options=ProfileOptions(iterations=100_000))
    found = probe.take()
    assert found.run.ending == "failed"
    assert any(event["event"] == "iteration" for event in found.run.events)  # what was measured is not lost
    assert "does not answer" in str(probe.remark)
    assert world.is_clean


def test_an_agent_that_was_killed_is_noticed(world: ProbeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distant, "SILENT_SECONDS", 0.5)

    def kill_agent() -> None:
        place = world.folder / "provider" / "machines" / "probe-test-1" / "0"
        guard = int((place / "agent.pid").read_text().split()[0])
        children = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        for pid in (guard, *map(int, children)):
            os.kill(pid, signal.SIGKILL)

    when(measuring(world), kill_agent)
    probe = world.probe(options=ProfileOptions(iterations=100_000))
    found = probe.take()
    assert (found.run.ending, found.run.exit_code) == ("failed", -9)
    assert probe.remark == "The agent was killed or the machine was restarted."
    assert world.is_clean


def test_a_machine_that_cannot_be_ended_is_reported(tmp_path: Path) -> None:
    world = make_probe_world(tmp_path, Faults(failing_terminations=1.0))
    probe = world.probe()
    assert probe.take().run.ending == "enough"
    assert probe.left_behind is not None
    assert "probe-test-1 could not be ended" in probe.left_behind
    world.door.misbehave(Faults())
    world.door.terminate("probe-test-1")


def reason_to_end(world: ProbeWorld, *, now: float, started: float | None, heard: float = 0.0) -> str | None:
    """Why a probe that was asked for at 0 is ended, with at most 100 s for the program and 60 s of silence."""
    probe = world.probe(
        options=ProfileOptions(iterations=20, most_seconds=100.0), ledger=Ledger(None, clock=lambda: now)
    )
    probe._until = now + 1000.0
    watch = distant._Watch(asked=0.0, answered=now, heard=heard, journal_grew=now, renewed=now, started=started)
    measurement = DistantMeasurement(
        program=probe.run.program, iterations=20, stopping_rule=STEADY, trace_operations=False
    )
    return probe._reason_to_end(measurement, watch)


def test_a_program_has_its_time_and_must_be_heard_now_and_then(world: ProbeWorld) -> None:
    assert reason_to_end(world, now=50.0, started=10.0, heard=20.0) is None
    assert reason_to_end(world, now=100.0, started=10.0, heard=20.0) == "stalled"
    assert reason_to_end(world, now=110.0, started=10.0, heard=109.0) == "time_limit"
    assert reason_to_end(world, now=1700.0, started=None) is None
    with pytest.raises(ProgramError, match="its setup did not end within 30 min"):
        reason_to_end(world, now=1900.0, started=None)
