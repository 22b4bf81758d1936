"""All decisions that a small queue allows, one by one: the brute force against which optimisers are checked."""

from collections.abc import Iterator
from itertools import combinations_with_replacement

from trainfare.model.queue import NodePlan, State

_Open = tuple[tuple[str, int, tuple[tuple[str, int], ...]], ...]
"""Nodes as (type, free GPUs, jobs)."""


def every_decision(state: State) -> Iterator[tuple[NodePlan, ...]]:
    """All nodes with jobs on them, none empty; nodes are interchangeable, so each set of types comes once."""
    fleet = state.fleet
    for count in range(fleet.nodes + 1):
        for kinds in combinations_with_replacement(fleet.types, count):
            if any(kind.max_nodes is not None and kinds.count(kind) > kind.max_nodes for kind in kinds):
                continue
            nodes: _Open = tuple((kind.name, kind.gpus, ()) for kind in kinds)
            for filled in _filled(state, 0, nodes, dict(fleet.quotas)):
                if all(jobs for _, _, jobs in filled):
                    yield tuple(NodePlan(type=kind, jobs=jobs) for kind, _, jobs in filled)


def _filled(state: State, row: int, nodes: _Open, left: dict[str, int]) -> Iterator[_Open]:
    if row == len(state.jobs):
        yield nodes
        return
    yield from _filled(state, row + 1, nodes, left)
    job = state.jobs[row].job
    for slot, seconds in zip(state.fleet.slots, job.seconds, strict=True):
        gpus = slot.gpus * slot.nodes
        if seconds == float("inf") or left.get(job.user, gpus) < gpus:
            continue
        rest = left | {job.user: left[job.user] - gpus} if job.user in left else left
        fits = [index for index, (kind, free, _) in enumerate(nodes) if kind == slot.type and free >= slot.gpus]
        if slot.nodes > 1:  # complete nodes are interchangeable: the first suffices
            choices = [fits[: slot.nodes]] if len(fits) >= slot.nodes else []
        else:
            choices = [[index] for index in fits]
        for chosen in choices:
            next_nodes = tuple(
                (kind, free - slot.gpus, (*jobs, (job.id, slot.gpus))) if index in chosen else (kind, free, jobs)
                for index, (kind, free, jobs) in enumerate(nodes)
            )
            yield from _filled(state, row + 1, next_nodes, rest)
