"""The JSON record of doors."""

from typing import Any

from trainfare.model.doors import DoorStatus


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
