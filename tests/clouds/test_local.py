"""This machine in slices: the contract of a door, and the limits of the slices."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clouds.contract import DoorContract, a_project, ended, launch_of, launched, started
from tests.makers import NOON, make_offer, make_vm_type
from trainfare.clouds import driver
from trainfare.clouds.cgroups import CannotLimitError, make_group
from trainfare.clouds.door import RefusedError, Shell
from trainfare.clouds.local import LocalDoor
from trainfare.clouds.slices import make_slice, slice_for
from trainfare.errors import UsageError
from trainfare.model.machine import VmType
from trainfare.model.offer import Offer


def can_limit() -> bool:
    try:
        make_group("trainfare-can-limit", cpus=0.5, memory_bytes=2**30).remove()
    except CannotLimitError:
        return False
    return True


needs_groups = pytest.mark.skipif(not can_limit(), reason="control groups cannot be written here")

BUSY = "import time; t = time.process_time(); e = time.monotonic() + 1.0\nwhile time.monotonic() < e: pass\n"
BUSY += "print(time.process_time() - t)"


def a_slice(name: str = "full", *, vcpus: float | None = 1.0, memory_gib: float | None = None) -> VmType:
    return make_vm_type(provider="local", name=name, gpu=None, gpus=0, vcpus=vcpus, memory_gib=memory_gib)


def offer(vm_type: VmType) -> Offer:
    return make_offer(vm_type=vm_type, region="here", market="own", usd_per_hour=0.02)


def run_in(vm_type: VmType, source: str) -> subprocess.CompletedProcess[str]:
    with slice_for(vm_type, f"trainfare-test-{os.getpid()}") as part:
        return subprocess.run(
            (*part.prefix, sys.executable, "-c", source),
            env=os.environ | part.environment,
            capture_output=True,
            text=True,
            check=False,
        )


class TestLocalDoor(DoorContract):
    @pytest.fixture
    def door(self, tmp_path: Path) -> LocalDoor:
        return LocalDoor(tmp_path / "machines", [make_offer(), offer(a_slice("here", vcpus=None)), offer(a_slice())])

    def test_only_this_machine_and_its_slices_are_offered(self, door: LocalDoor) -> None:
        assert [o.vm_type.key for o in door.offers()] == ["local/here", "local/full"]

    def test_a_second_process_finds_the_machine_and_its_program(
        self, door: LocalDoor, run: Callable[..., Shell], tmp_path: Path
    ) -> None:
        run("import time; time.sleep(0.3)")
        second = LocalDoor(tmp_path / "machines", door.offers())
        assert [machine.id for machine in second.machines()] == [machine.id for machine in door.machines()]
        assert ended(second.shell(second.machines()[0]))["exit_code"] == 0

    def test_a_renewed_lease_is_listed(self, door: LocalDoor, run: Callable[..., Shell]) -> None:
        shell = run("import time; time.sleep(600)")
        driver.renew(shell, NOON.replace(year=2126))
        assert door.machines()[0].expires_at.year == 2126

    def test_a_slice_that_cannot_be_made_is_refused(self, tmp_path: Path) -> None:
        door = LocalDoor(tmp_path / "machines", [offer(a_slice("huge", vcpus=4096))])
        with pytest.raises(RefusedError, match="this machine has"):
            door.launch(launch_of(door))
        assert door.machines() == ()


class TestLocalSlice:
    def test_the_agent_and_the_program_are_confined_to_the_slice(self, tmp_path: Path) -> None:
        door = LocalDoor(tmp_path / "machines", [offer(a_slice())])
        (machine,) = launched(door)
        source = "import os; print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
        shell = started(door.shell(machine), machine, a_project(tmp_path / "project", source))
        ended(shell)
        assert driver.output(shell, offset=0) == b"1 1\n"
        door.terminate(machine.key)


def test_a_slice_of_full_cpus_is_bound_to_them() -> None:
    done = run_in(a_slice(vcpus=1), "import os; print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])")
    assert done.stdout.split() == ["1", "1"]


@needs_groups
def test_half_a_cpu_gets_at_most_half_of_the_time() -> None:
    used = float(run_in(a_slice(vcpus=0.5), BUSY).stdout)
    assert 0 < used < 0.55, "of one second; on a busy machine it may get less than its share, never more"


@needs_groups
def test_a_program_that_exceeds_the_memory_of_its_slice_is_killed() -> None:
    done = run_in(a_slice(memory_gib=0.25), "b = bytearray(600 << 20); print(len(b))")
    assert done.returncode == -signal.SIGKILL
    assert run_in(a_slice(memory_gib=1), "b = bytearray(600 << 20); print(len(b))").returncode == 0


@needs_groups
def test_processes_in_a_slice_are_killed_with_it() -> None:
    with slice_for(a_slice(vcpus=0.5), f"trainfare-test-{os.getpid()}") as part:
        sleeper = subprocess.Popen((*part.prefix, "sleep", "600"), start_new_session=True)
        until = time.monotonic() + 300
        while sleeper.pid not in part.group.processes() and time.monotonic() < until:
            time.sleep(0.01)
    assert sleeper.wait(300) == -signal.SIGKILL
    assert not any(folder.exists() for folder in part.group.folders)


def test_a_slice_with_more_cpus_than_the_machine_is_refused() -> None:
    with pytest.raises(UsageError, match=r"local/huge is a slice of 4096 CPUs, but this machine has \d+"):
        make_slice(a_slice("huge", vcpus=4096), "trainfare-test")


def test_a_slice_must_state_its_cpus() -> None:
    with pytest.raises(UsageError, match="give it vcpus"):
        make_slice(a_slice(vcpus=None), "trainfare-test")
