"""The limits of a run while it runs: what it has cost, when a limit is reached, and how long a lease may last."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainfare.model.bill import Billing
from trainfare.model.run import Run, StopReason
from trainfare.units import format_duration, format_usd

COLLECTING_SECONDS = 600.0
"""The time that a lease leaves after a limit, in which the program saves and results are fetched."""
SAVING_SECONDS = 60.0
"""The time that a program gets to save, and its results to be fetched, before its budget is spent."""
LONGEST_LEASE_SECONDS = 30 * 86400.0
"""The lease of a run without any limit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that is reached."""

    reason: StopReason
    text: str


def spent_usd(usd_per_hour: float, seconds: float, billing: Billing) -> float:
    """The cost of machines that were kept for so long, by the billing rule of their provider."""
    return usd_per_hour / 3600 * billing.billed_seconds(seconds) if usd_per_hour else 0.0


def limit_reached(run: Run, now: datetime, *, spent: float, usd_per_hour: float) -> Limit | None:
    """The limit that stops the run now; None if there is none. `spent` includes earlier attempts.

    A budget stops the run early enough that saving and collecting are paid from it too.
    """
    limits = run.limits
    reserve = usd_per_hour * SAVING_SECONDS / 3600
    if limits.budget_usd is not None and spent + reserve >= limits.budget_usd:
        return Limit("budget", f"It has cost {format_usd(spent)} of a budget of {format_usd(limits.budget_usd)}.")
    if limits.deadline is not None and now >= limits.deadline:
        return Limit("deadline", f"The deadline of {limits.deadline:%Y-%m-%d %H:%M} has come.")
    if limits.longest_seconds is not None and (now - run.made_at).total_seconds() >= limits.longest_seconds:
        return Limit("longest duration", f"It has taken {format_duration(limits.longest_seconds)}.")
    return None


def lease_end(run: Run, now: datetime, *, spent: float, usd_per_hour: float) -> datetime:
    """The moment at which the agent ends everything by itself, whoever is alive. A deadline and a longest duration
    leave some time to collect after them; a budget does not, since that time costs too."""
    limits = run.limits
    left = [LONGEST_LEASE_SECONDS]
    if limits.budget_usd is not None and usd_per_hour:
        left.append((limits.budget_usd - spent) / usd_per_hour * 3600)
    if limits.deadline is not None:
        left.append((limits.deadline - now).total_seconds() + COLLECTING_SECONDS)
    if limits.longest_seconds is not None:
        left.append(limits.longest_seconds - (now - run.made_at).total_seconds() + COLLECTING_SECONDS)
    return now + timedelta(seconds=max(0.0, min(left)))
