"""What a time costs."""

from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.units import SECONDS_PER_HOUR


def usd(seconds: Interval, candidate: Candidate) -> Interval:
    """price × time × nodes; the price is known to the cent, so only the time is uncertain."""
    return seconds * (candidate.usd_per_hour / SECONDS_PER_HOUR)
