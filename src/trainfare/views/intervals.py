"""Times and costs with their 90% intervals."""

from trainfare.model.interval import Interval
from trainfare.units import format_duration, format_usd


def time_with_interval(seconds: Interval) -> str:
    """`1 min 20 s (1 min – 2 min)`."""
    return f"{format_duration(seconds.value)} ({format_duration(seconds.low)} – {format_duration(seconds.high)})"


def usd_with_interval(usd: Interval) -> str:
    """`$0.24 ($0.21 – $0.28)`; without an interval if it is free."""
    return format_usd(usd.value) + (f" ({format_usd(usd.low)} – {format_usd(usd.high)})" if usd.high else "")
