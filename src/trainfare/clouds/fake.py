"""A provider that does not exist, for trials and tests: it keeps the contract of a door and misbehaves on demand.

Its machines are folders of this machine in which real programs run. All state is in one folder, so that several
processes see the same world:

    faults.json                     how it misbehaves now
    calls.jsonl                     every call, with its effect
    machines/<key>/<node>/          a machine; `machine.json` and the files of the agent
                          ending    it was terminated            off        it has switched itself off
                          reclaimed it was taken back            cut        it cannot be reached
"""

import contextlib
import fcntl
import json
import os
import random
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec

from trainfare.agent import agent
from trainfare.clouds import driver
from trainfare.clouds.door import Launch, MachineUnreachableError, NoticeService, RefusedError, Shell
from trainfare.clouds.local import read_machines, remove_machines, write_machines
from trainfare.clouds.local_shell import LocalShell
from trainfare.errors import ExternalError
from trainfare.model.machine import VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.rented import RentedMachine

PROVIDER = "fake"
OFFER = Offer(
    vm_type=VmType(provider=PROVIDER, name="small", gpu=None, gpus=0, vcpus=1.0, memory_gib=4.0),
    region="nowhere",
    market="spot",
    usd_per_hour=1.0,
    seen_on=date(2026, 11, 1),
    source="invented",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The misbehaviour of the provider; by default it does not."""

    hidden_seconds: float = 0.0
    """A machine is listed only this long after its launch."""
    boot_seconds: float = 0.0
    ending_seconds: float = 0.0
    """A machine is listed this long after it was terminated."""
    failing_calls: float = 0.0
    """The share of calls that raise an error: half of them before they take effect, half of them after."""
    failing_terminations: float = 0.0
    """The share of calls of `terminate` that raise an error and have no effect."""
    boot_fails: bool = False
    no_capacity: bool = False
    metadata: str = ""
    """The address of a metadata service, like that of AWS, which announces that machines are taken back."""
    seed: int = 0


class FakeDoor:
    """A `Door`, with methods to make it misbehave."""

    name = PROVIDER
    powers_off = True
    appears_within_seconds = 1.0
    boots_within_seconds = 900.0
    extends_leases = True

    def __init__(self, folder: Path, offers: Sequence[Offer] = (OFFER,)) -> None:
        self._folder = folder
        self._machines = folder / "machines"
        self._offers = tuple(offers)
        folder.mkdir(parents=True, exist_ok=True)

    # The contract.

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    def launch(self, launch: Launch) -> None:
        with self._call("launch", launch.key):
            if launch.candidate.offer.vm_type.key not in {offer.vm_type.key for offer in self._offers}:
                raise RefusedError(f"there is no {launch.candidate.offer.vm_type.key} here.")
            if (self._machines / launch.key).exists():
                return
            if self._faults().no_capacity:
                wanted = f"{launch.candidate.nodes} × {OFFER.vm_type.key}"
                raise RefusedError(f"there is no capacity for {wanted} now.", cause="capacity")
            write_machines(self._machines, launch)
            self._log("launched", launch.key)

    def machines(self, key: str | None = None) -> tuple[RentedMachine, ...]:
        with self._call("machines", ""):
            faults, now = self._faults(), time.time()
            return tuple(
                self._in_its_state(machine, faults, now)
                for machine in read_machines(self._machines)
                if key in (None, machine.key) and self._is_listed(machine, faults, now)
            )

    def known_machines(self) -> tuple[RentedMachine, ...]:
        return read_machines(self._machines)

    def shell(self, machine: RentedMachine) -> Shell:
        folder = self._machines / machine.id
        # A machine that switches itself off is terminated, as providers allow at its launch.
        off = shlex.join(("touch", str(folder / "off")))
        return _FakeShell(folder=folder, environment={agent.POWER_OFF: off})

    def terminate(self, key: str) -> None:
        with self._call("terminate", key):
            if self._chance() < self._faults().failing_terminations:
                raise ExternalError(f"the provider could not terminate {key}: internal error.")
            for folder in (self._machines / key).glob("*"):
                with contextlib.suppress(MachineUnreachableError, FileNotFoundError):  # another process was faster
                    driver.end(LocalShell(folder=folder))
                    (folder / "ending").touch()
            if (self._machines / key).exists():
                self._log("terminated", key)
            if not self._faults().ending_seconds:
                remove_machines(self._machines, key)

    def notice_service(self, _candidate: Candidate) -> NoticeService | None:
        address = self._faults().metadata
        return NoticeService(provider="aws", address=address) if address else None

    # Misbehaviour.

    def misbehave(self, faults: Faults) -> None:
        """From now on, in every process."""
        fresh = self._folder / f"faults.{os.getpid()}"
        fresh.write_bytes(msgspec.json.encode(faults))
        fresh.replace(self._folder / "faults.json")

    def reclaim(self, key: str) -> None:
        """Take the machines of a launch back, as providers do with those of the spot market."""
        for folder in (self._machines / key).glob("*"):
            driver.end(LocalShell(folder=folder))
            (folder / "reclaimed").touch()
        self._log("reclaimed", key)

    def cut(self, key: str) -> None:
        """Cut the network to the machines of a launch; they go on."""
        for folder in (self._machines / key).glob("*"):
            (folder / "cut").touch()

    def mend(self, key: str) -> None:
        for folder in (self._machines / key).glob("*"):
            (folder / "cut").unlink(missing_ok=True)

    def log(self) -> list[tuple[float, str, str]]:
        """Calls that had an effect: the time, `launched`, `terminated` or `reclaimed`, and the key of the launch."""
        path = self._folder / "calls.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [tuple(row) for row in rows if row[1] in ("launched", "terminated", "reclaimed")]

    # Inside.

    def _is_listed(self, machine: RentedMachine, faults: Faults, now: float) -> bool:
        folder = self._machines / machine.id
        if (folder / "off").exists():
            return False
        with contextlib.suppress(FileNotFoundError):
            return now < (folder / "ending").stat().st_mtime + faults.ending_seconds
        return now >= _launched(machine) + faults.hidden_seconds

    def _in_its_state(self, machine: RentedMachine, faults: Faults, now: float) -> RentedMachine:
        folder = self._machines / machine.id
        if (folder / "reclaimed").exists():
            return replace(machine, state="preempted", reason="the provider has taken it back")
        if now < _launched(machine) + faults.boot_seconds:
            return replace(machine, state="booting")
        if faults.boot_fails:
            return replace(machine, state="failed", reason="it did not boot")
        if (folder / "cut").exists():
            return replace(machine, state="unreachable", reason="it does not answer")
        return machine

    @contextlib.contextmanager
    def _call(self, name: str, key: str) -> Iterator[None]:
        """A call that may fail before or after it takes effect."""
        chance, failing = self._chance(), self._faults().failing_calls
        if chance < failing / 2:
            raise ExternalError(f"the provider did not answer to {name} {key}".strip() + ": nothing was done.")
        yield
        if chance < failing:
            raise ExternalError(f"the provider did not answer to {name} {key}".strip() + " in time.")

    def _faults(self) -> Faults:
        try:
            return msgspec.json.decode((self._folder / "faults.json").read_bytes(), type=Faults)
        except FileNotFoundError:
            return Faults()

    def _chance(self) -> float:
        """The next random number, the same for the same seed whichever processes call."""
        with (self._folder / "chances").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(".")
            file.flush()
            return random.Random(f"{self._faults().seed}/{file.tell()}").random()  # noqa: S311 # for tests

    def _log(self, effect: str, key: str) -> None:
        with (self._folder / "calls.jsonl").open("a") as file:
            file.write(json.dumps([time.time(), effect, key]) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _FakeShell(LocalShell):
    """A shell that does not answer once its machine has ended or its network is cut."""

    def require_folder(self) -> None:
        LocalShell.require_folder(self)
        for sign in ("ending", "off", "reclaimed", "cut"):
            if (self.folder / sign).exists():
                raise MachineUnreachableError(f"the machine {self.folder.parent.name} does not answer.")


def _launched(machine: RentedMachine) -> float:
    return (machine.launched_at or datetime.now(UTC)).timestamp()
