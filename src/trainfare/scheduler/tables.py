"""A fleet and a queue as arrays: jobs × slots, so that a policy reckons with whole columns."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Fleet, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEN_ENOUGH = 0.01
"""A job whose progress is believed more than its prediction has done at least this part of its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTable:
    """What is known of every slot of a fleet, in the order of `Fleet.slots`."""

    type: "NDArray[np.int64]"
    """The place of its type in `Fleet.types`."""
    gpus: "NDArray[np.int64]"
    """On each node."""
    nodes: "NDArray[np.int64]"
    type_gpus: "NDArray[np.int64]"
    """What its type has."""
    usd_per_second: "NDArray[np.float64]"
    """Of the whole node, or of all nodes of a gang."""
    fraction: "NDArray[np.float64]"
    """frac = nodes · g / G: of how many nodes it takes the GPUs."""
    share: "NDArray[np.float64]"
    """share = c · g / G: what its GPUs cost a second, when others pay for the rest of the node."""


@lru_cache(maxsize=32)
def slot_table(fleet: Fleet) -> SlotTable:
    place = {each.name: number for number, each in enumerate(fleet.types)}
    kinds = [fleet.types[place[slot.type]] for slot in fleet.slots]
    gpus = np.array([slot.gpus for slot in fleet.slots])
    nodes = np.array([slot.nodes for slot in fleet.slots])
    type_gpus = np.array([kind.gpus for kind in kinds])
    price = np.array([kind.usd_per_second for kind in kinds]) * nodes
    return SlotTable(
        type=np.array([place[slot.type] for slot in fleet.slots]),
        gpus=gpus,
        nodes=nodes,
        type_gpus=type_gpus,
        usd_per_second=price,
        fraction=nodes * gpus / type_gpus,
        share=price * gpus / type_gpus,
    )


def remaining(state: State) -> "NDArray[np.float64]":
    """Seconds that each job still works on each slot, by its prediction: t · (1 - done). The papers' reckoning."""
    if not state.jobs:
        return np.empty((0, len(state.fleet.slots)))
    left = np.array([1 - queued.done for queued in state.jobs])
    table: NDArray[np.float64] = np.array([queued.job.seconds for queued in state.jobs]) * left[:, None]
    return table


def corrected_remaining(state: State, *, quantile: float = 0.0) -> "NDArray[np.float64]":
    """As `remaining`, with a job's times multiplied by how wrong they have proved:

        factor = expected_done / done        once 1 % is done; until then exp(quantile · log_error)

    A job that works twice as slowly as predicted has done half of what was expected, and needs twice the rest. On a
    kind of GPU on which 1 % of it was done, what was seen there counts; on others, what was seen on all together.
    """
    if not state.jobs:
        return remaining(state)
    kinds = np.array([state.fleet.type_of(slot.type).gpu for slot in state.fleet.slots])
    factors = np.empty((len(state.jobs), len(kinds)))
    for row, each in zip(factors, state.jobs, strict=True):
        row[:] = _factor(each.done, each.expected_done) or np.exp(quantile * each.job.log_error)
        for gpu, done, expected_done in each.seen if len(each.seen) > 1 else ():
            if own := _factor(done, expected_done):
                row[kinds == gpu] = own
    return remaining(state) * factors


def _factor(done: float, expected_done: float) -> float | None:
    """None while too little is done, or what was done was never expected: it was done elsewhere."""
    return expected_done / done if done >= SEEN_ENOUGH and expected_done > 0 else None
