"""Runs on machines that the real SkyPilot rents, from the command to the receipt, with nothing left."""

import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.rigs.resumable import RESUMABLE
from tests.skypilot.conftest import RIG
from trainfare.app.running.check_doors import check_doors
from trainfare.app.running.doors import open_door, open_doors
from trainfare.app.running.run import RunOptions, agree, attend, reap, start_run
from trainfare.clouds.door import Launch
from trainfare.model.offer import Candidate
from trainfare.model.run import Run
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings, read_settings

pytestmark = pytest.mark.loopback

MACHINE = "aws/m7i.large"
EC2 = os.environ.get("AWS_ENDPOINT_URL", "")
REGIONS = ("us-east-1", "us-west-2")

HELLO = """
import os, pathlib, socket
rank = os.environ["SKYPILOT_NODE_RANK"]
print("node", rank, "on", socket.gethostname(), os.getuid() != 0, flush=True)
pathlib.Path(f"answer{rank}.txt").write_text(str(6 * 7))
"""


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def ec2(region: str, action: str, **fields: str) -> ET.Element:
    """A call to the EC2 service of the rig, which checks no signature."""
    words = urllib.parse.urlencode({"Action": action, "Version": "2016-11-15", **fields}).encode()
    scope = f"AWS4-HMAC-SHA256 Credential=x/20261118/{region}/ec2/aws4_request, SignedHeaders=host, Signature=x"
    request = urllib.request.Request(EC2, data=words, headers={"Authorization": scope})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return ET.fromstring(answer.read())


def instances() -> dict[str, tuple[str, str, str]]:
    """Instances that are not terminated: region, market and state, by their ids."""
    found = {}
    for region in REGIONS:
        for item in ec2(region, "DescribeInstances").iter():
            if item.tag.endswith("}item") and (number := item.find("{*}instanceId")) is not None:
                state = item.findtext("{*}instanceState/{*}name", "")
                if state != "terminated":
                    found[str(number.text)] = region, item.findtext("{*}instanceLifecycle", "on demand"), state
    return found


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("user")
    return replace(read_settings(), store=str(folder / "history.db"), runs=str(folder / "runs"))


def no_capacity(*regions: str) -> None:
    (Path(os.environ[RIG]) / "no-capacity").write_text("\n".join(regions))


def start(settings: Settings, folder: Path, source: str, *, market: str, nodes: int = 1, **options: object) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(source)
    wanted = RunOptions(on=MACHINE, folder=folder, results=folder / "home", **options)  # type: ignore[arg-type] # fields of RunOptions
    run = agree(("python3", "train.py"), wanted, settings=settings)
    offers = [each for each in open_door(settings, MACHINE).offers() if each.vm_type.key == MACHINE]
    offer = next(each for each in offers if each.market == market and each.region == "us-east-1")
    run = replace(run, candidate=Candidate(offer=offer, nodes=nodes, batch_size=None))
    start_run(run, settings=settings)
    return run


def followed(settings: Settings, run: Run, act: object = None) -> RunStatus:
    seen: list[str] = []

    def on_status(status: RunStatus) -> None:
        if not seen or seen[-1] != status.life.state:
            seen.append(status.life.state)
            say(f"{run.id}: {status.life.state}, attempt {status.life.attempt}")
        if callable(act):
            act(status)

    return attend(run.id, settings=settings, on_status=on_status)


def test_the_door_is_ready_once_skypilot_has_checked_the_credentials(settings: Settings) -> None:
    began = time.monotonic()
    (aws,) = [status for status in check_doors(settings=settings) if status.door == "skypilot"]
    say(f"doors after {time.monotonic() - began:.0f} s: {aws.text}")
    assert (aws.place, aws.is_ready) == ("aws", True)
    assert MACHINE in aws.machines
    assert "aws" in open_doors(settings)


def test_a_launch_without_capacity_anywhere_fails_and_leaves_nothing(settings: Settings, tmp_path: Path) -> None:
    no_capacity(*REGIONS)
    began = time.monotonic()
    run = start(settings, tmp_path / "none", HELLO, market="on_demand")
    status = followed(settings, run)
    say(f"refused after {time.monotonic() - began:.0f} s: {status.life.failure}")
    no_capacity()
    assert (status.life.outcome, status.life.ever_started) == ("failed", False)
    assert instances() == {}


