"""A number as it is printed: it stands for every number that would be rounded to it.

What is computed from printed numbers is a range too. Two of them agree when their ranges touch: that is all that
the rounding of the page lets anybody check.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal


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

    def agrees_with(self, other: "Printed") -> bool:
        slack = 1e-9 * max(abs(self.value), abs(other.value))
        return self.low <= other.high + slack and other.low <= self.high + slack

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
