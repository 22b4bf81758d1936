"""Runs on machines that SkyPilot rents, with its recorded answers: what is missing, a whole run, and a loss."""

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.clouds.test_skypilot import host
from tests.rigs.fixtures import needs_hosts, rig, user_of_rig
from tests.rigs.hosts import SshHost, wait_until
from tests.rigs.resumable import RESUMABLE
from tests.rigs.skypilot import SKY, START, Replay, replay
from trainfare.app.running import supervise
from trainfare.app.running.check_doors import check_doors
from trainfare.app.running.doors import open_door, open_doors
from trainfare.app.running.run import RunOptions, agree, attend, reap, start_run
from trainfare.clouds import driver, skypilot
from trainfare.clouds.skypilot import SkyPilotDoor
from trainfare.clouds.skypilot_api import VERSION
from trainfare.errors import UsageError
from trainfare.model.offer import Candidate
from trainfare.model.run import Run
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings

__all__ = ["host", "rig", "user_of_rig"]

pytestmark = [needs_hosts, pytest.mark.loopback]

MACHINE = "aws/m7i.large"
WAITED = "which takes up to a minute; it is waited for up to 2 min."


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=str(tmp_path / "h.db"), runs=str(tmp_path / "runs"), skypilot=str(tmp_path / "skypilot"))


@pytest.fixture
def server(host: SshHost, user_of_rig: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replay]:
    """SkyPilot is installed, and its server answers."""
    folder = Path(settings.skypilot)
    with replay(host, folder / "env") as made:
        installed = {"version": VERSION, "clouds": ["aws", "gcp"], "seconds": 1.0, "bytes": 1}
        (folder / "setup.json").write_text(json.dumps(installed))
        monkeypatch.setenv("SKYPILOT_API_SERVER_ENDPOINT", made.url)
        yield made


def start(settings: Settings, folder: Path, source: str, market: str = "spot") -> Run:
    folder.mkdir()
    (folder / "train.py").write_text(source)
    wanted = RunOptions(on=MACHINE, folder=folder, results=folder / "home", resume_flag="--resume {}")
    run = agree((sys.executable, "train.py"), wanted, settings=settings)
    offers = [each for each in open_door(settings, MACHINE).offers() if each.vm_type.key == MACHINE]
    offer = next(each for each in offers if each.market == market)
    run = replace(run, candidate=Candidate(offer=offer, nodes=1, batch_size=None))
    start_run(run, settings=settings)
    return run


def test_without_skypilot_the_door_says_how_to_install_it(settings: Settings) -> None:
    (status,) = [each for each in check_doors(settings=settings) if each.door == "skypilot"]
    assert (status.is_ready, status.fix) == (False, "trainfare doors setup skypilot")
    with pytest.raises(UsageError, match="trainfare doors"):
        open_door(settings, MACHINE)


def test_each_cloud_is_ready_or_says_how_to_log_in(settings: Settings, server: Replay) -> None:
    aws, gcp = [each for each in check_doors(settings=settings) if each.door == "skypilot"]
    assert (aws.place, aws.is_ready) == ("aws", True)
    assert MACHINE in aws.machines
    assert (gcp.place, gcp.is_ready) == ("gcp", False)
    assert (gcp.fix or "").startswith("gcloud auth application-default login")
    assert {"aws"} == {"aws", "gcp"} & set(open_doors(settings))


def starts_within(server: Replay, settings: Settings, seconds: float) -> Path:
    """The server is away; its start takes some seconds."""
    server.away = Path(settings.skypilot) / "away"
    server.away.touch()
    sky = Path(settings.skypilot) / "env/bin/sky"
    sky.write_text(SKY + START.format(seconds=seconds, file=server.away))
    return server.away.with_name("away.starts")


def test_a_server_that_starts_is_waited_for_and_that_is_said_once(settings: Settings, server: Replay) -> None:
    starts = starts_within(server, settings, 1.0)
    lines: list[str] = []
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda _: check_doors(settings=settings, on_progress=lines.append), range(2)))
    for statuses in found:
        assert ("aws", True) in [(each.place, each.is_ready) for each in statuses]
    assert lines == [f"SkyPilot's API server starts, {WAITED}"] * 2
    assert starts.read_text() == "x\n", "two commands at once start one server"


def test_a_server_that_does_not_start_in_time_is_not_waited_for_longer(settings: Settings, server: Replay) -> None:
    starts_within(server, settings, 3.0)
    began = time.monotonic()
    statuses = check_doors(settings=settings, start_within_seconds=0.4)
    (status,) = [each for each in statuses if each.door == "skypilot"]
    assert "does not answer after 400 ms; it may still come up" in status.text
    assert (status.fix or "").startswith("trainfare doors ")
    assert "server.log" in (status.fix or "")
    wait_until(lambda: not server.away.exists(), 60.0)
    assert time.monotonic() - began > 2.0, "the start goes on"
    assert ("aws", True) in [(each.place, each.is_ready) for each in check_doors(settings=settings)]


def test_a_machine_that_is_named_without_a_plan_is_rented_on_demand(settings: Settings, server: Replay) -> None:
    check_doors(settings=settings)
    run = agree((sys.executable, "-V"), RunOptions(on=MACHINE), settings=settings)
    assert run.candidate.offer.market == "on_demand"


def test_a_spot_machine_that_is_taken_back_is_replaced_and_nothing_is_left(
    settings: Settings, server: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.2))
    monkeypatch.setattr(supervise, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(SkyPilotDoor, "appears_within_seconds", 0.5)
    monkeypatch.setattr(skypilot, "_SEEN_SECONDS", 0.2)
    check_doors(settings=settings)
    run = start(settings, tmp_path / "project", RESUMABLE)
    taken: list[bool] = []

    def take_back(status: RunStatus) -> None:
        if status.life.checkpoint is not None and not taken:
            server.take_back(f"trainfare-{run.id}-1")
            taken.append(True)

    status = attend(run.id, settings=settings, poll_seconds=0.05, on_status=take_back)
    assert (status.life.outcome, status.life.attempt) == ("succeeded", 2), status.life.message
    weights = json.loads((tmp_path / "project/home/weights.json").read_text())
    assert weights == {"step": 40, "resumed": 20}
    assert server.clusters == {}
    assert reap(settings=settings).terminated == ()
