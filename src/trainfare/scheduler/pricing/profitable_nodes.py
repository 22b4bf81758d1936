"""Drops the nodes of a plan that were added after the packing and are not worth their rent.

The packing leaves a job waiting where that is cheaper according to the look-ahead, whose values are low estimates: near
full load it pays to put such jobs on free nodes anyway. But not at any price: where a machine that the user owns costs
a tenth of a rented one, most jobs can wait for it and lose nothing. An added node is dropped if

    c_v · E τ  >  MAX_RENT_PER_GAIN · Σ_j (C_j,wait - C_jk)         its rent until the next event, and the gain there

unless a job on it was submitted more than `PATIENCE` times t̄ ago, the mean shortest time of the jobs so far. So no
stream of jobs, however long, keeps a job waiting for ever.

Jobs of a user whose quota leaves no time to wait do not wait either, because the look-ahead does not know quotas: by
one of the user's deadlines D, the GPU seconds of the jobs due by then would take the quota for more than
`MAX_QUOTA_LOAD` of the time until D.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import NodePlan, State
from trainfare.scheduler.pricing.lookahead import DecisionCosts
from trainfare.scheduler.pricing.score import CandidatePlan
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_RENT_PER_GAIN = 2.0
PATIENCE = 50.0
MAX_QUOTA_LOAD = 0.5


def drop_unprofitable_nodes(
    state: State, remaining: "NDArray[np.float64]", plan: CandidatePlan, costs: DecisionCosts, *, packed: int
) -> list[NodePlan]:
    """The nodes of the plan without the unprofitable ones after the first `packed`; `remaining` as in lookahead.py."""
    rows = {each.job.id: row for row, each in enumerate(state.jobs)}
    type_index = {each.name: index for index, each in enumerate(state.fleet.types)}
    long_ago = state.now_seconds - PATIENCE * state.arrivals.mean_shortest_seconds
    pressed = _users_without_slack(state, remaining)
    nodes_with = Counter(node.jobs for node in plan.nodes)  # more than one: a gang

    def gain_usd(job: str) -> float:
        row = rows[job]
        if state.jobs[row].job.submitted_seconds < long_ago or state.jobs[row].job.user in pressed:
            return math.inf
        return float(costs.wait_usd[row] - costs.job_usd[row, plan.slots[row]])

    def is_profitable(node: NodePlan) -> bool:
        rent_usd = nodes_with[node.jobs] * float(costs.node_usd[type_index[node.type]])
        return rent_usd <= MAX_RENT_PER_GAIN * sum(gain_usd(job) for job, _ in node.jobs)

    return [*plan.nodes[:packed], *(each for each in plan.nodes[packed:] if is_profitable(each))]


def _users_without_slack(state: State, remaining: "NDArray[np.float64]") -> set[str]:
    """The users whose quota leaves their jobs no time to wait."""
    slots = slot_table(state.fleet)
    gpu_seconds = (remaining * slots.gpus * slots.nodes).min(axis=1)
    due = np.array([each.job.deadline_seconds for each in state.jobs]) - state.now_seconds
    matters = np.array([each.job.late_usd_per_second > 0 for each in state.jobs]) & np.isfinite(due)
    pressed = set()
    for user, quota in state.fleet.quotas:
        rows = np.flatnonzero(matters & [each.job.user == user for each in state.jobs])
        rows = rows[np.argsort(due[rows], kind="stable")]
        if (np.cumsum(gpu_seconds[rows]) > MAX_QUOTA_LOAD * quota * due[rows]).any():
            pressed.add(user)
    return pressed
