"""The contract of every door, as tests: the test file of each door inherits them."""

import sys
import time
from pathlib import Path

import pytest

from tests.makers import make_candidate, make_program
from trainfare.clouds.door import Door
from trainfare.errors import NotFoundError
from trainfare.model.offer import Candidate
from trainfare.model.program import Program
from trainfare.model.rented import ProgramStatus, RentedMachine

TIMEOUT_SECONDS = 30.0


def wait_for_end(door: Door, machine: RentedMachine) -> ProgramStatus:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (status := door.observe(machine)).state != "ended":
        assert time.monotonic() < deadline, f"{machine.id} still runs"
        time.sleep(0.02)
    return status


class DoorContract:
    """Inherit this class and provide the fixture `door`, which has at least one offer to launch."""

    @pytest.fixture
    def candidate(self, door: Door) -> Candidate:
        return make_candidate(offer=door.offers()[0])

    def program(self, tmp_path: Path, source: str) -> Program:
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "train.py").write_text(source)
        (folder / "data.txt").write_text("old")
        return make_program(command=(sys.executable, "train.py"), directory=str(folder))

    def test_launch_twice_is_one_launch(self, door: Door, candidate: Candidate) -> None:
        assert door.launch(candidate, run_id="r1") == door.launch(candidate, run_id="r1")
        assert len(door.machines()) == 1

    def test_a_run_has_a_machine_a_node(self, door: Door) -> None:
        machines = door.launch(make_candidate(offer=door.offers()[0], nodes=2), run_id="r1")
        assert [machine.node for machine in machines] == [0, 1]

    def test_a_program_is_idle_then_running_then_ended(self, door: Door, candidate: Candidate, tmp_path: Path) -> None:
        (machine,) = door.launch(candidate, run_id="r1")
        assert door.observe(machine).state == "idle"
        door.start(machine, self.program(tmp_path, "import time; print('hello', flush=True); time.sleep(0.5)"))
        assert door.observe(machine).state == "running"
        status = wait_for_end(door, machine)
        assert status.exit_code == 0
        assert status.seconds is not None
        assert status.seconds >= 0.5
        assert door.output(machine) == b"hello\n"

    def test_a_program_that_is_started_twice_runs_once(self, door: Door, candidate: Candidate, tmp_path: Path) -> None:
        program = self.program(tmp_path, "print('once')")
        (machine,) = door.launch(candidate, run_id="r1")
        door.start(machine, program)
        wait_for_end(door, machine)
        door.start(machine, program)
        assert door.output(machine) == b"once\n"

    def test_the_exit_code_of_a_failure_is_reported(self, door: Door, candidate: Candidate, tmp_path: Path) -> None:
        (machine,) = door.launch(candidate, run_id="r1")
        door.start(machine, self.program(tmp_path, "raise SystemExit(7)"))
        assert wait_for_end(door, machine).exit_code == 7

    def test_only_files_that_the_program_created_or_changed_are_collected(
        self, door: Door, candidate: Candidate, tmp_path: Path
    ) -> None:
        source = "import os, pathlib; os.mkdir('out'); pathlib.Path('out/model').write_text('m'); "
        source += "pathlib.Path('data.txt').write_text('changed')"
        program = self.program(tmp_path, source)
        (machine,) = door.launch(candidate, run_id="r1")
        door.start(machine, program)
        wait_for_end(door, machine)
        home = tmp_path / "home"
        assert {str(path.relative_to(home)) for path in door.collect(machine, home)} == {"data.txt", "out/model"}
        assert (home / "out/model").read_text() == "m"
        assert (Path(program.directory) / "data.txt").read_text() == "old", "the user's own folder is not touched"

    def test_terminate_ends_the_program_and_leaves_no_machine(
        self, door: Door, candidate: Candidate, tmp_path: Path
    ) -> None:
        (machine,) = door.launch(candidate, run_id="r1")
        door.start(machine, self.program(tmp_path, "import time; time.sleep(600)"))
        door.terminate("r1")
        assert door.machines() == ()
        with pytest.raises(NotFoundError):
            door.observe(machine)

    def test_terminating_twice_has_no_effect(self, door: Door, candidate: Candidate) -> None:
        door.launch(candidate, run_id="r1")
        door.terminate("r1")
        door.terminate("r1")

    def test_terminating_one_run_leaves_the_others(self, door: Door, candidate: Candidate) -> None:
        door.launch(candidate, run_id="r1")
        door.launch(candidate, run_id="r2")
        door.terminate("r1")
        assert [machine.run_id for machine in door.machines()] == ["r2"]
