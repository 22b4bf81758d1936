"""The limits of a run while it runs: what it has cost, when a limit is reached, and how long a lease may last."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainfare.model.bill import Billing
from trainfare.model.interval import Interval
from trainfare.model.run import Run, StopReason
from trainfare.runner.progress import RunProgress
from trainfare.units import format_duration, format_usd

COLLECTING_SECONDS = 600.0
"""The time that a lease leaves after a limit, in which the program saves and results are fetched."""
SAVING_SECONDS = 60.0
"""The time that a program gets to save, and its results to be fetched, before its budget is spent."""
SAVING_SHARE = 0.1
"""The largest share of a small budget that is kept for that."""
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


def limit_reached(
    run: Run, now: datetime, *, spent: float, usd_per_hour: float, checkpoint_seconds: float = 0.0
) -> Limit | None:
    """The limit that stops the run now; None if there is none. `spent` includes earlier attempts.

    A budget stops the run early enough that saving and collecting are paid from it too: a minute, but not more than a
    tenth of it; and twice the `checkpoint_seconds` that saving and fetching took before, but not more than half of it.
    """
    limits = run.limits
    if limits.budget_usd is not None and spent >= _stop_usd(limits.budget_usd, usd_per_hour, checkpoint_seconds):
        return Limit("budget", f"It has cost {format_usd(spent)} of a budget of {format_usd(limits.budget_usd)}.")
    if limits.deadline is not None and now >= limits.deadline:
        return Limit("deadline", f"The deadline of {limits.deadline:%Y-%m-%d %H:%M} has come.")
    if limits.longest_seconds is not None and (now - run.made_at).total_seconds() >= limits.longest_seconds:
        return Limit("longest duration", f"It has taken {format_duration(limits.longest_seconds)}.")
    return None


def limits_ahead(
    run: Run,
    now: datetime,
    *,
    spent: float,
    usd_per_hour: float,
    progress: RunProgress,
    checkpoint_seconds: float = 0.0,
) -> tuple[Limit, ...]:
    """The limits that stop the run before its program ends, by what is predicted now; each with the figures, the moment
    of the stop and the share that will be done by then."""
    left, limits = progress.remaining_seconds, run.limits
    if left is None:
        return ()
    found: list[Limit] = []
    ends = now + timedelta(seconds=left.value)
    if limits.budget_usd is not None and usd_per_hour:
        usd = left * (usd_per_hour / 3600) + Interval.exactly(spent)
        if usd.value > limits.budget_usd:
            seconds = (_stop_usd(limits.budget_usd, usd_per_hour, checkpoint_seconds) - spent) / usd_per_hour * 3600
            text = f"It will cost {format_usd(usd.value)} ({format_usd(usd.low)} to {format_usd(usd.high)})"
            text += f" of a budget of {format_usd(limits.budget_usd)}"
            found.append(Limit("budget", f"{text}; {_stop_text(progress, now, seconds)}"))
    if limits.deadline is not None and ends > limits.deadline:
        early, late = (now + timedelta(seconds=seconds) for seconds in (left.low, left.high))
        text = f"It will end at about {format_moment(ends, now)}"
        text += f" ({format_moment(early, now)} to {format_moment(late, now)})"
        text += f", after its deadline of {format_moment(limits.deadline, now)}"
        seconds = (limits.deadline - now).total_seconds()
        found.append(Limit("deadline", f"{text}; {_stop_text(progress, now, seconds)}"))
    if limits.longest_seconds is not None:
        passed = (now - run.made_at).total_seconds()
        if passed + left.value > limits.longest_seconds:
            text = f"It will take {format_duration(passed + left.value)} ({format_duration(passed + left.low)} to"
            text += f" {format_duration(passed + left.high)}) of at most {format_duration(limits.longest_seconds)}"
            seconds = limits.longest_seconds - passed
            found.append(Limit("longest duration", f"{text}; {_stop_text(progress, now, seconds)}"))
    return tuple(found)


def _stop_usd(budget_usd: float, usd_per_hour: float, checkpoint_seconds: float) -> float:
    """The cost at which the program is asked to end."""
    usual = min(usd_per_hour * SAVING_SECONDS / 3600, budget_usd * SAVING_SHARE)
    measured = min(usd_per_hour * 2 * checkpoint_seconds / 3600, budget_usd / 2)
    return budget_usd - max(usual, measured)


def _stop_text(progress: RunProgress, now: datetime, seconds: float) -> str:
    """A clause about the stop, `seconds` from now, and how far the run will be."""
    seconds = max(0.0, seconds)
    text = f"it will be stopped at about {format_moment(now + timedelta(seconds=seconds), now)}"
    if progress.total_iterations and progress.iteration_seconds and progress.iteration_seconds.value:
        done = progress.iterations + seconds / progress.iteration_seconds.value
        text += f" at {min(1.0, done / progress.total_iterations):.0%}"
    return f"{text}."


def format_moment(moment: datetime, now: datetime) -> str:
    """The time of the day in UTC, with the date if it is another one."""
    return f"{moment:%H:%M} UTC" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M} UTC"


def lease_reason(run: Run) -> StopReason | None:
    """The limit that made a lease end, if one did: the first that the run has, since only one is usual."""
    limits = run.limits
    if limits.budget_usd is not None:
        return "budget"
    if limits.deadline is not None:
        return "deadline"
    return None if limits.longest_seconds is None else "longest duration"


def latest_end(run: Run) -> datetime | None:
    """The moment at which the agent ends everything however long its machine waited in a queue; None if only money is
    limited, or nothing."""
    limits = run.limits
    moments = [] if limits.deadline is None else [limits.deadline]
    if limits.longest_seconds is not None:
        moments.append(run.made_at + timedelta(seconds=limits.longest_seconds))
    return min(moments) + timedelta(seconds=COLLECTING_SECONDS) if moments else None


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
