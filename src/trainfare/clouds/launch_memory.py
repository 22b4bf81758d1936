"""Launches that were asked for somewhere else, remembered at home before anyone is asked.

    <folder>/<key>.json     where it was asked for, and the machines

So the machines of a place that does not answer are known: they are listed as unreachable until it answers again.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from trainfare.clouds.door import Launch, RefusedError
from trainfare.clouds.ssh_errors import CannotConnectError
from trainfare.errors import ExternalError
from trainfare.model.rented import RentedMachine

_FORGOTTEN_AFTER = timedelta(minutes=10)
"""A launch that its place does not know is forgotten after so long: before, the call may still be under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedLaunch:
    """A launch that a place was asked for: a host, or a cluster."""

    destination: str
    """The host or the cluster; of a launch on several hosts, the first one."""
    machines: tuple[RentedMachine, ...]
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class LaunchMemory:
    """The launches of one door, as files of a folder."""

    folder: Path

    @contextmanager
    def asking(
        self, launch: Launch, destination: str, *, machines: tuple[RentedMachine, ...] | None = None
    ) -> Iterator[None]:
        """The block asks a place for a launch, which is remembered before. It is forgotten, as refused, if the place
        was not reached or refuses; unless an earlier call, whose effect is unknown, may have been heard."""
        known = self.remember(launch, destination, machines)
        try:
            yield
        except CannotConnectError as error:
            if known:
                raise
            self.forget(launch.key)
            raise RefusedError(str(error)) from error
        except RefusedError:
            self.forget(launch.key)
            raise

    def remember(self, launch: Launch, destination: str, machines: tuple[RentedMachine, ...] | None = None) -> bool:
        """Remember a launch before it is asked for; returns whether it was remembered before."""
        path = self._path(launch.key)
        if path.exists():
            return True
        now = datetime.now(UTC)
        machines = machines or launch.ready_machines(now=now)
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_bytes(
            msgspec.json.encode(RememberedLaunch(destination=destination, machines=machines, asked_at=now))
        )
        fresh.replace(path)
        return False

    def all(self) -> dict[str, RememberedLaunch]:
        """Every launch that is remembered, by its key."""
        found = {}
        for path in sorted(self.folder.glob("*.json")):
            try:
                found[path.stem] = msgspec.json.decode(path.read_bytes(), type=RememberedLaunch)
            except FileNotFoundError:  # it has just been forgotten
                continue
            except (msgspec.MsgspecError, ValueError) as error:
                raise ExternalError(
                    f"{path} is damaged: {error}. Remove it; the place itself lists what runs there."
                ) from error
        return found

    def forget(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def forget_ended(self, remembered: Mapping[str, RememberedLaunch], found: set[str]) -> None:
        """Forget those of some launches that their place, which has answered, does not have."""
        for key, launch in remembered.items():
            if key not in found and datetime.now(UTC) - launch.asked_at > _FORGOTTEN_AFTER:
                self.forget(key)

    def _path(self, key: str) -> Path:
        return self.folder / f"{safe_key(key)}.json"


def safe_key(key: str) -> str:
    """The key of a launch, which names a folder that will be removed."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", key):
        raise ValueError(f"the key of a launch must be letters, digits, dots and dashes, got {key!r}")
    return key
