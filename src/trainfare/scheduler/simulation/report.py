"""The results of simulations: one policy, several policies on one queue, and the lower bound of a queue."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.model.queue import ExcludedJob
from trainfare.model.reason import Reason
from trainfare.model.schedule import Schedule, ScheduleOutcome
from trainfare.scheduler.bounds.lower_bound import LowerBound
from trainfare.scheduler.simulation.options import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """The schedule of one policy for a queue, with its outcome and the lower bound."""

    schedule: Schedule
    outcome: ScheduleOutcome
    mode: Mode
    bound: LowerBound
    """No schedule of this queue costs less."""
    excluded: tuple[ExcludedJob, ...]

    @property
    def gap(self) -> float | None:
        """total / bound - 1; None if the bound is zero."""
        return self.outcome.total_usd / self.bound.usd - 1 if self.bound.usd > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPolicy:
    """A policy that was not run, or failed, and the reason."""

    policy: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """The reports of several policies on one queue, the cheapest first."""

    reports: tuple[SimulationReport, ...]
    skipped: tuple[SkippedPolicy, ...]


def rank_reports(reports: Sequence[SimulationReport], skipped: Sequence[SkippedPolicy] = ()) -> PolicyComparison:
    """The comparison of these reports, ordered by total cost."""
    return PolicyComparison(
        reports=tuple(sorted(reports, key=lambda each: each.outcome.total_usd)),
        skipped=tuple(skipped),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundReport:
    """The lower bound on the cost of every schedule of a queue."""

    bound: LowerBound
    jobs: int
    nodes: int
    excluded: tuple[ExcludedJob, ...]
