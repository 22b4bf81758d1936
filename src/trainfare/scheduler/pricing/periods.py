"""What lies ahead, as arrays: the work that is left, and periods of time that grow the further off they are.

    t_jk    seconds that job j still works on slot k; infinite where it cannot
    D_j     seconds until its deadline, negative when it has passed
    w_j     what a second of its lateness costs

Periods: t̄ · [0, .12, .3, .55, .9, 1.4, 2.1, 3.5, 6, ∞), t̄ the mean shortest time of the jobs seen. A job's deadline
cuts the period that it falls into in two, so that each part of a job's time is in time or late.
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
LONGER = 1.6
_LONG = 1000.0
SAFETY_SECONDS = 100.0
SAFETY = 0.006
"""A job is to be done so long before its deadline: 100 s, or that part of t̄ where jobs are short."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RemainingWork:
    """The jobs of a queue, as the formulas name them."""

    seconds: "NDArray[np.float64]"
    due: "NDArray[np.float64]"
    weight: "NDArray[np.float64]"
    reclaim_loss_seconds: float = 0.0
    """What a reclaimed node costs: jobs are to be done so much earlier."""

    def __getitem__(self, rows: "NDArray[np.int64]") -> "Work":
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
    """Jobs × parts of time: the periods, each job's own cut at its deadline."""

    period: "NDArray[np.int64]"
    start: "NDArray[np.float64]"
    end: "NDArray[np.float64]"
    """The last part is long enough for the whole job on its slowest slot."""
    late_usd_per_second: "NDArray[np.float64]"
    """w in a part after the deadline: for each second that the job works there."""
    late_usd: "NDArray[np.float64]"
    """w · (S - D)⁺, S the start of the part: for the whole job, were it all done there."""


def limited_types(fleet: Fleet) -> dict[int, int]:
    """The place of each type of which fewer may be had than the fleet has nodes, and how many; not those of none."""
    return {
        number: each.max_nodes
        for number, each in enumerate(fleet.types)
        if each.max_nodes and each.max_nodes < fleet.nodes
    }


def period_starts(mean_shortest_seconds: float, *, busy_seconds: float = 0.0) -> "NDArray[np.float64]":
    """`busy_seconds`: so far they go at least, each edge then `LONGER` times the one before."""
    edges = list(EDGES)
    while edges[-1] * mean_shortest_seconds < busy_seconds:
        edges.append(edges[-1] * LONGER)
    return mean_shortest_seconds * np.array(edges)


def busy_seconds(fleet: Fleet, slots: SlotTable, seconds: "NDArray[np.float64]") -> float:
    """How long a limited type would be busy with all that can run there; of several, the one that is so longest."""
    node_seconds = np.where(np.isfinite(seconds), seconds, 0.0) * slots.fraction
    busy = [
        float(node_seconds[:, slots.type == number].max(axis=1, initial=0.0).sum()) / most
        for number, most in limited_types(fleet).items()
    ]
    return max(busy, default=0.0)


def split_periods(work: RemainingWork, starts: "NDArray[np.float64]") -> PeriodParts:
    """Each job's own parts, one more than there are periods; parts of no length stand where nothing is cut."""
    mean = starts[1] / EDGES[1]
    due = np.maximum(work.due, 0.0)
    cut = np.maximum(work.due - min(SAFETY_SECONDS, SAFETY * mean) - work.reclaim_loss_seconds, 0.0)
    slowest = np.max(np.where(np.isfinite(work.seconds), work.seconds, 0.0), axis=1)
    last = np.maximum(starts[-1], np.where(np.isfinite(cut), cut, 0.0)) + _LONG * slowest
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
