"""The right to act for a thing, for a while, with a number by which what comes too late is recognised."""

from dataclasses import dataclass
from datetime import datetime

from trainfare.model.checks import require_aware, require_positive, require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right of one process to supervise, until it runs out, is released or is taken over by another."""

    name: str
    """The thing that it is for: `run/r93`."""
    holder: str
    """The process that holds it, by a name that no other process has."""
    token: int
    """The fencing token: it grows each time a lease of this name is taken. What is written under an older one is
    refused."""
    expires_at: datetime

    def __post_init__(self) -> None:
        require_text(name=self.name, holder=self.holder)
        require_positive(token=self.token)
        require_aware(expires_at=self.expires_at)

    def has_run_out(self, now: datetime) -> bool:
        """True if another process may take it over."""
        return self.expires_at <= now


def run_lease_name(run_id: str) -> str:
    """The name of the lease under which facts of a run are appended."""
    return f"run/{run_id}"
