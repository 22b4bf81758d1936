"""The doors that can launch machines, by the provider in the keys of their machines."""

import os
from pathlib import Path

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.own_hosts import is_known, learn_host
from trainfare.catalog.own_machines import HOSTS, read_destinations
from trainfare.clouds.door import Door
from trainfare.clouds.fake import FakeDoor
from trainfare.clouds.local import LocalDoor
from trainfare.clouds.ssh import SshDoor
from trainfare.errors import UsageError
from trainfare.model.machine import HERE_PROVIDER
from trainfare.settings import Settings

FAKE_FOLDER = "TRAINFARE_FAKE_DOOR"
"""The folder of a provider that does not exist, for trials and tests."""


def open_doors(settings: Settings) -> dict[str, Door]:
    """Every door that is ready on this machine."""
    catalog = open_catalog(settings)
    every = [*catalog.offers, *catalog.slices, *((catalog.here,) if catalog.here else ())]
    local = LocalDoor(
        Path(settings.runs) / "machines", [offer for offer in every if offer.vm_type.provider == HERE_PROVIDER]
    )
    ssh = SshDoor(
        Path(settings.runs) / "ssh", [*catalog.offers, *catalog.hosts], read_destinations(Path(settings.machines))
    )
    doors: list[Door] = [local, ssh]
    if FAKE_FOLDER in os.environ:
        doors.append(FakeDoor(Path(os.environ[FAKE_FOLDER])))
    return {door.name: door for door in doors}


def open_door(settings: Settings, machine: str) -> Door:
    """The door to a machine. `UsageError` if no door leads to it. A host that is used for the first time is asked what
    it is."""
    provider = machine.partition("/")[0]
    if provider == HOSTS and not is_known(settings, machine):
        learn_host(settings, machine)
    doors = open_doors(settings)
    if provider not in doors:
        raise UsageError(
            f"Trainfare cannot launch {machine}: it reaches the machines of {', '.join(sorted(doors))}.", field="on"
        )
    return doors[provider]
