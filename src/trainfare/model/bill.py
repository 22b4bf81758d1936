"""What a provider charges for: the rules by which it counts, and the lines that add up to the price."""

import math
from dataclasses import dataclass
from datetime import date

from trainfare.model.checks import require_not_negative, require_positive, require_text
from trainfare.model.interval import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """Time is charged in whole increments, and never less than the minimum."""

    increment_seconds: float = 1.0
    minimum_seconds: float = 0.0

    def __post_init__(self) -> None:
        require_positive(increment_seconds=self.increment_seconds)
        require_not_negative(minimum_seconds=self.minimum_seconds)

    def billed_seconds(self, seconds: float) -> float:
        """Never less than the time; never less for a longer one."""
        # 60.000000001 s are one minute: the rest is what adding up floats leaves behind.
        increments = math.ceil(max(seconds, self.minimum_seconds) / self.increment_seconds - 1e-9)
        return max(seconds, max(1, increments) * self.increment_seconds)

    @property
    def words(self) -> str:
        """`by the second, at least 60 s`."""
        unit = {1.0: "second", 60.0: "minute", 3600.0: "hour"}.get(self.increment_seconds)
        counted = f"by the {unit}" if unit else f"in steps of {self.increment_seconds:g} s"
        return f"{counted}, at least {self.minimum_seconds:g} s" if self.minimum_seconds else counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a provider charges beside the price of a machine, and how long it takes to hand one over."""

    provider: str
    billing: Billing
    boot_seconds: Interval
    """From the request until somebody can log in; charged in full, though some providers start to count later."""
    disk_usd_per_gib_month: float = 0.0
    egress_usd_per_gib: float = 0.0
    free_egress_gib: float = 0.0
    """A month, of the whole account: nobody knows how much of it is left."""
    assumed: bool = False
    """Nobody looked: the terms of other providers stand in."""

    def __post_init__(self) -> None:
        require_text(provider=self.provider)
        require_not_negative(
            disk_usd_per_gib_month=self.disk_usd_per_gib_month,
            egress_usd_per_gib=self.egress_usd_per_gib,
            free_egress_gib=self.free_egress_gib,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruptions:
    """How often a spot machine is taken back."""

    per_hour: Interval
    source: str
    """Where the rate comes from, in words that a plan can print."""

    def __post_init__(self) -> None:
        require_text(source=self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What a training needs beside its iterations, as far as the user says; None: what is usual."""

    boot_seconds: float | None = None
    setup_seconds: float | None = None
    disk_gib: float | None = None
    data_gib: float | None = None
    """To be brought to the machine first."""
    results_gib: float | None = None
    """To be brought home at the end; None: a checkpoint."""

    def __post_init__(self) -> None:
        require_not_negative(
            boot_seconds=self.boot_seconds,
            setup_seconds=self.setup_seconds,
            disk_gib=self.disk_gib,
            data_gib=self.data_gib,
            results_gib=self.results_gib,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One amount, and how it comes about in a sentence with its numbers."""

    name: str
    usd: Interval
    how: str

    def __post_init__(self) -> None:
        if not self.name or not self.how:
            raise ValueError("a line of a bill must have a name and say how it comes about")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """All lines of an Estimate, in dollars at prices of one day. They add up to `usd`."""

    lines: tuple[BillLine, ...]
    usd: Interval
    billing: Billing
    billed_seconds: float
    """Of each node."""
    usd_per_hour: float
    """Of all nodes together."""
    prices_seen_on: date

    def __post_init__(self) -> None:
        require_positive(usd_per_hour=self.usd_per_hour, billed_seconds=self.billed_seconds)
        total = sum(line.usd.value for line in self.lines)
        if not math.isclose(total, self.usd.value, rel_tol=1e-6, abs_tol=1e-12):
            raise ValueError(f"the lines add up to {total} $, not to {self.usd.value} $")
