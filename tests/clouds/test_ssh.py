"""Hosts of the user, by a real sshd: the contract of a door, and hosts that refuse, vanish and come back."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clouds.contract import DoorContract, a_project, ended, last_of, launch_of, launched, started, wait_until
from tests.makers import make_offer, make_vm_type
from tests.rigs.fixtures import needs_hosts
from tests.rigs.hosts import HostRig, SshHost
from trainfare.clouds import driver
from trainfare.clouds.door import MachineUnreachableError, RefusedError, Shell
from trainfare.clouds.ssh import SshDoor
from trainfare.errors import ExternalError
from trainfare.model.hosts import HostPlace
from trainfare.model.offer import Offer

pytestmark = needs_hosts


def offer(name: str) -> Offer:
    vm_type = make_vm_type(provider="ssh", name=name, gpu=None, gpus=0)
    return make_offer(vm_type=vm_type, region="here", market="own", usd_per_hour=0.0)


@pytest.fixture(scope="module")
def host(rig: HostRig) -> SshHost:
    return rig.add("h1")


class TestSshDoor(DoorContract):
    @pytest.fixture
    def door(self, host: SshHost, user_of_rig: None, tmp_path: Path) -> SshDoor:
        return SshDoor(tmp_path / "remembered", [offer("box")], {"ssh/box": "h1"})

    def test_terminate_ends_every_process_and_removes_the_folder(
        self, door: SshDoor, host: SshHost, run: Callable[..., Shell]
    ) -> None:
        source = "import subprocess, time; subprocess.Popen(['setsid', 'sleep', '5555']); time.sleep(600)"
        shell = run(source)
        wait_until(lambda: "sleep 5555" in host.processes(), "the start of the program")
        assert shell.run(["pwd"]).output == b"/srv/home/.trainfare/r1-1/0\n"
        door.terminate("r1-1")
        assert door.machines() == ()
        assert [command for command in host.processes() if "sleep" in command or "agent" in command] == []
        assert host.run("ls", "-A", "/srv/home/.trainfare") == b""

    def test_another_computer_sees_the_machines_and_can_end_them(
        self, door: SshDoor, run: Callable[..., Shell], tmp_path: Path
    ) -> None:
        run("import time; time.sleep(600)")
        other = SshDoor(tmp_path / "other", [offer("box")], {"ssh/box": "h1"})
        assert [machine.id for machine in other.machines()] == ["r1-1/0"]
        other.terminate("r1-1")
        assert door.machines() == ()

    def test_a_renewed_lease_is_shown(self, door: SshDoor, run: Callable[..., Shell]) -> None:
        shell = run("import time; time.sleep(600)")
        (before,) = door.machines()
        driver.renew(shell, before.expires_at + (before.expires_at - before.launched_at))  # type: ignore[operator]  # a launch of this door has a time
        (after,) = door.machines()
        assert (after.expires_at - before.expires_at).total_seconds() == pytest.approx(3600, abs=60)

    def test_a_folder_that_is_not_ours_is_ignored(self, door: SshDoor, host: SshHost) -> None:
        host.run("sh", "-c", "mkdir -p /srv/home/.trainfare/x/y; echo hello > /srv/home/.trainfare/x/y/machine.json")
        assert door.machines() == ()


class TestFaults:
    def door(self, tmp_path: Path, *names: str) -> SshDoor:
        return SshDoor(tmp_path / "remembered", [offer(name) for name in names], {})

    def test_a_host_that_cannot_be_reached_refuses(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        door = self.door(tmp_path, "nowhere")
        with pytest.raises(RefusedError, match="nowhere: there is no host of that name"):
            door.launch(launch_of(door))
        assert door.machines() == ()
        assert list((tmp_path / "remembered").iterdir()) == []

    def test_a_host_that_vanishes_after_the_launch_does_not_refuse(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        host = fresh_rig.add("h1")
        door = self.door(tmp_path, "h1")
        launched(door)
        host.power_off()
        with pytest.raises(MachineUnreachableError) as raised:
            door.launch(launch_of(door))
        assert not isinstance(raised.value, RefusedError)

    @pytest.mark.parametrize("program", ["rsync", "python"])
    def test_a_host_without_a_needed_program_refuses(self, fresh_rig: HostRig, tmp_path: Path, program: str) -> None:
        host = fresh_rig.add("h1", hidden=(program,))
        door = self.door(tmp_path, "h1")
        with pytest.raises(RefusedError, match=f"{program}.* is not installed on h1"):
            door.launch(launch_of(door))
        assert host.run("ls", "-A", "/srv/home") == b""

    def test_a_host_with_a_full_home_refuses_and_nothing_is_left(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        host = fresh_rig.add("h1", home_mib=1)
        host.run("sh", "-c", "mkdir /srv/home/.trainfare; dd if=/dev/zero of=/srv/home/full bs=4096 2>/dev/null; true")
        door = self.door(tmp_path, "h1")
        with pytest.raises(RefusedError, match=r"home folder on h1: .*No space left"):
            door.launch(launch_of(door))
        assert door.machines() == ()
        assert host.run("ls", "-A", "/srv/home/.trainfare") == b""

    def test_machines_of_a_silent_host_are_listed_as_unreachable(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        hosts = [fresh_rig.add(name) for name in ("h1", "h2")]
        door = self.door(tmp_path, "h1", "h2")
        launched(door, "r1")
        second = replace(launch_of(door, "r2"), candidate=replace(launch_of(door).candidate, offer=offer("h2")))
        door.launch(second)
        hosts[0].power_off()
        quick = self.door(tmp_path, "h1", "h2")
        assert [m.state for m in quick.machines("r2-1")] == ["ready"]
        assert {m.key for m in quick.known_machines()} == {"r1-1", "r2-1"}
        assert quick._answers.silent == {}, "the host that is off was not asked"
        again = self.door(tmp_path, "h1", "h2")
        assert [(m.run_id, m.state) for m in again.machines()] == [("r1", "unreachable"), ("r2", "ready")]
        assert "no ssh server answers" in (again.machines()[0].reason or "")
        with pytest.raises(MachineUnreachableError):
            again.terminate("r1-1")
        assert [m.run_id for m in again.machines()] == ["r1", "r2"], "termination is not confirmed"
        hosts[0].power_on()
        later = self.door(tmp_path, "h1", "h2")
        assert [m.state for m in later.machines()] == ["ready", "ready"]
        later.terminate("r1-1")
        assert [m.run_id for m in later.machines()] == ["r2"]

    def test_hosts_that_share_a_home_folder_list_each_their_own(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        hosts = [fresh_rig.add(name) for name in ("h1", "h2")]
        door = self.door(tmp_path, "h1", "h2")
        launched(door)
        copy = hosts[0].run("tar", "-C", "/srv/home", "-c", ".trainfare")
        hosts[1].run("tar", "-C", "/srv/home", "-x", given=copy)
        other = SshDoor(tmp_path / "other computer", [offer("h1"), offer("h2")], {})
        assert [(m.id, m.destination) for m in other.machines()] == [("r1-1/0", "h1")]

    def test_a_host_cannot_claim_a_machine_of_another(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        for name in ("h1", "h2"):
            fresh_rig.add(name)
        door = self.door(tmp_path, "h1", "h2")
        launched(door)
        liar = SshDoor(tmp_path / "other computer", [offer("h2")], {})
        liar.launch(launch_of(liar))
        assert [(m.id, m.destination) for m in door.machines()] == [("r1-1/0", "h1")]

    def test_a_damaged_memory_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "remembered").mkdir()
        (tmp_path / "remembered" / "r1-1.json").write_text("{")
        with pytest.raises(ExternalError, match=r"r1-1\.json is damaged"):
            self.door(tmp_path).machines()

    def test_a_silent_host_does_not_delay_the_next_list(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        host = fresh_rig.add("h1")
        door = SshDoor(tmp_path / "remembered", [offer("h1")], {}, answer_seconds=3.0)
        launched(door)
        host.cut()
        door.machines()
        began = time.monotonic()
        assert [m.state for m in door.machines()] == ["unreachable"]
        assert time.monotonic() - began < 1.0

    def test_a_program_goes_on_while_the_cable_is_cut(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        host = fresh_rig.add("h1")
        door = self.door(tmp_path, "h1")
        (machine,) = launched(door)
        source = (
            "import time\nfor i in range(40): print(i, flush=True); time.sleep(0.1)\nopen('out', 'w').write('done')"
        )
        shell = started(door.shell(machine), machine, a_project(tmp_path / "project", source))
        wait_until(lambda: driver.output(shell, offset=0), "the start of the program")
        host.cut()
        time.sleep(3)
        host.restore()
        assert ended(shell)["exit_code"] == 0
        assert driver.output(shell, offset=0) == b"".join(b"%d\n" % i for i in range(40))
        results = driver.results(shell)
        assert results is not None
        driver.fetch(shell, results, tmp_path / "home")
        assert (tmp_path / "home" / "out").read_text() == "done"

    def test_a_program_that_a_reboot_ended_is_reported_with_its_files(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        host = fresh_rig.add("h1")
        door = self.door(tmp_path, "h1")
        (machine,) = launched(door)
        source = "import time; open('saved', 'w').write('epoch 1'); print('saved', flush=True); time.sleep(600)"
        shell = started(door.shell(machine), machine, a_project(tmp_path / "project", source))
        wait_until(lambda: driver.output(shell, offset=0) == b"saved\n", "the first checkpoint")
        host.reboot()
        assert [m.state for m in door.machines()] == ["ready"]
        driver.start(shell, secrets={})
        wait_until(lambda: driver.results(shell), "the report")
        assert last_of(shell, "program")["state"] == "ended"
        results = driver.results(shell)
        assert results is not None
        assert "saved" in results.files

    @pytest.mark.parametrize("key", ["../x-1", "a/b-1", "-rf", ".ssh"])
    def test_a_key_is_never_a_path(self, tmp_path: Path, key: str) -> None:
        with pytest.raises(ValueError, match="key of a launch"):
            self.door(tmp_path, "h1").terminate(key)


class TestGroup:
    def door(self, tmp_path: Path, *names: str) -> SshDoor:
        places = [HostPlace(destination=name) for name in names]
        return SshDoor(tmp_path / "remembered", [offer("lab")], {}, {"ssh/lab": places})

    def test_each_host_is_a_node_with_the_address_at_which_ssh_reaches_it(
        self, fresh_rig: HostRig, tmp_path: Path
    ) -> None:
        hosts = [fresh_rig.add(name) for name in ("h1", "h2")]
        door = self.door(tmp_path, "h1", "h2")
        machines = launched(door, nodes=2)
        assert [(m.node, m.destination, m.address) for m in machines] == [
            (0, "h1", hosts[0].address),
            (1, "h2", hosts[1].address),
        ]
        assert [door.shell(machine).run(["uname", "-n"]).output for machine in machines] == [b"h1\n", b"h2\n"]
        hosts[1].power_off()
        other = self.door(tmp_path, "h1", "h2")
        assert [(m.node, m.state) for m in other.machines("r1-1")] == [(0, "ready"), (1, "unreachable")]
        with pytest.raises(ExternalError):
            other.terminate("r1-1")
        assert hosts[0].run("ls", "-A", "/srv/home/.trainfare") == b"", "the host that answers is ended all the same"
        hosts[1].power_on()
        again = self.door(tmp_path, "h1", "h2")
        again.terminate("r1-1")
        assert again.machines() == ()

    def test_a_host_that_refuses_leaves_nothing_on_the_others(self, fresh_rig: HostRig, tmp_path: Path) -> None:
        host = fresh_rig.add("h1")
        door = self.door(tmp_path, "h1", "nowhere")
        with pytest.raises(RefusedError, match="nowhere: there is no host of that name"):
            door.launch(launch_of(door, nodes=2))
        assert host.run("ls", "-A", "/srv/home/.trainfare") == b""
        assert list((tmp_path / "remembered").iterdir()) == []
        with pytest.raises(RefusedError, match="ssh/lab has 2 hosts, and 3 nodes are asked for"):
            door.launch(launch_of(door, nodes=3))
