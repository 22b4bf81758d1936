import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.papers.printed import PrintedNumber

numbers = st.decimals(-1000, 1000, places=3)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("0.05", 0.045, 0.055), ("0.50", 0.495, 0.505), ("14", 13.5, 14.5), ("1.26E-3", 0.001255, 0.001265)],
)
def test_a_printed_number_is_the_range_of_numbers_rounded_to_it(text: str, low: float, high: float) -> None:
    read = PrintedNumber.read(text)
    assert (read.low, read.high) == pytest.approx((low, high))


@given(numbers, st.integers(0, 3))
def test_a_number_agrees_with_its_rounded_value(number: object, places: int) -> None:
    value = float(str(number))
    assert PrintedNumber.read(f"{value:.{places}f}").agrees_with(PrintedNumber.exactly(value))


def test_neighbours_in_the_last_digit_agree_and_the_next_do_not() -> None:
    assert PrintedNumber.read("0.05").agrees_with(PrintedNumber.read("0.06"))
    assert not PrintedNumber.read("0.05").agrees_with(PrintedNumber.read("0.07"))


@given(numbers, numbers, st.sampled_from([operator.add, operator.sub, operator.mul]))
def test_a_result_contains_the_results_of_all_numbers_in_the_ranges(
    a: object, b: object, apply: Callable[[Any, Any], Any]
) -> None:
    left, right = PrintedNumber.read(str(a)), PrintedNumber.read(str(b))
    found = apply(left, right)
    for x in (left.low, left.value, left.high):
        for y in (right.low, right.value, right.high):
            assert found.low - 1e-9 <= apply(x, y) <= found.high + 1e-9


@given(numbers)
def test_an_absolute_value_is_never_negative(a: object) -> None:
    read = PrintedNumber.read(str(a))
    assert 0 <= abs(read).low <= abs(read).value <= abs(read).high


def test_a_printed_number_survives_conversion_to_an_interval() -> None:
    read = PrintedNumber.read("13.69")
    assert PrintedNumber.from_interval(read.interval) == read
