"""The contract of every door, as tests: the test file of each door inherits them.

They drive the agent through the shell of the door, as a run does.
"""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.makers import make_candidate, make_offer, make_vm_type
from trainfare.clouds import driver, receiving
from trainfare.clouds.door import Door, Launch, RefusedError, Shell
from trainfare.clouds.driver import AgentJob, CodeBundle, JournalEntry
from trainfare.clouds.receiving import Receiving, Wanted
from trainfare.errors import ExternalError
from trainfare.model.rented import RentedMachine

TIMEOUT_SECONDS = 300.0
"""The longest wait on a busy machine; nothing is known about its speed."""
SECRET = "canary-7f3a-canary"  # noqa: S105 # it is searched for on the machine

WAITING = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
"""A program that goes on when it finds a file `go` in its folder."""


def wait_until(condition: Callable[[], Any], what: str = "it") -> Any:
    """The value of the condition once it is true."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.05)
    return value


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def launch_of(door: Door, run_id: str = "r1", *, nodes: int = 1) -> Launch:
    return Launch(
        owner="ada@home",
        run_id=run_id,
        attempt=1,
        candidate=make_candidate(offer=door.offers()[0], nodes=nodes),
        expires_at=in_an_hour(),
    )


def machines_of(door: Door, run_id: str) -> tuple[RentedMachine, ...]:
    return tuple(machine for machine in door.machines() if machine.run_id == run_id)


def launched(door: Door, run_id: str = "r1", *, nodes: int = 1) -> tuple[RentedMachine, ...]:
    """The machines of a new launch, once they are ready."""

    def ready() -> tuple[RentedMachine, ...]:
        found = machines_of(door, run_id)
        return found if len(found) == nodes and all(machine.state == "ready" for machine in found) else ()

    door.launch(launch_of(door, run_id, nodes=nodes))
    machines: tuple[RentedMachine, ...] = wait_until(ready, "that all machines are ready")
    return machines


def a_job(machine: RentedMachine, **changes: Any) -> AgentJob:
    fields: dict[str, Any] = {
        "key": machine.key,
        "node": machine.node,
        "command": (sys.executable, "train.py"),
        "lease_ends_at": in_an_hour(),
        "heartbeat_seconds": 0.2,
        "grace_seconds": 5.0,
        "probe": False,
    }
    return AgentJob(**fields | changes)


def a_project(folder: Path, source: str) -> CodeBundle:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(source)
    (folder / "data.txt").write_text("old")
    return CodeBundle(folder=folder, files=("train.py", "data.txt"))


def last_of(shell: Shell, kind: str) -> dict[str, Any]:
    """The last entry of a kind; empty if there is none."""
    found = [entry.values for entry in driver.entries(shell, after=0) if entry.kind == kind]
    return dict(found[-1]) if found else {}


def ended(shell: Shell) -> dict[str, Any]:
    """The last entry of the program, once it has ended and its results are known."""
    wait_until(lambda: driver.results(shell), "the end of the program")
    return last_of(shell, "program")


def started(shell: Shell, machine: RentedMachine, project: CodeBundle, **job: Any) -> Shell:
    driver.prepare(shell, job=a_job(machine, **job), code=project)
    driver.start(shell, secrets={})
    return shell


class DoorContract:
    """Inherit this class and provide the fixture `door`, which has at least one offer to launch."""

    @pytest.fixture(autouse=True)
    def nothing_is_left(self, door: Door) -> Iterator[None]:
        yield
        for key in {machine.key for machine in door.machines()}:
            door.terminate(key)

    @pytest.fixture
    def run(self, door: Door, tmp_path: Path) -> Callable[..., Shell]:
        """Launches a machine and starts a program of one file on it."""

        def run(source: str, *, run_id: str = "r1", **job: Any) -> Shell:
            (machine,) = launched(door, run_id)
            return started(door.shell(machine), machine, a_project(tmp_path / f"project {run_id}", source), **job)

        return run

    # Machines.

    def test_launch_twice_is_one_launch(self, door: Door) -> None:
        before = launched(door)
        door.launch(launch_of(door))
        assert [m.id for m in machines_of(door, "r1")] == [m.id for m in before]

    def test_a_launch_has_a_machine_a_node_with_its_tags(self, door: Door) -> None:
        machines = launched(door, nodes=2)
        assert sorted(machine.node for machine in machines) == [0, 1]
        assert {(m.owner, m.run_id, m.attempt, m.key) for m in machines} == {("ada@home", "r1", 1, "r1-1")}
        assert {m.vm_type for m in machines} == {door.offers()[0].vm_type.key}
        # A door may keep some minutes of the lease for the end of the machines themselves.
        early, late = timedelta(minutes=-7), timedelta(minutes=2)
        assert all(early < m.expires_at - in_an_hour() < late for m in machines)

    def test_the_machines_of_one_launch_are_listed_alone(self, door: Door) -> None:
        launched(door, "r1")
        launched(door, "r2")
        assert {machine.key for machine in door.machines("r1-1")} == {"r1-1"}
        assert door.machines("r9-1") == ()
        assert {machine.key for machine in door.known_machines()} == {"r1-1", "r2-1"}

    def test_a_machine_that_is_not_offered_is_refused(self, door: Door) -> None:
        other = make_offer(vm_type=make_vm_type(provider="nowhere", name="x"))
        launch = Launch(
            owner="ada@home", run_id="r1", attempt=1, candidate=make_candidate(offer=other), expires_at=in_an_hour()
        )
        with pytest.raises(RefusedError, match="nowhere/x"):
            door.launch(launch)
        assert machines_of(door, "r1") == ()

    def test_terminating_twice_or_what_does_not_exist_has_no_effect(self, door: Door) -> None:
        launched(door)
        door.terminate("r1-1")
        wait_until(lambda: not machines_of(door, "r1"), "the confirmation of the end")
        door.terminate("r1-1")
        door.terminate("never-1")

    def test_terminating_one_run_leaves_the_others(self, door: Door) -> None:
        launched(door, "r1")
        launched(door, "r2")
        door.terminate("r1-1")
        wait_until(lambda: not machines_of(door, "r1"), "the confirmation of the end")
        assert len(machines_of(door, "r2")) == 1

    def test_terminate_ends_the_program_and_the_machine_cannot_be_reached(
        self, door: Door, run: Callable[..., Shell], tmp_path: Path
    ) -> None:
        sign = tmp_path / "sign"
        shell = run(f"import time, pathlib\nwhile True: pathlib.Path({str(sign)!r}).touch(); time.sleep(0.05)")
        wait_until(lambda: last_of(shell, "program"), "the start of the program")
        door.terminate("r1-1")
        wait_until(lambda: not door.machines(), "the confirmation of the end")
        sign.unlink(missing_ok=True)
        time.sleep(0.3)
        assert not sign.exists(), "it still runs"
        with pytest.raises(ExternalError):
            shell.read("output")

    # Programs.

    def test_a_program_is_idle_then_running_then_ended(self, door: Door, tmp_path: Path) -> None:
        (machine,) = launched(door)
        shell = door.shell(machine)
        assert driver.prepare(
            shell,
            job=a_job(machine),
            code=a_project(tmp_path / "project", WAITING + "print('hello')"),
        )
        assert driver.entries(shell, after=0) == ()
        driver.start(shell, secrets={})
        wait_until(lambda: last_of(shell, "program").get("state") == "started", "the start of the program")
        assert driver.results(shell) is None
        shell.write("work/go", b"")
        end = ended(shell)
        assert (end["state"], end["exit_code"], end["cause"]) == ("ended", 0, "own")
        assert end["seconds"] > 0
        assert driver.output(shell, offset=0) == b"hello\n"
        assert driver.output(shell, offset=4) == b"o\n"

    def test_a_program_that_is_started_twice_runs_once(
        self, door: Door, run: Callable[..., Shell], tmp_path: Path
    ) -> None:
        shell = run("print('once'); open('data.txt', 'w').write('changed')")
        driver.start(shell, secrets={})
        ended(shell)
        (machine,) = door.machines()
        again = a_project(tmp_path / "again", "print('twice')")
        assert driver.prepare(shell, job=a_job(machine), code=again) == 0, "the program has changed its files"
        driver.start(shell, secrets={})
        assert driver.output(shell, offset=0) == b"once\n"

    def test_the_exit_code_of_a_failure_is_reported(self, run: Callable[..., Shell]) -> None:
        assert ended(run("raise SystemExit(7)"))["exit_code"] == 7

    def test_a_program_that_does_not_exist_fails(self, run: Callable[..., Shell]) -> None:
        shell = run("", command=("./no-such-program",))
        assert ended(shell)["exit_code"] == 127
        assert b"./no-such-program could not be started" in driver.output(shell, offset=0)

    def test_setup_comes_before_the_program(self, run: Callable[..., Shell]) -> None:
        shell = run("print(open('made').read())", setup="echo preparing; echo ready > made")
        assert ended(shell)["exit_code"] == 0
        assert driver.output(shell, offset=0) == b"preparing\nready\n\n"
        assert last_of(shell, "setup")["exit_code"] == 0

    def test_a_program_does_not_start_if_its_setup_fails(self, run: Callable[..., Shell]) -> None:
        shell = run("print('never')", setup="echo no such package >&2; exit 3")
        assert ended(shell) == {}
        assert last_of(shell, "setup")["exit_code"] == 3
        assert driver.output(shell, offset=0) == b"no such package\n"

    def test_the_environment_of_the_job_is_added(self, run: Callable[..., Shell]) -> None:
        shell = run("import os; print(os.environ['RANK'], os.getcwd().split('/')[-1])", environment={"RANK": "3"})
        ended(shell)
        assert driver.output(shell, offset=0) == b"3 work\n"

    def test_the_journal_is_read_in_order_and_exactly_once(self, door: Door, run: Callable[..., Shell]) -> None:
        run("import time; time.sleep(1)")
        (machine,) = door.machines()
        read: list[JournalEntry] = []
        while not any(entry.values.get("state") == "ended" for entry in read):  # a heartbeat may follow
            shell = door.shell(machine)  # as after a cut connection
            position = read[-1].ends if read and len(read) % 2 else 0
            read += driver.entries(shell, after=read[-1].number if read else 0, position=position)
            time.sleep(0.1)
        assert [entry.number for entry in read] == list(range(1, len(read) + 1))
        assert [entry.time for entry in read] == sorted(entry.time for entry in read)
        assert {"heartbeat", "meter", "program"} <= {entry.kind for entry in read}

    def test_only_files_that_the_program_created_or_changed_are_results(
        self, run: Callable[..., Shell], tmp_path: Path
    ) -> None:
        source = "import os, pathlib; os.mkdir('out'); pathlib.Path('out/modèl 1').write_text('m'); "
        shell = run(source + "pathlib.Path('data.txt').write_text('changed')")
        ended(shell)
        results = driver.results(shell)
        assert results is not None
        assert set(results.files) == {"data.txt", "out/modèl 1"}
        assert results.files["out/modèl 1"].sha256 == hashlib.sha256(b"m").hexdigest()
        assert driver.fetch(shell, results, tmp_path / "home") == len("m") + len("changed")
        assert (tmp_path / "home/out/modèl 1").read_text() == "m"
        assert (tmp_path / "home/data.txt").read_text() == "changed"

    def test_a_result_that_does_not_match_is_not_brought_home(self, run: Callable[..., Shell], tmp_path: Path) -> None:
        shell = run("for name in 'ab': open(name, 'w').write('right')")
        ended(shell)
        results = driver.results(shell)
        assert results is not None
        shell.write("work/a", b"wrong")
        with pytest.raises(ExternalError, match="a"):
            driver.fetch(shell, results, tmp_path / "home")
        assert [path.name for path in (tmp_path / "home").iterdir()] == ["b"]

    def test_results_come_home_in_parts_that_another_process_continues(
        self, run: Callable[..., Shell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receiving, "LARGEST_PART", 1 << 18)
        shell = run("open('large 1', 'wb').write(bytes(range(256)) * 4000); open('b', 'w').write('small')")
        ended(shell)
        found = driver.results(shell)
        assert found is not None
        wanted = {name: Wanted(0, file) for name, file in found.files.items()}
        first, second = (Receiving(folder=tmp_path / "home", key="r1-1", files=wanted) for _ in range(2))
        while first.bytes < 300_000:
            assert not first.advance({0: shell}, seconds=0.0)
        while not second.advance({0: shell}, seconds=0.0):
            assert [path.name for path in (tmp_path / "home").iterdir()] == [first.arriving.name]
        second.settle()
        assert first.bytes + second.bytes == 1_024_000 + len("small")
        assert (tmp_path / "home/large 1").read_bytes() == bytes(range(256)) * 4000
        assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["b", "large 1"]

    def test_a_program_that_is_asked_to_stop_can_save_first(self, run: Callable[..., Shell]) -> None:
        source = "import signal, sys, time\n"
        source += "def save(*_): open('checkpoint.pt', 'w').write('state'); sys.exit(0)\n"
        shell = run(source + "signal.signal(signal.SIGTERM, save); print('ready', flush=True); time.sleep(600)")
        wait_until(lambda: driver.output(shell, offset=0) == b"ready\n", "the start of the program")
        driver.ask_to_stop(shell, "user")
        end = ended(shell)
        assert (end["cause"], end["exit_code"]) == ("stop", 0)
        results = driver.results(shell)
        assert results is not None
        assert list(results.files) == ["checkpoint.pt"]

    def test_a_lease_that_ends_ends_the_program(self, run: Callable[..., Shell]) -> None:
        shell = run("import time; time.sleep(600)", lease_ends_at=datetime.now(UTC) + timedelta(seconds=3))
        assert ended(shell)["cause"] == "lease"

    def test_a_lease_that_is_renewed_lasts_longer(self, door: Door, tmp_path: Path) -> None:
        (machine,) = launched(door)
        shell, lease = door.shell(machine), datetime.now(UTC) + timedelta(seconds=2)
        driver.prepare(shell, job=a_job(machine, lease_ends_at=lease), code=a_project(tmp_path / "project", WAITING))
        driver.renew(shell, in_an_hour())
        driver.start(shell, secrets={})
        time.sleep(3)
        shell.write("work/go", b"")
        assert ended(shell)["cause"] == "own"

    def test_a_lease_can_be_shortened(self, run: Callable[..., Shell]) -> None:
        shell = run(WAITING)
        driver.renew(shell, datetime.now(UTC) + timedelta(seconds=2))
        assert ended(shell)["cause"] == "lease"

    def test_a_program_does_not_exceed_its_longest_duration(self, run: Callable[..., Shell]) -> None:
        end = ended(run("import time; time.sleep(600)", longest_seconds=2.0))
        assert end["cause"] == "longest"
        assert end["seconds"] < 60

    def test_two_runs_at_once_do_not_disturb_each_other(self, run: Callable[..., Shell]) -> None:
        source = "import time; print({0!r}); open('out', 'w').write({0!r}); time.sleep(0.5)"
        shells = [run(source.format(name), run_id=name) for name in ("r1", "r2")]
        assert [ended(shell)["exit_code"] for shell in shells] == [0, 0]
        assert [driver.output(shell, offset=0) for shell in shells] == [b"r1\n", b"r2\n"]
        assert [shell.read("work/out") for shell in shells] == [b"r1", b"r2"]

    def test_secrets_reach_the_program_and_are_nowhere_on_the_machine(self, door: Door, tmp_path: Path) -> None:
        (machine,) = launched(door)
        shell = door.shell(machine)
        source = "import os, sys; s = os.environ['TOKEN']; print(len(s), s)\nfor c in s: print(c, end='', flush=True)"
        code = a_project(tmp_path / "project", source)
        driver.prepare(shell, job=a_job(machine), code=code)
        driver.start(shell, secrets={"TOKEN": SECRET})
        assert ended(shell)["exit_code"] == 0
        assert driver.output(shell, offset=0) == f"{len(SECRET)} ***\n***".encode()
        assert shell.run(["grep", "-r", "-l", SECRET, "."]).output == b""

    # The shell.

    def test_a_command_gets_its_input_and_returns_what_it_prints(self, door: Door) -> None:
        (machine,) = launched(door)
        done = door.shell(machine).run(["sh", "-c", "cat; echo oh >&2; exit 3"], given=b"\x00in\xff")
        assert (done.exit_code, done.output, done.error) == (3, b"\x00in\xff", b"oh\n")

    def test_files_are_written_and_read_in_parts(self, door: Door) -> None:
        shell = door.shell(launched(door)[0])
        shell.write("folder/file", b"0123456789")
        assert shell.read("folder/file") == b"0123456789"
        assert shell.read("folder/file", offset=8) == b"89"
        assert shell.read("folder/file", offset=2, limit=3) == b"234"
        assert shell.read("folder/file", offset=99) == shell.read("missing") == b""

    def test_files_that_are_there_are_not_sent_again(self, door: Door, tmp_path: Path) -> None:
        shell = door.shell(launched(door)[0])
        self._write(tmp_path, ["a file", "sub/b", "not sent"])
        assert shell.send(tmp_path, "work", files=["a file", "sub/b"]) >= 2
        assert shell.read("work/sub/b") == b"sub/b"
        assert shell.read("work/not sent") == b""
        unchanged = shell.send(tmp_path, "work", files=["a file", "sub/b"])
        (tmp_path / "sub/b").write_bytes(b"changed" * 10_000)
        assert shell.send(tmp_path, "work", files=["a file", "sub/b"]) > unchanged
        assert shell.read("work/sub/b") == b"changed" * 10_000

    def _write(self, folder: Path, names: Sequence[str]) -> None:
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(name)
