"""The papers' cost of one decision (Jahani et al. 2019; Filippini et al.): the cost until the next event.

    cost = Σ_n c_n · min_{j on n} t_j  +  Σ_j runs w_j · max(0, now + t_j - d_j)
                                       +  Σ_j waits 100 · w_j · max(0, now + max_k t_jk - d_j)

n: the nodes of the decision, c_n the price of a complete node per second; t_j: the remaining seconds of job j on its
slot, t_jk on slot k, over the slots where it can run at all; d_j its deadline, w_j the cost of a second of lateness.

Our reading of "a node is paid until the first job on it ends": the rent is counted for exactly that long, so two nodes
may be counted for different times. A waiting job is charged as if it then ran on its slowest slot, and nothing if it
ends in time even there; so waiting may be free. The time to boot, save and restart is not counted. A node without jobs
(the papers have none) is paid until the first job of the complete decision ends.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Fleet, NodePlan, Slot, State
from trainfare.scheduler.tables import remaining_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

POSTPONEMENT_PENALTY = 100.0
"""A waiting job is charged this many times its worst lateness (the papers' penalty)."""


def late_usd(state: State, remaining: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Jobs × slots: w_j · max(0, now + t_jk - d_j), with t = `remaining`; infinite where the job cannot run."""
    deadlines = np.array([each.job.deadline_seconds for each in state.jobs])
    weights = np.array([each.job.late_usd_per_second for each in state.jobs])
    runs = np.isfinite(remaining)
    late = np.maximum(0.0, state.now_seconds + np.where(runs, remaining, 0.0) - deadlines[:, None])
    usd: NDArray[np.float64] = np.where(runs, weights[:, None] * late, math.inf)
    return usd


def postponed_usd(state: State, remaining: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """For each job 100 · w_j · max(0, now + max_k t_jk - d_j), the max over the slots where it can run."""
    late = late_usd(state, remaining)
    worst: NDArray[np.float64] = POSTPONEMENT_PENALTY * np.max(
        np.where(np.isfinite(late), late, 0.0), axis=1, initial=0.0
    )
    return worst


@lru_cache(maxsize=32)
def slot_indices(fleet: Fleet) -> dict[Slot, int]:
    """The index of each slot in `Fleet.slots`."""
    return {slot: index for index, slot in enumerate(fleet.slots)}


def assigned_slots(state: State, nodes: Sequence[NodePlan]) -> dict[str, int]:
    """Job id → the index of its slot; a job on several nodes has one slot with that many nodes."""
    gpus_by_node: dict[str, list[tuple[str, int]]] = {}
    for plan in nodes:
        for job, gpus in plan.jobs:
            gpus_by_node.setdefault(job, []).append((plan.type, gpus))
    indices = slot_indices(state.fleet)
    assigned = {}
    for job, at in gpus_by_node.items():
        slot = Slot(*at[0], len(at))
        if slot not in indices or len(set(at)) > 1:
            raise ValueError(f"{job} is put on {at}, which is no slot of the fleet")
        assigned[job] = indices[slot]
    return assigned


def decision_usd(state: State, nodes: Sequence[NodePlan], remaining: "NDArray[np.float64] | None" = None) -> float:
    """The cost of a decision as above; `remaining` (jobs × slots, seconds) replaces the papers' remaining times."""
    table = remaining_seconds(state) if remaining is None else remaining
    rows = {each.job.id: row for row, each in enumerate(state.jobs)}
    assigned = assigned_slots(state, nodes)
    seconds = {job: float(table[rows[job], slot]) for job, slot in assigned.items()}
    first = min(seconds.values(), default=0.0)
    prices = {each.name: each.usd_per_second for each in state.fleet.types}
    rent = sum(prices[plan.type] * min((seconds[job] for job, _ in plan.jobs), default=first) for plan in nodes)
    late, waits = late_usd(state, table), postponed_usd(state, table)
    running = sum(float(late[rows[job], slot]) for job, slot in assigned.items())
    waiting = sum(float(waits[row]) for job, row in rows.items() if job not in assigned)
    return rent + running + waiting
