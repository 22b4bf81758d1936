"""Nodes being filled with jobs: what is open, what is free on it, who may have it. As numbers, to be fast.

A job is its row in `State.jobs`, a type its place in `Fleet.types`, a slot its place in `Fleet.slots`. Types of one GPU
that are reclaimed equally often are a family: a job that is given g GPUs does not care on which of them. Open nodes
stand in heaps by type and by free GPUs, so that the tightest fit is found without looking at every node.

Nodes are filled first (`place`, `open_own`), then shrunk, then idle GPUs are given away: after that nothing is placed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from trainfare.model.queue import Fleet, NodePlan, State
from trainfare.scheduler.pricing.objective import slots_given

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_SLOT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """A fleet as plain numbers, types and slots by their places."""

    names: tuple[str, ...]
    """Of the types, as the four that follow."""
    gpus: tuple[int, ...]
    usd_per_second: tuple[float, ...]
    most: tuple[int, ...]
    family: tuple[int, ...]
    families: tuple[tuple[int, ...], ...]
    """The types of each family, the largest first; of equals the cheapest, then the one that stands first."""
    single: tuple[tuple[int, ...], ...]
    """Type → GPUs → the slot of so many GPUs on one node of the type, or NO_SLOT."""
    slot_type: tuple[int, ...]
    slot_gpus: tuple[int, ...]
    slot_nodes: tuple[int, ...]


@lru_cache(maxsize=32)
def kinds_of(fleet: Fleet) -> Kinds:
    place = {each.name: number for number, each in enumerate(fleet.types)}
    alike = [(each.gpu, each.reclaims_per_hour) for each in fleet.types]
    families = list(dict.fromkeys(alike))
    single = [[NO_SLOT] * (each.gpus + 1) for each in fleet.types]
    for number, slot in enumerate(fleet.slots):
        if slot.nodes == 1:
            single[place[slot.type]][slot.gpus] = number
    largest_first = sorted(range(len(alike)), key=lambda at: (-fleet.types[at].gpus, fleet.types[at].usd_per_hour))
    return Kinds(
        names=tuple(each.name for each in fleet.types),
        gpus=tuple(each.gpus for each in fleet.types),
        usd_per_second=tuple(each.usd_per_second for each in fleet.types),
        most=tuple(fleet.nodes if each.most is None else each.most for each in fleet.types),
        family=tuple(map(families.index, alike)),
        families=tuple(tuple(at for at in largest_first if alike[at] == each) for each in families),
        single=tuple(map(tuple, single)),
        slot_type=tuple(place[slot.type] for slot in fleet.slots),
        slot_gpus=tuple(slot.gpus for slot in fleet.slots),
        slot_nodes=tuple(slot.nodes for slot in fleet.slots),
    )


class Board:
    """What does not change while nodes are filled: the fleet, the seconds left of every job, the users' quotas."""

    def __init__(self, state: State, left: "NDArray[np.float64]") -> None:
        self.kinds = kinds_of(state.fleet)
        self.nodes = state.fleet.nodes
        self.left: list[list[float]] = left.tolist()
        self.ids = [each.job.id for each in state.jobs]
        self.quotas = dict(state.fleet.quotas)
        self.users = [each.job.user for each in state.jobs] if self.quotas else []


