"""The JSON records of doors."""

from typing import Any

from trainfare.model.doors import DoorSetup, DoorStatus


def door_record(status: DoorStatus) -> dict[str, Any]:
    """One door, or one place behind it."""
    return {
        "door": status.door,
        "place": status.place,
        "ready": status.is_ready,
        "text": status.text,
        "fix": status.fix,
        "machines": list(status.machines),
    }


def setup_record(setup: DoorSetup) -> dict[str, Any]:
    """The software of a door."""
    return {
        "version": setup.version,
        "folder": setup.folder,
        "bytes": setup.bytes,
        "seconds": setup.seconds,
        "was_there": setup.was_there,
        "clouds": {cloud: cloud in setup.enabled for cloud in setup.clouds},
    }
