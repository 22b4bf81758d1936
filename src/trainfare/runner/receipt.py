"""The receipt of a run: for each part of its time, and in all, what was predicted and what was observed and paid.

    queue         asked for → its machines begin to cost; only where machines wait
    boot          asked for, or the end of the queue → ready
    setup         ready → program started
    training      program started → program ended, or machines lost
    collecting    program ended → terminated

Everything but the queue is charged from the first request to the confirmed termination, by the billing rule and the
price that were agreed to. The parts of all attempts are added up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trainfare.model.bill import Billing
from trainfare.model.estimate import Estimate, PhaseName
from trainfare.model.interval import Interval
from trainfare.model.run import Fact, FactKind, Run
from trainfare.runner.limits import spent_usd
from trainfare.runner.waiting import wait_ended_at, waited

Part = Literal["queue", "boot", "setup", "training", "collecting"]

_ENDS: tuple[tuple[Part, tuple[FactKind, ...]], ...] = (
    ("boot", ("machines ready",)),
    ("setup", ("program started", "setup failed")),
    ("training", ("program ended",)),
    ("collecting", ("terminated", "machines abandoned")),
)
"""The parts in their order, and the facts that end them."""

_PHASES: dict[Part, tuple[PhaseName, ...]] = {
    "boot": ("boot",),
    "setup": ("setup",),
    "training": (
        "initialisation",
        "first iteration",
        "steady iterations",
        "validation",
        "checkpoints",
        "spot rework",
    ),
    "collecting": ("collecting",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One part of the run. `predicted_seconds` is None if nothing was predicted for it."""

    part: Part | Literal["in all"]
    predicted_seconds: Interval | None
    seconds: float
    predicted_usd: Interval | None
    paid_usd: float

    @property
    def is_inside(self) -> bool | None:
        """True if the time was inside its interval; None without a prediction."""
        return _inside(self.predicted_seconds, self.seconds)

    @property
    def is_cost_inside(self) -> bool | None:
        return _inside(self.predicted_usd, self.paid_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The predicted time and cost of a run, and the real ones."""

    run: Run
    lines: tuple[Line, ...]
    total: Line
    attempts: int
    reclaims: int = 0
    """The number of times that the provider took machines back."""
    lost_seconds: float = 0.0
    """Training that was done again after losses, at least: what cannot be counted is left out."""
    lost_usd: float = 0.0
    """The price of that time, which is part of what was paid."""


def spans_of(facts: Sequence[Fact], *, now: datetime) -> dict[int, dict[Part, float]]:
    """The seconds of each part of each attempt; the part that has not ended lasts until `now`. Machines that are gone
    have ended with their lease at the latest, however long after it that was noticed."""
    spans: dict[int, dict[Part, float]] = {}
    attempt, since, gone_at = 0, now, None
    for fact in facts:
        if fact.kind == "launch intended":
            attempt, since, gone_at = fact.attempt, fact.seen_at, None
            spans[attempt] = {}
        if attempt not in spans:
            continue
        if fact.kind in ("machines lost", "terminated", "machines abandoned"):
            gone_at = _end_of_lease(facts, attempt)
        moment = min(fact.seen_at, max(since, gone_at)) if gone_at else fact.seen_at
        part = _part_ended_by(fact.kind, spans[attempt])
        if part is not None:
            spans[attempt][part] = (moment - since).total_seconds()
            since = moment
        if fact.kind in ("terminated", "machines abandoned", "launch refused"):
            attempt = 0
    if attempt in spans:
        current: Part = next((part for part, _ in _ENDS if part not in spans[attempt]), "collecting")
        spans[attempt][current] = max(0.0, (now - since).total_seconds())
    return {attempt: _with_queue(facts, attempt, parts) for attempt, parts in spans.items()}


def _with_queue(facts: Sequence[Fact], attempt: int, parts: dict[Part, float]) -> dict[Part, float]:
    """The parts of an attempt, with its wait in a queue apart from its boot. One that never ran has only waited."""
    if not waited(facts, attempt):
        return parts
    ended = wait_ended_at(facts, attempt)
    if ended is None:
        return {"queue": sum(parts.values())}
    asked = next(fact.seen_at for fact in facts if fact.kind == "launch intended" and fact.attempt == attempt)
    boot = parts.get("boot", 0.0)
    queue = min(boot, max(0.0, (ended - asked).total_seconds()))
    return {**parts, "queue": queue, "boot": boot - queue}


def _end_of_lease(facts: Sequence[Fact], attempt: int) -> datetime | None:
    """The moment at which the machines of an attempt end by themselves."""
    machines = [machine for fact in facts if fact.attempt == attempt for machine in fact.machines]
    return max((machine.expires_at for machine in machines), default=None)


def receipt_of(run: Run, facts: Sequence[Fact], *, billing: Billing, now: datetime) -> Receipt:
    """The receipt, also of a run that has not ended: up to `now`."""
    candidates = {fact.attempt: fact.candidate or run.candidate for fact in facts if fact.kind == "launch intended"}
    spans = spans_of(facts, now=now)
    queue: tuple[Part, ...] = ("queue",) if any("queue" in parts for parts in spans.values()) else ()
    seconds: dict[Part, float] = dict.fromkeys((*queue, *(part for part, _ in _ENDS)), 0.0)
    paid: dict[Part, float] = dict.fromkeys(seconds, 0.0)
    rounding = 0.0
    for attempt, parts in spans.items():
        usd_per_hour = candidates[attempt].usd_per_hour
        for part, span in parts.items():
            seconds[part] += span
            paid[part] += usd_per_hour * span / 3600 if part != "queue" else 0.0
        kept = sum(span for part, span in parts.items() if part != "queue")
        rounding += spent_usd(usd_per_hour, kept, billing) - usd_per_hour * kept / 3600 if kept else 0.0
    segments = [segment for segment in (run.estimate, run.then) if segment is not None]
    lines = tuple(
        Line(
            part=part,
            predicted_seconds=_sum([_predicted(each, part) for each in segments]),
            seconds=seconds[part],
            predicted_usd=_sum([_predicted_usd(each, part) for each in segments]),
            paid_usd=paid[part],
        )
        for part in seconds
    )
    total = Line(
        part="in all",
        predicted_seconds=_sum([each.seconds for each in segments]),
        seconds=sum(seconds.values()),
        predicted_usd=_sum([each.usd for each in segments]),
        paid_usd=sum(paid.values()) + rounding,
    )
    losses = [(fact.lost_seconds, candidates.get(fact.attempt, run.candidate)) for fact in facts if fact.lost_seconds]
    return Receipt(
        run=run,
        lines=lines,
        total=total,
        attempts=len(candidates),
        reclaims=len({fact.attempt for fact in facts if fact.reclaimed}),
        lost_seconds=sum(seconds for seconds, _ in losses),
        lost_usd=sum(seconds * candidate.usd_per_hour / 3600 for seconds, candidate in losses),
    )


def _part_ended_by(kind: FactKind, known: dict[Part, float]) -> Part | None:
    """The part that a fact ends. The loss of the machines ends the part that it comes in."""
    if kind == "machines lost":
        return next((part for part, _ in _ENDS[:-1] if part not in known), None)
    for part, ends in _ENDS:
        if kind in ends and part not in known:
            return part
    return None


def _predicted(estimate: Estimate | None, part: Part) -> Interval | None:
    if estimate is None or part not in _PHASES:
        return None
    phases = [phase.seconds for phase in estimate.phases if phase.name in _PHASES[part]]
    return sum(phases[1:], phases[0]) if phases else None


def _predicted_usd(estimate: Estimate, part: Part) -> Interval | None:
    seconds = _predicted(estimate, part)
    return None if seconds is None else seconds * (estimate.candidate.usd_per_hour / 3600)


def _sum(parts: Sequence[Interval | None]) -> Interval | None:
    """The sum of what is predicted; None if nothing is."""
    known = [part for part in parts if part is not None]
    return sum(known[1:], known[0]) if known else None


def _inside(predicted: Interval | None, value: float) -> bool | None:
    return None if predicted is None else predicted.low <= value <= predicted.high
