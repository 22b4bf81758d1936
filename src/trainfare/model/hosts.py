"""Hosts of the user that are reached by ssh."""

from dataclasses import dataclass

from trainfare.model.checks import require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlace:
    """A host of a group, which is one machine with several nodes."""

    destination: str
    """The name by which ssh knows it."""
    address: str | None = None
    """The address by which the other hosts reach it; None if it is the one at which ssh reaches it."""

    def __post_init__(self) -> None:
        require_text(destination=self.destination)
        if self.address is not None:
            require_text(address=self.address)
