"""The cost of each job on each slot, and of waiting, with a look at the queue from the next event on.

With τ the next event (next_event.py), V the value function of a job (value.py) and b_jk the seconds that it is idle
before it makes progress (available_slots.py; zero without delays):

    C_jk      = E_τ [ V_j(r, τ),  r = 1 - (τ - b_jk)/t_jk ]                         if it still runs at τ; the rest of
                                                                                    b_jk counts as remaining work
                    [ w_j · (b_jk + t_jk - D_j)⁺ - share_k · (τ - b_jk - t_jk) ]    if it has ended by then: its GPUs
                                                                                    serve other jobs
    C_j,wait  = E_τ [ V_j(1 + s_j, τ) ]          s_j: the time to restore it later, as a fraction of its shortest time
    node      = c_v · E τ                        the complete node, whoever runs on it, booting or not

V changes slots at no cost. With delays a job that runs at τ either stays on its slot, or migrates and is restored once:

    V_j(r, τ)  becomes  min( ∫ from τ to τ + r·t_jk of (h · share_k + π · frac_k) + w_j · (τ + r·t_jk - D_j)⁺,
                             V_j(r + s_j, τ) )

Without this, a later migration looks free and a migration now does not, and jobs that were to get more GPUs later are
late.

Where a node may be reclaimed before τ (reclaims.py), r includes the lost work with that probability. V is convex, so
jobs without slack go where nothing is reclaimed. Later periods use the times expected with reclaims.

The score of a decision is the sum of these costs: rent until the next event, and the costs from there on.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import State
from trainfare.scheduler.pricing.arrivals import arrivals_per_second, expected_arrivals_per_second
from trainfare.scheduler.pricing.available_slots import AvailableSlots
from trainfare.scheduler.pricing.capacity_prices import capacity_prices
from trainfare.scheduler.pricing.next_event import next_event
from trainfare.scheduler.pricing.periods import busy_seconds, period_starts, remaining_work, split_periods
from trainfare.scheduler.pricing.reclaims import (
    ReclaimRisk,
    expected_seconds_with_reclaims,
    reclaims_per_second,
    unsaved_fraction,
)
from trainfare.scheduler.pricing.value import (
    OVERHEAD,
    ContinuationCost,
    first_slot_with_same_times,
    slot_rents,
    value_functions,
)
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecisionCosts:
    """The terms of the score, for one distribution of the next event."""

    job_usd: "NDArray[np.float64]"
    """C, jobs × available slots; infinite where a job cannot run."""
    wait_usd: "NDArray[np.float64]"
    node_usd: "NDArray[np.float64]"
    """The cost of a node of each available type."""


class LookAhead:
    """Capacity prices and value functions as of now; `remaining` holds seconds, jobs × slots of the state's fleet."""

    def __init__(self, state: State, available: AvailableSlots, remaining: "NDArray[np.float64]") -> None:
        rates = reclaims_per_second(state.fleet)
        slots = slot_table(state.fleet)
        starts = period_starts(
            state.arrivals.mean_shortest_seconds or float(remaining.min(axis=1).mean()),
            busy_seconds=busy_seconds(state.fleet, slots, remaining),
        )
        self._work = remaining_work(state, expected_seconds_with_reclaims(remaining, rates, state.delays))
        with_overhead = replace(slots, share=OVERHEAD * slots.share)
        prices = capacity_prices(state, self._work, with_overhead, starts, arrivals_per_second(state))
        self._values = value_functions(self._work, split_periods(self._work, starts), with_overhead, prices)
        self._arrivals = expected_arrivals_per_second(state)
        self._share = slots.share[available.slot]
        self._type_usd = np.array([each.usd_per_second for each in available.fleet.types])
        # without delays, slots that differ only in price are computed once
        first = (
            np.arange(len(available.slot))
            if available.separates_new_nodes
            else first_slot_with_same_times(np.vstack([remaining, rates]))
        )
        distinct, self._distinct = np.unique(first, return_inverse=True)
        slot = available.slot[distinct]
        self._times, self._idle = remaining[:, slot], available.idle_seconds[:, distinct]
        self._expected_ends = self._work.seconds[:, slot] + self._idle
        shortest = remaining.min(axis=1, keepdims=True)
        delays = state.delays
        migrated = (delays.checkpoint_seconds + delays.restart_seconds) / shortest
        self._left_after_waiting = 1 + available.restore_seconds[:, None] / shortest
        self._migrated = migrated if available.separates_new_nodes else None
        self._continuation = ContinuationCost(starts, slot_rents(with_overhead, prices)[slot])
        self._reclaims = ReclaimRisk(
            rates=rates[slot],
            restart=delays.restart_seconds / shortest,
            unsaved=np.where(available.current_slot[:, None] == slot, unsaved_fraction(state)[:, None], 0.0),
            checkpoint_every_seconds=delays.checkpoint_every_seconds,
        )
        self._costs_by_first_end: dict[float, DecisionCosts] = {}

    def costs(self, first_end_seconds: float) -> DecisionCosts:
        """The costs above with F = `first_end_seconds`."""
        if first_end_seconds not in self._costs_by_first_end:
            self._costs_by_first_end[first_end_seconds] = self._compute_costs(first_end_seconds)
        return self._costs_by_first_end[first_end_seconds]

    def _compute_costs(self, first_end_seconds: float) -> DecisionCosts:
        event = next_event(self._arrivals, first_end_seconds)
        ends = self._times + self._idle
        usd, rebate, wait = np.zeros(ends.shape), np.zeros(ends.shape), np.zeros(len(ends))
        ended_late = self._late_usd(ends)
        for tau, probability in zip(event.seconds.tolist(), event.weights.tolist(), strict=True):
            usd += probability * np.where(ends > tau, self._still_running_usd(tau), ended_late)
            rebate += probability * np.maximum(tau - ends, 0.0)
            wait += probability * self._values.usd(self._left_after_waiting, tau)[:, 0]
        job_usd = usd[:, self._distinct] - self._share * rebate[:, self._distinct]
        return DecisionCosts(
            job_usd=np.where(np.isfinite(ends)[:, self._distinct], job_usd, np.inf),
            wait_usd=wait,
            node_usd=self._type_usd * event.mean_seconds,
        )

    def _still_running_usd(self, tau: float) -> "NDArray[np.float64]":
        """The cost from τ on of a job that has not ended by then."""
        left = 1 - (tau - self._idle) / self._times
        if self._migrated is None:
            usd = self._values.usd(left, tau)
        else:
            stays = self._continuation.usd(self._expected_ends, tau) + self._late_usd(self._expected_ends)
            usd = np.minimum(self._values.usd(left + self._migrated, tau), stays)
        spot = np.flatnonzero(self._reclaims.rates)
        if len(spot):
            probability = self._reclaims.probability(tau)[spot]
            left = (left + self._reclaims.lost_work(self._times, tau))[:, spot]
            usd[:, spot] = (1 - probability) * usd[:, spot] + probability * self._values.usd(left, tau)
        return usd

    def _late_usd(self, ends: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """w · (end - D)⁺, without the lateness up to now, which no decision changes."""
        late = np.maximum(np.where(np.isfinite(ends), ends, 0.0) - np.maximum(self._work.due, 0.0)[:, None], 0.0)
        usd: NDArray[np.float64] = self._work.weight[:, None] * late
        return usd
