"""A number with its uncertainty."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, median

from trainfare.errors import NotFiniteError
from trainfare.model.checks import require_not_negative


@cache
def bound_exponent(own: float, confidence: float) -> float:
    """z'/z of `Interval.upper_bound`: 0 up to a confidence of one half, 0.78 from a 90% interval to a bound of 90%."""
    return max(0.0, NormalDist().inv_cdf(confidence)) / NormalDist().inv_cdf((1 + own) / 2)


def upper_bounds(
    values: Sequence[float], highs: Sequence[float], confidence: float, *, own: float = 0.9
) -> list[float]:
    """`Interval.upper_bound` of many values with the high ends of their intervals, whose own confidence is `own`."""
    exponent = bound_exponent(own, confidence)
    if exponent == 1:
        return [*highs]
    return [
        value * math.pow(high / value, exponent) if value else high for value, high in zip(values, highs, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimated value, and an interval from `low` to `high` that holds the true one with probability `confidence`.

    The quantities are seconds, dollars and bytes: never negative.
    """

    value: float
    low: float
    high: float
    confidence: float = 0.9

    def __post_init__(self) -> None:
        if 0 <= self.low <= self.value <= self.high < math.inf and 0 < self.confidence < 1:
            return  # tens of thousands are made for one table: messages are built only if something is wrong
        for name, number in (("An estimate", self.value), ("The low end", self.low), ("The high end", self.high)):
            if not math.isfinite(number):
                raise NotFiniteError(name, number)
        require_not_negative(value=self.value, low=self.low, high=self.high)
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} is not between {self.low} and {self.high}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, got {self.confidence}")

    @classmethod
    def exactly(cls, value: float) -> "Interval":
        """A value without uncertainty."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def within_factor(cls, value: float, factor: float) -> "Interval":
        """The interval from value / factor to value · factor."""
        if factor < 1:
            raise ValueError(f"factor must be at least 1, got {factor}")
        return cls(value=value, low=value / factor, high=value * factor)

    @classmethod
    def from_median(cls, values: Sequence[float]) -> "Interval":
        """The median, which is robust to outliers, with its distribution-free 90% interval.

        The ends are order statistics: of n values in order, the j-th smallest and the j-th largest enclose the median
        with probability 1 − 2·P(Binomial(n, ½) < j), whatever the distribution; j ≈ (n − 1.645·√n)/2 gives 90%. Below
        five values even the smallest and the largest enclose it with less.
        """
        if not values:
            raise ValueError("a median needs at least one value")
        ordered, n = sorted(values), len(values)
        j = max(1, math.floor((n - 1.645 * math.sqrt(n)) / 2))
        return cls(value=median(ordered), low=ordered[j - 1], high=ordered[-j])

    def __add__(self, other: "Interval") -> "Interval":
        """The sum, as if both errors were fully correlated: never too narrow for independent errors."""
        return Interval(
            value=self.value + other.value,
            low=self.low + other.low,
            high=self.high + other.high,
            confidence=min(self.confidence, other.confidence),
        )

    def __mul__(self, factor: float) -> "Interval":
        """The interval scaled by an exactly known factor."""
        if not factor >= 0:
            raise ValueError(f"factor must not be negative, got {factor}")
        return Interval(
            value=self.value * factor,
            low=self.low * factor,
            high=self.high * factor,
            confidence=self.confidence,
        )

    def at_confidence(self, confidence: float) -> "Interval":
        """The same estimate at another confidence, if the logarithm has a normal error on either side.

            high' = value·(high/value)^(z'/z),   z of a confidence c is the (1 + c)/2 quantile of the normal

        A low end of zero stays zero.
        """
        if confidence == self.confidence or not self.value:
            return self
        ratio = NormalDist().inv_cdf((1 + confidence) / 2) / NormalDist().inv_cdf((1 + self.confidence) / 2)
        return Interval(
            value=self.value,
            low=self.value * (self.low / self.value) ** ratio,
            high=self.value * (self.high / self.value) ** ratio,
            confidence=confidence,
        )

    def upper_bound(self, confidence: float) -> float:
        """The bound that the true value does not exceed with this confidence.

            value·(high/value)^(z'/z),   z' is the `confidence` quantile of the normal, z that of the high end

        An interval has two sides and a bound has one: 5% of the values lie above the high end of a 90% interval, so as
        a bound it holds with 95%. Only the upper side counts, so the low end does not matter, and up to a confidence of
        one half the bound is the value. A value of zero has no logarithm: its bound is the high end.
        """
        return upper_bounds([self.value], [self.high], confidence, own=self.confidence)[0]

    def probability_above(self, limit: float) -> float:
        """The probability that the true value exceeds a limit, if the logarithm has a normal error on either side.

            1 − Φ(z·log(limit/value) / log(end/value)),   the end is the high one above the value, the low one below

        A value without uncertainty is above the limit or is not.
        """
        if limit <= 0 or not self.value:
            return float(self.value > limit)
        z = NormalDist().inv_cdf((1 + self.confidence) / 2)
        end = self.high if limit >= self.value else self.low
        if end <= 0 or end == self.value:
            return float(self.value > limit)
        return 1 - NormalDist().cdf(
            z * abs(math.log(limit / self.value) / math.log(end / self.value)) * (1 if limit >= self.value else -1)
        )

    def overlaps(self, other: "Interval") -> bool:
        return self.low <= other.high and other.low <= self.high
