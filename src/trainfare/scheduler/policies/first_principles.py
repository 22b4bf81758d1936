"""First principles (Jahani et al. 2019): one job per node, by first come, earliest deadline or highest priority.

In that order each waiting job gets a node of its own while one is free, of its preferred type and with its preferred
GPUs (`slot_preferences`), and keeps it to the end: no job is preempted or migrated. Ties go to the job submitted first.
Where types are limited, jobs are gangs or users have quotas, a job takes the most preferred slot that is available; if
there is none it waits, and the next job may go ahead of it.
"""

from collections.abc import Callable

from trainfare.model.queue import Decision, NodePlan, QueuedJob, State
from trainfare.scheduler.packing.layout import PackingContext, layout_from_plans
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.packing.preferences import slot_preferences
from trainfare.scheduler.tables import remaining_seconds


def fifo(state: State) -> Decision:
    """First in, first out."""
    return _one_job_per_node(state, lambda each: each.job.submitted_seconds)


def edf(state: State) -> Decision:
    """Earliest deadline first."""
    return _one_job_per_node(state, lambda each: each.job.deadline_seconds)


def priority(state: State) -> Decision:
    """The job whose lateness costs most first."""
    return _one_job_per_node(state, lambda each: -each.job.late_usd_per_second)


def _one_job_per_node(state: State, key: Callable[[QueuedJob], float]) -> Decision:
    remaining = remaining_seconds(state)
    layout = layout_from_plans(state, PackingContext(state, remaining), _running_nodes(state))
    waiting = [row for row in range(len(state.jobs)) if row not in layout.assigned]
    order = slot_preferences(state, remaining)
    for row in sorted(waiting, key=lambda row: key(state.jobs[row])):
        if len(layout.types) >= state.fleet.nodes:
            break
        for slot in order[row].tolist():
            if layout.open_own_node(row, slot):
                break
    return Decision(nodes=match_to_rented_nodes(state, layout.plans()))


def _running_nodes(state: State) -> list[NodePlan]:
    """The rented nodes on which a job runs, unchanged."""
    jobs_on: dict[int, list[tuple[str, int]]] = {}
    for each in state.jobs:
        for node in each.nodes:
            jobs_on.setdefault(node, []).append((each.job.id, each.gpus))
    return [
        NodePlan(type=node.type, jobs=tuple(jobs_on[node.id]), node=node.id)
        for node in state.nodes
        if node.id in jobs_on
    ]
