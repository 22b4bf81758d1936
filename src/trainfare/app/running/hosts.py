"""Use cases: what is kept on the user's hosts for later runs, and to remove it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainfare.app.catalog.own_hosts import destination_of, known_hosts
from trainfare.catalog.own_machines import HOSTS, read_groups
from trainfare.clouds.caches import CachedPlace, clean_cache, list_cached
from trainfare.clouds.door import Shell
from trainfare.clouds.local_shell import LocalShell
from trainfare.clouds.ssh_connection import SshConnection
from trainfare.clouds.ssh_shell import SshShell
from trainfare.errors import ExternalError, UsageError
from trainfare.model.machine import HERE
from trainfare.settings import Settings, read_settings

UNUSED_SECONDS = 30 * 86400.0
"""Environments and data that were not used for so long are removed, unless the user says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCache:
    """Environments and data that are kept on one host, or were removed from it."""

    machine: str
    places: tuple[CachedPlace, ...] = ()
    error: str | None = None
    """Why the host could not be asked."""

    @property
    def bytes(self) -> int:
        return sum(place.bytes for place in self.places)


def list_caches(machines: Sequence[str] = (), *, settings: Settings | None = None) -> tuple[HostCache, ...]:
    """List environments and data on some hosts, or on all that are known and on this machine."""
    return _on_each(machines, list_cached, settings or read_settings())


def clean_caches(
    machines: Sequence[str] = (),
    *,
    unused_seconds: float = UNUSED_SECONDS,
    keep_bytes: float | None = None,
    settings: Settings | None = None,
) -> tuple[HostCache, ...]:
    """Remove environments and data that no run uses, from some hosts, or from all that are known and this machine: what
    was not used for so long, and the longest unused until at most `keep_bytes` are left. Returns what was removed."""
    keep = float("inf") if keep_bytes is None else keep_bytes

    def clean(shell: Shell) -> tuple[CachedPlace, ...]:
        return clean_cache(shell, unused_seconds=unused_seconds, keep_bytes=keep)

    return _on_each(machines, clean, settings or read_settings())


def _on_each(
    machines: Sequence[str], act: Callable[[Shell], tuple[CachedPlace, ...]], settings: Settings
) -> tuple[HostCache, ...]:
    found = []
    for machine in machines or (*known_hosts(settings), HERE):
        for name, shell in _shells(machine, settings).items():
            try:
                found.append(HostCache(machine=name, places=act(shell)))
            except ExternalError as error:
                found.append(HostCache(machine=name, error=str(error)))
    return tuple(found)


def _shells(machine: str, settings: Settings) -> dict[str, Shell]:
    """The ways to a host, or to each host of a group, by the names that are shown."""
    if machine == HERE:
        return {HERE: LocalShell(folder=Path.home())}
    provider, _, name = machine.partition("/")
    if provider != HOSTS or not name:
        raise UsageError(f"{machine} is no host of yours: name {HERE} or {HOSTS}/NAME.", field="machines")
    group = read_groups(Path(settings.machines)).get(machine)
    if group is None:
        return {machine: SshShell(SshConnection(destination_of(settings, machine)), ".")}
    return {f"{machine} ({place.destination})": SshShell(SshConnection(place.destination), ".") for place in group}
