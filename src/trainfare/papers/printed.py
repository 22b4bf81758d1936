"""A number as it is printed: it stands for every number that would be rounded to it.

What is computed from printed numbers is a range too. Two of them agree when their ranges touch: that is all that
the rounding of the page lets anybody check.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

from trainfare.model.interval import Interval


@dataclass(frozen=True, slots=True)
class Printed:
    """A value between the ends that rounding allows."""

    value: float
    low: float
    high: float

    @classmethod
    def read(cls, text: str) -> "Printed":
        """`0.05` is anything from 0.045 to 0.055; `1.2k` and the like are not numbers and are refused."""
        number = Decimal(text.replace(" ", ""))
        exponent = number.as_tuple().exponent
        if not isinstance(exponent, int):
            raise ValueError(f"{text} is no printed number")
        half = float(Decimal(1).scaleb(exponent)) / 2
        value = float(number)
        return cls(value, value - half, value + half)

    @classmethod
    def exactly(cls, value: float) -> "Printed":
        """A count, a price list's price, a number of our own."""
        return cls(value, value, value)

    @classmethod
    def of(cls, interval: Interval) -> "Printed":
        """What an estimator made of printed numbers."""
        return cls(interval.value, interval.low, interval.high)

    @property
    def interval(self) -> Interval:
        """For the estimators, whose sums and products keep the ends of a range; a time of 0.00 s ends at zero."""
        return Interval(value=self.value, low=max(0.0, self.low), high=self.high)

    def agrees_with(self, other: "Printed") -> bool:
        slack = 1e-9 * max(abs(self.value), abs(other.value))
        return self.low <= other.high + slack and other.low <= self.high + slack

    def __abs__(self) -> "Printed":
        ends = (abs(self.low), abs(self.high))
        return Printed(abs(self.value), 0.0 if self.low <= 0 <= self.high else min(ends), max(ends))

    def __add__(self, other: "Printed | float") -> "Printed":
        return _combine(lambda a, b: a + b, self, other)

    def __sub__(self, other: "Printed | float") -> "Printed":
        return _combine(lambda a, b: a - b, self, other)

    def __mul__(self, other: "Printed | float") -> "Printed":
        return _combine(lambda a, b: a * b, self, other)

    def __truediv__(self, other: "Printed | float") -> "Printed":
        return _combine(lambda a, b: a / b, self, other)


def _combine(operation: Callable[[float, float], float], left: Printed, right: Printed | float) -> Printed:
    """All four operations are monotone in each argument (where a divisor keeps its sign): the ends are at ends."""
    if not isinstance(right, Printed):
        right = Printed.exactly(right)
    ends = [operation(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return Printed(operation(left.value, right.value), min(ends), max(ends))


def across(function: Callable[..., float], *printed: Printed) -> Printed:
    """What an estimator that takes plain numbers, monotone in each, makes of all that the page may mean."""
    ends = [function(*corner) for corner in product(*((one.low, one.high) for one in printed))]
    return Printed(function(*(one.value for one in printed)), min(ends), max(ends))
