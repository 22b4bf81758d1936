"""What a decision costs by the look-ahead's reckoning.

    score(decision, F) = Σ nodes c_v · E τ  +  Σ jobs that run C_jk  +  Σ jobs that wait C_j,wait,      τ = min(Exp, F)

A decision is scored with its own F, the first end of what it runs. For one F it is a sum over nodes and jobs, which a
pattern MILP minimises and bounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import NodePlan, State
from trainfare.scheduler.pricing.lookahead import DecisionCosts
from trainfare.scheduler.pricing.objective import assigned_slots
from trainfare.scheduler.pricing.available_slots import AvailableSlots

if TYPE_CHECKING:
    from numpy.typing import NDArray

WAITS = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CandidatePlan:
    """Nodes with jobs, and as arrays: where each job of the state stands, and how many nodes there are of each type."""

    nodes: tuple[NodePlan, ...]
    slots: "NDArray[np.int64]"
    """Per job the place of its offered slot, or WAITS."""
    types: "NDArray[np.int64]"
    """How many nodes there are of each offered type."""

    def first_end_seconds(self, ends: "NDArray[np.float64]") -> float:
        """F, with the seconds until each job ends on each offered slot; infinite when nothing runs."""
        runs = np.flatnonzero(self.slots != WAITS)
        return float(ends[runs, self.slots[runs]].min()) if len(runs) else math.inf

    def usd(self, costs: DecisionCosts) -> float:
        runs = self.slots != WAITS
        running = costs.job_usd[runs, self.slots[runs]].sum()
        return float(running + costs.wait_usd[~runs].sum() + self.types @ costs.node_usd)


def candidate_plan(state: State, available: AvailableSlots, nodes: Sequence[NodePlan]) -> CandidatePlan:
    """With delays, `nodes` are matched already: what stays, what is on and what is new is read from their numbers.

    A job that keeps its slot on another node that is on counts as if that node were new: too dear by the boot.
    """
    assigned = assigned_slots(state, nodes)
    slots = np.array([assigned.get(each.job.id, WAITS) for each in state.jobs], dtype=np.int64)
    places = {each.name: place for place, each in enumerate(state.fleet.types)}
    types = np.array([places[each.type] for each in nodes], dtype=np.int64)
    if available.separates_new_nodes:
        new = np.array([each.node is None for each in nodes], dtype=bool)
        types += np.where(new, len(places), 0)
        slots += np.where((slots != WAITS) & _counts_as_new(state, available, nodes, slots), len(state.fleet.slots), 0)
    return CandidatePlan(
        nodes=tuple(nodes), slots=slots, types=np.bincount(types, minlength=len(available.fleet.types))
    )


def _counts_as_new(
    state: State, available: AvailableSlots, nodes: Sequence[NodePlan], slots: "NDArray[np.int64]"
) -> "NDArray[np.bool_]":
    stands: dict[str, list[int | None]] = {}
    for plan in nodes:
        for job, _ in plan.jobs:
            stands.setdefault(job, []).append(plan.node)
    moved = []
    for queued, slot, here in zip(state.jobs, slots, available.current_slot, strict=True):
        at = stands.get(queued.job.id, [])
        moved.append(None in at or (slot == here and set(at) != set(queued.nodes)))
    return np.array(moved, dtype=bool)
