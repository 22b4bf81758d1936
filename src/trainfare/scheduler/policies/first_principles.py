"""First principles (Jahani et al. 2019): one job to a node, first come, earliest deadline or highest priority first.

In that order each waiting job gets a node of its own while one is free, of the type and with the GPUs that it prefers
(`setups.preferences`), and keeps it to the end: nothing is ever stopped or moved. Of equal jobs the one submitted
first. Where types are limited, jobs are gangs or users have quotas, a job takes the most preferred slot that can be
had; if there is none it waits, and the next may go ahead of it.
"""

from collections.abc import Callable

from trainfare.model.queue import Decision, NodePlan, QueuedJob, State
from trainfare.scheduler.packing.layout import PackingContext, layout_from_plans
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.packing.slot_preferences import slot_preferences
from trainfare.scheduler.tables import remaining_seconds


def fifo(state: State) -> Decision:
    """First in, first out."""
    return _one_each(state, lambda each: each.job.submitted_seconds)


def edf(state: State) -> Decision:
    """Earliest deadline first."""
    return _one_each(state, lambda each: each.job.deadline_seconds)


def priority(state: State) -> Decision:
    """The job whose lateness costs most first."""
    return _one_each(state, lambda each: -each.job.late_usd_per_second)


def _one_each(state: State, turn: Callable[[QueuedJob], float]) -> Decision:
    remaining = remaining_seconds(state)
    made = layout_from_plans(state, PackingContext(state, remaining), _running(state))
    waiting = [row for row in range(len(state.jobs)) if row not in made.assigned]
    order = slot_preferences(state, remaining)
    for row in sorted(waiting, key=lambda row: turn(state.jobs[row])):
        if len(made.types) >= state.fleet.nodes:
            break
        for slot in order[row].tolist():
            if made.open_own(row, slot):
                break
    return Decision(nodes=match_to_rented_nodes(state, made.plans()))


def _running(state: State) -> list[NodePlan]:
    """The rented nodes on which a job runs, as they are."""
    on: dict[int, list[tuple[str, int]]] = {}
    for each in state.jobs:
        for node in each.nodes:
            on.setdefault(node, []).append((each.job.id, each.gpus))
    return [NodePlan(type=node.type, jobs=tuple(on[node.id]), node=node.id) for node in state.nodes if node.id in on]
