"""What a second of a node is worth in each period to come, beyond its rent: the dual prices of a fluid plan.

    min  Σ_jik (h · share_k + late_jik) · y_jik      y_jik: seconds that job j works on slot k in part i of its time
         Σ_ik y_jik / t_jk ≥ 1                             every job gets done
         Σ_k y_jik ≤ length of the part                    in one place at a time
         Σ_jk frac_k · y_jik ≤ len_i · room_i              room_i = max(N - κ·R_i, 0.05 N); all N in the first
         Σ_jk∈v frac_k · y_jik ≤ len_i · room_i · most_v/N       for each type v of which fewer than N may be had

    π_vi = dual of the capacity (and of that of type v)  +  0.05 · c_max · min(1, mid_i / t̄)

R_i = λ · min(mid_i, t̄): nodes taken by jobs that are yet to come, each for its shortest time; κ = 0.3, as those jobs
too can wait: with 0.45 reserved everything gets dearer. The last term makes the future a little dearer than now; where
types are limited c_v stands for c_max, since one own machine may cost a hundredth of the dearest that can be rented.

Known jobs only; of many, a sample that is spread evenly over the deadlines, and its part of the capacity.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import State
from trainfare.scheduler.highs import LinearModel, solve
from trainfare.scheduler.pricing.periods import EDGES, RemainingWork, limited_types, split_periods
from trainfare.scheduler.tables import SlotTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESERVED = 0.3
LEAST_LEFT = 0.05
DEARER_LATER = 0.05
SAMPLE = 120
SAMPLE_OF_MANY = 60
MANY = 150
LITTLE = 0.02
"""A slot that spares less of the rent than this and takes a larger part of a node is not worth a column."""


def capacity_prices(
    state: State, work: RemainingWork, slots: SlotTable, starts: "NDArray[np.float64]", arrivals: float
) -> "NDArray[np.float64]":
    """π, $ per node-second, types × periods; the slots' share is h · share_k (value.py), `arrivals` is λ."""
    mean = float(starts[1]) / EDGES[1]
    ends = np.append(starts[1:], 2 * starts[-1])
    middle = (starts + ends) / 2
    most = limited_types(state.fleet)
    usd = np.array([each.usd_per_second for each in state.fleet.types])
    dear = usd if most else np.full(len(usd), usd.max())
    nodes = float(state.fleet.nodes)
    room = np.maximum(nodes - RESERVED * arrivals * np.minimum(middle, mean), LEAST_LEFT * nodes)
    room[0] = nodes
    sample = _sample(work)
    part = len(sample) / len(work.due)
    lengths = np.append(np.diff(starts), np.inf)
    duals = _fluid(work[sample], starts, slots, part * room * lengths, {v: n / nodes for v, n in most.items()})
    prices: NDArray[np.float64] = duals[0] + DEARER_LATER * dear[:, None] * np.minimum(1.0, middle / mean)
    prices[list(most)] += duals[1:]
    return prices


def _sample(work: RemainingWork) -> "NDArray[np.int64]":
    jobs = len(work.due)
    most = SAMPLE if jobs <= MANY else SAMPLE_OF_MANY
    order = np.argsort(work.due, kind="stable")
    if jobs <= most:
        return order
    chosen: NDArray[np.int64] = order[((np.arange(most) + 0.5) * jobs / most).astype(np.int64)]
    return chosen


def _worth_a_column(slots: SlotTable, seconds: "NDArray[np.float64]", limited: Collection[int]) -> "NDArray[np.bool_]":
    """Jobs × slots: no other slot is as fast, hardly dearer, takes no more of a node, and can be had as well."""
    share, fraction = slots.share, slots.fraction
    usable = np.isfinite(seconds)
    order = np.lexsort((np.arange(len(share)), share, fraction))
    for place, k in enumerate(order):
        for other in order[:place]:
            if slots.type[other] in limited and slots.type[other] != slots.type[k]:
                continue
            if share[other] <= share[k] * (1 + LITTLE) and fraction[other] <= fraction[k]:
                usable[:, k] &= ~(usable[:, other] & (seconds[:, other] <= seconds[:, k]))
    return usable


def _fluid(
    work: RemainingWork,
    starts: "NDArray[np.float64]",
    slots: SlotTable,
    room: "NDArray[np.float64]",
    limited: Mapping[int, float],
) -> "NDArray[np.float64]":
    """The dual prices of each period's room, $ per node-second, not negative: of all nodes, then of each limited type,
    which may have that part of the room."""
    parts = split_periods(work, starts)
    length = parts.end - parts.start
    usable = _worth_a_column(slots, work.seconds, limited)
    job, part, slot = np.nonzero(usable[:, None, :] & (length > 0)[:, :, None])
    speed = 1.0 / work.seconds[job, slot]
    usd = slots.share[slot] + parts.late_usd_per_second[job, part] + parts.late_usd[job, part] * speed
    jobs, periods, cells = len(work.due), len(starts), parts.start.size
    # rows: jobs to be done | each job's parts of time | periods, for all types and each limited one; in units of the
    # job, of seconds, of node-seconds
    column = np.arange(len(job))
    of_type = [np.flatnonzero(slots.type[slot] == number) for number in limited]
    period = [parts.period[job, part], *(parts.period[job[some], part[some]] for some in of_type)]
    scale = float(starts[1])
    model = LinearModel(
        usd=usd * scale,
        low=np.zeros(len(job)),
        high=np.full(len(job), np.inf),
        row_low=np.concatenate([np.ones(jobs), np.full(cells + periods * len(period), -np.inf)]),
        row_high=np.concatenate(
            [np.full(jobs, np.inf), length.ravel() / scale, *(room * size / scale for size in (1.0, *limited.values()))]
        ),
        rows=np.concatenate(
            [
                job,
                jobs + job * parts.start.shape[1] + part,
                *(jobs + cells + number * periods + each for number, each in enumerate(period)),
            ]
        ),
        columns=np.concatenate([column, column, column, *of_type]),
        coefficients=np.concatenate(
            [speed * scale, np.ones(len(job)), *(slots.fraction[slot[some]] for some in (column, *of_type))]
        ),
    )
    duals = solve(model).duals
    if duals is None:
        raise ValueError("a linear plan has prices")
    return np.maximum(-duals[jobs + cells :], 0.0).reshape(len(period), periods) / scale
