"""What it means for a job that its node may be taken back.

With ρ reclaims a second (of any of its nodes) and work saved every `a` seconds, a job of t seconds is expected to need

    t · (e^(ρ·a') - 1) / (ρ·a')  +  ρ·t · (boot + restart),        a' = min(a, t)

(a stretch of a' seconds without a reclaim, again and again until it succeeds). Until the next event at τ a reclaim
comes with the chance 1 - e^(-ρ·τ), and then costs a restart and the work since the last save,

    min(unsaved + τ/2, a/2)        unsaved: what it has done, where it is, since then
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Delays, Fleet, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HOPELESS = 50.0
"""e to this is for ever, and still a number."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReclaimRisk:
    """Which slots may be lost before the next event, and what that undoes. Parts are of what is left of a job."""

    rates: "NDArray[np.float64]"
    """ρ of each slot."""
    restart: "NDArray[np.float64]"
    """Jobs × 1."""
    unsaved: "NDArray[np.float64]"
    """Jobs × slots: where a job is, what it has done since its last save."""
    saves_every_seconds: float

    def chance(self, at_seconds: float) -> "NDArray[np.float64]":
        """1 - e^(-ρ·τ)"""
        chance: NDArray[np.float64] = -np.expm1(-self.rates * at_seconds)
        return chance

    def undone(self, times: "NDArray[np.float64]", at_seconds: float) -> "NDArray[np.float64]":
        """Jobs × slots: what a reclaim before τ adds to what is left."""
        possible = np.isfinite(times)
        seconds = np.where(possible, times, 1.0)
        since_save = np.minimum(self.unsaved + at_seconds / 2 / seconds, self.saves_every_seconds / 2 / seconds)
        undone: NDArray[np.float64] = np.where(possible, since_save, 0.0) + self.restart
        return undone


def reclaims_per_second(fleet: Fleet) -> "NDArray[np.float64]":
    """ρ of each slot; a gang is lost with any of its nodes."""
    rates = {each.name: each.reclaims_per_hour / 3600 for each in fleet.types}
    return np.array([rates[slot.type] * slot.nodes for slot in fleet.slots])


def expected_seconds_with_reclaims(
    remaining: "NDArray[np.float64]", rates: "NDArray[np.float64]", delays: Delays
) -> "NDArray[np.float64]":
    """Jobs × slots: the seconds that are expected when nodes are taken back at these rates."""
    if not rates.any():
        return remaining
    allocation = np.minimum(delays.checkpoint_every_seconds, np.where(np.isfinite(remaining), remaining, 1.0)) * rates
    again = np.expm1(np.minimum(allocation, _HOPELESS)) / np.where(allocation > 0, allocation, 1.0)
    lost = rates * (delays.boot_seconds + delays.restart_seconds)
    expected: NDArray[np.float64] = remaining * (np.where(allocation > 0, again, 1.0) + lost)
    return expected


def unsaved_fraction(state: State) -> "NDArray[np.float64]":
    """Per job: what a reclaim now would undo, as a part of what is left of it."""
    return np.array([(each.done - each.saved) / (1 - each.done) if each.nodes else 0.0 for each in state.jobs])


def reclaim_loss_seconds(state: State) -> float:
    """What one reclaim costs a job: half of what lies between two saves (of t̄, where nothing is saved), and a restart
    on a new node. Nothing where no type is reclaimed.
    """
    if not any(each.reclaims_per_hour for each in state.fleet.types):
        return 0.0
    delays = state.delays
    unsaved = min(delays.checkpoint_every_seconds, state.arrivals.mean_shortest_seconds)
    return unsaved / 2 + delays.boot_seconds + delays.restart_seconds
