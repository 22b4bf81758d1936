"""Numbers as people read them, and durations as people write them."""

import math
import re
from datetime import date

SECONDS_PER_HOUR = 3600.0
BYTES_PER_GIB = 2**30

_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
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


def format_seconds(seconds: float) -> str:
    """About three digits, in the largest unit that keeps them: 214 ms, 3.1 s, 16 min, 6 h 40 min, 3 d 2 h."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s" if seconds >= 9.995 else f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def spell_seconds(seconds: float) -> str:
    """As a formula shows it, to the second below an hour: 3.42 s, 12 min 32 s, 5 h 06 min."""
    if seconds < 59.95:
        return f"{seconds:.3g} s" if seconds >= 0.01 or seconds == 0 else f"{seconds * 1e3:.3g} ms"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{round(seconds / 60) // 60} h {round(seconds / 60) % 60:02d} min"


def format_usd(usd: float) -> str:
    """Cents from a dollar on, two significant digits below: 12.24 $, 0.031 $."""
    if usd >= 0.995:
        return f"{usd:,.2f} $".replace(",", " ")
    if usd < 1e-4:
        return "< 0.0001 $" if usd > 0 else "0 $"
    return f"{usd:.{1 - math.floor(math.log10(usd))}f} $"


def format_count(number: float) -> str:
    """11.2 M, 1.31 T, 950: three digits and the letter of the thousands."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 10 * size or number >= size >= 1e6:
            return f"{number / size:.3g} {letter}"
    return f"{number:.0f}"


def format_age(seen_on: date, today: date) -> str:
    """How long ago, in the unit in which a person would say it."""
    days = (today - seen_on).days
    if days < 0:
        return "from the future"
    if days == 0:
        return "today"
    for size, unit in ((365, "year"), (30, "month"), (7, "week"), (1, "day")):
        if days >= 2 * size or size == 1:
            count = days // size
            return f"{count} {unit}{'s' if count != 1 else ''} old"
    raise AssertionError("unreachable: the last unit takes every count of days")
