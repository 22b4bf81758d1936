"""What can be had: a machine at a price; and a choice of how many of them and of a batch size."""

from dataclasses import dataclass
from datetime import date
from typing import Literal

from trainfare.model.checks import require_positive, require_text
from trainfare.model.machine import VmType

Market = Literal["on_demand", "spot", "reserved", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One VmType in one region at one price, as seen on one day by one source."""

    vm_type: VmType
    region: str
    market: Market
    usd_per_hour: float
    seen_on: date
    source: str
    retired_on: date | None = None
    """From this day on it cannot be rented; it is kept because estimates and documents refer to it."""

    def __post_init__(self) -> None:
        require_text(region=self.region, source=self.source)
        require_positive(usd_per_hour=self.usd_per_hour)

    @property
    def key(self) -> tuple[str, str, Market]:
        """What makes two prices prices of the same thing."""
        return self.vm_type.key, self.region, self.market

    def rentable_on(self, day: date) -> bool:
        return self.retired_on is None or day < self.retired_on


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An Offer × a number of nodes × a batch size (of all nodes together; None where nobody knows it)."""

    offer: Offer
    nodes: int
    batch_size: int | None

    def __post_init__(self) -> None:
        require_positive(nodes=self.nodes, batch_size=self.batch_size)

    @property
    def gpus(self) -> int:
        return self.nodes * self.offer.vm_type.gpus

    @property
    def usd_per_hour(self) -> float:
        return self.nodes * self.offer.usd_per_hour
