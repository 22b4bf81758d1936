"""Greedy, as Filippini et al. have it: from scratch at each event, the most pressing job first.

1. Jobs by falling pressure now + min t - d.
2. Each takes the first slot, in the order of its preference (`setups.preferences`), that can be had: on the open node
   of that GPU with the fewest free GPUs that suffice, else on a new node of the **largest** type of that GPU. (A new
   node for the second choice and those after it comes up only where types are limited, or jobs are gangs: otherwise,
   when the first choice cannot open a node, none is left.)
3. Each node with idle GPUs becomes the cheapest type of its GPU that holds its jobs.
4. The one job that saves most seconds by it receives the idle GPUs of its node.

Where the papers are silent: of equal jobs the one submitted first, of equal nodes the one opened first, of equal slots
the one that stands first in the fleet; the gain of step 4 is t before - t after, in seconds. So read, it comes to the
published totals of FIFO, EDF, Priority and Greedy to the digits printed (`tests/scheduler/test_reference_costs.py`).
With step 4 for every node that has idle GPUs, not only for one, the four published instances come 0.2 to 0.7 % cheaper.

A gang needs that many nodes at once, whole and new. No step gives a job a slot on which it cannot run, or goes over
`NodeType.max_nodes` or a quota. The four steps are here one by one too, on any remaining times `left` (jobs × slots,
seconds), for policies that build on them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainfare.model.queue import Decision, NodePlan, State
from trainfare.scheduler.packing.layout import PackingContext, Layout, layout_from_plans
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.packing.slot_preferences import rows_by_pressure, slot_preferences
from trainfare.scheduler.tables import remaining_seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def greedy(state: State) -> Decision:
    return Decision(nodes=match_to_rented_nodes(state, greedy_plans(state, remaining_seconds(state))))


def greedy_plans(state: State, remaining: "NDArray[np.float64]", *, max_recipients: int | None = 1) -> list[NodePlan]:
    """All four steps. `gifts`: how many jobs receive idle GPUs in step 4; None: one on every node that has some."""
    made = Layout(PackingContext(state, remaining))
    _fill(state, made, remaining)
    made.shrink()
    made.give_idle(jobs=max_recipients)
    return made.plans()


def fill_free_gpus(state: State, plans: Sequence[NodePlan], remaining: "NDArray[np.float64]") -> list[NodePlan]:
    """Steps 1 and 2 for the jobs that `plans` leaves waiting: what is planned stays, the others use what is free."""
    made = layout_from_plans(state, PackingContext(state, remaining), plans)
    _fill(state, made, remaining)
    return made.plans()


def shrink_nodes(state: State, plans: Sequence[NodePlan], remaining: "NDArray[np.float64]") -> list[NodePlan]:
    """Step 3."""
    made = layout_from_plans(state, PackingContext(state, remaining), plans)
    made.shrink()
    return made.plans()


def give_idle_gpus(
    state: State, plans: Sequence[NodePlan], remaining: "NDArray[np.float64]", *, max_recipients: int | None = None
) -> list[NodePlan]:
    """Step 4, on every node; or only for the `gifts` jobs that gain most."""
    made = layout_from_plans(state, PackingContext(state, remaining), plans)
    made.give_idle(jobs=max_recipients)
    return made.plans()


def complete_plans(state: State, plans: Sequence[NodePlan], remaining: "NDArray[np.float64]") -> list[NodePlan]:
    """`fill`, `shrunk` and `idle_given` on every node, one after the other."""
    made = layout_from_plans(state, PackingContext(state, remaining), plans)
    _fill(state, made, remaining)
    made.shrink()
    made.give_idle(jobs=None)
    return made.plans()


def _fill(state: State, made: Layout, remaining: "NDArray[np.float64]") -> None:
    if not state.jobs or made.full():
        return
    order = slot_preferences(state, remaining)
    for row in rows_by_pressure(state, remaining).tolist():
        if row not in made.assigned:
            made.place(row, order[row].tolist())
            if made.full():
                return
