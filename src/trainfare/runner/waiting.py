"""How long an attempt waited in a queue, which costs nothing: from its request until its machines began to cost."""

from collections.abc import Sequence
from datetime import datetime

from trainfare.model.run import Fact


def waited(facts: Sequence[Fact], attempt: int) -> bool:
    """True if a machine of the attempt was seen in a queue."""
    return any(machine.state == "queued" for fact in facts if fact.attempt == attempt for machine in fact.machines)


def wait_ended_at(facts: Sequence[Fact], attempt: int) -> datetime | None:
    """The moment at which the machines of an attempt that waited began to cost; None if none is known."""
    machines = [machine for fact in facts if fact.attempt == attempt for machine in fact.machines]
    return min((machine.launched_at for machine in machines if machine.launched_at is not None), default=None)
