"""The jobs on each node of a packing that only says how nodes are divided: jobs that share a node now stay together.

A packing gives each job a slot and says how many nodes have each pattern; jobs with the same slot are interchangeable.
A running job that keeps its slot can stay only if its node keeps a part for it, and for the jobs next to it that stay.
So rented nodes n take patterns p one after the other, the largest overlap first:

    overlap(n, p) = Σ_k min(jobs on n that keep slot k, parts of p that are slot k)

This is not always the largest possible number of jobs that stay, but it is where nodes are divided as before. The
remaining parts go to the other jobs in the order of the queue.
"""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from trainfare.model.queue import NodePlan, State
from trainfare.scheduler.packing.pattern_model import Packing, Pattern
from trainfare.scheduler.pricing.available_slots import NEW, AvailableSlots

if TYPE_CHECKING:
    from collections.abc import Iterator


def arrange_nodes(state: State, available: AvailableSlots, packing: Packing) -> list[NodePlan]:
    """The nodes of a packing on available slots, as plans on the state's own types."""
    slot = packing.slots.tolist()
    stayers: defaultdict[int, list[int]] = defaultdict(list)
    for row, index in enumerate(slot):
        if index >= 0 and index == available.current_slot[row] and len(state.jobs[row].nodes) == 1:
            stayers[state.jobs[row].nodes[0]].append(row)
    left = Counter(dict(packing.nodes))
    nodes = [(pattern, rows) for rows, pattern in _match_patterns(stayers, slot, left)]
    nodes += [(pattern, []) for pattern, count in left.items() for _ in range(count)]
    staying = {row for _, rows in nodes for row in rows}
    others: defaultdict[int, list[int]] = defaultdict(list)
    for row in reversed(range(len(slot))):
        if row not in staying:
            others[slot[row]].append(row)
    plans = []
    for pattern, rows in nodes:
        filled = Counter(slot[row] for row in rows)
        for index, parts in pattern.parts:
            rows.extend(others[index].pop() for _ in range(min(parts - filled[index], len(others[index]))))
        plan = NodePlan(
            type=available.fleet.types[pattern.type].name.removesuffix(NEW),
            jobs=tuple((state.jobs[row].job.id, available.fleet.slots[slot[row]].gpus) for row in rows),
        )
        plans += [plan] * (pattern.nodes if rows else 0)
    return plans


def _match_patterns(
    stayers: dict[int, list[int]], slot: list[int], left: "Counter[Pattern]"
) -> "Iterator[tuple[list[int], Pattern]]":
    """(rows that stay on one node, its pattern); takes the patterns out of `left`."""
    same_slots: defaultdict[tuple[tuple[int, int], ...], list[list[int]]] = defaultdict(list)
    for rows in stayers.values():
        same_slots[tuple(sorted(Counter(slot[row] for row in rows).items()))].append(rows)
    pairs = [
        (-sum(min(count, dict(pattern.parts).get(index, 0)) for index, count in counts), number, counts, pattern)
        for counts in same_slots
        for number, pattern in enumerate(left)
    ]
    for overlap, _, counts, pattern in sorted(pairs, key=lambda pair: (pair[0], pair[1], pair[2])):
        for _ in range(min(left[pattern], len(same_slots[counts])) if overlap < 0 else 0):
            rows, parts = same_slots[counts].pop(), Counter(dict(pattern.parts))
            left[pattern] -= 1
            fits = []
            for row in rows:
                if parts[slot[row]] > 0:
                    parts[slot[row]] -= 1
                    fits.append(row)
            yield fits, pattern
