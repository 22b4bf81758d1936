"""JSON records and sentences of what is kept on hosts for later runs."""

from collections.abc import Sequence
from typing import Any, Protocol

from trainfare.units import format_duration


class Place(Protocol):
    """An environment, or data, that is kept on a host."""

    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def unused_seconds(self) -> float: ...
    @property
    def in_use(self) -> bool: ...


class Cache(Protocol):
    """Environments and data that are kept on one host."""

    @property
    def machine(self) -> str: ...
    @property
    def places(self) -> Sequence[Place]: ...
    @property
    def error(self) -> str | None: ...


def cache_record(cache: Cache) -> dict[str, Any]:
    """A host with what is kept there, or was removed."""
    return {
        "machine": cache.machine,
        "error": cache.error,
        "bytes": sum(place.bytes for place in cache.places),
        "places": [
            {
                "kind": place.kind,
                "key": place.key,
                "name": place.name,
                "bytes": place.bytes,
                "unused_seconds": place.unused_seconds,
                "in_use": place.in_use,
            }
            for place in cache.places
        ],
    }


def place_sentence(place: Place) -> str:
    """`environment of requirements.txt (3fa8c1d2), 5.21 GB, unused for 12 d`."""
    what = f"environment of {place.name}" if place.kind == "environments" else f"data {place.name}"
    state = "in use" if place.in_use else f"unused for {format_duration(place.unused_seconds)}"
    return f"{what} ({place.key[:8]}), {place.bytes / 1e9:.2f} GB, {state}"


def removed_sentence(machine: str, places: Sequence[Place]) -> str:
    """A sentence about the places that were removed from a host."""
    if not places:
        return f"{machine}: nothing to remove"
    names = "; ".join(map(place_sentence, places))
    return f"{machine}: removed {sum(place.bytes for place in places) / 1e9:.2f} GB: {names}"
