"""The door to this machine: all of it (`local/here`), or slices of it at prices that the user states.

    <folder>/<key>/<node>/machine.json      what was launched; the other files are those of the agent

A launched machine is a folder. The program in it runs under an agent that is not our child: it continues when our
process ends, and the next process that opens the door finds it.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import msgspec

from trainfare.clouds import driver
from trainfare.clouds.door import Launch, MachineUnreachableError, RefusedError, Shell
from trainfare.clouds.local_shell import LocalShell
from trainfare.clouds.slices import is_slice, make_slice, remove_slice
from trainfare.errors import TrainfareError
from trainfare.model.machine import HERE, HERE_PROVIDER, VmType
from trainfare.model.offer import Offer
from trainfare.model.rented import RentedMachine


class LocalDoor:
    """A `Door`. `folder` holds the launched machines; of `offers`, those of this machine are used."""

    name = HERE_PROVIDER
    powers_off = False
    appears_within_seconds = 0.0
    boots_within_seconds = 900.0
    extends_leases = True

    def __init__(self, folder: Path, offers: Iterable[Offer]) -> None:
        self._folder = folder
        self._every = offers

    @cached_property
    def _offers(self) -> tuple[Offer, ...]:
        """Read when they are needed first: most calls do not, and reading all prices takes time."""
        return tuple(offer for offer in self._every if offer.vm_type.provider == HERE_PROVIDER)

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    def launch(self, launch: Launch) -> None:
        if (self._folder / launch.key).exists():
            return
        vm_type = self._slice_of(launch.candidate.offer.vm_type.key)
        if vm_type is not None:
            _check_slice(vm_type, launch.key)
        write_machines(self._folder, launch)

    def machines(self, key: str | None = None) -> tuple[RentedMachine, ...]:
        return tuple(machine for machine in read_machines(self._folder) if key in (None, machine.key))

    def known_machines(self) -> tuple[RentedMachine, ...]:
        return self.machines()

    def shell(self, machine: RentedMachine) -> Shell:
        folder = self._folder / machine.id
        if not folder.exists():
            raise MachineUnreachableError(f"the machine {machine.id} does not exist any more.")
        vm_type = self._slice_of(machine.vm_type)
        if vm_type is None:
            return LocalShell(folder=folder)
        part = make_slice(vm_type, _slice_name(machine.id))
        return LocalShell(folder=folder, prefix=part.prefix, environment=part.environment)

    def terminate(self, key: str) -> None:
        for folder in sorted((self._folder / key).glob("*")):
            driver.end(LocalShell(folder=folder))
            remove_slice(_slice_name(f"{key}/{folder.name}"))
        remove_machines(self._folder, key)

    def _slice_of(self, key: str) -> VmType | None:
        """The slice of this key; None if it is the whole machine, for which no price is needed."""
        vm_type = None if key == HERE else self._vm_type(key)
        return vm_type if vm_type is not None and is_slice(vm_type) else None

    def _vm_type(self, key: str) -> VmType:
        for offer in self._offers:
            if offer.vm_type.key == key:
                return offer.vm_type
        raise RefusedError(
            f"{key} is not this machine or a slice of it: here are {', '.join(o.vm_type.key for o in self._offers)}."
        )


def write_machines(folder: Path, launch: Launch) -> None:
    """Write the machines of a launch in one step: all exist or none."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    for machine in launch.ready_machines(now=datetime.now(UTC), address="127.0.0.1"):
        (fresh / str(machine.node)).mkdir()
        (fresh / str(machine.node) / "machine.json").write_bytes(msgspec.json.encode(machine))
    try:
        fresh.rename(folder / launch.key)
    except OSError:  # another process was faster
        shutil.rmtree(fresh, ignore_errors=True)
        if not (folder / launch.key).exists():
            raise


def read_machines(folder: Path) -> tuple[RentedMachine, ...]:
    """The machines in a folder, with their leases as they were renewed."""
    found = []
    for path in sorted(folder.glob("[!.]*/*/machine.json")):
        with contextlib.suppress(FileNotFoundError):  # it is being terminated
            machine = msgspec.json.decode(path.read_bytes(), type=RentedMachine)
            lease = path.with_name("lease")
            if lease.exists():
                machine = replace(machine, expires_at=datetime.fromtimestamp(float(lease.read_text()), UTC))
            found.append(machine)
    return tuple(found)


def remove_machines(folder: Path, key: str) -> None:
    """Remove the folders of a launch, whose processes have ended: all at once for whoever lists them."""
    ended = folder / f".ended-{key}-{os.getpid()}"
    try:
        (folder / key).rename(ended)
    except FileNotFoundError:
        return
    shutil.rmtree(ended, ignore_errors=True)


def _check_slice(vm_type: VmType, key: str) -> None:
    """Refuse a slice that this machine cannot make."""
    try:
        make_slice(vm_type, _slice_name(key)).remove()
    except TrainfareError as error:
        raise RefusedError(str(error)) from error


def _slice_name(machine_id: str) -> str:
    return "trainfare-" + machine_id.replace("/", "-")
