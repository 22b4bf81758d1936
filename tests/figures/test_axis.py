"""Ticks are few, round and inside the axis; pixels follow the scale."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.figures.axis import (
    Quantity,
    build_axis,
    build_axis_with_ticks,
    format_tick_duration,
    format_tick_usd,
    needs_log_scale,
)
from trainfare.figures.look import text_width

quantities: st.SearchStrategy[Quantity] = st.sampled_from(["seconds", "usd", "number"])
values = st.lists(st.floats(1e-3, 1e7), min_size=1, max_size=10)


@given(quantities, values, st.booleans(), st.booleans(), st.sampled_from([250.0, 520.0]))
def test_every_value_is_inside_and_no_labels_touch(
    quantity: Quantity, values: list[float], logarithmic: bool, vertical: bool, length: float
) -> None:
    made = build_axis(quantity, values, length=length, logarithmic=logarithmic, vertical=vertical)
    assert all(0 <= made.pixel(value) <= length for value in values)
    places = [(made.pixel(value), 6.0 if vertical else text_width(word) / 2) for value, word in made.ticks]
    assert all(right - left >= half + other for (left, half), (right, other) in pairwise(places))
    assert all(made.low <= value <= made.high for value, _ in made.ticks)
    assert len(made.ticks) <= 20
    assert len({word for _, word in made.ticks}) == len(made.ticks)


@given(values)
def test_a_linear_axis_starts_at_zero(values: list[float]) -> None:
    made = build_axis("usd", values, length=500)
    assert made.low == 0
    assert made.ticks[0] == (0.0, "0")


@given(quantities, values)
def test_every_axis_has_at_least_two_ticks(quantity: Quantity, values: list[float]) -> None:
    for logarithmic in (False, True):
        made = build_axis(quantity, values, length=500, logarithmic=logarithmic, vertical=True)
        assert len(made.ticks) >= 2


def test_a_logarithmic_axis_gives_equal_ratios_equal_lengths() -> None:
    made = build_axis("number", [1, 1000], length=300, logarithmic=True)
    assert made.pixel(10) - made.pixel(1) == pytest.approx(made.pixel(1000) - made.pixel(100))


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0.01, ["0", "5 s", "10 s"]),
        (0.5, ["0", "5 min", "10 min"]),
        (7, ["0", "1 h", "2 h"]),
        (200, ["0", "1 d", "2 d"]),
    ],
)
def test_ticks_of_time_are_in_units_of_a_clock(hours: float, words: list[str]) -> None:
    made = build_axis("seconds", [hours * 3600], length=600)
    assert [word for _, word in made.ticks][:3] == words


def test_a_long_logarithmic_axis_of_time_uses_several_units() -> None:
    made = build_axis("seconds", [1, 30 * 86400], length=500, logarithmic=True)
    assert {"1 s", "1 min", "1 h", "1 d"} <= {word for _, word in made.ticks}


def test_the_format_of_ticks() -> None:
    assert [format_tick_duration(s) for s in (0.05, 30, 900, 5400, 86400)] == [
        "50 ms",
        "30 s",
        "15 min",
        "1.5 h",
        "1 d",
    ]
    assert [format_tick_usd(usd) for usd in (0, 0.05, 20, 1500)] == ["0", "$0.05", "$20", "$1,500"]


def test_a_wide_range_needs_a_logarithmic_axis() -> None:
    assert needs_log_scale([1, 9])
    assert not needs_log_scale([1, 7])
    assert not needs_log_scale([5])


def test_batch_sizes_have_their_own_ticks() -> None:
    made = build_axis_with_ticks([32, 64, 2048], [32, 64, 2048], length=400)
    assert [word for _, word in made.ticks] == ["32", "64", "2,048"]


def test_a_count_has_ticks_only_at_integers() -> None:
    assert [word for _, word in build_axis("count", [2.0], length=600).ticks] == ["0", "1", "2"]


def test_values_can_be_negative() -> None:
    made = build_axis("number", [-2.0, 3.0], length=300, from_zero=False, vertical=True)
    assert made.low < -2
    assert "-2" in [word for _, word in made.ticks]


def test_the_specification_has_the_tick_labels() -> None:
    told = build_axis("usd", [10.0], length=300).encoding("usd", "cost")["axis"]
    assert told["values"][0] == 0
    assert told["labelExpr"].startswith("['0', ")
