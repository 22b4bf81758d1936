"""Use cases: what runs have cost, and whether another one may start under the caps of the settings."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from trainfare.errors import ExternalError, InfeasibleError, StoreError
from trainfare.model.run import Run
from trainfare.runner.caps import Allowance, Caps, allowance, refusal
from trainfare.runner.charges import (
    Charge,
    CostGroup,
    CostRow,
    charges_of,
    group_charges,
    reserved_charge,
    usd_by_day,
    user_of,
)
from trainfare.runner.status import billing_of
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_existing_history

CAPS_LEASE = "caps"
"""The lease under which a run is stored, so that two processes do not both use what is left of a cap."""
_LEASE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """The costs of runs, in groups; `reserved_usd` may still be spent by runs that have not ended."""

    by: CostGroup
    since: date | None
    rows: tuple[CostRow, ...]
    charges: tuple[Charge, ...]
    """One for each attempt of a run and each day."""
    reserved_usd: float
    caps: Caps

    @property
    def usd(self) -> float:
        return sum(row.usd for row in self.rows)


def costs(*, by: CostGroup = "day", days: int | None = None, settings: Settings | None = None) -> CostReport:
    """The costs of all runs of the store; with `days`, of the last so many days up to today."""
    settings = settings or read_settings()
    now = _now()
    since = None if days is None else now.date() - timedelta(days=days - 1)
    with open_existing_history(settings.store) as history:
        charges, reserved = _charges(history, now)
    parts = tuple(part for charge in charges for part in charge.by_day(now.tzinfo))
    return CostReport(
        by=by,
        since=since,
        rows=group_charges(charges, by, zone=now.tzinfo, since=since),
        charges=tuple(part for part in parts if since is None or part.since.date() >= since),
        reserved_usd=sum(charge.usd for charge in reserved),
        caps=caps_of(settings),
    )


def caps_of(settings: Settings) -> Caps:
    """The caps of the settings."""
    return Caps(
        run_usd=settings.max_usd_per_run,
        day_usd=settings.max_usd_per_day,
        month_usd=settings.max_usd_per_month,
        user_month_usd=settings.max_usd_per_user_month,
        user_day_usd=settings.max_usd_per_user_day,
        user_total_usd=settings.max_usd_per_user,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """The cap of a user for some time, with the money that is spent and reserved in it."""

    cap_usd: float | None
    spent_usd: float
    reserved_usd: float

    @property
    def share(self) -> float | None:
        """The part of the cap that is spent or reserved; None without a cap."""
        return None if self.cap_usd is None else (self.spent_usd + self.reserved_usd) / self.cap_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class UserBudget:
    """The budgets of one user of a server: today, this month and in all."""

    user: str
    day: BudgetLine
    month: BudgetLine
    total: BudgetLine


def user_budget(user: str, *, settings: Settings) -> UserBudget:
    """The costs of the runs of a user, paid and reserved, next to the caps of the settings."""
    now, caps = _now(), caps_of(settings)
    with open_existing_history(settings.store) as history:
        every = _charges(history, now)
    spent, reserved = (
        usd_by_day((charge for charge in charges if charge.user == user), now.tzinfo) for charges in every
    )

    def line(cap: float | None, counts: Callable[[date], bool]) -> BudgetLine:
        sums = [sum(usd for day, usd in days.items() if counts(day)) for days in (spent, reserved)]
        return BudgetLine(cap_usd=cap, spent_usd=sums[0], reserved_usd=sums[1])

    return UserBudget(
        user=user,
        day=line(caps.user_day_usd, lambda day: day == now.date()),
        month=line(caps.user_month_usd, lambda day: (day.year, day.month) == (now.year, now.month)),
        total=line(caps.user_total_usd, lambda _day: True),
    )


def within_caps(history: History, run: Run, settings: Settings) -> Run:
    """The run with the most that it may cost as its budget. `InfeasibleError` if it would break a cap."""
    caps = caps_of(settings)
    if not caps or not run.candidate.usd_per_hour:
        return run
    now = _now()
    allowed = _allowance(history, run, caps, now)
    predicted = [segment.usd.value for segment in (run.estimate, run.then) if segment is not None]
    why = refusal(caps, allowed, sum(predicted) if predicted else None)
    if why is not None:
        raise InfeasibleError(
            f"{why} It was not started. Choose a cheaper machine, wait for other runs to end, or raise the cap in the "
            "settings.",
        )
    if allowed.cap is None or (run.limits.budget_usd is not None and run.limits.budget_usd <= allowed.usd):
        return run
    return replace(run, limits=replace(run.limits, budget_usd=allowed.usd))


def store_within_caps(history: History, run: Run, settings: Settings) -> None:
    """Store a run, unless it would break a cap; one process at a time."""
    if not caps_of(settings):
        history.runs.add(run)
        return
    with _exclusive(history):
        history.runs.add(within_caps(history, run, settings))


def _allowance(history: History, run: Run, caps: Caps, now: datetime) -> Allowance:
    charges, reserved = _charges(history, now)
    every = [*charges, *reserved]
    return allowance(
        caps,
        run.candidate.usd_per_hour,
        now,
        everyone=usd_by_day(every, now.tzinfo),
        own=usd_by_day((charge for charge in every if charge.user == user_of(run)), now.tzinfo),
    )


def _charges(history: History, now: datetime) -> tuple[list[Charge], list[Charge]]:
    """The money that is paid, and that is reserved by runs that have not ended. Damaged runs are left out."""
    paid: list[Charge] = []
    reserved: list[Charge] = []
    for run in history.runs.all():
        with suppress(StoreError):
            facts = history.facts.of(run.id)
            found = charges_of(run, facts, billing=billing_of(run), now=now)
            paid += found
            left = reserved_charge(run, facts, paid_usd=sum(charge.usd for charge in found), now=now)
            reserved += [left] if left is not None else []
    return paid, reserved


@contextmanager
def _exclusive(history: History) -> Iterator[None]:
    """Wait until no other process has the lease of the caps, and keep it for the block."""
    holder, ends = f"caps-{id(history)}-{time.monotonic_ns()}", time.monotonic() + 2 * _LEASE_SECONDS
    lease = None
    while lease is None:
        lease = history.leases.take(CAPS_LEASE, holder=holder, seconds=_LEASE_SECONDS, now=datetime.now(UTC))
        if lease is None:
            if time.monotonic() > ends:
                raise ExternalError("Other processes keep the caps on costs occupied. Try again.")
            time.sleep(0.05)
    try:
        yield
    finally:
        history.leases.release(lease)


def _now() -> datetime:
    """The time in the zone of this machine: its days and months are those of the caps."""
    return datetime.now().astimezone()