def test_two_nodes_in_the_region_that_has_capacity_run_a_program_and_its_results_come_home(
    settings: Settings, tmp_path: Path
) -> None:
    no_capacity("us-east-1")
    folder, began = tmp_path / "two", time.monotonic()
    run = start(settings, folder, HELLO, market="on_demand", nodes=2, variables={"SKYPILOT_NUM_NODES": "2"})
    while_it_ran: list[dict[str, tuple[str, str, str]]] = []

    def look(status: RunStatus) -> None:
        if status.life.state == "setting up" and not while_it_ran:
            say(f"machines ready after {time.monotonic() - began:.0f} s: {status.life.machines}")
            while_it_ran.append(instances())

    status = followed(settings, run, look)
    no_capacity()
    say(f"ended after {time.monotonic() - began:.0f} s: {status.life.outcome}")
    assert (status.life.outcome, status.life.exit_code) == ("succeeded", 0)
    assert sorted(while_it_ran[0].values()) == [("us-west-2", "on demand", "running")] * 2
    assert [(folder / f"home/answer{rank}.txt").read_text() for rank in (0, 1)] == ["42", "42"]
    logs = subprocess.run(
        ["trainfare", "logs", run.id, "--store", settings.store],
        env={**os.environ, "TRAINFARE_RUNS": settings.runs}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    say(logs)
    assert "node 0 on ip-172-31" in logs
    assert instances() == {}


def test_a_spot_machine_that_is_taken_back_is_replaced_and_the_run_goes_on_from_its_checkpoint(
    settings: Settings, tmp_path: Path
) -> None:
    folder, began = tmp_path / "spot", time.monotonic()
    run = start(settings, folder, RESUMABLE, market="spot", resume_flag="--resume {}")
    taken: list[float] = []

    def take_back(status: RunStatus) -> None:
        if status.life.checkpoint is not None and not taken:
            ((number, (region, market, _)),) = instances().items()
            assert market == "spot"
            ec2(region, "TerminateInstances", **{"InstanceId.1": number})
            taken.append(time.monotonic())
            say(f"{number} was taken back, {time.monotonic() - began:.0f} s after the start of the run")
        if taken and status.life.attempt == 2 and len(taken) == 1:
            taken.append(time.monotonic())
            say(f"the second attempt began {taken[1] - taken[0]:.0f} s after that")

    status = followed(settings, run, take_back)
    say(f"ended after {time.monotonic() - began:.0f} s: {status.life.outcome}, {status.life.warnings}")
    assert (status.life.outcome, status.life.attempt) == ("succeeded", 2)
    weights = json.loads((folder / "home/weights.json").read_text())
    assert weights == {"step": 40, "resumed": 20}
    assert instances() == {}


def test_machines_that_are_not_watched_are_removed_by_skypilots_timer_and_nothing_is_left(settings: Settings) -> None:
    door, began = open_door(settings, MACHINE), time.monotonic()
    offer = next(each for each in door.offers() if each.vm_type.key == MACHINE and each.region == "us-east-1")
    launch = Launch(
        owner="somebody@else",
        run_id="timed",
        attempt=1,
        candidate=Candidate(offer=offer, nodes=1, batch_size=None),
        expires_at=datetime.now(UTC),
    )
    door.launch(launch)
    while door.machines("timed-1")[0].state == "booting":
        time.sleep(1)
    assert door.machines("timed-1")[0].state == "ready", "its timer is set"
    say(f"ready after {time.monotonic() - began:.0f} s, with a lease that is over and a timer of 5 minutes")
    assert reap(settings=settings).terminated == (), "it is not ours"
    assert len(instances()) == 1
    while instances() and time.monotonic() - began < 1500:
        time.sleep(5)
    say(f"its machine was removed {time.monotonic() - began:.0f} s after the launch")
    assert instances() == {}
    while any(machine.state == "ready" for machine in door.machines("timed-1")):
        time.sleep(5)
    door.terminate("timed-1")
    while door.machines() and time.monotonic() - began < 1800:
        time.sleep(5)
    assert [machine for door in open_doors(settings).values() for machine in door.machines()] == []
