"""Numbers as people read them, and durations as people write them."""

import math
import re
from datetime import date, datetime
from decimal import Decimal

SECONDS_PER_HOUR = 3600.0
BYTES_PER_GIB = 2**30
BYTES_PER_MEGABIT = 125_000.0

_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SPREAD_UNITS = (
    (36_000.0, 3600.0, "h"),
    (600.0, 60.0, "min"),
    (0.9995, 1.0, "s"),
    (0.9995e-3, 1e-3, "ms"),
    (0.0, 1e-6, "µs"),
)
"""The shortest duration with a spread that is shown in a unit, the seconds of the unit, and its name."""
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?\s*(?:s|min|m|h|d)\s*)+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds of "90s", "1.5h", "2h 30min" or a bare number of seconds."""
    text = text.strip().lower()
    try:
        seconds = float(text)
    except ValueError:
        if not _DURATION.fullmatch(text):
            raise ValueError(f"{text!r} is not a duration; write 90s, 15min, 2h or 1d") from None
        seconds = sum(float(amount) * _UNIT_SECONDS[unit] for amount, unit in _PART.findall(text))
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError(f"a duration must be positive, got {text!r}")
    return seconds


def format_duration(seconds: float) -> str:
    """The two largest units that matter: 214 ms, 3.1 s, 42 s, 12 min 32 s, 6 h 40 min, 3 d 2 h.

    The second unit is left out if it is zero: 2 h.
    """
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995e-3:
        return f"{_three_digits(seconds * 1e6)} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 59.5:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if round(seconds) < 3600:
        return _two_units(round(seconds), 60, "min", "s")
    if round(seconds / 60) < 48 * 60:
        return _two_units(round(seconds / 60), 60, "h", "min")
    return _two_units(round(seconds / 3600), 24, "d", "h")


def _two_units(count: int, size: int, large: str, small: str) -> str:
    full, rest = divmod(count, size)
    return f"{full:,} {large}" + (f" {rest} {small}" if rest else "")


def format_spread(seconds: float, spread: float) -> str:
    """A duration and how far it varies, in one unit and with the same decimals: 214 ms ± 2 ms, 0.9 ms ± 1.1 ms.

    The larger of the two has at most three digits; decimals beyond two digits of the spread are left out.
    """
    largest = max(seconds, spread)
    size, unit = next((size, unit) for shortest, size, unit in _SPREAD_UNITS if largest >= shortest)
    decimals = max(0, 2 - _exponent(largest / size))
    if spread > 0:
        decimals = min(decimals, max(0, 1 - _exponent(spread / size)))
    return f"{seconds / size:,.{decimals}f} {unit} ± {spread / size:,.{decimals}f} {unit}"


def _exponent(number: float) -> int:
    """The power of ten of the first digit, as rounded to three digits: 2 for 214, 0 for 9.99, 1 for 9.996."""
    return int(f"{number:.2e}".partition("e")[2]) if number > 0 else 0


def write_duration(seconds: float) -> str:
    """A duration as a person types it, which `parse_duration` reads back: 45s, 2h12m, 3d2h. Rounded up."""
    rounded = math.ceil(seconds)
    if rounded >= 3600:
        rounded = math.ceil(seconds / 60) * 60
    if rounded >= 48 * 3600:
        rounded = math.ceil(seconds / 3600) * 3600
    days, rest = divmod(rounded, 86400) if rounded >= 48 * 3600 else (0, rounded)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (left, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "1s"


def format_usd(usd: float) -> str:
    """Cents from a dollar on, two significant digits below: $12.24, $1,392.00, $0.031."""
    if usd < 0:
        return f"-{format_usd(-usd)}" if usd <= -1e-4 else ">-$0.0001"
    if usd >= 0.995:
        return f"${usd:,.2f}"
    if usd < 1e-4:
        return "<$0.0001" if usd > 0 else "$0"
    return f"${usd:.{1 - math.floor(math.log10(usd))}f}"


def format_usd_per_hour(usd: float) -> str:
    """A price with four significant digits, and cents at least: $0.90/h, $0.526/h, $1.006/h, $142.42/h."""
    decimals = max(2, 3 - math.floor(math.log10(usd))) if usd > 0 else 2
    whole, _, fraction = f"{usd:,.{decimals}f}".partition(".")
    return f"${whole}.{fraction.rstrip('0').ljust(2, '0')}/h"


def format_count(count: float) -> str:
    """A count of things: 7, 1,392; an expected count below ten keeps a digit: 0.4, 1.6."""
    if isinstance(count, int) or count >= 9.5:
        return f"{count:,.0f}"
    return f"{count:.1f}" if count >= 0.95 else f"{count:.1g}"


def format_large(number: float) -> str:
    """Three digits and the letter of the thousands, for parameters, bytes and FLOPs: 11.2M, 1.31T, 950."""
    for smallest, size, letter in (
        (0.9995e12, 1e12, "T"),
        (0.9995e9, 1e9, "G"),
        (0.9995e6, 1e6, "M"),
        (9999.5, 1e3, "k"),
    ):
        if number >= smallest:
            return f"{format_number(number / size)}{letter}"
    return f"{number:,.0f}"


def format_size(number: float) -> str:
    """A number of bytes: `42.7 MB`."""
    text = format_large(number)
    return f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def format_tokens(tokens: float) -> str:
    """A number of tokens as the papers write it, with B for a thousand millions: 300B tokens, 1.5M tokens."""
    return f"{format_large(tokens).replace('G', 'B')} tokens"


def format_number(number: float) -> str:
    """Three digits and never a power of ten: 0.53, 21.4, 724, 8,030."""
    return f"{number:,.0f}" if abs(number) >= 99.5 else _three_digits(number)


def _three_digits(number: float) -> str:
    """Three significant digits without an exponent."""
    return f"{Decimal(f'{number:.3g}'):f}"


def format_percent(share: float) -> str:
    """Three digits; less than all is never shown as 100%: 90%, 99.5%, 99.9999%, 1,250%."""
    if 0.9995 <= share < 1:
        return f"{100 * share:.12g}%"
    return f"{_three_digits(100 * share) if share < 1 else format_number(100 * share)}%"


def format_change(share: float) -> str:
    """A relative difference with its sign and one decimal: +38.2%, -0.4%, 0.0%, +1,250.0%."""
    text = f"{100 * share:+,.1f}%"
    return "0.0%" if text in ("+0.0%", "-0.0%") else text


def format_ratio(ratio: float) -> str:
    """Two digits, or three next to one: 0.5x, 1.04x, 3.4x, 120x."""
    if ratio >= 99.5:
        return f"{ratio:,.0f}x"
    return f"{ratio:.3g}x" if 0.995 <= ratio < 1.095 else f"{ratio:.2g}x"


def plural(count: int, noun: str, several: str | None = None) -> str:
    """The count and its noun: 1 machine type, 1,312 candidates."""
    return f"{format_count(count)} {noun if count == 1 else several or noun + 's'}"


def format_epochs(epochs: float) -> str:
    """A number of epochs, of which the last may be incomplete: 1 epoch, 1,200 epochs, 1.5 epochs."""
    return plural(int(epochs), "epoch") if epochs == int(epochs) else f"{format_number(epochs)} epochs"


def format_age(seen_on: date, today: date) -> str:
    """The age in the unit that a person would use: 6 days old, 2 months old."""
    days = (today - seen_on).days
    if days < 0:
        return "from the future"
    if days == 0:
        return "today"
    for size, unit in ((365, "year"), (30, "month"), (7, "week"), (1, "day")):
        if days >= 2 * size or size == 1:
            return f"{plural(days // size, unit)} old"
    raise AssertionError("unreachable: the last unit accepts every number of days")


def format_ago(then: datetime, now: datetime) -> str:
    """The time since `then` in the largest unit that has passed: 3 minutes ago, 1 day ago."""
    seconds = (now - then).total_seconds()
    if seconds < 0:
        return "in the future"
    for size, unit in ((86400 * 365, "year"), (86400 * 7, "week"), (86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{plural(int(seconds // size), unit)} ago"
    return "just now"