class Layout:
    """Nodes with jobs on them. `types` and `rows` stand node by node, in the order in which nodes were opened."""

    def __init__(self, board: Board) -> None:
        kinds = board.kinds
        self.board = board
        self.types: list[int] = []
        self.free: list[int] = []
        self.rows: list[list[int]] = []
        self.given: dict[int, int] = {}
        """Row → the slot that the job is given."""
        self.of_type = [0] * len(kinds.names)
        self._heaps: list[list[list[int]]] = [[[] for _ in range(gpus + 1)] for gpus in kinds.gpus]
        self._freest = [0] * len(kinds.families)
        self._quota_left = dict(board.quotas)

    def full(self) -> bool:
        """No node can be opened any more, and no open one has a free GPU."""
        return len(self.types) >= self.board.nodes and not any(self._freest)

    def place(self, row: int, slots: Iterable[int]) -> bool:
        """Puts the job on the first of the slots that can be had: on an open node if one fits, else on a new one."""
        seconds = self.board.left[row]
        for slot in slots:
            if seconds[slot] < inf and self._granted(row, slot) and (self._fit(row, slot) or self._open(row, slot)):
                return True
        return False

    def open_own(self, row: int, slot: int) -> bool:
        """Puts the job alone on a new node of the slot's own type, or on as many as a gang has."""
        kinds = self.board.kinds
        number, many = kinds.slot_type[slot], kinds.slot_nodes[slot]
        if not self.board.left[row][slot] < inf or not self._granted(row, slot) or not self._can_open(number, many):
            return False
        self.grant(row, slot)
        for _ in range(many):
            self.add_node(number, [row])
        return True

    def add_node(self, number: int, rows: list[int]) -> None:
        """A node of that type with these jobs, whose slots stand in `given` already."""
        kinds = self.board.kinds
        free = kinds.gpus[number] - sum(kinds.slot_gpus[self.given[row]] for row in rows)
        self.types.append(number)
        self.rows.append(rows)
        self.free.append(free)
        self.of_type[number] += 1
        self._offer(len(self.types) - 1)

    def grant(self, row: int, slot: int) -> None:
        """The slot is the job's, and counts against its user's quota; its nodes are added after."""
        kinds = self.board.kinds
        self.given[row] = slot
        self._take(row, kinds.slot_gpus[slot] * kinds.slot_nodes[slot])

    def shrink(self) -> None:
        """Each node with idle GPUs becomes the cheapest type of its family that holds its jobs and can still be had.

        The papers ask for as many or one more GPU than used; where larger types cost more, that is the same.
        """
        kinds = self.board.kinds
        for node, free in enumerate(self.free):
            if free and self.rows[node]:
                now = self.types[node]
                family = kinds.families[kinds.family[now]]
                holds = [each for each in family if each == now or self._may_become(node, each)]
                best = min(holds, key=lambda each: (kinds.usd_per_second[each], each != now))
                if best != now:
                    self._become(node, best)

    def give_idle(self, *, jobs: int | None) -> None:
        """Idle GPUs go to the job on their node that gains most seconds from all of them, on at most `jobs` nodes.

        The nodes with the largest gains come first; None: all nodes. Of equals the first node, the first job on it.
        """
        offers = []
        for node, free in enumerate(self.free):
            if free and self.rows[node]:
                row = max(self.rows[node], key=lambda row: self._gain(row, node))
                offers.append((-self._gain(row, node), node, row))
        for _, node, row in sorted(offers)[:jobs]:
            if self._gain(row, node) > 0:  # a quota may be used up by an earlier gift
                self._take(row, self.free[node])
                self.given[row] = self._with_idle(row, node)
                self.free[node] = 0

    def plans(self) -> list[NodePlan]:
        kinds, ids, given = self.board.kinds, self.board.ids, self.given
        return [
            NodePlan(type=kinds.names[number], jobs=tuple((ids[row], kinds.slot_gpus[given[row]]) for row in rows))
            for number, rows in zip(self.types, self.rows, strict=True)
        ]

    def _granted(self, row: int, slot: int) -> bool:
        if not self._quota_left:
            return True
        kinds = self.board.kinds
        return kinds.slot_gpus[slot] * kinds.slot_nodes[slot] <= self._quota_left.get(self.board.users[row], inf)

    def _take(self, row: int, gpus: int) -> None:
        if self._quota_left and self.board.users[row] in self._quota_left:
            self._quota_left[self.board.users[row]] -= gpus

    def _can_open(self, number: int, many: int) -> bool:
        return (
            len(self.types) + many <= self.board.nodes and self.of_type[number] + many <= self.board.kinds.most[number]
        )

    def _fit(self, row: int, slot: int) -> bool:
        """Onto the open node of the family with the fewest free GPUs that suffice; of equals the one opened first."""
        kinds = self.board.kinds
        gpus, family = kinds.slot_gpus[slot], kinds.family[kinds.slot_type[slot]]
        if kinds.slot_nodes[slot] > 1 or gpus > self._freest[family]:
            return False
        seconds = self.board.left[row]
        for free in range(gpus, self._freest[family] + 1):
            found = None
            for number in kinds.families[family]:
                heap = self._heaps[number][free] if free <= kinds.gpus[number] else None
                if heap and (found is None or heap[0] < found):
                    same = kinds.single[number][gpus]
                    if same != NO_SLOT and seconds[same] < inf:
                        found = heap[0]
            if found is not None:
                self._join(row, found, gpus)
                return True
        return False

    def _open(self, row: int, slot: int) -> bool:
        """On a new node of the largest type of the family that holds it and can be had; a gang on its own type."""
        kinds = self.board.kinds
        if kinds.slot_nodes[slot] > 1:
            return self.open_own(row, slot)
        if len(self.types) >= self.board.nodes:
            return False
        gpus = kinds.slot_gpus[slot]
        for number in kinds.families[kinds.family[kinds.slot_type[slot]]]:
            same = kinds.single[number][gpus] if gpus <= kinds.gpus[number] else NO_SLOT
            if same != NO_SLOT and self.board.left[row][same] < inf and self._can_open(number, 1):
                self.grant(row, same)
                self.add_node(number, [row])
                return True
        return False

    def _join(self, row: int, node: int, gpus: int) -> None:
        number = self.types[node]
        heappop(self._heaps[number][self.free[node]])
        self.grant(row, self.board.kinds.single[number][gpus])
        self.rows[node].append(row)
        self.free[node] -= gpus
        self._offer(node)
        family = self.board.kinds.family[number]
        while self._freest[family] and not self._any_free(family, self._freest[family]):
            self._freest[family] -= 1

    def _offer(self, node: int) -> None:
        free, number = self.free[node], self.types[node]
        if free:
            heappush(self._heaps[number][free], node)
            family = self.board.kinds.family[number]
            self._freest[family] = max(self._freest[family], free)

    def _any_free(self, family: int, free: int) -> bool:
        kinds = self.board.kinds
        return any(free <= kinds.gpus[number] and self._heaps[number][free] for number in kinds.families[family])

    def _may_become(self, node: int, number: int) -> bool:
        kinds = self.board.kinds
        if self.of_type[number] >= kinds.most[number]:
            return False
        if kinds.gpus[number] < kinds.gpus[self.types[node]] - self.free[node]:
            return False
        same = [(row, kinds.single[number][kinds.slot_gpus[self.given[row]]]) for row in self.rows[node]]
        return all(slot != NO_SLOT and self.board.left[row][slot] < inf for row, slot in same)

    def _become(self, node: int, number: int) -> None:
        kinds, was = self.board.kinds, self.types[node]
        self.of_type[was] -= 1
        self.of_type[number] += 1
        self.types[node] = number
        self.free[node] -= kinds.gpus[was] - kinds.gpus[number]
        for row in self.rows[node]:
            self.given[row] = kinds.single[number][kinds.slot_gpus[self.given[row]]]

    def _with_idle(self, row: int, node: int) -> int:
        """The slot of this job with all idle GPUs of its node, or NO_SLOT."""
        kinds = self.board.kinds
        return kinds.single[self.types[node]][kinds.slot_gpus[self.given[row]] + self.free[node]]

    def _gain(self, row: int, node: int) -> float:
        """Seconds that the job saves with all idle GPUs of its node; 0 where it may not have them."""
        more = self._with_idle(row, node)
        if more == NO_SLOT:
            return 0.0
        if self._quota_left and self.free[node] > self._quota_left.get(self.board.users[row], inf):
            return 0.0
        return self.board.left[row][self.given[row]] - self.board.left[row][more]


def layout_of(state: State, board: Board, plans: Sequence[NodePlan]) -> Layout:
    """The plans as numbers, node by node in their order."""
    rows = {name: row for row, name in enumerate(board.ids)}
    number = {name: place for place, name in enumerate(board.kinds.names)}
    made = Layout(board)
    for job, slot in slots_given(state, plans).items():
        made.grant(rows[job], slot)
    for plan in plans:
        made.add_node(number[plan.type], [rows[job] for job, _ in plan.jobs])
    return made
