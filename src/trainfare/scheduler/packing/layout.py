"""Nodes while they are filled with jobs: the open nodes, their free GPUs and the quotas, as plain numbers for speed.

A job is its row in `State.jobs`, a type its index in `Fleet.types`, a slot its index in `Fleet.slots`. Types with the
same GPU and the same rate of reclaims form a family: a job with g GPUs is equally fast on any of them. Open nodes are
in heaps by type and by free GPUs, so the tightest fit is found without looking at every node.

Nodes are filled first (`place`, `open_own_node`), then shrunk, then idle GPUs are given away; after that nothing is
placed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from trainfare.model.queue import Fleet, NodePlan, State
from trainfare.scheduler.pricing.objective import assigned_slots

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_SLOT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetIndex:
    """A fleet as plain numbers, with types and slots by their indices."""

    names: tuple[str, ...]
    """The names of the types; the next four fields are in the same order."""
    gpus: tuple[int, ...]
    usd_per_second: tuple[float, ...]
    max_nodes: tuple[int, ...]
    family: tuple[int, ...]
    families: tuple[tuple[int, ...], ...]
    """The types of each family, the largest first; ties go to the cheapest, then to the one listed first."""
    single: tuple[tuple[int, ...], ...]
    """Type → GPUs → the slot with that many GPUs on one node of the type, or NO_SLOT."""
    slot_type: tuple[int, ...]
    slot_gpus: tuple[int, ...]
    slot_nodes: tuple[int, ...]


@lru_cache(maxsize=32)
def fleet_index(fleet: Fleet) -> FleetIndex:
    index = {each.name: number for number, each in enumerate(fleet.types)}
    family_keys = [(each.gpu, each.reclaims_per_hour) for each in fleet.types]
    families = list(dict.fromkeys(family_keys))
    single = [[NO_SLOT] * (each.gpus + 1) for each in fleet.types]
    for number, slot in enumerate(fleet.slots):
        if slot.nodes == 1:
            single[index[slot.type]][slot.gpus] = number
    largest_first = sorted(
        range(len(family_keys)), key=lambda at: (-fleet.types[at].gpus, fleet.types[at].usd_per_hour)
    )
    return FleetIndex(
        names=tuple(each.name for each in fleet.types),
        gpus=tuple(each.gpus for each in fleet.types),
        usd_per_second=tuple(each.usd_per_second for each in fleet.types),
        max_nodes=tuple(fleet.nodes if each.max_nodes is None else each.max_nodes for each in fleet.types),
        family=tuple(map(families.index, family_keys)),
        families=tuple(tuple(at for at in largest_first if family_keys[at] == each) for each in families),
        single=tuple(map(tuple, single)),
        slot_type=tuple(index[slot.type] for slot in fleet.slots),
        slot_gpus=tuple(slot.gpus for slot in fleet.slots),
        slot_nodes=tuple(slot.nodes for slot in fleet.slots),
    )


class PackingContext:
    """The constants while nodes are filled: the fleet, the remaining seconds of every job, the users' quotas."""

    def __init__(self, state: State, remaining: "NDArray[np.float64]") -> None:
        self.fleet = fleet_index(state.fleet)
        self.nodes = state.fleet.nodes
        self.remaining: list[list[float]] = remaining.tolist()
        self.ids = [each.job.id for each in state.jobs]
        self.quotas = dict(state.fleet.quotas)
        self.users = [each.job.user for each in state.jobs] if self.quotas else []


