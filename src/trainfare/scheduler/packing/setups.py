"""Which slots a job would choose for itself, and which jobs press most. The papers' rules, for whole columns."""

from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import State
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def preferences(state: State, left: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """Jobs × slots: the places of the slots, the most preferred first.

    First come the slots on which the job ends by its deadline, now + t <= d, by the least c·t at the price of the
    **whole** node (of all nodes of a gang); then the others by the least t. Of equals the one that stands first in the
    fleet. Slots where it cannot run (infinite t) stand last.
    """
    deadlines = np.array([each.job.deadline_seconds for each in state.jobs])[:, None]
    in_time = state.now_seconds + left <= deadlines
    in_time &= np.isfinite(left)
    cost = np.where(in_time, slot_table(state.fleet).usd_per_second * left, left)
    order: NDArray[np.int64] = np.lexsort((cost, ~in_time), axis=-1)
    return order


def by_pressure(state: State, left: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """The rows of the jobs by falling pressure now + min t - d; of equals the one that was submitted first."""
    deadlines = np.array([each.job.deadline_seconds for each in state.jobs])
    pressure = state.now_seconds + left.min(axis=1) - deadlines
    order: NDArray[np.int64] = np.argsort(-pressure, kind="stable")
    return order
