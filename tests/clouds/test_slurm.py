"""Clusters of the user, by a real Slurm: the contract of a door, queues, and everything that goes wrong."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.clouds.contract import (
    SECRET,
    WAITING,
    DoorContract,
    a_project,
    ended,
    last_of,
    launch_of,
    launched,
    machines_of,
    started,
    wait_until,
)
from tests.makers import make_offer, make_vm_type
from tests.rigs.fixtures import needs_slurm
from tests.rigs.slurm import SlurmRig
from trainfare.clouds import driver
from trainfare.clouds.door import RefusedError, Shell
from trainfare.clouds.slurm import SlurmDoor, describe_cluster
from trainfare.errors import ExternalError
from trainfare.model.offer import Offer
from trainfare.model.rented import RentedMachine
from trainfare.model.slurm import SlurmCluster

pytestmark = needs_slurm

LAB = SlurmCluster(name="lab")


def offer(name: str) -> Offer:
    vm_type = make_vm_type(provider="slurm", name=name, gpu=None, gpus=0, vcpus=2.0, memory_gib=4000 / 1024)
    return make_offer(vm_type=vm_type, region="here", market="own", usd_per_hour=0.36)


def make_door(folder: Path, lab: SlurmCluster = LAB) -> SlurmDoor:
    partitions = {f"slurm/{each.name}": each for each in describe_cluster(lab).partitions}
    return SlurmDoor(folder / "remembered", [offer("lab-cpu"), offer("lab-short")], [lab], partitions)


@pytest.mark.usefixtures("user_of_cluster")
class TestSlurmDoor(DoorContract):
    @pytest.fixture
    def door(self, cluster: SlurmRig, user_of_cluster: None, tmp_path: Path) -> SlurmDoor:
        return make_door(tmp_path)

    def test_each_node_tells_its_address(self, door: SlurmDoor) -> None:
        machines = launched(door, nodes=3)
        assert [machine.address for machine in machines] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        names = [door.shell(m).run(("sh", "-c", "echo $SLURMD_NODENAME")).output for m in machines]
        assert names == [b"n1\n", b"n2\n", b"n3\n"]

    def test_a_job_ends_with_its_program_and_its_results_stay(
        self, door: SlurmDoor, cluster: SlurmRig, run: Callable[..., Shell], tmp_path: Path
    ) -> None:
        shell = run("open('out', 'w').write('done')")
        ended(shell)
        wait_until(lambda: cluster.jobs() == [], "the end of the job")
        assert [machine.state for machine in door.machines()] == ["ready"]
        results = driver.results(shell)
        assert results is not None
        driver.fetch(shell, results, tmp_path / "home")
        assert (tmp_path / "home" / "out").read_text() == "done"

    def test_a_job_that_waits_is_queued_with_its_reason_and_costs_nothing(
        self, door: SlurmDoor, cluster: SlurmRig, tmp_path: Path
    ) -> None:
        launched(door, "r1", nodes=3)
        door.launch(launch_of(door, "r2"))
        machine = wait_until(lambda: _queued(door, "Resources"), "that it waits")
        assert (machine.launched_at, machine.address) == (None, None)
        shell = started(door.shell(machine), machine, a_project(tmp_path / "project", "print('my turn')"))
        door.terminate("r1-1")
        assert ended(shell)["exit_code"] == 0
        assert driver.output(shell, offset=0) == b"my turn\n", "it started by itself"
        assert machines_of(door, "r2")[0].launched_at is not None

    def test_a_lease_counts_from_the_end_of_the_wait(self, door: SlurmDoor, tmp_path: Path) -> None:
        launched(door, "r1", nodes=3)
        door.launch(launch_of(door, "r2"))
        machine = wait_until(lambda: _queued(door, "Resources"), "that it waits")
        shell = started(door.shell(machine), machine, a_project(tmp_path / "project", "print('in time')"))
        before = int(shell.read("lease"))
        time.sleep(3)
        door.terminate("r1-1")
        assert ended(shell)["cause"] == "own"
        assert int(shell.read("lease")) - before >= 2

    def test_whatever_it_waited_it_ends_by_its_deadline(self, door: SlurmDoor, tmp_path: Path) -> None:
        launched(door, "r1", nodes=3)
        late = replace(launch_of(door, "r2"), ends_by=datetime.now(UTC) + timedelta(seconds=1))
        door.launch(late)
        machine = wait_until(lambda: _queued(door, "Resources"), "that it waits")
        shell = started(door.shell(machine), machine, a_project(tmp_path / "project", "import time; time.sleep(600)"))
        time.sleep(1)
        door.terminate("r1-1")
        assert ended(shell)["cause"] == "lease"

    def test_the_time_limit_is_the_lease_or_what_the_partition_allows(self, door: SlurmDoor, cluster: SlurmRig) -> None:
        launched(door)
        short = replace(launch_of(door, "r2"), candidate=replace(launch_of(door).candidate, offer=offer("lab-short")))
        door.launch(short)
        limits = cluster.run("squeue", "--noheader", "--format=%j %l").split("\n")
        assert sorted(filter(None, limits)) == ["trainfare-r1-1 1:02:00", "trainfare-r2-1 5:00"]
        (machine,) = door.machines("r2-1")
        assert machine.expires_at - datetime.now(UTC) < timedelta(minutes=3.1)

    def test_a_job_that_someone_else_cancels_has_failed(self, door: SlurmDoor, cluster: SlurmRig) -> None:
        launched(door)
        cluster.run("scancel", "--name=trainfare-r1-1")
        machine = wait_until(lambda: _in_state(door, "failed"), "that it is noticed")
        assert "was cancelled by someone else" in machine.reason
        door.terminate("r1-1")
        assert door.machines() == ()

    def test_a_program_whose_job_is_cancelled_can_save_and_its_files_stay(
        self, door: SlurmDoor, cluster: SlurmRig, run: Callable[..., Shell]
    ) -> None:
        source = "import signal, sys, time\n"
        source += "def save(*_): open('checkpoint.pt', 'w').write('state'); sys.exit(0)\n"
        shell = run(source + "signal.signal(signal.SIGTERM, save); print('ready', flush=True); time.sleep(600)")
        wait_until(lambda: driver.output(shell, offset=0) == b"ready\n", "the start of the program")
        cluster.run("scancel", "--name=trainfare-r1-1")
        assert ended(shell)["cause"] == "signal"
        wait_until(lambda: _in_state(door, "ready"), "the end of the job")
        results = driver.results(shell)
        assert results is not None
        assert list(results.files) == ["checkpoint.pt"]

    def test_a_node_that_dies_is_lost_and_the_next_launch_gets_another(
        self, door: SlurmDoor, cluster: SlurmRig, run: Callable[..., Shell]
    ) -> None:
        shell = run("import time; time.sleep(600)")
        wait_until(lambda: last_of(shell, "program"), "the start of the program")
        cluster.kill_node("n1")
        try:
            machine = wait_until(lambda: _in_state(door, "failed"), "that it is noticed")
            assert "lost a node" in machine.reason
            (other,) = launched(door, "r2")
            assert other.address == "127.0.0.2"
        finally:
            cluster.revive_node("n1")

    def test_a_controller_that_is_restarted_loses_nothing(
        self, door: SlurmDoor, cluster: SlurmRig, run: Callable[..., Shell], tmp_path: Path
    ) -> None:
        shell = run(WAITING)
        wait_until(lambda: last_of(shell, "program"), "the start of the program")
        cluster.stop_controller()
        silent = make_door_without_asking(tmp_path, door)
        assert [(m.state, "Slurm does not answer" in (m.reason or "")) for m in silent.machines()] == [
            ("unreachable", True)
        ]
        with pytest.raises(ExternalError, match="Slurm does not answer"):
            silent.terminate("r1-1")
        with pytest.raises(ExternalError, match="Slurm does not answer"):
            silent.launch(launch_of(door, "r2"))
        shell.write("work/go", b"")
        wait_until(lambda: driver.results(shell), "the end of the program")
        assert [m.state for m in silent.machines("r1-1")] == ["ready"], "its results are there"
        cluster.start_controller()
        assert len(launched(silent, "r2")) == 1
        assert [m.state for m in door.machines("r1-1")] == ["ready"]

    def test_a_submission_that_fails_and_yet_took_effect_is_one_launch(
        self, door: SlurmDoor, cluster: SlurmRig
    ) -> None:
        cluster.misbehave("sbatch", '"$REAL" "$@" > /dev/null; echo "sbatch: error: Socket timed out" >&2; exit 1')
        launched(door)
        door.launch(launch_of(door))
        assert len(door.machines("r1-1")) == 1
        assert len(cluster.jobs()) == 1

    def test_a_submission_whose_answer_is_lost_is_found_later(self, door: SlurmDoor, cluster: SlurmRig) -> None:
        cluster.misbehave("sbatch", 'echo "sbatch: error: Unable to contact slurm controller" >&2; exit 1')
        with pytest.raises(ExternalError, match="Unable to contact") as raised:
            door.launch(launch_of(door))
        assert not isinstance(raised.value, RefusedError)
        cluster.behave("sbatch")
        launched(door)
        assert len(cluster.jobs()) == 1

    def test_what_slurm_refuses_is_refused_and_nothing_is_left(self, door: SlurmDoor, tmp_path: Path) -> None:
        lab = SlurmCluster(name="lab", options=("--licenses=gold:3",))
        strict = make_door(tmp_path / "strict", lab)
        with pytest.raises(RefusedError, match="The cluster lab refused the job: Invalid license"):
            strict.launch(launch_of(strict))
        with pytest.raises(RefusedError, match="slurm/lab-cpu has 3 nodes, and 4 are asked for"):
            door.launch(launch_of(door, nodes=4))
        assert strict.machines() == ()
        assert list((Path.home() / ".trainfare" / "slurm").glob("[!.]*")) == []

    def test_a_cancellation_that_fails_is_reported_and_repeated(self, door: SlurmDoor, cluster: SlurmRig) -> None:
        launched(door)
        cluster.misbehave("scancel", 'echo "scancel: error: Kill job error: Access denied" >&2; exit 1')
        with pytest.raises(ExternalError, match="Access denied"):
            door.terminate("r1-1")
        cluster.misbehave("scancel", "exit 0")
        door.terminate("r1-1")
        assert len(door.machines("r1-1")) == 1, "the end is not confirmed"
        cluster.behave("scancel")
        door.terminate("r1-1")
        wait_until(lambda: not door.machines(), "the confirmation of the end")

    def test_another_computer_sees_the_machines_and_can_end_them(self, door: SlurmDoor, tmp_path: Path) -> None:
        launched(door)
        other = make_door(tmp_path / "other")
        assert [machine.id for machine in other.machines()] == ["r1-1/0"]
        other.terminate("r1-1")
        wait_until(lambda: not door.machines(), "the confirmation of the end")

    def test_a_job_whose_folder_is_gone_is_listed_and_ended(self, door: SlurmDoor, cluster: SlurmRig) -> None:
        cluster.block()
        door.launch(launch_of(door))
        shutil.rmtree(Path.home() / ".trainfare" / "slurm" / "r1-1")
        (machine,) = door.machines()
        assert (machine.id, machine.owner, machine.vm_type) == ("r1-1/0", "ada@home", "slurm/lab-cpu")
        door.terminate("r1-1")
        wait_until(lambda: not door.machines(), "the confirmation of the end")

    def test_the_environment_at_home_does_not_go_to_the_controller(
        self, door: SlurmDoor, cluster: SlurmRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", SECRET)
        launched(door)
        assert cluster.run("sh", "-c", f"grep -r -l {SECRET} {cluster.folder} || true") == ""


def _queued(door: SlurmDoor, reason: str) -> RentedMachine | None:
    return next((m for m in door.machines() if m.state == "queued" and m.reason == reason), None)


def _in_state(door: SlurmDoor, state: str) -> RentedMachine | None:
    return next((m for m in door.machines() if m.state == state), None)


def make_door_without_asking(folder: Path, door: SlurmDoor) -> SlurmDoor:
    """A door that remembers the same launches, in another process."""
    return SlurmDoor(folder / "remembered", door.offers(), [LAB], door._partitions)
