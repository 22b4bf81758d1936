"""The money that probes may spend together, divided among those that run at the same time.

A probe runs only for the time for which it has claimed money ahead, and its machine ends by itself at the end of that
time. Nothing is claimed twice, so all of them together never cost more than the budget, even if this process is frozen.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trainfare.units import SECONDS_PER_HOUR


@dataclass(slots=True)
class _Claim:
    usd_per_hour: float
    since: float
    until: float

    @property
    def usd(self) -> float:
        return self.usd_per_hour * max(0.0, self.until - self.since) / SECONDS_PER_HOUR


@dataclass(slots=True)
class Ledger:
    """The spent and the claimed part of a budget; without one there is no limit. Moments are those of the clock."""

    budget_usd: float | None = None
    clock: Callable[[], float] = time.monotonic
    spent_usd: float = 0.0
    _claims: dict[str, _Claim] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def claim(self, name: str, usd_per_hour: float, *, seconds: float, least: float) -> float | None:
        """Claim money for up to so many seconds; returns the moment until which it lasts, or None if it does not last
        for `least` seconds. While others have claims, which may become smaller, it waits for them."""
        with self._changed:
            while True:
                now = self.clock()
                until = self._lasts(usd_per_hour, since=now, until=now + seconds)
                if until >= now + least:
                    self._claims[name] = _Claim(usd_per_hour, now, until)
                    return until
                if not self._claims:
                    return None
                self._changed.wait()

    def change(self, name: str, until: float) -> float:
        """Claim money until another moment, later or earlier; returns the moment until which it lasts."""
        with self._changed:
            mine = self._claims.pop(name)
            lasts = self._lasts(mine.usd_per_hour, since=mine.since, until=until)
            self._claims[name] = _Claim(mine.usd_per_hour, mine.since, lasts)
            self._changed.notify_all()
            return lasts

    def postpone(self, name: str, seconds: float) -> float:
        """The machine waits for its turn, and costs nothing before now. Claim money for so many seconds from now on;
        returns the moment until which it lasts."""
        with self._changed:
            mine, now = self._claims.pop(name), self.clock()
            lasts = self._lasts(mine.usd_per_hour, since=now, until=now + seconds)
            self._claims[name] = _Claim(mine.usd_per_hour, now, lasts)
            self._changed.notify_all()
            return lasts

    def settle(self, name: str) -> float:
        """The probe has ended: what it cost is spent, and the rest of its claim is free. Returns the cost."""
        with self._changed:
            claim = self._claims.pop(name)
            claim.until = self.clock()
            self.spent_usd += claim.usd
            self._changed.notify_all()
            return claim.usd

    def _lasts(self, usd_per_hour: float, *, since: float, until: float) -> float:
        """The moment, at most `until`, until which the money that is not claimed by others lasts."""
        if self.budget_usd is None or not usd_per_hour:
            return until
        free = self.budget_usd - self.spent_usd - sum(claim.usd for claim in self._claims.values())
        return min(until, since + max(0.0, free) / usd_per_hour * SECONDS_PER_HOUR)
