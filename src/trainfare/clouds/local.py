"""The door to this machine, divided into slices at prices that the user states.

    <folder>/<run>/<node>/machine.json      what was launched
                          work/             a copy of the program's folder, in which it runs
                          before.json       size and time of each file before it ran
                          output            what it printed
                          group             the process group of everything that runs there
                          started, ended    seconds since 1970
                          exit              its exit code, written last

The program runs under a shell of its own, not as our child: it continues when our process ends, and the next process
that opens the door finds it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from trainfare.clouds.slices import is_slice, make_slice, remove_slice
from trainfare.errors import ExternalError, NotFoundError, UsageError
from trainfare.model.machine import VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.program import Program
from trainfare.model.rented import ProgramStatus, RentedMachine
from trainfare.units import format_duration

_RUN = """
folder=$1; shift
echo $$ > "$folder/group"
date +%s.%N > "$folder/started.new"; mv "$folder/started.new" "$folder/started"
"$@" > "$folder/output" 2>&1 < /dev/null
code=$?
date +%s.%N > "$folder/ended"
echo $code > "$folder/exit.new"; mv "$folder/exit.new" "$folder/exit"
"""
_START_SECONDS = 10.0
_END_SECONDS = 10.0


class LocalDoor:
    """A `Door`. `folder` holds the state of launched machines; `offers` are those of the user's slices."""

    def __init__(self, folder: Path, offers: Sequence[Offer]) -> None:
        self._folder = folder
        self._offers = tuple(offer for offer in offers if is_slice(offer.vm_type))

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    def launch(self, candidate: Candidate, *, run_id: str) -> tuple[RentedMachine, ...]:
        vm_type = candidate.offer.vm_type
        if vm_type.key not in {offer.vm_type.key for offer in self._offers}:
            raise NotFoundError("slice of this machine", vm_type.key, [offer.vm_type.key for offer in self._offers])
        for node in range(candidate.nodes):
            machine = RentedMachine(id=f"{run_id}/{node}", run_id=run_id, node=node, vm_type=vm_type.key)
            self._write_machine(machine)
        return tuple(machine for machine in self.machines() if machine.run_id == run_id)

    def machines(self) -> tuple[RentedMachine, ...]:
        return tuple(
            msgspec.json.decode(path.read_bytes(), type=RentedMachine)
            for path in sorted(self._folder.glob("*/*/machine.json"))
        )

    def start(self, machine: RentedMachine, program: Program) -> None:
        folder = self._machine_folder(machine)
        if (folder / "started").exists():
            return
        work = folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        try:
            shutil.copytree(program.directory, work, symlinks=True)
        except OSError as error:
            raise ExternalError(f"{program.directory} could not be copied to {work}: {error}") from error
        (folder / "before.json").write_text(json.dumps(_file_stamps(work)))
        part = make_slice(self._vm_type(machine), _slice_name(machine))
        subprocess.run(
            ("setsid", "--fork", "/bin/sh", "-c", _RUN, "sh", str(folder), *part.prefix, *program.command),
            cwd=work,
            env=os.environ | part.environment | {"PWD": str(work)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        if not _wait_until((folder / "started").exists, _START_SECONDS):
            raise ExternalError(
                f"{program.command_line} did not start within {format_duration(_START_SECONDS)} in {folder}."
            )

    def observe(self, machine: RentedMachine) -> ProgramStatus:
        folder = self._machine_folder(machine)
        if not (folder / "started").exists():
            return ProgramStatus(state="idle")
        started = float((folder / "started").read_text())
        alive = _group_is_alive(_process_group(folder))  # checked first: it may end in the meantime
        if (folder / "exit").exists():
            return ProgramStatus(
                state="ended",
                seconds=max(0.0, float((folder / "ended").read_text()) - started),
                exit_code=int((folder / "exit").read_text()),
            )
        if not alive:  # it was killed together with its shell
            return ProgramStatus(state="ended", exit_code=-signal.SIGKILL)
        return ProgramStatus(state="running", seconds=max(0.0, time.time() - started))

    def output(self, machine: RentedMachine) -> bytes:
        path = self._machine_folder(machine) / "output"
        return path.read_bytes() if path.exists() else b""

    def collect(self, machine: RentedMachine, into: Path) -> tuple[Path, ...]:
        folder = self._machine_folder(machine)
        work = folder / "work"
        before = json.loads((folder / "before.json").read_text()) if (folder / "before.json").exists() else {}
        changed = [name for name, stamp in _file_stamps(work).items() if before.get(name) != stamp]
        return tuple(_copy(work / name, into / name) for name in sorted(changed))

    def terminate(self, run_id: str) -> None:
        for machine in [m for m in self.machines() if m.run_id == run_id]:
            folder = self._machine_folder(machine)
            _end_group(_process_group(folder))
            remove_slice(_slice_name(machine))
        shutil.rmtree(self._folder / run_id, ignore_errors=True)

    def _write_machine(self, machine: RentedMachine) -> None:
        """Write the machine once, atomically."""
        folder = self._folder / machine.id
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "machine.json").exists():
            return
        fresh = folder / "machine.new"
        fresh.write_bytes(msgspec.json.encode(machine))
        fresh.replace(folder / "machine.json")

    def _machine_folder(self, machine: RentedMachine) -> Path:
        folder = self._folder / machine.id
        if not (folder / "machine.json").exists():
            raise NotFoundError("machine", machine.id, [known.id for known in self.machines()])
        return folder

    def _vm_type(self, machine: RentedMachine) -> VmType:
        for offer in self._offers:
            if offer.vm_type.key == machine.vm_type:
                return offer.vm_type
        raise UsageError(
            f"{machine.vm_type} is no longer in your machines.toml: add it again to continue with {machine.id}."
        )


def _slice_name(machine: RentedMachine) -> str:
    return "trainfare-" + machine.id.replace("/", "-")


def _file_stamps(folder: Path) -> dict[str, list[int]]:
    """The size and modification time of every file, by its path within the folder."""
    found = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                status = path.stat()
                found[str(path.relative_to(folder))] = [status.st_size, status.st_mtime_ns]
    return found


def _copy(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    return target


def _process_group(folder: Path) -> int | None:
    path = folder / "group"
    return int(path.read_text()) if path.exists() else None


def _group_is_alive(group: int | None) -> bool:
    return group is not None and any(True for _ in _members(group))


def _members(group: int) -> Iterator[int]:
    """The running processes of a process group."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in "ZX":
                yield int(path.parent.name)


def _end_group(group: int | None) -> None:
    if group is None or not _group_is_alive(group):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)
        if _wait_until(lambda: not _group_is_alive(group), _END_SECONDS / 2):
            return


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """True if the condition became true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
