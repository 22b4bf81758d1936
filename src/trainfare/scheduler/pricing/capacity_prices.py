"""Capacity prices: the value of a node-second in each future period beyond its rent, as dual prices of a fluid plan.

    min  Σ_jik (h · share_k + late_jik) · y_jik      y_jik: seconds that job j works on slot k in part i of its time
         Σ_ik y_jik / t_jk ≥ 1                             every job is completed
         Σ_k y_jik ≤ length of the part                    one slot at a time
         Σ_jk frac_k · y_jik ≤ len_i · room_i              room_i = max(N - κ·R_i, 0.05 N); all N in the first
         Σ_jk∈v frac_k · y_jik ≤ len_i · room_i · max_v/N       for each type v with fewer than N available nodes

    π_vi = dual of the capacity (and of that of type v)  +  0.05 · c_max · min(1, mid_i / t̄)

R_i = λ · min(mid_i, t̄): nodes that future jobs take, each for its shortest time; κ = 0.3, because those jobs can wait
too: with 0.45 reserved every schedule costs more. The last term makes the future slightly more expensive than the
present; where types are limited c_v replaces c_max, since a machine that the user owns may cost a hundredth of the most
expensive rented one.

The plan has known jobs only; of many jobs it has a sample that is spread evenly over the deadlines, with the same
fraction of the capacity.
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

RESERVED_FRACTION = 0.3
"""κ"""
MIN_CAPACITY_FRACTION = 0.05
FUTURE_SURCHARGE = 0.05
SAMPLE = 120
SAMPLE_OF_MANY = 60
MANY_JOBS = 150
NEGLIGIBLE_SAVING = 0.02
"""A slot that saves less of the rent than this and takes a larger part of a node gets no column."""


def capacity_prices(
    state: State, work: RemainingWork, slots: SlotTable, starts: "NDArray[np.float64]", arrivals: float
) -> "NDArray[np.float64]":
    """π, $ per node-second, types × periods; the share of `slots` is h · share_k (value.py), `arrivals` is λ."""
    mean = float(starts[1]) / EDGES[1]
    ends = np.append(starts[1:], 2 * starts[-1])
    middle = (starts + ends) / 2
    limited = limited_types(state.fleet)
    usd = np.array([each.usd_per_second for each in state.fleet.types])
    surcharge_usd = usd if limited else np.full(len(usd), usd.max())
    nodes = float(state.fleet.nodes)
    room = np.maximum(nodes - RESERVED_FRACTION * arrivals * np.minimum(middle, mean), MIN_CAPACITY_FRACTION * nodes)
    room[0] = nodes
    sample = _sample(work)
    sampled = len(sample) / len(work.due)
    lengths = np.append(np.diff(starts), np.inf)
    duals = _fluid_duals(
        work[sample], starts, slots, sampled * room * lengths, {v: n / nodes for v, n in limited.items()}
    )
    prices: NDArray[np.float64] = duals[0] + FUTURE_SURCHARGE * surcharge_usd[:, None] * np.minimum(1.0, middle / mean)
    prices[list(limited)] += duals[1:]
    return prices


def _sample(work: RemainingWork) -> "NDArray[np.int64]":
    jobs = len(work.due)
    size = SAMPLE if jobs <= MANY_JOBS else SAMPLE_OF_MANY
    order = np.argsort(work.due, kind="stable")
    if jobs <= size:
        return order
    chosen: NDArray[np.int64] = order[((np.arange(size) + 0.5) * jobs / size).astype(np.int64)]
    return chosen


def _useful_columns(slots: SlotTable, seconds: "NDArray[np.float64]", limited: Collection[int]) -> "NDArray[np.bool_]":
    """Jobs × slots: False if another available slot is as fast, hardly more expensive, and takes no more of a node."""
    share, fraction = slots.share, slots.fraction
    usable = np.isfinite(seconds)
    order = np.lexsort((np.arange(len(share)), share, fraction))
    for number, k in enumerate(order):
        for other in order[:number]:
            if slots.type[other] in limited and slots.type[other] != slots.type[k]:
                continue
            if share[other] <= share[k] * (1 + NEGLIGIBLE_SAVING) and fraction[other] <= fraction[k]:
                usable[:, k] &= ~(usable[:, other] & (seconds[:, other] <= seconds[:, k]))
    return usable


def _fluid_duals(
    work: RemainingWork,
    starts: "NDArray[np.float64]",
    slots: SlotTable,
    room: "NDArray[np.float64]",
    limited: Mapping[int, float],
) -> "NDArray[np.float64]":
    """The dual prices of each period's capacity, $ per node-second, not negative: of all nodes, then of each limited
    type, whose capacity is the given fraction of `room`."""
    parts = split_periods(work, starts)
    length = parts.end - parts.start
    usable = _useful_columns(slots, work.seconds, limited)
    job, part, slot = np.nonzero(usable[:, None, :] & (length > 0)[:, :, None])
    speed = 1.0 / work.seconds[job, slot]
    usd = slots.share[slot] + parts.late_usd_per_second[job, part] + parts.late_usd[job, part] * speed
    jobs, periods, cells = len(work.due), len(starts), parts.start.size
    # rows: jobs to complete | each job's parts of time | periods, for all types and for each limited one; in units of
    # jobs, of seconds, of node-seconds
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
        raise ValueError("a linear model without integers has duals")
    return np.maximum(-duals[jobs + cells :], 0.0).reshape(len(period), periods) / scale
