"""The cost of a decision according to the look-ahead.

    score(decision, F) = Σ nodes c_v · E τ  +  Σ running jobs C_jk  +  Σ waiting jobs C_j,wait,      τ = min(Exp, F)

A decision is scored with its own F, the first end of its running jobs. For a fixed F the score is a sum over nodes and
jobs, which a pattern MILP minimises and bounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import NodePlan, State
from trainfare.scheduler.pricing.available_slots import AvailableSlots
from trainfare.scheduler.pricing.lookahead import DecisionCosts
from trainfare.scheduler.pricing.objective import assigned_slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

WAITS = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CandidatePlan:
    """A candidate for the decision: nodes with jobs, and as arrays the slot of each job and the nodes of each type."""

    nodes: tuple[NodePlan, ...]
    slots: "NDArray[np.int64]"
    """For each job the index of its available slot, or WAITS."""
    types: "NDArray[np.int64]"
    """The number of nodes of each available type."""

    def first_end_seconds(self, ends: "NDArray[np.float64]") -> float:
        """F, from the seconds until each job ends on each available slot; infinite if no job runs."""
        runs = np.flatnonzero(self.slots != WAITS)
        return float(ends[runs, self.slots[runs]].min()) if len(runs) else math.inf

    def score_usd(self, costs: DecisionCosts) -> float:
        runs = self.slots != WAITS
        running = costs.job_usd[runs, self.slots[runs]].sum()
        return float(running + costs.wait_usd[~runs].sum() + self.types @ costs.node_usd)


def candidate_plan(state: State, available: AvailableSlots, nodes: Sequence[NodePlan]) -> CandidatePlan:
    """The candidate with these nodes. With delays, `nodes` are matched to rented nodes already: their ids say which
    jobs stay and which nodes are new.

    A job that keeps its slot on another rented node is counted as if that node were new, which overstates its cost by
    the boot.
    """
    assigned = assigned_slots(state, nodes)
    slots = np.array([assigned.get(each.job.id, WAITS) for each in state.jobs], dtype=np.int64)
    index = {each.name: number for number, each in enumerate(state.fleet.types)}
    types = np.array([index[each.type] for each in nodes], dtype=np.int64)
    if available.separates_new_nodes:
        new = np.array([each.node is None for each in nodes], dtype=bool)
        types += np.where(new, len(index), 0)
        slots += np.where((slots != WAITS) & _counts_as_new(state, available, nodes, slots), len(state.fleet.slots), 0)
    return CandidatePlan(
        nodes=tuple(nodes), slots=slots, types=np.bincount(types, minlength=len(available.fleet.types))
    )


def _counts_as_new(
    state: State, available: AvailableSlots, nodes: Sequence[NodePlan], slots: "NDArray[np.int64]"
) -> "NDArray[np.bool_]":
    nodes_of: dict[str, list[int | None]] = {}
    for plan in nodes:
        for job, _ in plan.jobs:
            nodes_of.setdefault(job, []).append(plan.node)
    moved = []
    for queued, slot, current in zip(state.jobs, slots, available.current_slot, strict=True):
        at = nodes_of.get(queued.job.id, [])
        moved.append(None in at or (slot == current and set(at) != set(queued.nodes)))
    return np.array(moved, dtype=bool)
