"""The doors that can launch machines, by the provider in the keys of their machines."""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.own_clusters import learn_cluster_of, own_clusters, own_partitions
from trainfare.app.catalog.own_hosts import is_known, learn_host
from trainfare.catalog.catalog import Catalog
from trainfare.catalog.own_clusters import CLUSTERS
from trainfare.catalog.own_machines import HOSTS, read_destinations, read_groups
from trainfare.clouds.door import Door
from trainfare.clouds.fake import FakeDoor
from trainfare.clouds.local import LocalDoor
from trainfare.clouds.skypilot import SkyPilotDoor
from trainfare.clouds.skypilot_launch import CLOUDS
from trainfare.clouds.skypilot_setup import SkyPilotInstallation
from trainfare.clouds.slurm import SlurmDoor
from trainfare.clouds.ssh import SshDoor
from trainfare.errors import UsageError
from trainfare.model.offer import Offer
from trainfare.settings import Settings

_HOW_TO_RENT = "SkyPilot rents it, once it is installed and has credentials: `trainfare doors` says what is missing."

FAKE_FOLDER = "TRAINFARE_FAKE_DOOR"
"""The folder of a provider that does not exist, for trials and tests."""


class OwnOffers:
    """The user's own machines. The catalog is read when one of them is needed first: reading it takes longer than all
    else that a door does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def _catalog(self) -> Catalog:
        return open_catalog(self._settings)

    def __iter__(self) -> Iterator[Offer]:
        yield from self._catalog.offers
        yield from self._catalog.at_hand
        yield from self._catalog.hosts


def open_doors(settings: Settings) -> dict[str, Door]:
    """Every door that is ready on this machine."""
    own = OwnOffers(settings)
    local = LocalDoor(Path(settings.runs) / "machines", own)
    stated = Path(settings.machines)
    ssh = SshDoor(Path(settings.runs) / "ssh", own, read_destinations(stated), read_groups(stated))
    clusters = [own.cluster for own in own_clusters(settings)]
    slurm = SlurmDoor(Path(settings.runs) / "slurm", own, clusters, own_partitions(settings))
    doors: list[Door] = [local, ssh, slurm, *_rented(settings, own)]
    if FAKE_FOLDER in os.environ:
        doors.append(FakeDoor(Path(os.environ[FAKE_FOLDER])))
    return {door.name: door for door in doors}


def _rented(settings: Settings, offers: OwnOffers) -> list[Door]:
    """The doors to the clouds that had credentials when SkyPilot was last asked. It is not asked here: that takes
    seconds."""
    skypilot = SkyPilotInstallation(Path(settings.skypilot))
    folder = Path(settings.runs) / "skypilot"
    return [SkyPilotDoor(folder / name, name, offers, skypilot.api) for name in skypilot.enabled()]


def open_door(settings: Settings, machine: str) -> Door:
    """The door to a machine. `UsageError` if no door leads to it. A host or a cluster that is used for the first time
    is asked what it is."""
    provider = machine.partition("/")[0]
    if provider == HOSTS and not is_known(settings, machine):
        learn_host(settings, machine)
    if provider == CLUSTERS and machine not in own_partitions(settings):
        learn_cluster_of(settings, machine)
    doors = open_doors(settings)
    if provider not in doors:
        rents = f" {_HOW_TO_RENT}" if provider in CLOUDS else ""
        reached = ", ".join(sorted(doors))
        raise UsageError(f"Trainfare cannot launch {machine}: it reaches the machines of {reached}.{rents}", field="on")
    return doors[provider]
