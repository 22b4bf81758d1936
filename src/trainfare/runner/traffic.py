"""The network traffic of each node of a run while its program ran: what the monitor measures of a cluster.

The agent reads what all interfaces but the loopback have received and sent, so other traffic of the host counts too.
Rates are those of the iterations that were counted; where none were, those of the whole time of the program.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.model.rented import RentedMachine
from trainfare.runner.seen import NodeSeen, Seen, number_in
from trainfare.units import BYTES_PER_MEGABIT


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTraffic:
    """The traffic of one node in the current attempt, from the start of its program on."""

    node: int
    host: str | None
    """The name or the address of the node; None if it is not known."""
    sent_bytes: float
    received_bytes: float
    seconds: float
    """The time in which its iterations took place, or in which its program ran."""
    iterations: int = 0
    """The iterations that were counted on the node."""

    @property
    def sent_mbps(self) -> float:
        return self.sent_bytes / BYTES_PER_MEGABIT / self.seconds

    @property
    def received_mbps(self) -> float:
        return self.received_bytes / BYTES_PER_MEGABIT / self.seconds

    @property
    def mbps(self) -> float:
        """The rate of the busier direction."""
        return max(self.sent_mbps, self.received_mbps)


def traffic_of(seen: Seen, machines: Sequence[RentedMachine]) -> tuple[NodeTraffic, ...]:
    """The traffic of every node of which two readings are known."""
    hosts = {machine.node: machine.destination or machine.address for machine in machines}
    found = (_of_node(number, node, hosts.get(number)) for number, node in sorted(seen.nodes.items()))
    return tuple(each for each in found if each is not None)


def _of_node(number: int, node: NodeSeen, host: str | None) -> NodeTraffic | None:
    first, last = node.meter_at_start, node.last_meter
    if first is None or last is None:
        return None
    seconds = node.steps_seconds or (last.at - first.at).total_seconds()
    sent, received = (
        max(0.0, (number_in(last, name) or 0.0) - (number_in(first, name) or 0.0))
        for name in ("sent_bytes", "received_bytes")
    )
    if seconds <= 0:
        return None
    return NodeTraffic(
        node=number, host=host, sent_bytes=sent, received_bytes=received, seconds=seconds, iterations=node.steps
    )
