"""The contract of every door to machines, and of the shell through which a machine is reached.

Launching is asynchronous: `launch` asks, `machines` says what became of it. Calls name a launch by its key, so that a
second process can continue after a first one was killed at any point.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from trainfare.errors import ExternalError
from trainfare.model.hosts import HostPlace
from trainfare.model.offer import Candidate, Offer
from trainfare.model.rented import RefusalCause, RentedMachine, launch_key

NOTICE_PROVIDERS = ("aws", "gcp", "azure")
"""Providers whose spot machines announce on themselves that they are taken back, as `agent/agent.py` asks them."""


class RefusedError(ExternalError):
    """The door did not launch, and it is certain that nothing of this launch exists: no capacity, no quota, no such
    host. After any other error a machine may exist."""

    def __init__(self, message: str, *, cause: RefusalCause = "other") -> None:
        super().__init__(message)
        self.cause: RefusalCause = cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A request to a door, with the tags that every machine gets."""

    owner: str
    run_id: str
    attempt: int
    candidate: Candidate
    expires_at: datetime
    """The lease: the machine ends by itself at this moment unless the lease is renewed. Where machines wait in a queue,
    the time from now to this moment counts from the end of the wait."""
    ends_by: datetime | None = None
    """A moment at which the machine ends however long it waited; None if there is none."""

    @property
    def key(self) -> str:
        return launch_key(self.run_id, self.attempt)

    def ready_machines(
        self, *, now: datetime, address: str | None = None, places: Sequence[HostPlace] = ()
    ) -> tuple[RentedMachine, ...]:
        """The machines of a door that has nothing to boot, one for each node: all at one address, or each at a place
        of its own."""
        return tuple(
            RentedMachine(
                id=f"{self.key}/{node}",
                owner=self.owner,
                run_id=self.run_id,
                attempt=self.attempt,
                node=node,
                vm_type=self.candidate.offer.vm_type.key,
                state="ready",
                expires_at=self.expires_at,
                address=places[node].address if places else address,
                destination=places[node].destination if places else None,
                launched_at=now,
            )
            for node in range(self.candidate.nodes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that has ended on a machine."""

    exit_code: int
    output: bytes
    error: bytes


class MachineUnreachableError(ExternalError):
    """The machine did not answer: it may be gone, or only the network may be."""


class Shell(Protocol):
    """One machine as a place with files and commands. Paths are relative to the folder of the launch on the machine,
    or absolute. Every call raises `MachineUnreachableError` if the machine does not answer in time."""

    def run(self, command: Sequence[str], *, given: bytes = b"", timeout_seconds: float = 60.0) -> Completed:
        """Run a command in the folder of the launch, with `given` as its input."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file in one step: a reader sees the old content or the new one."""

    def read(self, path: str, *, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """At most `limit` bytes of a file from `offset` on; empty if the file does not exist or is not as long."""

    def send(self, folder: Path, path: str, *, files: Sequence[str]) -> int:
        """Copy `files` of a folder at home below `path`; returns the bytes that were sent. Files that are there
        already, with the same size and time, are not sent again."""

    def fetch(self, path: str, folder: Path, *, files: Mapping[str, str]) -> int:
        """Copy files below `path` to a folder at home and verify each by its SHA-256; returns the bytes that were
        received. A file that does not match is left out and is an `ExternalError`."""


@runtime_checkable
class StartsAgent(Protocol):
    """A shell of a machine on which only a process that is there already can start an agent that stays."""

    def start_agent(self, secrets: Mapping[str, str]) -> None:
        """Have the agent started, unless it runs or has done its work. Secrets are written to no file. On a machine
        that is queued, the agent starts when its turn comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeService:
    """The metadata service that announces on a machine that it is taken back."""

    provider: str
    """The way in which it is asked: aws, gcp or azure."""
    address: str | None = None
    """Its host and port; None means the usual one."""


@runtime_checkable
class GivesNotice(Protocol):
    """A door that knows the metadata service of its machines. Those of AWS, Google Cloud and Azure are known anyway."""

    def notice_service(self, candidate: Candidate) -> NoticeService | None:
        """The service on machines of a candidate; None if they have none."""


def notice_service(door: "Door", candidate: Candidate) -> NoticeService | None:
    """The service to be asked on machines of a candidate; None if they are not taken back, or have no service."""
    if candidate.offer.market != "spot":
        return None
    if isinstance(door, GivesNotice):
        return door.notice_service(candidate)
    provider = candidate.offer.vm_type.provider
    return NoticeService(provider=provider) if provider in NOTICE_PROVIDERS else None


class Door(Protocol):
    """A provider of machines."""

    name: str
    """The provider in the keys of its machines, such as `local` and `ssh`."""
    powers_off: bool
    """True if machines are ended by switching them off, as rented ones are; False for machines of the user."""

    appears_within_seconds: float
    """The longest time until a machine that was launched is listed."""

    boots_within_seconds: float
    """The longest time until a machine is ready, from its launch or from the end of its wait in a queue."""

    extends_leases: bool
    """False if the lease of the launch is a time limit that cannot be moved: what is asked for must last."""

    def offers(self) -> tuple[Offer, ...]:
        """The offers that can be launched now."""

    def launch(self, launch: Launch) -> None:
        """Ask for one machine for each node. A second call with the same key asks for nothing new. `RefusedError` if
        nothing was or will be launched."""

    def machines(self, key: str | None = None) -> tuple[RentedMachine, ...]:
        """Every machine that was launched through this door and not confirmed as terminated, whoever launched it. A
        machine may appear in the list some time after `launch` has returned. With the key of a launch, its machines
        alone: no host is asked that cannot have them."""

    def known_machines(self) -> tuple[RentedMachine, ...]:
        """The machines that are known at home, at once and without asking anyone: some may have ended, and others may
        exist."""

    def shell(self, machine: RentedMachine) -> Shell:
        """The way to a machine that is ready."""

    def terminate(self, key: str) -> None:
        """Ask for the end of every machine of a launch. Termination is confirmed when `machines` no longer lists
        them. A second call, and one for machines that do not exist, has no effect."""
