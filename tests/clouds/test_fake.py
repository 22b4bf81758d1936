"""The shipped fake: the contract of a door, and its misbehaviour."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.clouds.contract import WAITING, DoorContract, last_of, launch_of, launched, machines_of, wait_until
from trainfare.clouds import driver
from trainfare.clouds.door import MachineUnreachableError, RefusedError, Shell
from trainfare.clouds.fake import FakeDoor, Faults
from trainfare.clouds.local import remove_machines
from trainfare.errors import ExternalError


@pytest.fixture
def door(tmp_path: Path) -> FakeDoor:
    return FakeDoor(tmp_path / "world")


class TestFakeDoor(DoorContract):
    def test_a_machine_is_listed_late_and_boots_slowly(self, door: FakeDoor) -> None:
        door.misbehave(Faults(hidden_seconds=600))
        door.launch(launch_of(door))
        assert door.machines() == ()
        door.misbehave(Faults(boot_seconds=600))
        assert [machine.state for machine in door.machines()] == ["booting"]
        door.misbehave(Faults(boot_fails=True))
        assert [(machine.state, machine.reason) for machine in door.machines()] == [("failed", "it did not boot")]

    def test_without_capacity_a_launch_is_refused(self, door: FakeDoor) -> None:
        door.misbehave(Faults(no_capacity=True))
        with pytest.raises(RefusedError, match="no capacity"):
            door.launch(launch_of(door))
        assert door.machines() == ()

    def test_calls_fail_before_and_after_they_take_effect(self, door: FakeDoor) -> None:
        door.misbehave(Faults(failing_calls=1.0))
        for number in range(20):
            with pytest.raises(ExternalError, match="did not answer"):
                door.launch(launch_of(door, f"r{number}"))
        door.misbehave(Faults())
        assert 0 < len(door.machines()) < 20

    def test_terminations_fail_loudly(self, door: FakeDoor) -> None:
        launched(door)
        door.misbehave(Faults(failing_terminations=1.0))
        with pytest.raises(ExternalError, match="could not terminate r1-1"):
            door.terminate("r1-1")
        assert len(machines_of(door, "r1")) == 1
        door.misbehave(Faults())

    def test_two_processes_terminate_a_launch_at_once(self, door: FakeDoor, monkeypatch: pytest.MonkeyPatch) -> None:
        launched(door)
        end = driver.end

        def end_and_lose_the_race(shell: Shell) -> None:
            end(shell)
            remove_machines(door._machines, "r1-1")

        monkeypatch.setattr(driver, "end", end_and_lose_the_race)
        door.terminate("r1-1")
        assert door.machines() == ()

    def test_a_machine_is_listed_until_its_end_is_confirmed(self, door: FakeDoor) -> None:
        launched(door)
        door.misbehave(Faults(ending_seconds=600))
        door.terminate("r1-1")
        assert len(door.machines()) == 1
        door.misbehave(Faults())
        assert door.machines() == ()

    def test_a_machine_that_is_taken_back_ends_its_program(self, door: FakeDoor, run: Callable[..., Shell]) -> None:
        shell = run(WAITING)
        wait_until(lambda: last_of(shell, "program"))
        door.reclaim("r1-1")
        assert [machine.state for machine in door.machines()] == ["preempted"]
        with pytest.raises(MachineUnreachableError):
            driver.entries(shell, after=0)

    def test_a_program_goes_on_while_the_network_is_cut(self, door: FakeDoor, run: Callable[..., Shell]) -> None:
        shell = run("print('done')")
        door.cut("r1-1")
        assert [machine.state for machine in door.machines()] == ["unreachable"]
        with pytest.raises(MachineUnreachableError):
            driver.results(shell)
        time.sleep(0.5)
        door.mend("r1-1")
        assert [machine.state for machine in door.machines()] == ["ready"]
        wait_until(lambda: driver.results(shell))
        assert driver.output(shell, offset=0) == b"done\n"

    def test_a_machine_switches_itself_off_at_the_end_of_its_lease(
        self, door: FakeDoor, run: Callable[..., Shell]
    ) -> None:
        shell = run(WAITING, power_off=True, lease_ends_at=datetime.now(UTC) + timedelta(seconds=4))
        wait_until(lambda: not door.machines(), "the end of the machine")
        with pytest.raises(MachineUnreachableError):
            driver.results(shell)

    def test_a_machine_whose_program_has_ended_waits_for_the_end_of_its_lease(
        self, door: FakeDoor, run: Callable[..., Shell]
    ) -> None:
        shell = run("open('result', 'w').write('r')", power_off=True)
        wait_until(lambda: driver.results(shell), "the results")
        assert len(door.machines()) == 1
        driver.renew(shell, datetime.now(UTC))
        wait_until(lambda: not door.machines(), "the end of the machine")

    def test_another_process_sees_the_same_world(self, door: FakeDoor, tmp_path: Path) -> None:
        launched(door)
        door.misbehave(Faults(no_capacity=True))
        other = FakeDoor(tmp_path / "world")
        assert [machine.id for machine in other.machines()] == ["r1-1/0"]
        with pytest.raises(RefusedError):
            other.launch(launch_of(other, "r2"))
        assert [(effect, key) for _, effect, key in other.log()] == [("launched", "r1-1")]
