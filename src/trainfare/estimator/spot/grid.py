"""One slot of the backward induction over a training on spot: from values one slot later to values now.

Availability is a Markov chain of eight states: a machine is available, or none is, each in four age bins. An age bin of
w hours with rate λ is left to the next one at the rate λ/(e^{λw} − 1): then the probability to outlast it, e^{−λw}, and
the mean time in it are those of a rate that is constant up to exactly w. In a slot of h seconds

    P = e^{Qh}        from state to state
    S = e^{Q_uu·h}    the same among states with a machine, without ever losing it

A value belongs to w seconds of remaining work in state s, with nothing running (o), a spot machine (m) or one on demand
(d). With R a start and τ the work between checkpoints, the values of the actions are

    on demand   p_d·h + P·d(w − h)                                   from o or m with w + R for w
    wait        P·o(w)
    spot        p_s·h + S·m(w − h) + (P − S)·o(w − h/2 + τ/2)        from o or d with w + R for w, and there a loss in
                                                                     the first slot leaves w as it was

interpolated linearly between grid points. Arrays have the axes: quantity (dollars, seconds, probability of having
changed to on demand; or the probability of being late alone), remaining work, state.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainfare.model.spot import AGE_BINS, AGE_HOURS, Availability, SpotTraining
from trainfare.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

    Floats = NDArray[float64]
    Interpolation = tuple[NDArray[int64], NDArray[int64], Floats, Floats]

STATES = 2 * AGE_BINS
USD, SECONDS, FALLBACK = 0, 1, 2
STATIONARY_HOURS = 1e4
"""Time after which the initial state has no influence."""
MAX_EXPONENT = 80.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotGrid:
    """Remaining work in steps of h, and everything that is the same in every slot."""

    training: SpotTraining
    h: float
    w: "Floats"
    stationary: "Floats"
    transition: "Floats"
    """P, transposed, as are the next two."""
    stay: "Floats"
    """S."""
    loss: "Floats"
    """P − S."""
    after_running: "Interpolation"
    after_starting: "Interpolation"
    after_losing: "Interpolation"

    @classmethod
    def of(cls, training: SpotTraining, availability: Availability, slots: int, most_work: float = 0.0) -> "SpotGrid":
        import numpy as np
        from scipy.linalg import expm

        h = training.deadline_seconds / slots
        tau, start = min(training.checkpoint_every_seconds, training.work_seconds), training.start_seconds
        largest = max(training.work_seconds, most_work) + start + tau
        size = math.ceil(largest / h) + 3
        q = _generator(availability)
        transition = expm(q * h / SECONDS_PER_HOUR)
        stay = expm(q[:AGE_BINS, :AGE_BINS] * h / SECONDS_PER_HOUR)
        return cls(
            training=training,
            h=h,
            w=h * np.arange(size, dtype=np.float64),
            stationary=expm(q * STATIONARY_HOURS)[0],
            transition=np.ascontiguousarray(transition.T),
            stay=np.ascontiguousarray(stay.T),
            loss=np.ascontiguousarray((transition[:AGE_BINS] - np.pad(stay, ((0, 0), (0, AGE_BINS)))).T),
            after_running=_interpolation(size, -1.0),
            after_starting=_interpolation(size, start / h - 1.0),
            after_losing=_interpolation(size, (tau / h - 1.0) / 2),
        )

    def initial_value(self, off: "Floats", work: float | None = None) -> list[float]:
        """The values with nothing running and all work left, in the stationary distribution of the market."""
        at = (self.training.work_seconds if work is None else work) / self.h
        k = min(len(self.w) - 2, int(at))
        value = off[:, k] + (at - k) * (off[:, k + 1] - off[:, k])
        return [float(each) for each in value @ self.stationary]

    def wait(self, off: "Floats") -> "Floats":
        after: Floats = off @ self.transition
        if len(after) > 1:
            after[SECONDS] += self.h
        return after

    def continue_on_demand(self, demand: "Floats") -> "Floats":
        return self._on_demand(_interpolate(demand, self.after_running) @ self.transition, self.w)

    def start_on_demand(self, demand: "Floats") -> "Floats":
        left = self.w + self.training.start_seconds
        return self._on_demand(_interpolate(demand, self.after_starting) @ self.transition, left)

    def continue_on_spot(self, off: "Floats", on: "Floats") -> "Floats":
        return self._spot(_interpolate(on, self.after_running), _interpolate(off, self.after_losing), self.w)

    def start_on_spot(self, off: "Floats", on: "Floats") -> "Floats":
        return self._spot(_interpolate(on, self.after_starting), off, self.w + self.training.start_seconds)

    def _spot(self, on: "Floats", off: "Floats", left: "Floats") -> "Floats":
        import numpy as np

        # Work that ends within the slot is lost only if the machine is lost before that.
        share = np.minimum(left / self.h, 1.0)[:, None]
        after: Floats = on @ self.stay + share * (off @ self.loss)
        if len(after) == 1:
            return after
        # A loss comes in the middle of the slot, on average; the rest of it is spent waiting.
        used = np.minimum(left, self.h)[:, None]
        lost = share * self.loss.sum(axis=0)
        after[USD] += self.training.spot_usd_per_hour / SECONDS_PER_HOUR * used * (1 - lost / 2)
        after[SECONDS] += used
        return after

    def _on_demand(self, after: "Floats", left: "Floats") -> "Floats":
        import numpy as np

        used = np.minimum(left, self.h)[:, None]
        after[USD] += self.training.on_demand_usd_per_hour / SECONDS_PER_HOUR * used
        after[SECONDS] += used
        return after


def proportional_values(
    grid: SpotGrid, usd_per_second: float, seconds_per_second: float, fallback: float, *, states: int
) -> "Floats":
    """Values with dollars and seconds in proportion to the remaining work."""
    import numpy as np

    values = np.empty((3, len(grid.w), states))
    values[USD] = usd_per_second * grid.w[:, None]
    values[SECONDS] = seconds_per_second * grid.w[:, None]
    values[FALLBACK] = fallback
    return values


def _interpolation(size: int, shift: float) -> "Interpolation":
    """The neighbours and weights of w + shift·h for every w, clipped to the grid."""
    import numpy as np

    at = np.clip(np.arange(size) + shift, 0.0, size - 1.000001)
    k = at.astype(np.int64)
    part = (at - k)[:, None]
    return k, k + 1, 1 - part, part


def _interpolate(values: "Floats", at: "Interpolation") -> "Floats":
    below, above, less, more = at
    result: Floats = less * values.take(below, axis=1) + more * values.take(above, axis=1)
    return result


def _generator(availability: Availability) -> "Floats":
    """Q per hour: from each age bin to the next, and to the first age bin of the other kind of state."""
    import numpy as np

    q = np.zeros((STATES, STATES))
    for base, other, rates in ((0, AGE_BINS, availability.lost_per_hour), (AGE_BINS, 0, availability.return_per_hour)):
        for age, (rate, width) in enumerate(zip(rates, _age_bin_widths(), strict=True)):
            q[base + age, other] += rate
            if age + 1 < AGE_BINS:
                ageing = rate / math.expm1(min(MAX_EXPONENT, rate * width)) if rate > 1e-9 else 1 / width
                q[base + age, base + age + 1] += ageing
    q[np.diag_indices(STATES)] = -q.sum(axis=1)
    return q


def _age_bin_widths() -> Iterator[float]:
    begin = 0.0
    for end in AGE_HOURS:
        yield end - begin
        begin = end
    yield math.inf