class Layout:
    """Nodes with jobs on them. `types` and `rows` hold one entry per node, in the order in which nodes were opened."""

    def __init__(self, context: PackingContext) -> None:
        fleet = context.fleet
        self.context = context
        self.types: list[int] = []
        self.free: list[int] = []
        self.rows: list[list[int]] = []
        self.assigned: dict[int, int] = {}
        """Row → the slot of the job."""
        self.count_by_type = [0] * len(fleet.names)
        self._heaps: list[list[list[int]]] = [[[] for _ in range(gpus + 1)] for gpus in fleet.gpus]
        self._most_free = [0] * len(fleet.families)
        self._quota_left = dict(context.quotas)

    def is_full(self) -> bool:
        """True if no further node can be opened and no open node has a free GPU."""
        return len(self.types) >= self.context.nodes and not any(self._most_free)

    def place(self, row: int, slots: Iterable[int]) -> bool:
        """Puts the job on the first available of the slots: on an open node if one fits, else on a new one."""
        seconds = self.context.remaining[row]
        for slot in slots:
            if (
                seconds[slot] < inf
                and self._within_quota(row, slot)
                and (self._fit(row, slot) or self._open(row, slot))
            ):
                return True
        return False

    def open_own_node(self, row: int, slot: int) -> bool:
        """Puts the job alone on a new node of the slot's own type, or on as many as a gang has."""
        fleet = self.context.fleet
        number, count = fleet.slot_type[slot], fleet.slot_nodes[slot]
        runs = self.context.remaining[row][slot] < inf
        if not runs or not self._within_quota(row, slot) or not self._can_open(number, count):
            return False
        self.assign(row, slot)
        for _ in range(count):
            self.add_node(number, [row])
        return True

    def add_node(self, number: int, rows: list[int]) -> None:
        """Adds a node of that type with these jobs, whose slots are in `assigned` already."""
        fleet = self.context.fleet
        free = fleet.gpus[number] - sum(fleet.slot_gpus[self.assigned[row]] for row in rows)
        self.types.append(number)
        self.rows.append(rows)
        self.free.append(free)
        self.count_by_type[number] += 1
        self._push_free(len(self.types) - 1)

    def assign(self, row: int, slot: int) -> None:
        """Gives the slot to the job and charges it to its user's quota; its nodes are added afterwards."""
        fleet = self.context.fleet
        self.assigned[row] = slot
        self._charge_quota(row, fleet.slot_gpus[slot] * fleet.slot_nodes[slot])

    def shrink(self) -> None:
        """Changes each node with idle GPUs to the cheapest available type of its family that holds its jobs.

        The papers ask for as many GPUs as used, or one more; where larger types cost more, that is the same.
        """
        fleet = self.context.fleet
        for node, free in enumerate(self.free):
            if free and self.rows[node]:
                now = self.types[node]
                family = fleet.families[fleet.family[now]]
                holds = [each for each in family if each == now or self._can_change_type(node, each)]
                best = min(holds, key=lambda each: (fleet.usd_per_second[each], each != now))
                if best != now:
                    self._change_type(node, best)

    def give_idle(self, *, jobs: int | None) -> None:
        """Gives the idle GPUs of a node to the job on it that gains most seconds from all of them, on at most `jobs`
        nodes.

        The nodes with the largest gains come first; None: all nodes. Ties go to the first node, and the first job on
        it.
        """
        gains = []
        for node, free in enumerate(self.free):
            if free and self.rows[node]:
                row = max(self.rows[node], key=lambda row: self._gain(row, node))
                gains.append((-self._gain(row, node), node, row))
        for _, node, row in sorted(gains)[:jobs]:
            if self._gain(row, node) > 0:  # an earlier gain may have used up the quota
                self._charge_quota(row, self.free[node])
                self.assigned[row] = self._with_idle(row, node)
                self.free[node] = 0

    def plans(self) -> list[NodePlan]:
        fleet, ids, assigned = self.context.fleet, self.context.ids, self.assigned
        return [
            NodePlan(type=fleet.names[number], jobs=tuple((ids[row], fleet.slot_gpus[assigned[row]]) for row in rows))
            for number, rows in zip(self.types, self.rows, strict=True)
        ]

    def _within_quota(self, row: int, slot: int) -> bool:
        if not self._quota_left:
            return True
        fleet = self.context.fleet
        return fleet.slot_gpus[slot] * fleet.slot_nodes[slot] <= self._quota_left.get(self.context.users[row], inf)

    def _charge_quota(self, row: int, gpus: int) -> None:
        if self._quota_left and self.context.users[row] in self._quota_left:
            self._quota_left[self.context.users[row]] -= gpus

    def _can_open(self, number: int, count: int) -> bool:
        context = self.context
        return (
            len(self.types) + count <= context.nodes
            and self.count_by_type[number] + count <= context.fleet.max_nodes[number]
        )

    def _fit(self, row: int, slot: int) -> bool:
        """Puts the job on the open node of the family with the fewest free GPUs that suffice; ties go to the node that
        was opened first."""
        fleet = self.context.fleet
        gpus, family = fleet.slot_gpus[slot], fleet.family[fleet.slot_type[slot]]
        if fleet.slot_nodes[slot] > 1 or gpus > self._most_free[family]:
            return False
        seconds = self.context.remaining[row]
        for free in range(gpus, self._most_free[family] + 1):
            found = None
            for number in fleet.families[family]:
                heap = self._heaps[number][free] if free <= fleet.gpus[number] else None
                if heap and (found is None or heap[0] < found):
                    same = fleet.single[number][gpus]
                    if same != NO_SLOT and seconds[same] < inf:
                        found = heap[0]
            if found is not None:
                self._join(row, found, gpus)
                return True
        return False

    def _open(self, row: int, slot: int) -> bool:
        """Puts the job on a new node of the largest available type of the family that holds it; a gang on its own
        type."""
        fleet = self.context.fleet
        if fleet.slot_nodes[slot] > 1:
            return self.open_own_node(row, slot)
        if len(self.types) >= self.context.nodes:
            return False
        gpus = fleet.slot_gpus[slot]
        for number in fleet.families[fleet.family[fleet.slot_type[slot]]]:
            same = fleet.single[number][gpus] if gpus <= fleet.gpus[number] else NO_SLOT
            if same != NO_SLOT and self.context.remaining[row][same] < inf and self._can_open(number, 1):
                self.assign(row, same)
                self.add_node(number, [row])
                return True
        return False

    def _join(self, row: int, node: int, gpus: int) -> None:
        number = self.types[node]
        heappop(self._heaps[number][self.free[node]])
        self.assign(row, self.context.fleet.single[number][gpus])
        self.rows[node].append(row)
        self.free[node] -= gpus
        self._push_free(node)
        family = self.context.fleet.family[number]
        while self._most_free[family] and not self._any_free(family, self._most_free[family]):
            self._most_free[family] -= 1

    def _push_free(self, node: int) -> None:
        """Puts the node into the heap of its free GPUs."""
        free, number = self.free[node], self.types[node]
        if free:
            heappush(self._heaps[number][free], node)
            family = self.context.fleet.family[number]
            self._most_free[family] = max(self._most_free[family], free)

    def _any_free(self, family: int, free: int) -> bool:
        fleet = self.context.fleet
        return any(free <= fleet.gpus[number] and self._heaps[number][free] for number in fleet.families[family])

    def _can_change_type(self, node: int, number: int) -> bool:
        fleet = self.context.fleet
        if self.count_by_type[number] >= fleet.max_nodes[number]:
            return False
        if fleet.gpus[number] < fleet.gpus[self.types[node]] - self.free[node]:
            return False
        same = [(row, fleet.single[number][fleet.slot_gpus[self.assigned[row]]]) for row in self.rows[node]]
        return all(slot != NO_SLOT and self.context.remaining[row][slot] < inf for row, slot in same)

    def _change_type(self, node: int, number: int) -> None:
        fleet, before = self.context.fleet, self.types[node]
        self.count_by_type[before] -= 1
        self.count_by_type[number] += 1
        self.types[node] = number
        self.free[node] -= fleet.gpus[before] - fleet.gpus[number]
        for row in self.rows[node]:
            self.assigned[row] = fleet.single[number][fleet.slot_gpus[self.assigned[row]]]

    def _with_idle(self, row: int, node: int) -> int:
        """The slot of this job with all idle GPUs of its node, or NO_SLOT."""
        fleet = self.context.fleet
        return fleet.single[self.types[node]][fleet.slot_gpus[self.assigned[row]] + self.free[node]]

    def _gain(self, row: int, node: int) -> float:
        """The seconds that the job saves with all idle GPUs of its node; 0 where it cannot have them."""
        more = self._with_idle(row, node)
        if more == NO_SLOT:
            return 0.0
        if self._quota_left and self.free[node] > self._quota_left.get(self.context.users[row], inf):
            return 0.0
        return self.context.remaining[row][self.assigned[row]] - self.context.remaining[row][more]


def layout_from_plans(state: State, context: PackingContext, plans: Sequence[NodePlan]) -> Layout:
    """The plans as a layout, node by node in their order."""
    rows = {name: row for row, name in enumerate(context.ids)}
    number = {name: index for index, name in enumerate(context.fleet.names)}
    layout = Layout(context)
    for job, slot in assigned_slots(state, plans).items():
        layout.assign(rows[job], slot)
    for plan in plans:
        layout.add_node(number[plan.type], [rows[job] for job, _ in plan.jobs])
    return layout
