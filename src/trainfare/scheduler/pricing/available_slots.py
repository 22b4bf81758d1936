"""The slots that each job can be given now, and the idle time of the job there before it makes progress.

Without delays these are the slots of the fleet. With delays a rented node differs from one that must boot, so each type
is listed twice: as the nodes that are rented, and as new nodes. A job is idle for

    work_start - now      on its current slot
    restore               on another rented node      (restart, and checkpoint unless its node was reclaimed)
    boot + restore        on a new node

and a job without progress has nothing to restore. Which rented node a job gets is not decided here: the packing counts
nodes, and `arrange_nodes` puts jobs back where they are. The nodes of a gang are all rented, or all new.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Delays, Fleet, QueuedJob, Slot, State
from trainfare.scheduler.execution import restore_seconds
from trainfare.scheduler.pricing.objective import slot_indices
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEW = " (new)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AvailableSlots:
    """The fleet of the state, or its types twice: first the rented nodes, then new ones, in the same order."""

    fleet: Fleet
    slot: "NDArray[np.int64]"
    """Index among the available slots → index in the state's `Fleet.slots`."""
    idle_seconds: "NDArray[np.float64]"
    """Jobs × available slots."""
    restore_seconds: "NDArray[np.float64]"
    """For each job the time to continue on another slot."""
    current_slot: "NDArray[np.int64]"
    """For each job the index of its current slot, or -1."""

    @property
    def separates_new_nodes(self) -> bool:
        """True if each type is listed twice, as rented nodes and as new ones."""
        return len(self.slot) > 0 and int(self.slot[-1]) + 1 < len(self.slot)


def has_delays(delays: Delays) -> bool:
    return delays.boot_seconds + delays.checkpoint_seconds + delays.restart_seconds > 0


def available_slots(state: State) -> AvailableSlots:
    jobs, slots = len(state.jobs), len(state.fleet.slots)
    current = current_slots(state)
    if not has_delays(state.delays):
        return AvailableSlots(
            fleet=state.fleet,
            slot=np.arange(slots),
            idle_seconds=np.zeros((jobs, slots)),
            restore_seconds=np.zeros(jobs),
            current_slot=current,
        )
    restore = np.array([restore_seconds(each, state.delays) for each in state.jobs], dtype=np.float64)
    idle = np.repeat(restore[:, None], 2 * slots, axis=1)
    idle[:, slots:] += state.delays.boot_seconds
    idle[:, :slots] += _mean_boot_left(state)
    runs = np.flatnonzero(current >= 0)
    work_start = np.array([each.work_start_seconds for each in state.jobs])
    idle[runs, current[runs]] = np.maximum(work_start[runs] - state.now_seconds, 0.0)
    return AvailableSlots(
        fleet=_rented_and_new(state),
        slot=np.tile(np.arange(slots), 2),
        idle_seconds=idle,
        restore_seconds=restore,
        current_slot=current,
    )


def current_slots(state: State) -> "NDArray[np.int64]":
    """For each job the index of its current slot, or -1 while it waits."""
    indices = slot_indices(state.fleet)
    types = {node.id: node.type for node in state.nodes}

    def index(queued: QueuedJob) -> int:
        return indices[Slot(types[queued.nodes[0]], queued.gpus, len(queued.nodes))] if queued.nodes else -1

    return np.array([index(each) for each in state.jobs], dtype=np.int64)


def _mean_boot_left(state: State) -> "NDArray[np.float64]":
    """For each slot the mean time until the rented nodes of its type are ready."""
    waits: dict[str, list[float]] = {}
    for node in state.nodes:
        waits.setdefault(node.type, []).append(max(node.ready_seconds - state.now_seconds, 0.0))
    mean = {name: sum(each) / len(each) for name, each in waits.items()}
    return np.array([mean.get(slot.type, 0.0) for slot in state.fleet.slots])


def _rented_and_new(state: State) -> Fleet:
    fleet, count = state.fleet, Counter(node.type for node in state.nodes)
    rented = tuple(replace(each, max_nodes=count[each.name]) for each in fleet.types)
    new = tuple(
        replace(
            each,
            name=each.name + NEW,
            max_nodes=None if each.max_nodes is None else max(each.max_nodes - count[each.name], 0),
        )
        for each in fleet.types
    )
    slots = tuple(Slot(slot.type + NEW, slot.gpus, slot.nodes) for slot in fleet.slots)
    return Fleet(nodes=fleet.nodes, types=rented + new, slots=fleet.slots + slots, quotas=fleet.quotas)


def feasible_seconds(state: State, remaining: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Jobs × slots: `remaining`, and infinite where a slot has more nodes than are available or more GPUs than the
    quota."""
    slots = slot_table(state.fleet)
    max_nodes = np.array(
        [state.fleet.nodes if each.max_nodes is None else each.max_nodes for each in state.fleet.types]
    )
    quotas = dict(state.fleet.quotas)
    quota = np.array([quotas.get(each.job.user, np.inf) for each in state.jobs])
    allowed = (slots.nodes <= np.minimum(max_nodes, state.fleet.nodes)[slots.type])[None, :]
    allowed = allowed & (slots.gpus * slots.nodes <= quota[:, None])
    possible: NDArray[np.float64] = np.where(allowed, remaining, np.inf)
    return possible


def seconds_until_end(available: AvailableSlots, remaining: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Jobs × available slots: the idle time and the working time together."""
    ends: NDArray[np.float64] = available.idle_seconds + remaining[:, available.slot]
    return ends
