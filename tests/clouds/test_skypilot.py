"""The door to clouds: its contract with recorded answers of SkyPilot, and launches that fail or go well anyway."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.clouds.contract import DoorContract, ended, launch_of, launched, machines_of, wait_until
from tests.makers import make_offer, make_vm_type
from tests.rigs.fixtures import needs_hosts
from tests.rigs.hosts import HostRig, SshHost
from tests.rigs.skypilot import NAMES, Replay, replay
from trainfare.agent import agent
from trainfare.clouds.door import RefusedError, Shell
from trainfare.clouds.skypilot import SkyPilotDoor
from trainfare.clouds.skypilot_api import SkyPilotApi, SkyPilotSilentError
from trainfare.errors import ExternalError
from trainfare.model.offer import Offer

pytestmark = [needs_hosts, pytest.mark.loopback]


def offer(region: str = "us-east-1", market: str = "on_demand", usd_per_hour: float = 0.1) -> Offer:
    vm_type = make_vm_type(provider="aws", name="m7i.large", gpu=None, gpus=0)
    return make_offer(vm_type=vm_type, region=region, market=market, usd_per_hour=usd_per_hour)


@pytest.fixture(scope="module")
def host(rig: HostRig) -> SshHost:
    """The host on which the nodes of every cluster are folders: ssh knows it by the names of all nodes."""
    host = rig.add("h1")
    configuration = rig.folder / "ssh_config"
    configuration.write_text(NAMES.format(address=host.address) + configuration.read_text())
    return host


@pytest.fixture
def server(host: SshHost, user_of_rig: None, tmp_path: Path) -> Iterator[Replay]:
    with replay(host, tmp_path / "env") as made:
        yield made


class TestSkyPilotDoor(DoorContract):
    @pytest.fixture
    def door(self, server: Replay, tmp_path: Path) -> SkyPilotDoor:
        return a_door(server, tmp_path)

    def test_the_agent_leaves_the_end_of_its_machine_to_skypilot_first(self, run: Callable[..., Shell]) -> None:
        shell = run(f"import os; print(os.environ.get({agent.POWER_OFF!r}, ''))")
        ended(shell)
        assert b"sleep 1800; sudo -n shutdown" in shell.run(["sh", "-c", f"echo ${agent.POWER_OFF}"]).output

    def test_nodes_know_the_addresses_of_each_other(self, door: SkyPilotDoor, host: SshHost) -> None:
        assert {machine.address for machine in launched(door, nodes=2)} == {host.address}

    def test_another_computer_sees_the_machines_and_can_end_them(
        self, door: SkyPilotDoor, server: Replay, tmp_path: Path
    ) -> None:
        launched(door)
        other = a_door(server, tmp_path / "other")
        (found,) = wait_until(lambda: [m for m in other.machines() if m.state == "ready"])
        assert (found.id, found.owner) == ("r1-1/0", "ada@home")
        other.terminate("r1-1")
        assert door.machines("r1-1")[0].state == "failed", "it no longer exists"


def a_door(server: Replay, folder: Path, *offers: Offer) -> SkyPilotDoor:
    api = SkyPilotApi(folder / "env", server.url)
    return SkyPilotDoor(folder / "remembered", "aws", offers or (offer(),), api)


class TestLaunches:
    def test_a_launch_that_finds_no_machines_fails_with_its_reason_and_leaves_nothing(
        self, server: Replay, tmp_path: Path
    ) -> None:
        server.has_capacity = False
        door = a_door(server, tmp_path)
        door.launch(launch_of(door))
        (machine,) = door.machines("r1-1")
        assert machine.state == "failed"
        assert machine.reason == "There is no capacity, or no quota, in any zone of us-east-1, us-west-2."
        assert machine.refused == "capacity"
        door.terminate("r1-1")
        assert door.machines("r1-1") == door.known_machines() == ()

    def test_a_launch_that_fails_with_its_cluster_up_is_used_and_gets_its_timer(
        self, server: Replay, tmp_path: Path
    ) -> None:
        server.holds, server.fails_after_up = "cluster UP without timer", True
        door = a_door(server, tmp_path)
        door.launch(launch_of(door))
        wait_until(lambda: machines_of(door, "r1")[0].state == "ready")
        ((_, body),) = [each for each in server.asked if each[0] == "/autostop"]
        assert (body["cluster_name"], body["down"], body["wait_for"]) == ("trainfare-r1-1", True, "none")
        assert 59 <= body["idle_minutes"] <= 60

    def test_the_timer_is_set_once_more_when_the_machines_are_up_so_that_their_boot_is_not_added(
        self, server: Replay, tmp_path: Path
    ) -> None:
        door = a_door(server, tmp_path)
        wanted = launch_of(door)
        door.launch(replace(wanted, expires_at=datetime.now(UTC) + timedelta(minutes=30)))
        remembered = tmp_path / "remembered/r1-1.json"  # as if it had booted for 10 minutes
        text = remembered.read_text()
        for moment in set(re.findall(r'"(\d{4}-[^"]*Z)"', text)):
            earlier = datetime.fromisoformat(moment) - timedelta(minutes=10)
            text = text.replace(moment, earlier.isoformat().replace("+00:00", "Z"))
        remembered.write_text(text)
        wait_until(lambda: machines_of(door, "r1")[0].state == "ready")
        again = a_door(server, tmp_path)  # as after a restart
        again.machines("r1-1")
        ((_, body),) = [each for each in server.asked if each[0] == "/autostop"]
        assert (body["cluster_name"], body["down"], body["wait_for"]) == ("trainfare-r1-1", True, "none")
        assert body["idle_minutes"] == 19

    def test_a_cluster_that_is_up_without_its_timer_is_not_ready_while_its_launch_goes_on(
        self, server: Replay, tmp_path: Path
    ) -> None:
        server.holds = "cluster UP without timer"
        door = a_door(server, tmp_path)
        door.launch(launch_of(door))
        (machine,) = door.machines("r1-1")
        assert (machine.state, machine.reason) == ("booting", "SkyPilot sets its timer.")

    def test_a_spot_machine_that_was_taken_back_is_preempted(self, server: Replay, tmp_path: Path) -> None:
        door = a_door(server, tmp_path, offer(market="spot"))
        launched(door)
        server.take_back("trainfare-r1-1")
        door = a_door(server, tmp_path, offer(market="spot"))  # as after a restart
        (machine,) = door.machines("r1-1")
        assert (machine.state, machine.id) == ("preempted", "r1-1/0")
        door.terminate("r1-1")
        assert door.machines() == ()

    def test_a_machine_that_does_not_answer_is_looked_at_at_once(
        self, server: Replay, host: SshHost, tmp_path: Path
    ) -> None:
        door = a_door(server, tmp_path)
        (machine,) = launched(door)
        host.run("rm", "-rf", "/srv/home/.trainfare")
        with pytest.raises(ExternalError):
            door.shell(machine).read("output")
        door.machines("r1-1")
        refreshed = [body for path, body in server.asked if path == "/status" and body["refresh"] == "FORCE"]
        assert [body["cluster_names"] for body in refreshed] == [["trainfare-r1-1"]]

    def test_terminating_a_launch_that_goes_on_cancels_it_first(self, server: Replay, tmp_path: Path) -> None:
        server.holds = "cluster INIT"
        door = a_door(server, tmp_path)
        door.launch(launch_of(door))
        (machine,) = door.machines("r1-1")
        assert (machine.state, machine.reason) == ("booting", "Instances launched on aws in us-east-1")
        door.terminate("r1-1")
        assert [path for path, _ in server.asked if path in ("/api/cancel", "/down")] == ["/api/cancel", "/down"]
        assert door.machines() == ()

    def test_an_end_that_failed_is_asked_for_again_and_said(self, server: Replay, tmp_path: Path) -> None:
        door = a_door(server, tmp_path)
        launched(door)
        cluster = server.clusters.pop("trainfare-r1-1")
        server.down("trainfare-r1-1")  # fails
        server.clusters["trainfare-r1-1"] = cluster
        with pytest.raises(ExternalError, match="does not exist"):
            door.terminate("r1-1")
        assert door.machines() == ()

    def test_machines_are_unreachable_while_the_server_cannot_be_asked(self, server: Replay, tmp_path: Path) -> None:
        door = a_door(server, tmp_path)
        launched(door)
        silent = SkyPilotDoor(
            tmp_path / "remembered", "aws", (offer(),), SkyPilotApi(tmp_path / "nothing", "http://127.0.0.1:9")
        )
        (machine,) = silent.machines("r1-1")
        assert machine.state == "unreachable"
        with pytest.raises(SkyPilotSilentError, match="not installed"):
            silent.machines("r2-1")

    def test_a_launch_without_skypilot_is_refused(self, tmp_path: Path) -> None:
        door = SkyPilotDoor(tmp_path / "r", "aws", (offer(),), SkyPilotApi(tmp_path, "http://127.0.0.1:9"))
        with pytest.raises(RefusedError, match="trainfare doors setup skypilot"):
            door.launch(launch_of(door))
        assert door.known_machines() == ()

    def test_only_regions_that_do_not_cost_more_are_tried(self, server: Replay, tmp_path: Path) -> None:
        regions = (
            offer("eu-west-1"),
            offer("us-east-1"),
            offer("us-west-2", usd_per_hour=0.2),
            offer("us-east-2", "spot"),
        )
        door = a_door(server, tmp_path, *regions)
        door.launch(replace(launch_of(door), expires_at=datetime.now(UTC)))
        task = json.loads(next(body["task"] for path, body in server.asked if path == "/launch"))
        assert task["resources"]["ordered"] == [{"infra": "aws/eu-west-1"}, {"infra": "aws/us-east-1"}]
        assert task["resources"]["autostop"] == {"idle_minutes": 5, "down": True, "wait_for": "none"}
