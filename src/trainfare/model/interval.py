"""A number and how sure we are of it."""

from dataclasses import dataclass

from trainfare.model.checks import require_not_negative


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value that is believed to lie between `low` and `high` with the given confidence.

    Quantities here are seconds, dollars and bytes: never negative.
    """

    value: float
    low: float
    high: float
    confidence: float = 0.9

    def __post_init__(self) -> None:
        require_not_negative(value=self.value, low=self.low, high=self.high)
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} is not between {self.low} and {self.high}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, got {self.confidence}")

    @classmethod
    def exactly(cls, value: float) -> "Interval":
        return cls(value=value, low=value, high=value)

    @classmethod
    def within_factor(cls, value: float, factor: float) -> "Interval":
        """From value / factor to value × factor."""
        if factor < 1:
            raise ValueError(f"factor must be at least 1, got {factor}")
        return cls(value=value, low=value / factor, high=value * factor)

    def __add__(self, other: "Interval") -> "Interval":
        """As if both erred the same way: never narrower than the truth for independent errors."""
        return Interval(
            value=self.value + other.value,
            low=self.low + other.low,
            high=self.high + other.high,
            confidence=min(self.confidence, other.confidence),
        )

    def __mul__(self, factor: float) -> "Interval":
        require_not_negative(factor=factor)
        return Interval(
            value=self.value * factor,
            low=self.low * factor,
            high=self.high * factor,
            confidence=self.confidence,
        )

    def overlaps(self, other: "Interval") -> bool:
        return self.low <= other.high and other.low <= self.high
