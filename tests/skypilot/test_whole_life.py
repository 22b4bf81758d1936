"""Runs on machines that the real SkyPilot rents, from the command to the receipt, with nothing left."""

import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch

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
PAID_MINUTES = 6
EC2 = os.environ.get("AWS_ENDPOINT_URL", "")
REGIONS = ("us-east-1", "us-west-2")

PYTORCH = "/opt/pytorch-of-the-rig/bin/python"
"""Python with PyTorch on every instance, as images of clouds have it."""

HELLO = """
print("hello")
"""

DDP = """
import pathlib, socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
x = torch.randn(1024, 16)
y = x.square().sum(1, keepdim=True)
net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = []
for step in range(60):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x[rank::world]), y[rank::world])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"node {rank} of {world} on {socket.gethostname()}: loss {losses[0]:.1f} to {losses[-1]:.1f}", flush=True)
torch.save(net.state_dict(), f"weights{rank}.pt")
assert losses[-1] < losses[0] / 2
dist.destroy_process_group()
"""

TRAINING = """
import os, pathlib, sys, time, torch
torch.manual_seed(0)
x = torch.randn(512, 8)
y = x.sum(1, keepdim=True).sin()
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
place, step = pathlib.Path("out/state.ckpt"), 0
if "--resume" in sys.argv:
    state = torch.load(place)
    step = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
resumed = step
print("from step", resumed, flush=True)
while step < 40:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    step += 1
    if step % 10 == 0:
        place.parent.mkdir(exist_ok=True)
        fresh = place.with_suffix(".new")
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, fresh)
        os.utime(fresh, (time.time() - 10, time.time() - 10))
        fresh.replace(place)
    while step == 23 and not resumed and "--undisturbed" not in sys.argv:
        time.sleep(0.1)
torch.save({"resumed": resumed, "model": model.state_dict()}, "weights.pt")
"""
"""It saves every ten steps, and waits at step 23 to be interrupted, unless it goes on."""


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


def assert_same(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> None:
    """Weights of the same training; threads may add in another order."""
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name])


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("user")
    return replace(read_settings(), store=str(folder / "history.db"), runs=str(folder / "runs"))


def no_capacity(*regions: str) -> None:
    (Path(os.environ[RIG]) / "no-capacity").write_text("\n".join(regions))


def start(settings: Settings, folder: Path, source: str, *, market: str, nodes: int = 1, **options: object) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(source)
    wanted = RunOptions(on=MACHINE, nodes=nodes, folder=folder, results=folder / "home", **options)  # type: ignore[arg-type] # fields of RunOptions
    run = agree((PYTORCH, "train.py"), wanted, settings=settings)
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


def test_two_nodes_in_the_region_that_has_capacity_train_with_pytorch_and_their_weights_come_home(
    settings: Settings, tmp_path: Path
) -> None:
    no_capacity("us-east-1")
    folder, began = tmp_path / "two", time.monotonic()
    run = start(settings, folder, DDP, market="on_demand", nodes=2)
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
    assert_same(*(torch.load(folder / f"home/weights{rank}.pt") for rank in (0, 1)))
    logs = subprocess.run(
        ["trainfare", "logs", run.id, "--store", settings.store],
        env={**os.environ, "TRAINFARE_RUNS": settings.runs}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    say(logs)
    assert "node 0 of 2 on ip-172-31" in logs
    assert instances() == {}


def test_a_spot_machine_that_is_taken_back_is_replaced_and_the_run_goes_on_from_its_checkpoint(
    settings: Settings, tmp_path: Path
) -> None:
    folder, began = tmp_path / "spot", time.monotonic()
    run = start(settings, folder, TRAINING, market="spot", resume_flag="--resume {}")
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
    found = torch.load(folder / "home/weights.pt")
    assert found["resumed"] == 20
    alone = tmp_path / "alone"
    alone.mkdir()
    subprocess.run([sys.executable, "-c", TRAINING, "--undisturbed"], cwd=alone, check=True)
    assert_same(found["model"], torch.load(alone / "weights.pt")["model"])
    assert instances() == {}


def test_machines_that_are_not_watched_are_removed_by_skypilots_timer_and_nothing_is_left(settings: Settings) -> None:
    door, began = open_door(settings, MACHINE), time.monotonic()
    offer = next(each for each in door.offers() if each.vm_type.key == MACHINE and each.region == "us-east-1")
    launch = Launch(
        owner="somebody@else",
        run_id="timed",
        attempt=1,
        candidate=Candidate(offer=offer, nodes=1, batch_size=None),
        expires_at=datetime.now(UTC) + timedelta(minutes=PAID_MINUTES),
    )
    paid_until = time.monotonic() + 60 * PAID_MINUTES
    door.launch(launch)
    while door.machines("timed-1")[0].state == "booting":
        time.sleep(1)
    assert door.machines("timed-1")[0].state == "ready", "its timer is set"
    ready = time.monotonic() - began
    say(f"ready after {ready:.0f} s of the {60 * PAID_MINUTES} s that are paid for; nothing watches it")
    assert reap(settings=settings).terminated == (), "it is not ours"
    assert len(instances()) == 1
    while instances() and time.monotonic() - began < 1500:
        time.sleep(5)
    say(f"its machine was removed {time.monotonic() - began:.0f} s after the launch")
    assert instances() == {}
    assert time.monotonic() < paid_until + 120, "SkyPilot looks at its timer every minute, and then ends the machines"
    while any(machine.state == "ready" for machine in door.machines("timed-1")):
        time.sleep(5)
    door.terminate("timed-1")
    while door.machines() and time.monotonic() - began < 1800:
        time.sleep(5)
    assert [machine for door in open_doors(settings).values() for machine in door.machines()] == []
