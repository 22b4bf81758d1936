"""The assignment of planned nodes to rented nodes: a plan says which jobs run together, and migrations cost time.

A running job stays if it has the same GPUs on the same nodes. Over all one-to-one assignments of planned nodes p to
rented nodes n of the same type, as many jobs as possible stay:

    max Σ w_pn · z_pn,    w_pn = the jobs of p that run on n with the GPUs that p gives them,    z an assignment

A job that has made progress counts a thousandth more: among equally many, those stay that would have to be restored.

A gang has its nodes for itself, before and after, so it keeps them without affecting other jobs. The rest separates
into groups of planned and rented nodes that share no jobs with other groups; a group of one and one needs no search,
the others are assignment problems. Afterwards the remaining planned nodes take the remaining rented ones, those that
are ready soonest first: as many nodes as possible are reused, and no more are booted than necessary.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from trainfare.model.queue import NodePlan, QueuedJob, State

PROGRESS_WEIGHT = 1e-3
"""The additional weight of a job that has made progress; a node never has so many jobs that this outweighs one more."""

_Stays = dict[tuple[int, int], float]
"""(index of the planned node, id of the rented one) → w: the weight of the jobs that stay"""


def match_to_rented_nodes(state: State, plans: Sequence[NodePlan]) -> tuple[NodePlan, ...]:
    """The same plans in the same order, with the ids of rented nodes; plans that name a node already keep it."""
    matches = {index: plan.node for index, plan in enumerate(plans) if plan.node is not None}
    named = set(matches.values())
    free = {node.id: node.type for node in state.nodes if node.id not in named}
    unmatched = [index for index in range(len(plans)) if index not in matches]
    for index, node in _nodes_with_staying_jobs(state, plans, unmatched, free):
        matches[index] = node
        del free[node]
    left: defaultdict[str, list[int]] = defaultdict(list)
    for rented in sorted(state.nodes, key=lambda node: (node.ready_seconds, node.id), reverse=True):
        if rented.id in free:
            left[rented.type].append(rented.id)
    for index in sorted(unmatched, key=lambda index: not plans[index].jobs):  # nodes with jobs choose first
        if index not in matches and left[plans[index].type]:
            matches[index] = left[plans[index].type].pop()
    return tuple(
        plan if plan.node == matches.get(index) else replace(plan, node=matches[index])
        for index, plan in enumerate(plans)
    )


def _nodes_with_staying_jobs(
    state: State, plans: Sequence[NodePlan], unmatched: list[int], free: dict[int, str]
) -> Iterator[tuple[int, int]]:
    """(index of the plan, node) for the nodes on which jobs stay."""
    planned: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for index in unmatched:
        for name, gpus in plans[index].jobs:
            planned[name].append((index, gpus))
    stays: defaultdict[tuple[int, int], float] = defaultdict(float)
    for queued in state.jobs:
        where = planned.get(queued.job.id)
        if not where or not _can_stay(queued, where, plans, free):
            continue
        if len(where) > 1:
            yield from zip((index for index, _ in where), queued.nodes, strict=True)
        else:
            stays[where[0][0], queued.nodes[0]] += 1 + PROGRESS_WEIGHT * (queued.done > 0)
    for group in _independent_groups(stays):
        yield from _best_assignment(group)


def _can_stay(queued: QueuedJob, where: list[tuple[int, int]], plans: Sequence[NodePlan], free: dict[int, str]) -> bool:
    return (
        len(queued.nodes) == len(where)
        and all(gpus == queued.gpus for _, gpus in where)
        and all(free.get(node) == plans[index].type for node, (index, _) in zip(queued.nodes, where, strict=True))
    )


def _independent_groups(stays: _Stays) -> Iterator[_Stays]:
    """The pairs in groups such that no planned and no rented node is in two groups."""
    nodes_of: defaultdict[int, list[int]] = defaultdict(list)
    plans_of: defaultdict[int, list[int]] = defaultdict(list)
    for index, node in stays:
        nodes_of[index].append(node)
        plans_of[node].append(index)
    while nodes_of:
        group: _Stays = {}
        to_visit = [next(iter(nodes_of))]
        while to_visit:
            index = to_visit.pop()
            for node in nodes_of.pop(index, ()):
                group[index, node] = stays[index, node]
                to_visit.extend(plans_of.pop(node, ()))
        yield group


def _best_assignment(group: _Stays) -> Iterator[tuple[int, int]]:
    """The assignment in which most jobs stay, without the pairs in which none would."""
    if len(group) == 1:
        yield from group
        return
    planned = list(dict.fromkeys(index for index, _ in group))
    nodes = list(dict.fromkeys(node for _, node in group))
    row = {index: number for number, index in enumerate(planned)}
    column = {node: number for number, node in enumerate(nodes)}
    weights = np.zeros((len(planned), len(nodes)))
    for (index, node), weight in group.items():
        weights[row[index], column[node]] = weight
    for i, k in zip(*linear_sum_assignment(weights, maximize=True), strict=True):
        if weights[i, k]:
            yield planned[i], nodes[k]
