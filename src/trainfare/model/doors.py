"""What a door to machines is like now: whether programs can be started behind it, and what is missing if not."""

from dataclasses import dataclass, field

from trainfare.model.checks import require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorStatus:
    """One way to machines: this machine, one host, one cluster; or a door that leads nowhere yet."""

    door: str
    place: str | None = None
    """The host or cluster, as machines.toml or the user names it; None if the door leads nowhere yet."""
    is_ready: bool
    text: str
    """The machines that it offers, or why it is not ready."""
    fix: str | None = None
    """The command, or the lines of machines.toml, that make it ready."""
    machines: tuple[str, ...] = field(default=())
    """The keys of its machines, as far as they are known."""

    def __post_init__(self) -> None:
        require_text(door=self.door, text=self.text)
        if self.is_ready == (self.fix is not None):
            raise ValueError("a door that is not ready says what makes it ready, and one that is ready does not")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorSetup:
    """The software of a door, as it is installed now."""

    version: str
    folder: str
    bytes: int
    seconds: float
    """The time that the installation took."""
    was_there: bool
    """True if nothing had to be installed."""
    clouds: tuple[str, ...]
    """The clouds that it was installed for."""
    enabled: tuple[str, ...]
    """The clouds that have credentials."""
