"""The cheapest way to complete one job when the resources that it uses have prices that change over time.

Time is divided into intervals; in interval i resource r costs p_ri per unit and second, and working on slot k costs

    q_ik = share_k + Σ_r p_ri · a_rk        a second, which does 1/t_k of the job

A job may change its slot and stop at any time, at no cost. It works in a set of pieces of time: the intervals since its
submission, the one with its deadline d split in two. If it ends in a piece that begins at S ≥ d, working there from its
beginning, it is late by S - d and by every second that it works in that piece, so that q rises there by its weight w:

    V = min over the last piece of   w·(S - d)⁺ + least Σ q·y   with   Σ y/t = 1,   Σ_k y_ik ≤ length of piece i

The inner minimum is a fractional knapsack: in a piece the lower hull of the points (1/t_k, q_ik) gives segments of
rising slope (dollars for a complete job), and the cheapest segments of all pieces are filled until the job is done.
Since prices are constant within a piece, V is exact: no way to complete the job costs less.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Indices = NDArray[np.int64]

DONE_TOLERANCE = 1e-9
"""A job that lacks less than this fraction at its deadline is done: rounding must not make a bound larger."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PricedJob:
    """A job with the slots on which it can run and the pieces of time in which it can work."""

    rate: "Numbers"
    """1/t_k of each slot on which it can run."""
    share: "Numbers"
    uses: "Numbers"
    """a_rk, resources × slots."""
    start: "Numbers"
    """The start of each piece, in order; the last piece never ends."""
    end: "Numbers"
    interval: "Indices"
    """The interval that contains each piece."""
    deadline: float
    late_usd_per_second: float

    @property
    def in_time(self) -> int:
        """The number of pieces that end by the deadline."""
        return int(np.searchsorted(self.end, self.deadline, side="right"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _HullSegments:
    """Pieces × segments of their lower hulls, in the order of rising slope; missing segments have size 0."""

    slope: "Numbers"
    """Dollars for the complete job at this price."""
    size: "Numbers"
    """The fraction of the job that can be done at this price."""
    uses: "Numbers"
    """Unit-seconds of each resource for the complete job: pieces × segments × resources."""


def priced_job(
    *,
    seconds: "Numbers",
    share: "Numbers",
    uses: "Numbers",
    submitted: float,
    deadline: float,
    late_usd_per_second: float,
    edges: "Numbers",
) -> PricedJob:
    """The job; `seconds`, `share` and `uses` (resources × slots) cover all slots; interval i begins at `edges[i]`."""
    runs = np.flatnonzero(np.isfinite(seconds))
    due = deadline if late_usd_per_second > 0 else np.inf
    ends = np.append(edges[1:], np.inf)
    first = int(np.searchsorted(ends, submitted, side="right"))
    cuts = np.unique(np.concatenate([[submitted], edges[edges > submitted], [due] if submitted < due < np.inf else []]))
    return PricedJob(
        rate=1 / seconds[runs],
        share=share[runs],
        uses=uses[:, runs],
        start=cuts,
        end=np.append(cuts[1:], np.inf),
        interval=np.maximum(np.searchsorted(edges, cuts, side="right") - 1, first),
        deadline=due,
        late_usd_per_second=late_usd_per_second,
    )


def cheapest_plan(job: PricedJob, prices: "Numbers") -> tuple[float, "Numbers"]:
    """V, and the unit-seconds of each resource in each interval that it takes; `prices` are resources × intervals."""
    q = job.share + prices[:, job.interval].T @ job.uses
    length = job.end - job.start
    early = _hull_segments(job, q, length)
    late = _hull_segments(job, q + job.late_usd_per_second, length)
    least_usd = float(early.slope[:, 0].min())
    in_time = job.in_time
    usd, taken = _fill(early.slope[:in_time].ravel(), early.size[:in_time].ravel())
    best: tuple[int, Numbers, Numbers | None] = (in_time, taken, None)
    for last in range(in_time, len(job.start)):
        late_usd = job.late_usd_per_second * float(job.start[last] - job.deadline)
        if late_usd + least_usd >= usd:
            break  # later pieces cost more lateness, and no work costs less than the smallest slope
        work_usd, taken = _fill(
            np.concatenate([early.slope[:last].ravel(), late.slope[last]]),
            np.concatenate([early.size[:last].ravel(), late.size[last]]),
        )
        if late_usd + work_usd < usd:
            usd, best = late_usd + work_usd, (last, taken, late.uses[last])
    return usd, _resource_use(job, early.uses, *best, prices.shape)


def _hull_segments(job: PricedJob, q: "Numbers", length: "Numbers") -> _HullSegments:
    """The lower hulls of all pieces: from (0, 0) always to the point of least slope among those further right."""
    pieces = np.arange(len(q))
    rate, usd, use = np.zeros(len(q)), np.zeros(len(q)), np.zeros((len(q), len(job.uses)))
    slopes, sizes, uses = [], [], []
    while (right := job.rate[None, :] > rate[:, None] * (1 + 1e-12)).any():
        run = np.where(right, job.rate[None, :] - rate[:, None], 1.0)
        slope = np.where(right, (q - usd[:, None]) / run, np.inf)
        k = slope.argmin(axis=1)
        exists = right[pieces, k]
        slopes.append(slope[pieces, k])
        sizes.append(np.where(exists, run[pieces, k], 0.0) * np.where(exists, length, 1.0))
        uses.append((job.uses[:, k].T - use) / run[pieces, k][:, None] * exists[:, None])
        rate = np.where(exists, job.rate[k], rate)
        usd = np.where(exists, q[pieces, k], usd)
        use = np.where(exists[:, None], job.uses[:, k].T, use)
    return _HullSegments(slope=np.stack(slopes, 1), size=np.stack(sizes, 1), uses=np.stack(uses, 1))


def _fill(slope: "Numbers", size: "Numbers") -> tuple[float, "Numbers"]:
    """The cost of a complete job from the cheapest segments, and how much of each it takes; infinite if they do not
    suffice."""
    order = np.argsort(slope, kind="stable")
    sizes = size[order]
    before = np.concatenate([[0.0], np.cumsum(sizes)[:-1]])
    taken = np.zeros(len(slope))
    taken[order] = np.clip(1 - before, 0, sizes)
    if taken.sum() < 1 - DONE_TOLERANCE:
        return np.inf, taken
    some = taken > 0
    return float(slope[some] @ taken[some]), taken


def _resource_use(
    job: PricedJob, early: "Numbers", pieces: int, taken: "Numbers", last: "Numbers | None", shape: tuple[int, ...]
) -> "Numbers":
    """Resources × intervals: the use in the first pieces, and in the piece in which the job ends."""
    segments = early.shape[1]
    of_pieces = (early[:pieces] * taken[: pieces * segments].reshape(pieces, segments, 1)).sum(axis=1)
    use = np.zeros(shape)
    np.add.at(use.T, job.interval[:pieces], of_pieces)
    if last is not None:
        use[:, job.interval[pieces]] += last.T @ taken[pieces * segments :]
    return use
