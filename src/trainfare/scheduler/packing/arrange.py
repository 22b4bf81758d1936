"""Which jobs share a node when the packing has only said how nodes are divided: those that share one now.

A packing gives each job a slot and says how many nodes there are of each pattern; jobs of one slot may change places
at no cost. A running job that keeps its slot can stay only where its node keeps a part for it, and for those beside it
that stay. So rented nodes n take patterns p one after the other, the largest overlap first:

    overlap(n, p) = Σ_k min(jobs on n that keep slot k, parts of p that are slot k)

Not always the most that can stay, but so where nodes are divided as before. The parts that are left go to the other
jobs in the order of the queue.
"""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from trainfare.model.queue import NodePlan, State
from trainfare.scheduler.packing.pattern_model import Packing, Pattern
from trainfare.scheduler.pricing.offers import NEW, Offers

if TYPE_CHECKING:
    from collections.abc import Iterator


def arranged(state: State, offered: Offers, packing: Packing) -> list[NodePlan]:
    """The nodes of a packing on offered slots, as plans on the state's own types."""
    slot = packing.slots.tolist()
    stayers: defaultdict[int, list[int]] = defaultdict(list)
    for row, place in enumerate(slot):
        if place >= 0 and place == offered.here[row] and len(state.jobs[row].nodes) == 1:
            stayers[state.jobs[row].nodes[0]].append(row)
    left = Counter(dict(packing.nodes))
    nodes = [(pattern, rows) for rows, pattern in _kept(stayers, slot, left)]
    nodes += [(pattern, []) for pattern, count in left.items() for _ in range(count)]
    stay = {row for _, rows in nodes for row in rows}
    others: defaultdict[int, list[int]] = defaultdict(list)
    for row in reversed(range(len(slot))):
        if row not in stay:
            others[slot[row]].append(row)
    plans = []
    for pattern, rows in nodes:
        has = Counter(slot[row] for row in rows)
        for place, parts in pattern.parts:
            rows.extend(others[place].pop() for _ in range(min(parts - has[place], len(others[place]))))
        plan = NodePlan(
            type=offered.fleet.types[pattern.type].name.removesuffix(NEW),
            jobs=tuple((state.jobs[row].job.id, offered.fleet.slots[slot[row]].gpus) for row in rows),
        )
        plans += [plan] * (pattern.nodes if rows else 0)
    return plans


def _kept(
    stayers: dict[int, list[int]], slot: list[int], left: "Counter[Pattern]"
) -> "Iterator[tuple[list[int], Pattern]]":
    """(rows that stay on one node, its pattern); takes the patterns out of `left`."""
    alike: defaultdict[tuple[tuple[int, int], ...], list[list[int]]] = defaultdict(list)
    for rows in stayers.values():
        alike[tuple(sorted(Counter(slot[row] for row in rows).items()))].append(rows)
    pairs = [
        (-sum(min(count, dict(pattern.parts).get(place, 0)) for place, count in kept), number, kept, pattern)
        for kept in alike
        for number, pattern in enumerate(left)
    ]
    for overlap, _, kept, pattern in sorted(pairs, key=lambda pair: (pair[0], pair[1], pair[2])):
        for _ in range(min(left[pattern], len(alike[kept])) if overlap < 0 else 0):
            rows, parts = alike[kept].pop(), Counter(dict(pattern.parts))
            left[pattern] -= 1
            fits = []
            for row in rows:
                if parts[slot[row]] > 0:
                    parts[slot[row]] -= 1
                    fits.append(row)
            yield fits, pattern
