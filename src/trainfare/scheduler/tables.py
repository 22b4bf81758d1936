"""A fleet and a queue as arrays of jobs × slots, so that policies compute with complete columns."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Fleet, Instance, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_OBSERVED_FRACTION = 0.01
"""A job's observed progress corrects its prediction once this fraction of its work is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTable:
    """The slots of a fleet as arrays, in the order of `Fleet.slots`."""

    type: "NDArray[np.int64]"
    """The index of the slot's type in `Fleet.types`."""
    gpus: "NDArray[np.int64]"
    """GPUs on each node."""
    nodes: "NDArray[np.int64]"
    type_gpus: "NDArray[np.int64]"
    """GPUs of a complete node of the type."""
    usd_per_second: "NDArray[np.float64]"
    """The price of the complete node, or of all nodes of a gang."""
    fraction: "NDArray[np.float64]"
    """frac = nodes · g / G: the number of nodes whose GPUs the slot takes."""
    share: "NDArray[np.float64]"
    """share = c · g / G: the price of the slot's GPUs a second, if other jobs pay for the rest of the node."""


@lru_cache(maxsize=32)
def slot_table(fleet: Fleet) -> SlotTable:
    index = {each.name: number for number, each in enumerate(fleet.types)}
    types = [fleet.types[index[slot.type]] for slot in fleet.slots]
    gpus = np.array([slot.gpus for slot in fleet.slots])
    nodes = np.array([slot.nodes for slot in fleet.slots])
    type_gpus = np.array([each.gpus for each in types])
    price = np.array([each.usd_per_second for each in types]) * nodes
    return SlotTable(
        type=np.array([index[slot.type] for slot in fleet.slots]),
        gpus=gpus,
        nodes=nodes,
        type_gpus=type_gpus,
        usd_per_second=price,
        fraction=nodes * gpus / type_gpus,
        share=price * gpus / type_gpus,
    )


def remaining_seconds(state: State) -> "NDArray[np.float64]":
    """Jobs × slots: the predicted time of the work that is left, t · (1 - done), as the papers compute it."""
    if not state.jobs:
        return np.empty((0, len(state.fleet.slots)))
    left = np.array([1 - queued.done for queued in state.jobs])
    table: NDArray[np.float64] = np.array([queued.job.seconds for queued in state.jobs]) * left[:, None]
    return table


def corrected_remaining_seconds(state: State, *, quantile: float = 0.0) -> "NDArray[np.float64]":
    """Like `remaining_seconds`, with the times of each job multiplied by its observed prediction error:

        factor = expected_done / done        once 1 % is done; until then exp(quantile · log_error)

    A job that is twice as slow as predicted has done half of what was expected and needs twice the time for the rest.
    On a kind of GPU on which at least 1 % of the job was done, the factor is the one observed there; on other kinds it
    is the factor over all GPUs together.
    """
    if not state.jobs:
        return remaining_seconds(state)
    slot_gpus = np.array([state.fleet.type_of(slot.type).gpu for slot in state.fleet.slots])
    factors = np.empty((len(state.jobs), len(slot_gpus)))
    for row, each in zip(factors, state.jobs, strict=True):
        row[:] = _error_factor(each.done, each.expected_done) or np.exp(quantile * each.job.log_error)
        for gpu, done, expected_done in each.progress_by_gpu if len(each.progress_by_gpu) > 1 else ():
            if own := _error_factor(done, expected_done):
                row[slot_gpus == gpu] = own
    return remaining_seconds(state) * factors


def _error_factor(done: float, expected_done: float) -> float | None:
    """The correction factor; None while too little is done, or if nothing was expected to be done on this kind of
    GPU."""
    return expected_done / done if done >= MIN_OBSERVED_FRACTION and expected_done > 0 else None


def min_node_seconds(instance: Instance) -> float:
    """Σ_j min_k frac_k·t_jk: the least node time that the jobs need, frac_k the fraction of a node that slot k takes.

    The load of N nodes is this / (N · the time over which jobs are submitted).
    """
    fraction = slot_table(instance.fleet(1)).fraction
    return float(sum((fraction * np.array(seconds)).min() for seconds in instance.actual_seconds))
