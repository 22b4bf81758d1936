"""Printed numbers: each stands for the range of numbers that are rounded to it.

A number that is computed from printed numbers is a range too. Two of them agree if their ranges touch: the rounding of
a page allows no stricter check.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

from trainfare.model.interval import Interval


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A value and the ends of its range."""

    value: float
    low: float
    high: float

    @classmethod
    def read(cls, text: str) -> "PrintedNumber":
        """The number of a text: `0.05` is anything from 0.045 to 0.055. A text such as `1.2k` is refused."""
        number = Decimal(text.replace(" ", ""))
        exponent = number.as_tuple().exponent
        if not isinstance(exponent, int):
            raise ValueError(f"{text} is not a printed number")
        half = float(Decimal(1).scaleb(exponent)) / 2
        value = float(number)
        return cls(value, value - half, value + half)

    @classmethod
    def exactly(cls, value: float) -> "PrintedNumber":
        """A number without rounding: a count, a listed price, or one of ours."""
        return cls(value, value, value)

    @classmethod
    def from_interval(cls, interval: Interval) -> "PrintedNumber":
        """The result of an estimator."""
        return cls(interval.value, interval.low, interval.high)

    @property
    def interval(self) -> Interval:
        """The range as an Interval for the estimators; a time of 0.00 s starts at zero."""
        return Interval(value=self.value, low=max(0.0, self.low), high=self.high)

    def agrees_with(self, other: "PrintedNumber") -> bool:
        """True if the ranges touch."""
        slack = 1e-9 * max(abs(self.value), abs(other.value))
        return self.low <= other.high + slack and other.low <= self.high + slack

    def __abs__(self) -> "PrintedNumber":
        ends = (abs(self.low), abs(self.high))
        return PrintedNumber(abs(self.value), 0.0 if self.low <= 0 <= self.high else min(ends), max(ends))

    def __add__(self, other: "PrintedNumber | float") -> "PrintedNumber":
        return _combine(lambda a, b: a + b, self, other)

    def __sub__(self, other: "PrintedNumber | float") -> "PrintedNumber":
        return _combine(lambda a, b: a - b, self, other)

    def __mul__(self, other: "PrintedNumber | float") -> "PrintedNumber":
        return _combine(lambda a, b: a * b, self, other)

    def __truediv__(self, other: "PrintedNumber | float") -> "PrintedNumber":
        return _combine(lambda a, b: a / b, self, other)


def _combine(
    operation: Callable[[float, float], float], left: PrintedNumber, right: PrintedNumber | float
) -> PrintedNumber:
    """The range of a result.

    All four operations are monotone in each argument if a divisor keeps its sign, so the ends of the result come from
    ends of the arguments.
    """
    if not isinstance(right, PrintedNumber):
        right = PrintedNumber.exactly(right)
    ends = [operation(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return PrintedNumber(operation(left.value, right.value), min(ends), max(ends))


def apply_to_ranges(function: Callable[..., float], *printed: PrintedNumber) -> PrintedNumber:
    """The range of a function of printed numbers that is monotone in each of them."""
    ends = [function(*corner) for corner in product(*((one.low, one.high) for one in printed))]
    return PrintedNumber(function(*(one.value for one in printed)), min(ends), max(ends))
