"""From a packing, which counts nodes, to nodes with jobs on them."""

from collections.abc import Iterable

from trainfare.model.queue import NodePlan, Queued, Slot, State
from trainfare.scheduler.packing.pattern_model import Packing, Pattern

_BySlot = dict[int, list[str]]
"""The place of a slot → the jobs that have it."""


def plans_of(state: State, packing: Packing) -> tuple[NodePlan, ...]:
    """The nodes of a packing with the jobs on them; `packing.slots` stands in the order of `state.jobs`.

    Which jobs share a node is open where they have the same slots. Those that share one now and have the same GPUs of
    the same type again are put together where a pattern has room for them, so that they need not move: node by node,
    the largest company first, each on the pattern that keeps most of it. Where slots stand several times over, in
    different roles, each part goes to a job in its role. Which rented node a planned one is, `matching.py` says.
    """
    standing: _BySlot = {}
    for queued, slot in zip(state.jobs, packing.slots.tolist(), strict=True):
        standing.setdefault(slot, []).append(queued.job.id)
    nodes = _companies_placed(packing, _companies(state, packing))
    placed = {job for _, here in nodes for jobs in here.values() for job in jobs}
    rest = {slot: [job for job in reversed(jobs) if job not in placed] for slot, jobs in standing.items()}
    plans: list[NodePlan] = []
    slots = state.fleet.slots
    for pattern, here in nodes:
        on_node: list[tuple[str, int]] = []
        for slot, parts in pattern.parts:
            jobs, others = list(here.get(slot, ())), rest.get(slot, [])
            while others and len(jobs) < parts:
                jobs.append(others.pop())
            on_node += [(job, slots[slot % len(slots)].gpus) for job in jobs]
        plans += [NodePlan(type=state.fleet.types[pattern.type].name, jobs=tuple(on_node))] * pattern.nodes
    return tuple(plans)


def _companies(state: State, packing: Packing) -> list[_BySlot]:
    """The jobs that could stay where they are, node by node; gangs are alone anyway."""
    slots = state.fleet.slots
    kinds = {node.id: node.type for node in state.nodes}
    found: dict[int, _BySlot] = {}
    for queued, slot in zip(state.jobs, packing.slots.tolist(), strict=True):
        if slot >= 0 and _could_stay(queued, slots[slot % len(slots)], kinds):
            found.setdefault(queued.nodes[0], {}).setdefault(slot, []).append(queued.job.id)
    return list(found.values())


def _could_stay(queued: Queued, slot: Slot, kinds: dict[int, str]) -> bool:
    return len(queued.nodes) == slot.nodes == 1 and queued.gpus == slot.gpus and kinds.get(queued.nodes[0]) == slot.type


def _companies_placed(packing: Packing, companies: Iterable[_BySlot]) -> list[tuple[Pattern, _BySlot]]:
    """Every node of the packing, with those who stay together there."""
    left = dict(packing.nodes)
    nodes: list[tuple[Pattern, _BySlot]] = []
    for company in sorted(companies, key=lambda each: -sum(map(len, each.values()))):
        kept = {pattern: _kept(pattern, company) for pattern, count in left.items() if count}
        best = max(kept, key=lambda pattern: sum(map(len, kept[pattern].values())), default=None)
        if best is not None and any(kept[best].values()):
            nodes.append((best, kept[best]))
            left[best] -= 1
    return nodes + [(pattern, {}) for pattern, count in left.items() for _ in range(count)]


def _kept(pattern: Pattern, company: _BySlot) -> _BySlot:
    return {slot: company[slot][:parts] for slot, parts in pattern.parts if slot in company}
