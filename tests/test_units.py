from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.units import format_age, format_duration, format_large, format_usd, parse_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3.4e-6, "3.4 µs"),
        (0.00314, "3.14 ms"),
        (0.214, "214 ms"),
        (0.9996, "1 s"),
        (3.14, "3.1 s"),
        (14.2, "14.2 s"),
        (150, "2 min"),
        (6000, "1 h 40 min"),
        (24000, "6 h 40 min"),
        (266400, "3 d 2 h"),
    ],
)
def test_seconds_read_as_a_person_would_say_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0, "0 $"), (0.00001, "< 0.0001 $"), (0.0312, "0.031 $"), (0.5, "0.50 $"), (3.1, "3.10 $"), (1312, "1 312.00 $")],
)
def test_dollars_keep_their_cents_and_small_sums_two_digits(usd: float, text: str) -> None:
    assert format_usd(usd) == text


@pytest.mark.parametrize(
    ("number", "text"), [(950, "950"), (9999, "9999"), (11_200_000, "11.2 M"), (52_000, "52 k"), (1.31e12, "1.31 T")]
)
def test_counts_have_three_digits(number: float, text: str) -> None:
    assert format_large(number) == text


@pytest.mark.parametrize(
    ("days", "text"), [(0, "today"), (1, "1 day old"), (6, "6 days old"), (86, "2 months old"), (431, "14 months old")]
)
def test_age_is_in_the_unit_a_person_would_use(days: int, text: str) -> None:
    day = date(2026, 11, 16)
    assert format_age(day - timedelta(days), day) == text


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15min", 900), ("2h 30m", 9000), ("1.5d", 129600)]
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3h", "0", "3 hours ago", "nan", "inf", "1h-2h"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.floats(1e-6, 1e8), st.floats(1e-6, 1e8))
def test_formatting_never_fails_and_has_a_unit(seconds: float, usd: float) -> None:
    assert " " in format_duration(seconds)
    assert format_usd(usd).endswith("$")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.00214, "2.14 ms"),
        (0.0214, "0.0214 s"),
        (3.418, "3.42 s"),
        (59.97, "1 min 00 s"),
        (752, "12 min 32 s"),
        (3599.7, "1 h 00 min"),
        (18360, "5 h 06 min"),
    ],
)
def test_a_formula_shows_times_to_the_second(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
