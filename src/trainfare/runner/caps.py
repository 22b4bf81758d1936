"""Caps on what all runs together may cost: per run, day and month, and per user and day, month and in all.

A run that starts now and costs p dollars an hour spends p · 24 on each full day. It is followed day by day, next to
what is spent and reserved already, up to the first day on which it would break a cap: what it has cost until then is
its allowance. A run that is predicted to cost more is refused before it starts; any other gets the allowance as its
budget, so that a cap holds even if the prediction is wrong.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from trainfare.model.checks import require_positive
from trainfare.units import SECONDS_PER_HOUR, format_usd

CapName = Literal["run", "day", "month", "user_day", "user", "user_total"]
HORIZON_DAYS = 400
"""A run that breaks no cap for so long breaks none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that may be spent, in dollars; None means no cap."""

    run_usd: float | None = None
    day_usd: float | None = None
    """By all users of the store together, in a day."""
    month_usd: float | None = None
    user_month_usd: float | None = None
    """By one user in a month."""
    user_day_usd: float | None = None
    user_total_usd: float | None = None
    """By one user, ever."""

    def __post_init__(self) -> None:
        require_positive(
            run_usd=self.run_usd,
            day_usd=self.day_usd,
            month_usd=self.month_usd,
            user_month_usd=self.user_month_usd,
            user_day_usd=self.user_day_usd,
            user_total_usd=self.user_total_usd,
        )

    def __bool__(self) -> bool:
        return any(cap is not None for cap in self.by_name.values())

    @property
    def by_name(self) -> dict[CapName, float | None]:
        return {
            "run": self.run_usd,
            "day": self.day_usd,
            "month": self.month_usd,
            "user_day": self.user_day_usd,
            "user": self.user_month_usd,
            "user_total": self.user_total_usd,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The most that a run may cost, and the cap that decides it; infinite if none does."""

    usd: float
    cap: CapName | None = None
    day: date | None = None
    """The day on which the cap would be broken."""


def allowance(
    caps: Caps, usd_per_hour: float, now: datetime, *, everyone: Mapping[date, float], own: Mapping[date, float]
) -> Allowance:
    """The most that a run at this price may cost from now on. `everyone` and `own` have what all users and this user
    have spent and reserved, by day of the zone of `now`."""
    if not usd_per_hour or not caps:
        return Allowance(usd=math.inf)
    total, day, start = 0.0, now.date(), now
    by_month: dict[tuple[int, int], float] = {}
    for _ in range(HORIZON_DAYS):
        midnight = (start + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        wanted = usd_per_hour * (midnight - start).total_seconds() / SECONDS_PER_HOUR
        month = (day.year, day.month)
        spent = by_month.get(month, 0.0)
        left: dict[CapName, float | None] = {
            "run": _left(caps.run_usd, total),
            "day": _left(caps.day_usd, everyone.get(day, 0.0)),
            "month": _left(caps.month_usd, _in_month(everyone, month) + spent),
            "user_day": _left(caps.user_day_usd, own.get(day, 0.0)),
            "user": _left(caps.user_month_usd, _in_month(own, month) + spent),
            "user_total": _left(caps.user_total_usd, sum(own.values()) + total),
        }
        cap, least = min(((name, usd) for name, usd in left.items() if usd is not None), key=lambda each: each[1])
        if wanted > least:
            return Allowance(usd=total + least, cap=cap, day=day)
        total += wanted
        by_month[month] = spent + wanted
        start, day = midnight, midnight.date()
    return Allowance(usd=math.inf)


def refusal(caps: Caps, allowed: Allowance, predicted_usd: float | None) -> str | None:
    """A sentence about why a run may not start, with the figures; None if it may."""
    if allowed.cap is None or (allowed.usd > 0 and (predicted_usd is None or predicted_usd <= allowed.usd)):
        return None
    cap = caps.by_name[allowed.cap]
    month = f"{allowed.day:%B %Y}"
    of = {
        "run": "a run",
        "day": f"{allowed.day}",
        "month": month,
        "user_day": f"a user on {allowed.day}",
        "user": f"a user in {month}",
        "user_total": "a user in all",
    }[allowed.cap]
    text = f"The cap of {of} is {format_usd(cap or 0.0)}"
    if allowed.usd <= 0:
        return f"{text}, and all of it is spent or reserved by runs that have not ended."
    predicted = "" if predicted_usd is None else f", and this run is predicted to cost {format_usd(predicted_usd)}"
    return f"{text}; {format_usd(allowed.usd)} of it can be used{predicted}."


def _left(cap: float | None, spent: float) -> float | None:
    return None if cap is None else max(0.0, cap - spent)


def _in_month(spent: Mapping[date, float], month: tuple[int, int]) -> float:
    return sum(usd for day, usd in spent.items() if (day.year, day.month) == month)
