"""Numbers as people read them, and durations as people write them."""

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.units import (
    format_age,
    format_ago,
    format_change,
    format_count,
    format_duration,
    format_large,
    format_number,
    format_percent,
    format_ratio,
    format_spread,
    format_usd,
    format_usd_per_hour,
    parse_duration,
    plural,
    write_duration,
)

durations = st.floats(1e-9, 1e9)
UNIT_SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_shown(text: str) -> float:
    """The seconds of a formatted duration."""
    words = text.replace(",", "").split()
    return sum(float(count) * UNIT_SECONDS[unit] for count, unit in zip(words[::2], words[1::2], strict=True))


def usd_shown(text: str) -> float:
    """The dollars of a formatted amount; those of a bound lie just inside it."""
    value = float(re.sub(r"[<>$,]", "", text))
    return value * 0.999 if text[0] in "<>" else value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (3.4e-6, "3.4 µs"),
        (0.00099996, "1 ms"),
        (0.00314, "3.14 ms"),
        (0.214, "214 ms"),
        (0.9996, "1 s"),
        (3.14, "3.1 s"),
        (9.96, "10 s"),
        (14.2, "14 s"),
        (59.4, "59 s"),
        (59.97, "1 min"),
        (150, "2 min 30 s"),
        (752, "12 min 32 s"),
        (3599.7, "1 h"),
        (6000, "1 h 40 min"),
        (18360, "5 h 6 min"),
        (24000, "6 h 40 min"),
        (47.999 * 3600, "2 d"),
        (266400, "3 d 2 h"),
        (1234 * 86400, "1,234 d"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(durations)
def test_a_duration_never_shows_a_full_larger_unit_or_an_exponent(seconds: float) -> None:
    text = format_duration(seconds)
    assert not re.search(r"\b(1,?000 (µs|ms)|60 (s|min))\b", text)
    assert "e" not in text


@given(durations)
def test_a_duration_is_shown_with_enough_digits(seconds: float) -> None:
    tolerance = 0.0051 if seconds < 0.9995 else 0.051 if seconds < 59.5 else 0.0125
    assert seconds_shown(format_duration(seconds)) == pytest.approx(seconds, rel=tolerance)


@given(durations, durations)
def test_a_longer_duration_is_never_shown_as_shorter(a: float, b: float) -> None:
    shorter, longer = sorted((a, b))
    assert seconds_shown(format_duration(shorter)) <= seconds_shown(format_duration(longer)) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("seconds", "spread", "text"),
    [
        (0.214, 0.002, "214 ms ± 2 ms"),
        (0.000933, 0.0011, "0.9 ms ± 1.1 ms"),
        (0.00666, 0.000077, "6.66 ms ± 0.08 ms"),
        (0.2, 0.0, "200 ms ± 0 ms"),
        (0.2, 1e-7, "200 ms ± 0 ms"),
        (0.00000042, 0.0, "0.420 µs ± 0.000 µs"),
        (0.9994e-3, 0.0, "999 µs ± 0 µs"),
        (0.9999e-3, 0.0, "1.00 ms ± 0.00 ms"),
        (0.9, 1.2, "0.9 s ± 1.2 s"),
        (42.0, 1.24, "42.0 s ± 1.2 s"),
        (132.0, 4.0, "132 s ± 4 s"),
        (1000.0, 90.0, "16.7 min ± 1.5 min"),
        (40_000.0, 3600.0, "11.1 h ± 1.0 h"),
        (0.0, 0.0, "0.00 µs ± 0.00 µs"),
    ],
)
def test_a_duration_and_its_spread_have_one_unit_and_the_same_decimals(
    seconds: float, spread: float, text: str
) -> None:
    assert format_spread(seconds, spread) == text


@given(durations, st.floats(0, 1e9))
def test_a_spread_is_never_rounded_by_more_than_a_tenth_of_itself_or_a_hundredth_of_the_duration(
    seconds: float, spread: float
) -> None:
    shown, shown_spread = format_spread(seconds, spread).split(" ± ")
    assert shown.split()[1] == shown_spread.split()[1]
    assert len(shown.partition(".")[2]) == len(shown_spread.partition(".")[2])
    tolerance = max(0.051 * spread, 0.0051 * max(seconds, spread))
    for exact, text in ((seconds, shown), (spread, shown_spread)):
        assert seconds_shown(text) == pytest.approx(exact, abs=tolerance)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1s"), (45, "45s"), (45.1, "46s"), (90, "1m30s"), (3599.2, "1h"), (7861, "2h12m"), (266399, "3d2h")],
)
def test_a_duration_is_written_as_a_person_types_it(seconds: float, text: str) -> None:
    assert write_duration(seconds) == text


