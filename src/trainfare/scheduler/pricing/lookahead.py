"""What each job costs in each slot, and waiting, looked at from the next event on.

With τ the next event (next_event.py), V the value of what is left of a job (value.py) and b_jk the seconds that it
stands idle before it gets on (offers.py; zero without delays):

    C_jk      = E_τ [ V_j(r, τ),  r = 1 - (τ - b_jk)/t_jk ]                         while it runs on at τ; what is
                                                                                    left of b_jk is work to be done
                    [ w_j · (b_jk + t_jk - D_j)⁺ - share_k · (τ - b_jk - t_jk) ]    if it has ended by then: its GPUs
                                                                                    serve others
    C_j,wait  = E_τ [ V_j(1 + s_j, τ) ]          s_j: the time to restore it later, as a part of its shortest time
    node      = c_v · E τ                        whole, whoever is on it, booting or not

V moves jobs freely. With delays a job that runs at τ either goes on where it is, or is moved and restored once more:

    V_j(r, τ)  becomes  min( ∫ from τ to τ + r·t_jk of (h · share_k + π · frac_k) + w_j · (τ + r·t_jk - D_j)⁺,
                             V_j(r + s_j, τ) )

Without it, moving later looks free and moving now does not, and jobs are late that were to be given more GPUs later.

Where a node may be taken back before τ (reclaims.py), r is what is left after that with the chance of it: V is convex,
so what has no time to lose goes where nothing is taken back. Later periods count with the times expected with reclaims.

The score of a decision is the sum of these: rent until things change, and what is to be paid from there on.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import State
from trainfare.scheduler.pricing.arrivals import arrivals_per_second, expected_arrivals_per_second
from trainfare.scheduler.pricing.capacity_prices import capacity_prices
from trainfare.scheduler.pricing.next_event import next_event
from trainfare.scheduler.pricing.available_slots import AvailableSlots
from trainfare.scheduler.pricing.periods import busy_seconds, split_periods, period_starts, remaining_work
from trainfare.scheduler.pricing.reclaims import (
    ReclaimRisk,
    reclaims_per_second,
    unsaved_fraction,
    expected_seconds_with_reclaims,
)
from trainfare.scheduler.pricing.value import OVERHEAD, ContinuationCost, rents, first_slot_with_same_times, values
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecisionCosts:
    """The score's terms, for one belief of when things change next."""

    job_usd: "NDArray[np.float64]"
    """C, jobs × offered slots; infinite where a job cannot run."""
    wait_usd: "NDArray[np.float64]"
    node_usd: "NDArray[np.float64]"
    """Of each offered type."""


class LookAhead:
    """Prices and values as of now; `left` is what is left of each job on each slot of the state's fleet, in seconds."""

    def __init__(self, state: State, available: AvailableSlots, left: "NDArray[np.float64]") -> None:
        rates = reclaims_per_second(state.fleet)
        slots = slot_table(state.fleet)
        starts = period_starts(
            state.arrivals.mean_shortest_seconds or float(left.min(axis=1).mean()),
            busy_seconds=busy_seconds(state.fleet, slots, left),
        )
        self._work = remaining_work(state, expected_seconds_with_reclaims(left, rates, state.delays))
        dear = replace(slots, share=OVERHEAD * slots.share)
        prices = capacity_prices(state, self._work, dear, starts, arrivals_per_second(state))
        self._values = values(self._work, split_periods(self._work, starts), dear, prices)
        self._arrivals = expected_arrivals_per_second(state)
        self._share = slots.share[available.slot]
        self._type_usd = np.array([each.usd_per_second for each in available.fleet.types])
        # without delays, slots that differ in nothing but their price are reckoned once
        first = (
            np.arange(len(available.slot))
            if available.separates_new_nodes
            else first_slot_with_same_times(np.vstack([left, rates]))
        )
        kinds, self._kind = np.unique(first, return_inverse=True)
        slot = available.slot[kinds]
        self._times, self._idle = left[:, slot], available.idle_seconds[:, kinds]
        self._expected_ends = self._work.seconds[:, slot] + self._idle
        shortest = left.min(axis=1, keepdims=True)
        delays = state.delays
        moved = (delays.checkpoint_seconds + delays.restart_seconds) / shortest
        self._waits = 1 + available.restore_seconds[:, None] / shortest
        self._moved = moved if available.separates_new_nodes else None
        self._goes_on = ContinuationCost(starts, rents(dear, prices)[slot])
        self._reclaims = ReclaimRisk(
            rates=rates[slot],
            restart=delays.restart_seconds / shortest,
            unsaved=np.where(available.current_slot[:, None] == slot, unsaved_fraction(state)[:, None], 0.0),
            saves_every_seconds=delays.checkpoint_every_seconds,
        )
        self._known: dict[float, DecisionCosts] = {}

    def costs(self, first_end_seconds: float) -> DecisionCosts:
        """As above, F = `first_end_seconds`."""
        if first_end_seconds not in self._known:
            self._known[first_end_seconds] = self._costs(first_end_seconds)
        return self._known[first_end_seconds]

    def _costs(self, first_end_seconds: float) -> DecisionCosts:
        event = next_event(self._arrivals, first_end_seconds)
        ends = self._times + self._idle
        usd, rebate, wait = np.zeros(ends.shape), np.zeros(ends.shape), np.zeros(len(ends))
        ended_late = self._late_usd(ends)
        for tau, chance in zip(event.seconds.tolist(), event.weights.tolist(), strict=True):
            usd += chance * np.where(ends > tau, self._runs_on_usd(tau), ended_late)
            rebate += chance * np.maximum(tau - ends, 0.0)
            wait += chance * self._values.usd(self._waits, tau)[:, 0]
        job_usd = usd[:, self._kind] - self._share * rebate[:, self._kind]
        return DecisionCosts(
            job_usd=np.where(np.isfinite(ends)[:, self._kind], job_usd, np.inf),
            wait_usd=wait,
            node_usd=self._type_usd * event.mean_seconds,
        )

    def _runs_on_usd(self, tau: float) -> "NDArray[np.float64]":
        """From τ on, of a job that has not ended by then."""
        left = 1 - (tau - self._idle) / self._times
        if self._moved is None:
            usd = self._values.usd(left, tau)
        else:
            goes_on = self._goes_on.usd(self._expected_ends, tau) + self._late_usd(self._expected_ends)
            usd = np.minimum(self._values.usd(left + self._moved, tau), goes_on)
        spot = np.flatnonzero(self._reclaims.rates)
        if len(spot):
            chance = self._reclaims.chance(tau)[spot]
            left = (left + self._reclaims.undone(self._times, tau))[:, spot]
            usd[:, spot] = (1 - chance) * usd[:, spot] + chance * self._values.usd(left, tau)
        return usd

    def _late_usd(self, ends: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """w · (end - D)⁺; what is late already counts nowhere, since nothing changes it."""
        late = np.maximum(np.where(np.isfinite(ends), ends, 0.0) - np.maximum(self._work.due, 0.0)[:, None], 0.0)
        usd: NDArray[np.float64] = self._work.weight[:, None] * late
        return usd
