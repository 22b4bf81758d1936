"""What can be had: a machine at a price; and a choice of how many of them and of a batch size."""

import math
from dataclasses import dataclass
from datetime import date
from typing import Literal

from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.machine import VmType

Market = Literal["on_demand", "spot", "reserved", "own"]

HOURS_PER_MONTH = 730.0
"""A twelfth of 365 days, as providers count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """So many months of one machine, every hour of which is paid for, used or not.

        an hour = upfront / (730 · months) + usd_per_hour

    That is what an hour costs when all are used; of h hours a month each costs 730/h times as much.
    """

    months: int
    upfront_usd: float = 0.0
    usd_per_hour: float = 0.0
    """What is paid as the hours pass, beside the upfront payment."""
    held: bool = False
    """Bought already: a run adds nothing to what is paid for the machine. Else it is still to be bought."""
    on_demand_usd_per_hour: float | None = None
    """The same machine in the same region without a commitment; None where nobody offers it."""

    def __post_init__(self) -> None:
        require_positive(months=self.months, on_demand_usd_per_hour=self.on_demand_usd_per_hour)
        require_not_negative(upfront_usd=self.upfront_usd, usd_per_hour=self.usd_per_hour)
        if not self.upfront_usd and not self.usd_per_hour:
            raise ValueError("a commitment must cost something: upfront_usd, usd_per_hour or both")

    @property
    def hours(self) -> float:
        return HOURS_PER_MONTH * self.months

    @property
    def effective_usd_per_hour(self) -> float:
        """With the upfront payment spread over the term."""
        return self.upfront_usd / self.hours + self.usd_per_hour

    @property
    def whole_usd(self) -> float:
        """All that is paid over the term."""
        return self.upfront_usd + self.usd_per_hour * self.hours

    @property
    def break_even_hours(self) -> float | None:
        """Hours a month above which it is cheaper than on demand; more than a month has where it never is."""
        if self.on_demand_usd_per_hour is None:
            return None
        return HOURS_PER_MONTH * (self.effective_usd_per_hour / self.on_demand_usd_per_hour)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One VmType in one region at one price, as seen on one day by one source."""

    vm_type: VmType
    region: str
    market: Market
    usd_per_hour: float
    """Of a commitment, with its upfront payment spread over the term."""
    seen_on: date
    source: str
    retired_on: date | None = None
    """From this day on it cannot be rented; it is kept because estimates and documents refer to it."""
    commitment: Commitment | None = None
    """On the market "reserved": what is promised for the price; None where nobody told."""

    def __post_init__(self) -> None:
        require_text(region=self.region, source=self.source)
        require_positive(usd_per_hour=self.usd_per_hour)
        if self.commitment is None:
            return
        if self.market != "reserved":
            raise ValueError(f"a commitment is of the market reserved, not of {self.market}")
        if not math.isclose(self.usd_per_hour, self.commitment.effective_usd_per_hour, rel_tol=1e-6):
            raise ValueError(
                f"an hour of the commitment costs {self.commitment.effective_usd_per_hour} $, not {self.usd_per_hour} $"
            )

    @property
    def key(self) -> tuple[str, str, Market]:
        """What makes two prices prices of the same thing."""
        return self.vm_type.key, self.region, self.market

    @property
    def held(self) -> bool:
        """Paid for already, whether it is used or not."""
        return self.commitment is not None and self.commitment.held

    @property
    def to_be_bought(self) -> bool:
        """Its price is had only by who commits to months of it first."""
        return self.market == "reserved" and not self.held

    def rentable_on(self, day: date) -> bool:
        return self.retired_on is None or day < self.retired_on


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An Offer × a number of nodes × a batch size (of all nodes together; None where nobody knows it)."""

    offer: Offer
    nodes: int
    batch_size: int | None
    gpus_used: int | None = None
    """GPUs of each node that share the work; None: one, and all on several nodes."""

    def __post_init__(self) -> None:
        require_positive(nodes=self.nodes, batch_size=self.batch_size, gpus_used=self.gpus_used)
        if self.gpus_used is not None and self.gpus_used > self.offer.vm_type.gpus:
            raise ValueError(f"{self.offer.vm_type.key} has {self.offer.vm_type.gpus} GPUs, not {self.gpus_used}")

    @property
    def gpus(self) -> int:
        return self.nodes * self.offer.vm_type.gpus

    @property
    def gpus_working(self) -> int:
        """Of each node; 0 where it has none."""
        every = self.offer.vm_type.gpus
        return self.gpus_used or (every if self.nodes > 1 else min(1, every))

    @property
    def usd_per_hour(self) -> float:
        return self.nodes * self.offer.usd_per_hour