@given(st.floats(0, 1e9))
def test_a_written_duration_is_read_back_rounded_up_to_its_last_unit(seconds: float) -> None:
    read = parse_duration(write_duration(seconds))
    unit = 1 if seconds <= 3599 else 60 if seconds <= 48 * 3600 - 60 else 3600
    assert seconds <= read <= max(1, seconds + unit)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15min", 900), ("2h 30m", 9000), ("1.5d", 129600), (" 2H ", 7200)]
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3h", "0", "3 hours ago", "nan", "inf", "1h-2h", "٣s"])
def test_text_that_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0, "$0"),
        (0.00003, "<$0.0001"),
        (0.00012, "$0.00012"),
        (0.0312, "$0.031"),
        (0.526, "$0.53"),
        (0.996, "$1.00"),
        (12.24, "$12.24"),
        (1392, "$1,392.00"),
        (-3.5, "-$3.50"),
        (-0.00003, ">-$0.0001"),
    ],
)
def test_dollars_have_cents_from_one_dollar_on_and_two_digits_below(usd: float, text: str) -> None:
    assert format_usd(usd) == text


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_more_dollars_are_never_shown_as_fewer(a: float, b: float) -> None:
    less, more = sorted((a, b))
    assert usd_shown(format_usd(less)) <= usd_shown(format_usd(more))


@given(st.floats(1e-4, 1e12))
def test_dollars_are_shown_to_the_cent_or_with_two_digits(usd: float) -> None:
    shown = usd_shown(format_usd(usd))
    assert abs(shown - usd) <= (0.005 + 1e-9 * usd if usd >= 0.995 else 0.051 * usd)
    assert usd_shown(format_usd(-usd)) == -shown


@pytest.mark.parametrize(
    ("usd", "text"),
    [(32.7726, "$32.77/h"), (0.526, "$0.526/h"), (0.12047, "$0.1205/h"), (1.006, "$1.006/h"), (2.0, "$2.00/h")],
)
def test_a_price_has_four_digits_and_cents_at_least(usd: float, text: str) -> None:
    assert format_usd_per_hour(usd) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (7, "7"), (7.0, "7.0"), (1392, "1,392"), (0.4, "0.4"), (1.62, "1.6"), (9.6, "10")]
)
def test_an_expected_count_below_ten_keeps_a_digit(count: float, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (950, "950"),
        (9999, "9,999"),
        (9999.7, "10k"),
        (52_000, "52k"),
        (999_600, "1M"),
        (11_200_000, "11.2M"),
        (999_700_000, "1G"),
        (1.31e12, "1.31T"),
        (2.5e15, "2,500T"),
    ],
)
def test_large_numbers_have_three_digits_and_a_letter(number: float, text: str) -> None:
    assert format_large(number) == text


@given(st.floats(0, 1e18), st.floats(0, 1e18))
def test_larger_numbers_are_never_shown_as_smaller(a: float, b: float) -> None:
    def shown(text: str) -> float:
        letters = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
        return float(text.rstrip("kMGT").replace(",", "")) * letters.get(text[-1], 1.0)

    less, more = sorted((a, b))
    assert shown(format_large(less)) <= shown(format_large(more)) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.000012, "0.000012"), (0.53, "0.53"), (21.44, "21.4"), (99.7, "100"), (724, "724"), (8030, "8,030")],
)
def test_numbers_have_three_digits_and_no_exponent(number: float, text: str) -> None:
    assert format_number(number) == text


@given(st.floats(-1e12, 1e12))
def test_a_formatted_number_is_within_half_of_its_third_digit(number: float) -> None:
    text = format_number(number)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(number, rel=0.0051)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (0.9, "90%"),
        (0.995, "99.5%"),
        (0.999999, "99.9999%"),
        (1.0, "100%"),
        (1.234567, "123%"),
        (12.5, "1,250%"),
        (0.0000001, "0.00001%"),
    ],
)
def test_percentages(share: float, text: str) -> None:
    assert format_percent(share) == text


@given(st.floats(0, 1 - 1e-9))
def test_less_than_all_is_never_shown_as_100_percent(share: float) -> None:
    assert float(format_percent(share).rstrip("%")) < 100


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.5, "0.5x"), (0.994, "0.99x"), (1.04, "1.04x"), (3.42, "3.4x"), (99.6, "100x"), (1234, "1,234x")],
)
def test_ratios_have_two_digits_or_three_next_to_one(ratio: float, text: str) -> None:
    assert format_ratio(ratio) == text


def test_a_count_agrees_with_its_noun() -> None:
    assert plural(0, "machine") == "0 machines"
    assert plural(1, "machine type") == "1 machine type"
    assert plural(1312, "candidate") == "1,312 candidates"
    assert plural(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-1, "from the future"),
        (0, "today"),
        (1, "1 day old"),
        (6, "6 days old"),
        (14, "2 weeks old"),
        (86, "2 months old"),
        (431, "14 months old"),
        (730, "2 years old"),
    ],
)
def test_an_age_is_in_the_unit_that_a_person_would_use(days: int, text: str) -> None:
    day = date(2026, 11, 16)
    assert format_age(day - timedelta(days), day) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "in the future"), (5, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (90_000, "1 day ago")],
)
def test_ago_has_the_largest_unit_that_has_passed(seconds: float, text: str) -> None:
    now = datetime(2026, 11, 16, 12, tzinfo=UTC)
    assert format_ago(now - timedelta(seconds=seconds), now) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.382, "+38.2%"), (-0.0043, "-0.4%"), (0.0, "0.0%"), (-0.0004, "0.0%"), (12.5, "+1,250.0%")],
)
def test_a_change_has_a_sign(share: float, text: str) -> None:
    assert format_change(share) == text
