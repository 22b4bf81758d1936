"""What each job may be given now, and how long it stands idle there first.

Without delays that is the fleet. With them a node that is on and one that must boot are different things, so each type
stands twice: as many as are on, and new ones. A job stands idle

    works_from - now      where it is, with the GPUs it has
    restore               on another node that is on      (restart, and checkpoint unless its node was reclaimed)
    boot + restore        on a new node

and a job of which nothing is done has nothing to restore. Which of the nodes that are on a job gets is not yet said
here: the packing counts nodes, and `arranged` puts jobs back where they are. A gang is on nodes that are all on, or all
new.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Delays, Fleet, QueuedJob, Slot, State
from trainfare.scheduler.pricing.objective import slot_indices
from trainfare.scheduler.execution import restore_seconds
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEW = " (new)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AvailableSlots:
    """The fleet of the state, or its types twice: first those that are on, then new ones, in the same order."""

    fleet: Fleet
    slot: "NDArray[np.int64]"
    """Place among the offered slots → place in the state's `Fleet.slots`."""
    idle_seconds: "NDArray[np.float64]"
    """Jobs × offered slots."""
    restore_seconds: "NDArray[np.float64]"
    """Per job: what it costs to go on elsewhere."""
    here: "NDArray[np.int64]"
    """Per job: the slot that it has now, or -1."""

    @property
    def separates_new_nodes(self) -> bool:
        return len(self.slot) > 0 and int(self.slot[-1]) + 1 < len(self.slot)


def delayed(delays: Delays) -> bool:
    return delays.boot_seconds + delays.checkpoint_seconds + delays.restart_seconds > 0


def available_slots(state: State) -> AvailableSlots:
    jobs, slots = len(state.jobs), len(state.fleet.slots)
    here = current_slots(state)
    if not delayed(state.delays):
        return AvailableSlots(
            fleet=state.fleet,
            slot=np.arange(slots),
            idle_seconds=np.zeros((jobs, slots)),
            restore_seconds=np.zeros(jobs),
            here=here,
        )
    restore = np.array([restore_seconds(each, state.delays) for each in state.jobs], dtype=np.float64)
    idle = np.repeat(restore[:, None], 2 * slots, axis=1)
    idle[:, slots:] += state.delays.boot_seconds
    idle[:, :slots] += _until_ready(state)
    runs = np.flatnonzero(here >= 0)
    works_from = np.array([each.work_start_seconds for each in state.jobs])
    idle[runs, here[runs]] = np.maximum(works_from[runs] - state.now_seconds, 0.0)
    return AvailableSlots(
        fleet=_twice(state),
        slot=np.tile(np.arange(slots), 2),
        idle_seconds=idle,
        restore_seconds=restore,
        here=here,
    )


def current_slots(state: State) -> "NDArray[np.int64]":
    """Per job the place of the slot that it has now, or -1 while it waits."""
    places = slot_indices(state.fleet)
    kinds = {node.id: node.type for node in state.nodes}

    def place(queued: QueuedJob) -> int:
        return places[Slot(kinds[queued.nodes[0]], queued.gpus, len(queued.nodes))] if queued.nodes else -1

    return np.array([place(each) for each in state.jobs], dtype=np.int64)


def _until_ready(state: State) -> "NDArray[np.float64]":
    """Per slot: how long nodes of its type that are on still boot, on average."""
    waits: dict[str, list[float]] = {}
    for node in state.nodes:
        waits.setdefault(node.type, []).append(max(node.ready_seconds - state.now_seconds, 0.0))
    mean = {kind: sum(each) / len(each) for kind, each in waits.items()}
    return np.array([mean.get(slot.type, 0.0) for slot in state.fleet.slots])


def _twice(state: State) -> Fleet:
    fleet, on = state.fleet, Counter(node.type for node in state.nodes)
    are_on = tuple(replace(each, max_nodes=on[each.name]) for each in fleet.types)
    new = tuple(
        replace(
            each,
            name=each.name + NEW,
            max_nodes=None if each.max_nodes is None else max(each.max_nodes - on[each.name], 0),
        )
        for each in fleet.types
    )
    slots = tuple(Slot(slot.type + NEW, slot.gpus, slot.nodes) for slot in fleet.slots)
    return Fleet(nodes=fleet.nodes, types=are_on + new, slots=fleet.slots + slots, quotas=fleet.quotas)


def feasible_seconds(state: State, remaining: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Jobs × slots: `left`, and infinite where a slot has more nodes than may be had, or more GPUs than the quota."""
    slots = slot_table(state.fleet)
    most = np.array([state.fleet.nodes if each.max_nodes is None else each.max_nodes for each in state.fleet.types])
    quotas = dict(state.fleet.quotas)
    quota = np.array([quotas.get(each.job.user, np.inf) for each in state.jobs])
    can_be = (slots.nodes <= np.minimum(most, state.fleet.nodes)[slots.type])[None, :]
    can_be = can_be & (slots.gpus * slots.nodes <= quota[:, None])
    possible: NDArray[np.float64] = np.where(can_be, remaining, np.inf)
    return possible


def seconds_until_end(available: AvailableSlots, remaining: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Jobs × offered slots: idle, then working."""
    ends: NDArray[np.float64] = available.idle_seconds + remaining[:, available.slot]
    return ends
