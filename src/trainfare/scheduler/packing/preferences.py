"""The slots that a job prefers and the order in which jobs choose: the papers' rules, for all jobs at once."""

from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import State
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def slot_preferences(state: State, remaining: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """Jobs × slots: the indices of the slots, the most preferred first.

    First come the slots on which the job ends by its deadline, now + t <= d, by the least c·t at the price of the
    **complete** node (of all nodes of a gang); then the others by the least t. Ties go to the slot that is listed first
    in the fleet. Slots on which the job cannot run (infinite t) come last.
    """
    deadlines = np.array([each.job.deadline_seconds for each in state.jobs])[:, None]
    in_time = state.now_seconds + remaining <= deadlines
    in_time &= np.isfinite(remaining)
    cost = np.where(in_time, slot_table(state.fleet).usd_per_second * remaining, remaining)
    order: NDArray[np.int64] = np.lexsort((cost, ~in_time), axis=-1)
    return order


def rows_by_pressure(state: State, remaining: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """The rows of the jobs by falling pressure now + min t - d; ties go to the job that was submitted first."""
    deadlines = np.array([each.job.deadline_seconds for each in state.jobs])
    pressure = state.now_seconds + remaining.min(axis=1) - deadlines
    order: NDArray[np.int64] = np.argsort(-pressure, kind="stable")
    return order
