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
`NodeType.most` or a quota. The four steps are here one by one too, on any remaining times `left` (jobs × slots,
seconds), for policies that build on them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainfare.model.queue import Decision, NodePlan, State
from trainfare.scheduler.packing.layout import Board, Layout, layout_of
from trainfare.scheduler.packing.matching import matched
from trainfare.scheduler.packing.setups import by_pressure, preferences
from trainfare.scheduler.tables import remaining

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def greedy(state: State) -> Decision:
    return Decision(nodes=matched(state, greedy_nodes(state, remaining(state))))


def greedy_nodes(state: State, left: "NDArray[np.float64]", *, gifts: int | None = 1) -> list[NodePlan]:
    """All four steps. `gifts`: how many jobs receive idle GPUs in step 4; None: one on every node that has some."""
    made = Layout(Board(state, left))
    _fill(state, made, left)
    made.shrink()
    made.give_idle(jobs=gifts)
    return made.plans()


def fill(state: State, plans: Sequence[NodePlan], left: "NDArray[np.float64]") -> list[NodePlan]:
    """Steps 1 and 2 for the jobs that `plans` leaves waiting: what is planned stays, the others use what is free."""
    made = layout_of(state, Board(state, left), plans)
    _fill(state, made, left)
    return made.plans()


def shrunk(state: State, plans: Sequence[NodePlan], left: "NDArray[np.float64]") -> list[NodePlan]:
    """Step 3."""
    made = layout_of(state, Board(state, left), plans)
    made.shrink()
    return made.plans()


def idle_given(
    state: State, plans: Sequence[NodePlan], left: "NDArray[np.float64]", *, gifts: int | None = None
) -> list[NodePlan]:
    """Step 4, on every node; or only for the `gifts` jobs that gain most."""
    made = layout_of(state, Board(state, left), plans)
    made.give_idle(jobs=gifts)
    return made.plans()


def finished(state: State, plans: Sequence[NodePlan], left: "NDArray[np.float64]") -> list[NodePlan]:
    """`fill`, `shrunk` and `idle_given` on every node, one after the other."""
    made = layout_of(state, Board(state, left), plans)
    _fill(state, made, left)
    made.shrink()
    made.give_idle(jobs=None)
    return made.plans()


def _fill(state: State, made: Layout, left: "NDArray[np.float64]") -> None:
    if not state.jobs or made.full():
        return
    order = preferences(state, left)
    for row in by_pressure(state, left).tolist():
        if row not in made.given:
            made.place(row, order[row].tolist())
            if made.full():
                return
