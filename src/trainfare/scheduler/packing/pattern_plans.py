"""The nodes of a packing with the jobs on them; a packing itself only counts nodes by pattern."""

from collections.abc import Iterable

from trainfare.model.queue import NodePlan, QueuedJob, Slot, State
from trainfare.scheduler.packing.pattern_model import Packing, Pattern

_JobsBySlot = dict[int, list[str]]
"""The index of a slot → the jobs that have it."""


def plans_from_packing(state: State, packing: Packing) -> tuple[NodePlan, ...]:
    """The nodes of a packing with the jobs on them; `packing.slots` is in the order of `state.jobs`.

    Jobs with the same slot are interchangeable. Jobs that share a node now and have the same GPUs of the same type
    again are put together where a pattern has room for them, so that they need not migrate: node by node, the largest
    group first, each on the pattern that keeps most of it. Where slots are listed several times, in different roles,
    each part goes to a job in its role. `matching.py` decides which rented node a planned node is.
    """
    jobs_by_slot: _JobsBySlot = {}
    for queued, slot in zip(state.jobs, packing.slots.tolist(), strict=True):
        jobs_by_slot.setdefault(slot, []).append(queued.job.id)
    nodes = _place_groups(packing, _groups_that_can_stay(state, packing))
    placed = {job for _, group in nodes for jobs in group.values() for job in jobs}
    rest = {slot: [job for job in reversed(jobs) if job not in placed] for slot, jobs in jobs_by_slot.items()}
    plans: list[NodePlan] = []
    slots = state.fleet.slots
    for pattern, group in nodes:
        on_node: list[tuple[str, int]] = []
        for slot, parts in pattern.parts:
            jobs, others = list(group.get(slot, ())), rest.get(slot, [])
            while others and len(jobs) < parts:
                jobs.append(others.pop())
            on_node += [(job, slots[slot % len(slots)].gpus) for job in jobs]
        plans += [NodePlan(type=state.fleet.types[pattern.type].name, jobs=tuple(on_node))] * pattern.nodes
    return tuple(plans)


def _groups_that_can_stay(state: State, packing: Packing) -> list[_JobsBySlot]:
    """The jobs that can stay where they are, node by node; gangs have no neighbours."""
    slots = state.fleet.slots
    node_types = {node.id: node.type for node in state.nodes}
    found: dict[int, _JobsBySlot] = {}
    for queued, slot in zip(state.jobs, packing.slots.tolist(), strict=True):
        if slot >= 0 and _can_stay(queued, slots[slot % len(slots)], node_types):
            found.setdefault(queued.nodes[0], {}).setdefault(slot, []).append(queued.job.id)
    return list(found.values())


def _can_stay(queued: QueuedJob, slot: Slot, node_types: dict[int, str]) -> bool:
    same_gpus = len(queued.nodes) == slot.nodes == 1 and queued.gpus == slot.gpus
    return same_gpus and node_types.get(queued.nodes[0]) == slot.type


def _place_groups(packing: Packing, groups: Iterable[_JobsBySlot]) -> list[tuple[Pattern, _JobsBySlot]]:
    """Every node of the packing, with the jobs that stay together there."""
    left = dict(packing.nodes)
    nodes: list[tuple[Pattern, _JobsBySlot]] = []
    for group in sorted(groups, key=lambda each: -sum(map(len, each.values()))):
        fitting = {pattern: _fitting_jobs(pattern, group) for pattern, count in left.items() if count}
        best = max(fitting, key=lambda pattern: sum(map(len, fitting[pattern].values())), default=None)
        if best is not None and any(fitting[best].values()):
            nodes.append((best, fitting[best]))
            left[best] -= 1
    return nodes + [(pattern, {}) for pattern, count in left.items() for _ in range(count)]


def _fitting_jobs(pattern: Pattern, group: _JobsBySlot) -> _JobsBySlot:
    return {slot: group[slot][:parts] for slot, parts in pattern.parts if slot in group}
