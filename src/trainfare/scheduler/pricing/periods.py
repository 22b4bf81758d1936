"""The remaining work as arrays, and the periods of future time, which grow with their distance.

    t_jk    remaining seconds of job j on slot k; infinite where it cannot run
    D_j     seconds until its deadline, negative after the deadline
    w_j     the cost of a second of its lateness

Periods: t̄ · [0, .12, .3, .55, .9, 1.4, 2.1, 3.5, 6, ∞), t̄ the mean shortest time of the jobs so far. A job's deadline
splits the period that it falls into, so that each part of a job's time is either in time or late.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Fleet, State
from trainfare.scheduler.pricing.reclaims import reclaim_loss_seconds
from trainfare.scheduler.tables import SlotTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

EDGES = (0.0, 0.12, 0.3, 0.55, 0.9, 1.4, 2.1, 3.5, 6.0)
EDGE_GROWTH = 1.6
"""Further periods are added until they cover the busy time of limited types, each edge this many times the last."""
_LAST_PART_LENGTH = 1000.0
"""The last part of a job's time, in multiples of its slowest time: long enough for any plan."""
SAFETY_SECONDS = 100.0
SAFETY_FRACTION = 0.006
"""A job is planned to end this long before its deadline: 100 s, or this fraction of t̄ where jobs are short."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RemainingWork:
    """The unfinished jobs in the letters of the formulas: t, D and w."""

    seconds: "NDArray[np.float64]"
    due: "NDArray[np.float64]"
    weight: "NDArray[np.float64]"
    reclaim_loss_seconds: float = 0.0
    """The time that a reclaim costs: jobs are planned to end this much earlier."""

    def __getitem__(self, rows: "NDArray[np.int64]") -> "RemainingWork":
        return replace(self, seconds=self.seconds[rows], due=self.due[rows], weight=self.weight[rows])


def remaining_work(state: State, seconds: "NDArray[np.float64]") -> RemainingWork:
    return RemainingWork(
        seconds=seconds,
        due=np.array([each.job.deadline_seconds for each in state.jobs]) - state.now_seconds,
        weight=np.array([each.job.late_usd_per_second for each in state.jobs]),
        reclaim_loss_seconds=reclaim_loss_seconds(state),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PeriodParts:
    """Jobs × parts of time: the periods, with the one that holds the job's deadline split there."""

    period: "NDArray[np.int64]"
    start: "NDArray[np.float64]"
    end: "NDArray[np.float64]"
    """The last part is long enough for the complete job on its slowest slot."""
    late_usd_per_second: "NDArray[np.float64]"
    """w in a part after the deadline, for each second that the job works there."""
    late_usd: "NDArray[np.float64]"
    """w · (S - D)⁺, S the start of the part, for the complete job if it is done there."""


def limited_types(fleet: Fleet) -> dict[int, int]:
    """The index of each type with fewer available nodes than the fleet, but at least one, and how many."""
    return {
        number: each.max_nodes
        for number, each in enumerate(fleet.types)
        if each.max_nodes and each.max_nodes < fleet.nodes
    }


def period_starts(mean_shortest_seconds: float, *, busy_seconds: float = 0.0) -> "NDArray[np.float64]":
    """The starts of the periods; further ones are added until they reach `busy_seconds`."""
    edges = list(EDGES)
    while edges[-1] * mean_shortest_seconds < busy_seconds:
        edges.append(edges[-1] * EDGE_GROWTH)
    return mean_shortest_seconds * np.array(edges)


def busy_seconds(fleet: Fleet, slots: SlotTable, seconds: "NDArray[np.float64]") -> float:
    """The longest time that a limited type would be busy with all jobs that can run on it."""
    node_seconds = np.where(np.isfinite(seconds), seconds, 0.0) * slots.fraction
    busy = [
        float(node_seconds[:, slots.type == number].max(axis=1, initial=0.0).sum()) / nodes
        for number, nodes in limited_types(fleet).items()
    ]
    return max(busy, default=0.0)


def split_periods(work: RemainingWork, starts: "NDArray[np.float64]") -> PeriodParts:
    """The parts of each job, one more than there are periods; parts without length fill up where nothing is split."""
    mean = starts[1] / EDGES[1]
    due = np.maximum(work.due, 0.0)
    cut = np.maximum(work.due - min(SAFETY_SECONDS, SAFETY_FRACTION * mean) - work.reclaim_loss_seconds, 0.0)
    slowest = np.max(np.where(np.isfinite(work.seconds), work.seconds, 0.0), axis=1)
    last = np.maximum(starts[-1], np.where(np.isfinite(cut), cut, 0.0)) + _LAST_PART_LENGTH * slowest
    edges = np.sort(np.column_stack([np.tile(starts, (len(due), 1)), np.minimum(cut, last)]), axis=1)
    start, end = edges, np.column_stack([edges[:, 1:], last])
    late = start >= cut[:, None]
    weight = np.where(late, work.weight[:, None], 0.0)
    return PeriodParts(
        period=np.searchsorted(starts, start, side="right") - 1,
        start=start,
        end=end,
        late_usd_per_second=weight,
        late_usd=weight * np.maximum(start - np.where(np.isfinite(due), due, 0.0)[:, None], 0.0),
    )
