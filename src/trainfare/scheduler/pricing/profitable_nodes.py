"""Which of the nodes that were only filled up are worth their rent.

The packing leaves a job waiting where that is cheaper by the look-ahead, whose values are low estimates: near full load
it pays to put such jobs on free nodes all the same. Not at any price: where one own machine costs a tenth of what can
be rented, most jobs can wait for it and lose nothing. A node that was filled up is given up when

    c_v · E τ  >  WORTH · Σ_j (C_j,wait - C_jk)         its rent until the next event, and what is gained there by then

unless a job on it was submitted so long ago that it is to be done at any price: `PATIENCE` times t̄, the mean shortest
time of the jobs seen. So no stream of jobs, however long, keeps one waiting for ever.

Nor do jobs wait whose user has a quota that leaves no time for it, which the look-ahead does not know: by one of the
user's deadlines D, the GPU seconds of the jobs that are due by then would take the quota for more than `PRESSED` of
the time until D.
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

WORTH = 2.0
PATIENCE = 50.0
PRESSED = 0.5


def drop_unprofitable_nodes(
    state: State, remaining: "NDArray[np.float64]", plan: CandidatePlan, costs: DecisionCosts, *, packed: int
) -> list[NodePlan]:
    """The nodes of the plan without those after the first `packed` that are not worth it; `left` as in lookahead.py."""
    rows = {each.job.id: row for row, each in enumerate(state.jobs)}
    places = {each.name: place for place, each in enumerate(state.fleet.types)}
    long_ago = state.now_seconds - PATIENCE * state.arrivals.mean_shortest_seconds
    pressed = _pressed(state, remaining)
    alike = Counter(node.jobs for node in plan.nodes)  # more than one: a gang's

    def gained_usd(job: str) -> float:
        row = rows[job]
        if state.jobs[row].job.submitted_seconds < long_ago or state.jobs[row].job.user in pressed:
            return math.inf
        return float(costs.wait_usd[row] - costs.job_usd[row, plan.slots[row]])

    def is_worth_it(node: NodePlan) -> bool:
        rent_usd = alike[node.jobs] * float(costs.node_usd[places[node.type]])
        return rent_usd <= WORTH * sum(gained_usd(job) for job, _ in node.jobs)

    return [*plan.nodes[:packed], *(each for each in plan.nodes[packed:] if is_worth_it(each))]


def _pressed(state: State, remaining: "NDArray[np.float64]") -> set[str]:
    """The users whose quota leaves no time to wait."""
    slots = slot_table(state.fleet)
    gpu_seconds = (remaining * slots.gpus * slots.nodes).min(axis=1)
    due = np.array([each.job.deadline_seconds for each in state.jobs]) - state.now_seconds
    matters = np.array([each.job.late_usd_per_second > 0 for each in state.jobs]) & np.isfinite(due)
    pressed = set()
    for user, quota in state.fleet.quotas:
        rows = np.flatnonzero(matters & [each.job.user == user for each in state.jobs])
        rows = rows[np.argsort(due[rows], kind="stable")]
        if (np.cumsum(gpu_seconds[rows]) > PRESSED * quota * due[rows]).any():
            pressed.add(user)
    return pressed
