"""The last safe moment on spot: the one rule that plans promise, runs follow, and replays are judged by.

At every moment a change to on demand must still end before the deadline,

    t + R + w + u ≤ D

with R a start on demand, w the remaining work and u the work that is done and not saved, which a loss would discard.
Decisions are made every Δ seconds, so spot, or waiting for it, is safe while the slack D − t − R − w − u is at least Δ.
After that the training runs on demand to its end. So it is late only where on demand alone would be.
"""

DECIDE_EVERY_SECONDS = 60.0
"""Δ of a run that is supervised: it is looked at more often than that."""


def slack_seconds(*, until_deadline: float, start: float, left: float, unsaved: float) -> float:
    """Seconds until on demand must begin, if all unsaved work is lost; negative if that is too late."""
    return until_deadline - start - left - unsaved


def may_stay_on_spot(slack: float, *, decide_every: float = DECIDE_EVERY_SECONDS) -> bool:
    """True if on demand still ends in time after one more decision interval."""
    return slack >= decide_every


def only_spot_is_in_time(*, until_deadline: float, start: float, left: float, left_here: float) -> bool:
    """True if a change to on demand would be late, and the spot machine that runs may still be in time."""
    return start + left > until_deadline >= left_here
