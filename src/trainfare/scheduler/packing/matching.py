"""Which rented node each planned node is: a plan says what runs together, and moving costs time.

A running job stays if it has the same GPUs on the same nodes. Over all one-to-one assignments of planned nodes p to
rented nodes n of the same type, the most jobs stay that can:

    max Σ w_pn · z_pn,    w_pn = the jobs of p that run on n with the GPUs that p gives them,    z an assignment

where a job that has done something counts a thousandth more: of equally many, those stay that would be restored.

A gang has its nodes to itself, before and after, so it takes them again without getting in anybody's way. The rest
falls apart into groups of planned and rented nodes that share no jobs with others; a group of one and one needs no
search, the others are assignment problems. Afterwards, planned nodes that are left take rented ones that are left,
those that are ready soonest first: as many nodes as can be are reused, and no more are booted than must be.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from trainfare.model.queue import NodePlan, Queued, State

BEGUN = 1e-3
"""How much more a job counts that has done something; a node never has so many that it outweighs one more job."""

_Kept = dict[tuple[int, int], float]
"""(place of the planned node, id of the rented one) → w: how many jobs stay"""


def matched(state: State, plans: Sequence[NodePlan]) -> tuple[NodePlan, ...]:
    """The same plans in the same order, with the ids of rented nodes; those that are named already stay as they are."""
    given = {place: plan.node for place, plan in enumerate(plans) if plan.node is not None}
    named = set(given.values())
    free = {node.id: node.type for node in state.nodes if node.id not in named}
    open_places = [place for place in range(len(plans)) if place not in given]
    for place, node in _stayed(state, plans, open_places, free):
        given[place] = node
        del free[node]
    left: defaultdict[str, list[int]] = defaultdict(list)
    for rented in sorted(state.nodes, key=lambda node: (node.ready_seconds, node.id), reverse=True):
        if rented.id in free:
            left[rented.type].append(rented.id)
    for place in sorted(open_places, key=lambda place: not plans[place].jobs):  # those with jobs have the first choice
        if place not in given and left[plans[place].type]:
            given[place] = left[plans[place].type].pop()
    return tuple(
        plan if plan.node == given.get(place) else replace(plan, node=given[place]) for place, plan in enumerate(plans)
    )


def _stayed(
    state: State, plans: Sequence[NodePlan], places: list[int], free: dict[int, str]
) -> Iterator[tuple[int, int]]:
    """(place, node) for the nodes on which jobs stay."""
    planned: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for place in places:
        for name, gpus in plans[place].jobs:
            planned[name].append((place, gpus))
    kept: defaultdict[tuple[int, int], float] = defaultdict(float)
    for queued in state.jobs:
        where = planned.get(queued.job.id)
        if not where or not _could_stay(queued, where, plans, free):
            continue
        if len(where) > 1:
            yield from zip((place for place, _ in where), queued.nodes, strict=True)
        else:
            kept[where[0][0], queued.nodes[0]] += 1 + BEGUN * (queued.done > 0)
    for group in _groups(kept):
        yield from _most_kept(group)


def _could_stay(queued: Queued, where: list[tuple[int, int]], plans: Sequence[NodePlan], free: dict[int, str]) -> bool:
    return (
        len(queued.nodes) == len(where)
        and all(gpus == queued.gpus for _, gpus in where)
        and all(free.get(node) == plans[place].type for node, (place, _) in zip(queued.nodes, where, strict=True))
    )


def _groups(kept: _Kept) -> Iterator[_Kept]:
    """The pairs, taken apart so that no planned and no rented node stands in two groups."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    nodes: defaultdict[int, list[int]] = defaultdict(list)
    for place, node in kept:
        places[place].append(node)
        nodes[node].append(place)
    while places:
        group: _Kept = {}
        reached = [next(iter(places))]
        while reached:
            place = reached.pop()
            for node in places.pop(place, ()):
                group[place, node] = kept[place, node]
                reached.extend(nodes.pop(node, ()))
        yield group


def _most_kept(group: _Kept) -> Iterator[tuple[int, int]]:
    """The assignment in which most jobs stay; pairs in which none would are left open."""
    if len(group) == 1:
        yield from group
        return
    places = list(dict.fromkeys(place for place, _ in group))
    nodes = list(dict.fromkeys(node for _, node in group))
    row = {place: number for number, place in enumerate(places)}
    column = {node: number for number, node in enumerate(nodes)}
    stay = np.zeros((len(places), len(nodes)))
    for (place, node), jobs in group.items():
        stay[row[place], column[node]] = jobs
    for i, k in zip(*linear_sum_assignment(stay, maximize=True), strict=True):
        if stay[i, k]:
            yield places[i], nodes[k]
