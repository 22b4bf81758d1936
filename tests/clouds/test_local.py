"""This machine in slices: the contract of a door, and the limits of the slices."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clouds.contract import DoorContract, wait_for_end
from tests.makers import make_candidate, make_offer, make_vm_type
from trainfare.clouds.cgroups import CannotLimitError, make_group
from trainfare.clouds.local import LocalDoor
from trainfare.clouds.slices import make_slice, slice_for
from trainfare.errors import NotFoundError, UsageError
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
    def door(self, tmp_path: Path) -> Iterator[LocalDoor]:
        door = LocalDoor(tmp_path / "machines", [offer(a_slice())])
        yield door
        for machine in door.machines():
            door.terminate(machine.run_id)

    def test_a_second_process_finds_the_program_running(self, door: LocalDoor, tmp_path: Path) -> None:
        (machine,) = door.launch(make_candidate(offer=door.offers()[0]), run_id="r1")
        door.start(machine, self.program(tmp_path, "import time; time.sleep(0.3)"))
        second = LocalDoor(tmp_path / "machines", door.offers())
        assert second.machines() == (machine,)
        assert second.observe(machine).state == "running"
        assert wait_for_end(second, machine).exit_code == 0

    def test_a_program_killed_with_its_shell_has_ended(self, door: LocalDoor, tmp_path: Path) -> None:
        (machine,) = door.launch(make_candidate(offer=door.offers()[0]), run_id="r1")
        door.start(machine, self.program(tmp_path, "import time; time.sleep(600)"))
        group = int((tmp_path / "machines" / machine.id / "group").read_text())
        os.killpg(group, signal.SIGKILL)
        assert wait_for_end(door, machine).exit_code == -signal.SIGKILL

    def test_only_slices_are_offered(self, tmp_path: Path) -> None:
        door = LocalDoor(tmp_path, [make_offer(), offer(a_slice())])
        assert [o.vm_type.key for o in door.offers()] == ["local/full"]

    def test_a_machine_that_is_not_offered_is_not_launched(self, door: LocalDoor) -> None:
        with pytest.raises(NotFoundError, match="no slice of this machine aws/g4dn"):
            door.launch(make_candidate(), run_id="r1")


def test_a_slice_of_full_cpus_is_bound_to_them() -> None:
    done = run_in(a_slice(vcpus=1), "import os; print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])")
    assert done.stdout.split() == ["1", "1"]


@needs_groups
def test_half_a_cpu_gets_at_most_half_of_the_time() -> None:
    used = float(run_in(a_slice(vcpus=0.5), BUSY).stdout)
    assert 0.1 < used < 0.55, "of one second; on a busy machine it may get less than its share, never more"


@needs_groups
def test_a_program_that_exceeds_the_memory_of_its_slice_is_killed() -> None:
    done = run_in(a_slice(memory_gib=0.25), "b = bytearray(600 << 20); print(len(b))")
    assert done.returncode == -signal.SIGKILL
    assert run_in(a_slice(memory_gib=1), "b = bytearray(600 << 20); print(len(b))").returncode == 0


@needs_groups
def test_processes_in_a_slice_are_killed_with_it() -> None:
    with slice_for(a_slice(vcpus=0.5), f"trainfare-test-{os.getpid()}") as part:
        sleeper = subprocess.Popen((*part.prefix, "sleep", "600"), start_new_session=True)
        until = time.monotonic() + 5
        while sleeper.pid not in part.group.processes() and time.monotonic() < until:
            time.sleep(0.01)
    assert sleeper.wait(5) == -signal.SIGKILL
    assert not any(folder.exists() for folder in part.group.folders)


def test_a_slice_with_more_cpus_than_the_machine_is_refused() -> None:
    with pytest.raises(UsageError, match=r"local/huge is a slice of 4096 CPUs, but this machine has \d+"):
        make_slice(a_slice("huge", vcpus=4096), "trainfare-test")


def test_a_slice_must_state_its_cpus() -> None:
    with pytest.raises(UsageError, match="give it vcpus"):
        make_slice(a_slice(vcpus=None), "trainfare-test")
