"""Answers of the catalog: rows of the price list, facts about GPUs, and the changes that an import makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import MARKETPLACES, Market, Offer

TableFormat = Literal["skypilot", "gpuhunt"]
"""The formats of price tables that can be imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRow:
    """A machine in a region, with its price on demand, its spot price, or both, from one source and one day."""

    vm_type: VmType
    region: str
    usd_per_hour: float | None
    """The price on demand; for the user's own machine, its cost to the user."""
    spot_usd_per_hour: float | None
    seen_on: date
    source: str
    retired_on: date | None

    @property
    def leading_usd_per_hour(self) -> float:
        """The price by which a list is ordered: the price on demand, or the spot price if there is no other."""
        return self.usd_per_hour or self.spot_usd_per_hour or 0.0

    @property
    def is_marketplace(self) -> bool:
        """True if its price changes by the hour."""
        return self.vm_type.provider in MARKETPLACES

    def age_days(self, today: date) -> int:
        """The days since the price was seen."""
        return max(0, (today - self.seen_on).days)

    def is_past(self, today: date) -> bool:
        """True if it can no longer be rented at this price."""
        return self.retired_on is not None and self.retired_on <= today


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferListing:
    """A price list."""

    today: date
    rows: tuple[OfferRow, ...]
    machines: int
    """The number of different machines in the rows."""
    regions_hidden: int
    """Rows that are left out because the machine is cheaper in another region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDetails:
    """Every known price of one machine."""

    today: date
    vm_type: VmType
    rows: tuple[OfferRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSource:
    """The document to which a fact is credited."""

    key: str
    title: str
    publisher: str
    date: str
    checked: Literal["read", "quoted", "not opened"]
    """The document was read; others quote it; or the fact is from general knowledge and the document was not opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFact:
    """One field of a Gpu, as text, and its source."""

    fact: str
    value: str
    source: FactSource


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDetails:
    """A GPU with the source of each of its facts."""

    gpu: Gpu
    facts: tuple[GpuFact, ...]
    """Empty for a GPU that the user has described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTable:
    """The contents of a price table in another format: its offers, and counts of the rows that are left out."""

    offers: tuple[Offer, ...]
    rows: int
    without_gpu: int = 0
    without_price: int = 0
    """Rows whose price is blank, zero or not a number."""
    without_host: int = 0
    """Rows of a GPU of GCP in a zone that has no machine for it."""
    unknown_gpus: Mapping[str, int] = field(default_factory=dict)
    """The number of rows for each GPU that the catalog does not know, the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """One price before and after an import; None if it was not, or is no longer, listed."""

    machine: str
    region: str
    market: Market
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float:
        """The price after / the price before; a difference below a thousandth is rounding, and counts as none."""
        if self.after is None or self.before is None:
            return 1.0
        ratio = self.after / self.before
        return ratio if abs(ratio - 1) >= 1e-3 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceImport:
    """The result of importing a price table."""

    format: TableFormat
    seen_on: date
    table: ImportedTable
    providers: tuple[str, ...]
    new: tuple[PriceChange, ...]
    cheaper: tuple[PriceChange, ...]
    more_expensive: tuple[PriceChange, ...]
    gone: tuple[PriceChange, ...]
    """Offers that the table does not list. For a machine and region that it lists, a market that it lacks is dropped;
    other machines and regions stay, at their last price."""
    unchanged: int
    saved: tuple[str, ...]
    """The files that were written; empty for a dry run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedTable:
    """One table of an update, checked and saved."""

    name: str
    """Its provider, or its providers."""
    version: str | None
    """The version that its publisher gave it; None if it has none."""
    sha256: str
    """The checksum of the table as it was received."""
    imported: PriceImport


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFailure:
    """A provider or table whose prices stay as they were, and why."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUpdate:
    """The result of renewing the prices of several providers."""

    source: str
    updated: tuple[UpdatedTable, ...]
    failed: tuple[UpdateFailure, ...]
    dry_run: bool
