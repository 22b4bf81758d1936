"""Offers: a machine at a price; and candidates: an offer with a number of nodes and a batch size."""

import math
from dataclasses import dataclass
from datetime import date
from typing import Literal

from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.machine import HERE, VmType

Market = Literal["on_demand", "spot", "reserved", "own"]

MARKETPLACES = frozenset({"vast", "shadeform"})
"""Providers that list the machines of others, at prices that change by the hour."""
UNCONNECTED = MARKETPLACES | {"runpod", "yotta"}
"""Providers whose machines share no fast network: they stand with different hosts, or are containers that were not
rented as a cluster."""
OLD_PRICE_DAYS = 30
"""A price that was seen longer ago than this is marked as old."""
HOURS_PER_MONTH = 730.0
"""A twelfth of 365 days, the month that providers charge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """A reservation of one machine for some months, of which every hour is paid for, used or not.

        effective_usd_per_hour = upfront_usd / (730 · months) + usd_per_hour

    This is the price of an hour if all hours are used; if h hours a month are used, each costs 730/h times as much.
    """

    months: int
    upfront_usd: float = 0.0
    usd_per_hour: float = 0.0
    """Paid for each hour, in addition to the upfront payment."""
    held: bool = False
    """True if it is already paid for, so that a run adds nothing to the cost of the machine."""
    on_demand_usd_per_hour: float | None = None
    """The price of the same machine in the same region without a commitment; None if it is not offered."""

    def __post_init__(self) -> None:
        require_positive(months=self.months, on_demand_usd_per_hour=self.on_demand_usd_per_hour)
        require_not_negative(upfront_usd=self.upfront_usd, usd_per_hour=self.usd_per_hour)
        if not self.upfront_usd and not self.usd_per_hour:
            raise ValueError("a commitment must cost something: upfront_usd, usd_per_hour or both")

    @property
    def hours(self) -> float:
        """The hours of the term."""
        return HOURS_PER_MONTH * self.months

    @property
    def effective_usd_per_hour(self) -> float:
        """The price of an hour, with the upfront payment spread over the term."""
        return self.upfront_usd / self.hours + self.usd_per_hour

    @property
    def total_usd(self) -> float:
        """The total paid over the term."""
        return self.upfront_usd + self.usd_per_hour * self.hours

    @property
    def break_even_hours(self) -> float | None:
        """The hours a month above which it is cheaper than on demand; more than 730 if it never is, None if there is no
        price on demand."""
        if self.on_demand_usd_per_hour is None:
            return None
        return HOURS_PER_MONTH * (self.effective_usd_per_hour / self.on_demand_usd_per_hour)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One VmType in one region at one price, as one source listed it on one day."""

    vm_type: VmType
    region: str
    market: Market
    usd_per_hour: float
    """The price of an hour; for a commitment, with its upfront payment spread over the term. Only a machine of the
    user can cost nothing."""
    seen_on: date
    source: str
    retired_on: date | None = None
    """The day from which it cannot be rented any more; it stays in tables because estimates and papers refer to it."""
    most_nodes: int | None = None
    """The machines that can be had at once; None if that is unknown."""
    commitment: Commitment | None = None
    """The terms of an offer on the market "reserved"; None if they are unknown."""

    def __post_init__(self) -> None:
        require_text(region=self.region, source=self.source)
        if self.market == "own":
            require_not_negative(usd_per_hour=self.usd_per_hour)
        elif not 0 < self.usd_per_hour < math.inf:
            require_positive(usd_per_hour=self.usd_per_hour)
        if self.commitment is None:
            return
        if self.market != "reserved":
            raise ValueError(f"a commitment belongs to the market reserved, not to {self.market}")
        if not math.isclose(self.usd_per_hour, self.commitment.effective_usd_per_hour, rel_tol=1e-6):
            raise ValueError(
                f"an hour of the commitment costs {self.commitment.effective_usd_per_hour} usd, not {self.usd_per_hour}"
            )

    @property
    def key(self) -> tuple[str, str, Market]:
        """The machine, region and market: two offers with the same key are prices of the same thing."""
        return self.vm_type.key, self.region, self.market

    @property
    def is_here(self) -> bool:
        """True if it is the machine at hand."""
        return self.vm_type.key == HERE

    @property
    def held(self) -> bool:
        """True if it is a commitment that is already paid for, used or not."""
        return self.commitment is not None and self.commitment.held

    @property
    def requires_commitment(self) -> bool:
        """True if its price requires committing to months of it first."""
        return self.market == "reserved" and not self.held

    @property
    def is_marketplace(self) -> bool:
        """True if its price changes by the hour."""
        return self.vm_type.provider in MARKETPLACES

    def rentable_on(self, day: date) -> bool:
        """True if it can still be rented on that day."""
        return self.retired_on is None or day < self.retired_on

    def age_days(self, today: date) -> int:
        """The days since the price was seen; 0 for a price that is dated later than today."""
        return max(0, (today - self.seen_on).days)

    def has_expired_price(self, today: date) -> bool:
        """True for an old price of a marketplace: such prices change by the hour, and the lowest of months ago would
        win against every price that still holds."""
        return self.is_marketplace and self.age_days(today) > OLD_PRICE_DAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An Offer × a number of nodes × an effective batch size (over all nodes; None if unknown)."""

    offer: Offer
    nodes: int
    batch_size: int | None
    gpus_used: int | None = None
    """The GPUs of each node that share the work; None means one on a single node, and all on several nodes."""

    def __post_init__(self) -> None:
        size, used = self.batch_size, self.gpus_used
        if self.nodes > 0 and (size is None or size > 0) and (used is None or 0 < used <= self.offer.vm_type.gpus):
            return  # thousands are made for one table: say what is wrong only if something is
        require_positive(nodes=self.nodes, batch_size=self.batch_size, gpus_used=self.gpus_used)
        if self.gpus_used is not None and self.gpus_used > self.offer.vm_type.gpus:
            raise ValueError(f"{self.offer.vm_type.key} has {self.offer.vm_type.gpus} GPUs, not {self.gpus_used}")

    def __hash__(self) -> int:
        """The fields that nearly always differ: candidates are the keys of tables with thousands of estimates."""
        offer = self.offer
        return hash(
            (
                offer.vm_type.name,
                offer.region,
                offer.market,
                offer.usd_per_hour,
                self.nodes,
                self.batch_size,
                self.gpus_used,
            )
        )

    @property
    def shape(self) -> tuple[int, int | None, int | None]:
        """The nodes, the GPUs used in each, and the batch size."""
        return self.nodes, self.gpus_used, self.batch_size

    @property
    def gpus(self) -> int:
        """All GPUs that are rented, whether they work or not."""
        return self.nodes * self.offer.vm_type.gpus

    @property
    def working_gpus_per_node(self) -> int:
        """The GPUs of each node that share the work; 0 if the machine has none."""
        every = self.offer.vm_type.gpus
        return self.gpus_used or (every if self.nodes > 1 else min(1, every))

    @property
    def usd_per_hour(self) -> float:
        return self.nodes * self.offer.usd_per_hour
