"""What runs cost and when: each attempt is charged from its request, or from the end of its wait in a queue, to its
confirmed termination.

    usd of a day = usd of the attempt · the share of its time that lies in that day

A run that has not ended also reserves money: its budget, or else the high end of its prediction, spent at its price
from now on.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Literal

from trainfare.model.bill import Billing
from trainfare.model.offer import Candidate
from trainfare.model.run import Fact, Run
from trainfare.runner.life import life_of
from trainfare.runner.limits import spent_usd
from trainfare.runner.receipt import spans_of

CostGroup = Literal["day", "month", "program", "machine", "user"]
RESERVED_DAYS = 31
"""A run without any limit or prediction is assumed to go on for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The cost of the machines of one attempt of a run."""

    run: Run
    candidate: Candidate
    since: datetime
    until: datetime
    usd: float

    @property
    def user(self) -> str:
        return user_of(self.run)

    @property
    def machine_seconds(self) -> float:
        """The time of all its machines together."""
        return (self.until - self.since).total_seconds() * self.candidate.nodes

    def by_day(self, zone: tzinfo | None) -> Iterator["Charge"]:
        """Its parts, one per day of the time zone."""
        start, end = self.since.astimezone(zone), self.until.astimezone(zone)
        whole = (end - start).total_seconds()
        while start.date() < end.date():
            midnight = (start + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
            yield self._part(start, midnight, whole)
            start = midnight
        if end > start or not whole:
            yield self._part(start, end, whole)

    def _part(self, start: datetime, end: datetime, whole: float) -> "Charge":
        share = (end - start).total_seconds() / whole if whole else 1.0
        return Charge(run=self.run, candidate=self.candidate, since=start, until=end, usd=self.usd * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The cost of all runs of one day, month, program, machine or user."""

    name: str
    runs: int
    machine_seconds: float
    usd: float


def user_of(run: Run) -> str:
    """The name of the user who started the run."""
    return run.user or run.owner.partition("@")[0]


def charges_of(run: Run, facts: Sequence[Fact], *, billing: Billing, now: datetime) -> tuple[Charge, ...]:
    """The charges of every attempt up to now, by the billing rule and the prices that were agreed to."""
    launches = {fact.attempt: fact for fact in facts if fact.kind == "launch intended"}
    found = []
    for attempt, parts in spans_of(facts, now=now).items():
        waited = parts.get("queue", 0.0)
        since = launches[attempt].seen_at + timedelta(seconds=waited)
        kept = sum(parts.values()) - waited
        if not kept:
            continue
        candidate = launches[attempt].candidate or run.candidate
        usd = spent_usd(candidate.usd_per_hour, kept, billing)
        until = since + timedelta(seconds=kept)
        found.append(Charge(run=run, candidate=candidate, since=since, until=until, usd=usd))
    return tuple(found)


def reserved_charge(run: Run, facts: Sequence[Fact], *, paid_usd: float, now: datetime) -> Charge | None:
    """The money that a run may still spend; None if it has ended, or if its machines cost nothing."""
    life = life_of(facts)
    candidate = life.candidate or run.candidate
    if life.state == "ended" or not candidate.usd_per_hour:
        return None
    most = RESERVED_DAYS * 24 * candidate.usd_per_hour
    if run.limits.budget_usd is not None:
        most = run.limits.budget_usd
    elif run.estimate is not None:
        most = run.estimate.usd.high + (run.then.usd.high if run.then else 0.0)
    left = max(0.0, most - paid_usd)
    until = now + timedelta(hours=left / candidate.usd_per_hour)
    return Charge(run=run, candidate=candidate, since=now, until=until, usd=left)


def usd_by_day(charges: Iterable[Charge], zone: tzinfo | None) -> dict[date, float]:
    """The cost of each day."""
    found: dict[date, float] = defaultdict(float)
    for charge in charges:
        for part in charge.by_day(zone):
            found[part.since.date()] += part.usd
    return dict(found)


def group_charges(
    charges: Iterable[Charge], by: CostGroup, *, zone: tzinfo | None, since: date | None = None
) -> tuple[CostRow, ...]:
    """The charges from a day on, added up: days and months in their order, others with the most expensive first."""
    name: Callable[[Charge], str] = {
        "day": lambda part: part.since.date().isoformat(),
        "month": lambda part: f"{part.since:%Y-%m}",
        "program": lambda part: part.run.program.name,
        "machine": lambda part: part.candidate.offer.vm_type.key,
        "user": lambda part: part.user,
    }[by]
    groups: dict[str, list[Charge]] = defaultdict(list)
    for charge in charges:
        for part in charge.by_day(zone):
            if since is None or part.since.date() >= since:
                groups[name(part)].append(part)
    rows = [
        CostRow(
            name=key,
            runs=len({part.run.id for part in parts}),
            machine_seconds=sum(part.machine_seconds for part in parts),
            usd=sum(part.usd for part in parts),
        )
        for key, parts in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: row.name if by in ("day", "month") else (-row.usd, row.name)))
