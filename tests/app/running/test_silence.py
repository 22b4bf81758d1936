"""Hosts that fall silent while a run trains on them: it goes on elsewhere, and never twice."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.rigs.fixtures import fresh_rig, needs_hosts
from tests.rigs.hosts import HostRig, wait_until
from trainfare.app.running import supervise
from trainfare.app.running.moves import ask_to_move, propose_move
from trainfare.app.running.run import RunOptions, agree, attend, reap, start_run
from trainfare.clouds import answers, driver
from trainfare.errors import UsageError
from trainfare.runner import decide
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings
from trainfare.views.runs import state_sentence

__all__ = ["fresh_rig"]

pytestmark = needs_hosts

PROGRAM = Path(__file__).parents[2] / "programs" / "resumes.py"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.2))
    monkeypatch.setattr(supervise, "Patience", partial(decide.Patience, notice=2.0, silence=3.0))
    monkeypatch.setattr(supervise, "REAP_SECONDS", 1.0)
    monkeypatch.setattr(answers, "_SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(decide, "LEASE_MARGIN", decide.LEASE_MARGIN / 60)
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return Settings(
        store=str(tmp_path / "h.db"),
        machines=str(tmp_path / "machines.toml"),
        prices=str(tmp_path / "prices"),
        runs=str(tmp_path / "runs"),
    )


def start(settings: Settings, source: str, *arguments: str, **options: object) -> str:
    Path("train.py").write_text(source)
    wanted = RunOptions(on="ssh/h1", results=Path("../results"), resume_flag="--resume {}", install="none")
    run = agree([sys.executable, "train.py", *arguments], wanted, settings=settings)
    start_run(replace(run, **options), settings=settings)  # type: ignore[arg-type] # fields of Run
    return run.id


def quick_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is off is given up after a second, not after 15."""
    monkeypatch.setattr("trainfare.clouds.ssh_connection._CONNECT_SECONDS", 1)
    monkeypatch.setattr("trainfare.clouds.ssh_connection._ALIVE_SECONDS", 1)
    monkeypatch.setattr("trainfare.clouds.ssh_connection._ALIVE_COUNT", 2)


def in_turn(*steps: tuple[Callable[[RunStatus], bool], Callable[[], None]]) -> Callable[[RunStatus], None]:
    """Each step is taken once, when its condition holds and those before it were taken."""
    left = list(steps)

    def look(status: RunStatus) -> None:
        if left and left[0][0](status):
            left.pop(0)[1]()

    return look


def test_a_run_is_moved_off_a_host_that_is_off_and_its_late_results_are_not_used(
    fresh_rig: HostRig, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quick_ssh(monkeypatch)
    host, sentences = fresh_rig.add("h1"), []
    source = PROGRAM.read_text().replace(
        "        time.sleep(0.1)\n", "        time.sleep(0.1)\n        Path('weights.json').write_text('late')\n"
    )
    run_id = start(settings, source, "--hold-at", "23")

    def move() -> None:
        ask_to_move(propose_move(run_id, "local/here", settings=settings), settings=settings)

    def note(status: RunStatus) -> bool:
        sentences.append(state_sentence(status))
        return any("has not answered since" in text for text in status.life.warnings)

    look = in_turn((lambda status: status.life.checkpoint is not None, host.cut), (note, move))
    ended = attend(run_id, settings=settings, poll_seconds=0.1, on_status=look)
    assert (ended.life.outcome, ended.life.attempt, ended.life.moves) == ("succeeded", 2, 1)
    assert any(re.search("training; its machine has not answered for", sentence) for sentence in sentences)
    assert sum("has not answered since" in text for text in ended.life.warnings) == 1
    weights = (tmp_path / "results" / "weights.json").read_text()
    assert len(json.loads(weights)) == 3
    assert "train.py" in " ".join(host.processes()), "the first attempt goes on there"
    host.restore()
    assert reap(settings=settings).terminated == (f"{run_id}-1",)
    assert host.run("ls", "-A", "/srv/home/.trainfare") == b""
    assert [command for command in host.processes() if "train.py" in command] == []
    assert (tmp_path / "results" / "weights.json").read_text() == weights


def test_with_a_patience_a_host_ends_its_program_when_it_is_cut_off_and_the_run_goes_on_there_later(
    fresh_rig: HostRig, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quick_ssh(monkeypatch)
    host = fresh_rig.add("h1")
    run_id = start(settings, PROGRAM.read_text(), "--hold-at", "23", patience_seconds=10.0)

    def cut_until_the_program_has_ended() -> None:
        assert "train.py" in " ".join(host.processes())
        host.cut()
        wait_until(lambda: "train.py" not in " ".join(host.processes()), 30.0)
        host.restore()

    look = in_turn((lambda status: status.life.checkpoint is not None, cut_until_the_program_has_ended))
    ended = attend(run_id, settings=settings, poll_seconds=0.1, on_status=look)
    assert (ended.life.outcome, ended.life.attempt) == ("succeeded", 2)
    assert any("it was not reached for 10 s" in text for text in ended.life.warnings)
    assert len(json.loads((tmp_path / "results" / "weights.json").read_text())) == 3


def test_a_patience_that_a_short_cut_would_exceed_is_refused(settings: Settings) -> None:
    Path("train.py").write_text("")
    with pytest.raises(UsageError, match="at least 5 min"):
        agree(["python", "train.py"], RunOptions(on="local/here", patience_seconds=60.0), settings=settings)
