"""A machine that a door was asked for."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trainfare.model.checks import require_aware, require_not_negative, require_positive, require_text

MachineState = Literal["queued", "booting", "ready", "failed", "preempted", "unreachable"]
"""A queued machine waits for its turn, and costs nothing. One that was terminated is no longer listed at all."""


RefusalCause = Literal["capacity", "quota", "other"]
"""Why machines were not given: nothing is free now, the account may not have so many, or something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedMachine:
    """The `node`-th machine of one attempt of a Run, as the door lists it now; its tags name owner, run and expiry."""

    id: str
    """The name that the door gives it."""
    owner: str
    run_id: str
    attempt: int
    node: int
    vm_type: str
    """The key of its VmType."""
    state: MachineState
    expires_at: datetime
    """The moment at which the machine ends by itself, whoever is alive."""
    reason: str | None = None
    """Why it waits, failed, or cannot be reached."""
    refused: RefusalCause | None = None
    """Why the provider did not give it, if it failed for that."""
    address: str | None = None
    """The name or number by which other machines of the launch reach it; None if the door does not tell."""
    destination: str | None = None
    """The name by which the door reaches it, if that is another one."""
    launched_at: datetime | None = None
    """The moment from which the provider charges; None if it does not tell."""

    def __post_init__(self) -> None:
        require_text(id=self.id, owner=self.owner, run_id=self.run_id, vm_type=self.vm_type)
        require_positive(attempt=self.attempt)
        require_not_negative(node=self.node)
        require_aware(expires_at=self.expires_at)
        if self.launched_at is not None:
            require_aware(launched_at=self.launched_at)

    @property
    def key(self) -> str:
        """The idempotency key of the launch: the same for all nodes of an attempt."""
        return launch_key(self.run_id, self.attempt)

    @property
    def place(self) -> str:
        """The node and its host, as messages name it: `node 1 (10.0.0.2)`."""
        host = self.destination or self.address
        return f"node {self.node} ({host})" if host else f"node {self.node}"


def launch_key(run_id: str, attempt: int) -> str:
    return f"{run_id}-{attempt}"
