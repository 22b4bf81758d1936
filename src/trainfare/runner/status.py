"""A run at one moment: its state, how far it is, and what it has cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainfare.model.bill import Billing
from trainfare.model.interval import Interval
from trainfare.model.run import Fact, Observation, Run
from trainfare.runner.collecting import Arrivals
from trainfare.runner.life import Life, life_of
from trainfare.runner.progress import RunProgress, progress_of
from trainfare.runner.receipt import Receipt, receipt_of
from trainfare.runner.seen import Seen, summarise
from trainfare.runner.traffic import NodeTraffic, traffic_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run, what its facts say, how far it is and what it has cost up to now."""

    run: Run
    facts: tuple[Fact, ...]
    life: Life
    progress: RunProgress
    receipt: Receipt
    now: datetime
    traffic: tuple[NodeTraffic, ...] = ()
    """The traffic of each node of several."""
    arrivals: Arrivals | None = None
    """The results on their way home, while they are collected and where that is known."""

    @property
    def usd_in_all(self) -> Interval | None:
        """The cost of the run when its program has ended; None if the remaining time is unknown."""
        left = self.progress.remaining_seconds
        if left is None:
            return None
        candidate = self.life.candidate or self.run.candidate
        return left * (candidate.usd_per_hour / 3600) + Interval.exactly(self.receipt.total.paid_usd)


def billing_of(run: Run) -> Billing:
    """The billing rule that was agreed to."""
    return run.estimate.bill.billing if run.estimate and run.estimate.bill else Billing()


def status_of(
    run: Run, facts: Sequence[Fact], observations: Iterable[Observation] | Seen, *, now: datetime
) -> RunStatus:
    """The status by all facts, and by the observations of the current attempt or their summary."""
    life, seen = life_of(facts), summarise(observations)
    nodes = (life.candidate or run.candidate).nodes
    machines = [machine for fact in facts if fact.attempt == life.attempt for machine in fact.machines]
    seconds = ((life.ended_at or now) - life.started_at).total_seconds() if life.started_at else 0.0
    return RunStatus(
        run=run,
        facts=tuple(facts),
        life=life,
        progress=progress_of(
            run,
            seen,
            seconds=max(0.0, seconds),
            done_before=life.done_before,
            candidate=life.candidate,
        ),
        receipt=receipt_of(run, facts, billing=billing_of(run), now=now),
        now=now,
        traffic=traffic_of(seen, machines) if nodes > 1 else (),
    )
