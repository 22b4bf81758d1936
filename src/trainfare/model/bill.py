"""What a provider charges for: the rule by which it counts time, and the lines that add up to the price."""

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
        increments = math.ceil(max(seconds, self.minimum_seconds) / self.increment_seconds - 1e-9)
        return max(1, increments) * self.increment_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One amount, and how it comes about in a sentence with its numbers."""

    name: str
    usd: Interval
    how: str

    def __post_init__(self) -> None:
        require_text(name=self.name, how=self.how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """All lines of an Estimate, in dollars at prices of one day. They add up to `usd`."""

    lines: tuple[BillLine, ...]
    usd: Interval
    billing: Billing
    usd_per_hour: float
    """Of all nodes together."""
    prices_seen_on: date

    def __post_init__(self) -> None:
        require_positive(usd_per_hour=self.usd_per_hour)
        total = sum(line.usd.value for line in self.lines)
        if not math.isclose(total, self.usd.value, rel_tol=1e-6, abs_tol=1e-12):
            raise ValueError(f"the lines add up to {total} $, not to {self.usd.value} $")
