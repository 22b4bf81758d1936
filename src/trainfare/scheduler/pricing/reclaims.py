"""The effect of reclaims: the expected time of a job on a node that the provider may take back.

With ρ reclaims a second (of any of its nodes) and a checkpoint every `a` seconds, the expected time of a job of t
seconds is

    t · (e^(ρ·a') - 1) / (ρ·a')  +  ρ·t · (boot + restart),        a' = min(a, t)

(an interval of a' seconds without a reclaim, repeated until it succeeds). Until the next event at τ a reclaim happens
with probability 1 - e^(-ρ·τ), and then costs a restart and the work since the last checkpoint,

    min(unsaved + τ/2, a/2)        unsaved: the work on the current slot since then
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Delays, Fleet, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_EXPONENT = 50.0
"""e to this power is practically infinite, and still a finite number."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReclaimRisk:
    """The reclaims before the next event and the work that they undo, in fractions of the remaining work of a job."""

    rates: "NDArray[np.float64]"
    """ρ of each slot."""
    restart: "NDArray[np.float64]"
    """Jobs × 1: the time of a restart."""
    unsaved: "NDArray[np.float64]"
    """Jobs × slots: on its current slot, the work of a job since its last checkpoint."""
    checkpoint_every_seconds: float

    def probability(self, at_seconds: float) -> "NDArray[np.float64]":
        """1 - e^(-ρ·τ)"""
        probability: NDArray[np.float64] = -np.expm1(-self.rates * at_seconds)
        return probability

    def lost_work(self, times: "NDArray[np.float64]", at_seconds: float) -> "NDArray[np.float64]":
        """Jobs × slots: the fraction that a reclaim before τ adds to the remaining work."""
        possible = np.isfinite(times)
        seconds = np.where(possible, times, 1.0)
        since_checkpoint = np.minimum(
            self.unsaved + at_seconds / 2 / seconds, self.checkpoint_every_seconds / 2 / seconds
        )
        lost: NDArray[np.float64] = np.where(possible, since_checkpoint, 0.0) + self.restart
        return lost


def reclaims_per_second(fleet: Fleet) -> "NDArray[np.float64]":
    """ρ of each slot; a gang is lost with any of its nodes."""
    rates = {each.name: each.reclaims_per_hour / 3600 for each in fleet.types}
    return np.array([rates[slot.type] * slot.nodes for slot in fleet.slots])


def expected_seconds_with_reclaims(
    remaining: "NDArray[np.float64]", rates: "NDArray[np.float64]", delays: Delays
) -> "NDArray[np.float64]":
    """Jobs × slots: the expected seconds when nodes are reclaimed at these rates."""
    if not rates.any():
        return remaining
    interval = np.minimum(delays.checkpoint_every_seconds, np.where(np.isfinite(remaining), remaining, 1.0)) * rates
    again = np.expm1(np.minimum(interval, _MAX_EXPONENT)) / np.where(interval > 0, interval, 1.0)
    lost = rates * (delays.boot_seconds + delays.restart_seconds)
    expected: NDArray[np.float64] = remaining * (np.where(interval > 0, again, 1.0) + lost)
    return expected


def unsaved_fraction(state: State) -> "NDArray[np.float64]":
    """For each job the work that a reclaim now would undo, as a fraction of its remaining work."""
    return np.array([(each.done - each.saved) / (1 - each.done) if each.nodes else 0.0 for each in state.jobs])


def reclaim_loss_seconds(state: State) -> float:
    """The time that one reclaim costs a job: half the time between two checkpoints (half of t̄ without checkpoints), and
    a restart on a new node. Zero if no type is reclaimed.
    """
    if not any(each.reclaims_per_hour for each in state.fleet.types):
        return 0.0
    delays = state.delays
    unsaved = min(delays.checkpoint_every_seconds, state.arrivals.mean_shortest_seconds)
    return unsaved / 2 + delays.boot_seconds + delays.restart_seconds
