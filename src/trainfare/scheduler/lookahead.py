"""What each job costs in each slot, and waiting, looked at from the next event on.

With τ the next event (next_event.py), V the value of what is left of a job (value.py) and b_jk the seconds that it
stands idle before it gets on (offers.py; zero without delays):

    C_jk      = E_τ [ V_j(1 - (τ - b_jk)/t_jk, τ) ]                                 while it runs on at τ; what is
                                                                                    left of b_jk is work to be done
                    [ w_j · (b_jk + t_jk - D_j)⁺ - share_k · (τ - b_jk - t_jk) ]    if it has ended by then: its GPUs
                                                                                    serve others
    C_j,wait  = E_τ [ V_j(1 + s_j, τ) ]          s_j: what it takes to restore it later, as a part of its work
    node      = c_v · E τ                        whole, whoever is on it, booting or not

The score of a decision is the sum of these: rent until things change, and what is to be paid from there on.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import State
from trainfare.scheduler.arrivals import arrivals_per_second, believed_arrivals_per_second
from trainfare.scheduler.capacity_prices import capacity_prices
from trainfare.scheduler.next_event import next_event
from trainfare.scheduler.offers import Offers
from trainfare.scheduler.outlook import parts_of, period_starts, work_of
from trainfare.scheduler.tables import slot_table
from trainfare.scheduler.value import same_times, values

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costs:
    """The score's terms, for one belief of when things change next."""

    job_usd: "NDArray[np.float64]"
    """C, jobs × offered slots; infinite where a job cannot run."""
    wait_usd: "NDArray[np.float64]"
    node_usd: "NDArray[np.float64]"
    """Of each offered type."""


class LookAhead:
    """Prices and values as of now; `left` is what is left of each job on each slot of the state's fleet, in seconds."""

    def __init__(self, state: State, offered: Offers, left: "NDArray[np.float64]") -> None:
        self.work = work_of(state, left)
        starts = period_starts(state.arrivals.mean_shortest_seconds)
        slots = slot_table(state.fleet)
        prices = capacity_prices(state, self.work, starts, arrivals_per_second(state))
        self._values = values(self.work, parts_of(self.work, starts), slots, prices)
        self._rate = believed_arrivals_per_second(state)
        self._share = slots.share[offered.slot]
        self._type_usd = np.array([each.usd_per_second for each in offered.fleet.types])
        # slots that differ in nothing but their price are reckoned once
        first = same_times(np.vstack([left[:, offered.slot], offered.idle_seconds]))
        kinds, self._kind = np.unique(first, return_inverse=True)
        self._times, self._idle = left[:, offered.slot[kinds]], offered.idle_seconds[:, kinds]
        self._again = offered.restore_seconds / left.min(axis=1)
        self._known: dict[float, Costs] = {}

    def costs(self, first_end_seconds: float) -> Costs:
        """As above, F = `first_end_seconds`."""
        if first_end_seconds not in self._known:
            self._known[first_end_seconds] = self._costs(first_end_seconds)
        return self._known[first_end_seconds]

    def _costs(self, first_end_seconds: float) -> Costs:
        event = next_event(self._rate, first_end_seconds)
        ends = self._times + self._idle
        usd, rebate, wait = np.zeros(ends.shape), np.zeros(ends.shape), np.zeros(len(ends))
        due = np.maximum(self.work.due, 0.0)[:, None]
        ended_late = self.work.weight[:, None] * np.maximum(np.where(np.isfinite(ends), ends, 0.0) - due, 0.0)
        for tau, chance in zip(event.seconds, event.weights, strict=True):
            left = np.column_stack([1 - (tau - self._idle) / self._times, 1 + self._again])
            value = self._values.usd(left, float(tau))
            usd += chance * np.where(ends > tau, value[:, :-1], ended_late)
            rebate += chance * np.maximum(tau - ends, 0.0)
            wait += chance * value[:, -1]
        job_usd = usd[:, self._kind] - self._share * rebate[:, self._kind]
        return Costs(
            job_usd=np.where(np.isfinite(ends)[:, self._kind], job_usd, np.inf),
            wait_usd=wait,
            node_usd=self._type_usd * event.mean_seconds,
        )
