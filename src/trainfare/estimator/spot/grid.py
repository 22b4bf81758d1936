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
changed to on demand; or the probability of being late alone), zone, remaining work, state. P and S act on states and
the interpolation on work, so their order does not matter: each product is computed once for all actions.
"""

import math
from collections.abc import Iterator, Sequence
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
    """Remaining work in steps of h, and everything that is the same in every slot, in several zones."""

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
    running: "SlotTerms"
    """The terms of a slot on a machine that runs."""
    starting: "SlotTerms"
    """The terms of the first slot of a machine."""

    @classmethod
    def of(
        cls, training: SpotTraining, availabilities: Sequence[Availability], slots: int, most_work: float = 0.0
    ) -> "SpotGrid":
        import numpy as np
        from scipy.linalg import expm

        h = training.deadline_seconds / slots
        tau, start = min(training.checkpoint_every_seconds, training.work_seconds), training.start_seconds
        largest = max(training.work_seconds, most_work) + start + tau
        size = math.ceil(largest / h) + 3
        q = np.stack([_generator(availability) for availability in availabilities])
        transition = expm(q * h / SECONDS_PER_HOUR)
        stay = expm(q[:, :AGE_BINS, :AGE_BINS] * h / SECONDS_PER_HOUR)
        w = h * np.arange(size, dtype=np.float64)
        lost = transition[:, :AGE_BINS] - np.pad(stay, ((0, 0), (0, 0), (0, AGE_BINS)))
        loss = np.ascontiguousarray(lost.swapaxes(1, 2))
        return cls(
            training=training,
            h=h,
            w=w,
            stationary=expm(q * STATIONARY_HOURS)[:, 0],
            transition=np.ascontiguousarray(transition.swapaxes(1, 2)),
            stay=np.ascontiguousarray(stay.swapaxes(1, 2)),
            loss=loss,
            after_running=_interpolation(size, -1.0),
            after_starting=_interpolation(size, start / h - 1.0),
            after_losing=_interpolation(size, (tau / h - 1.0) / 2),
            running=SlotTerms.of(training, h, w, loss),
            starting=SlotTerms.of(training, h, w + start, loss),
        )

    @property
    def zones(self) -> int:
        return len(self.stationary)

    def initial_values(self, off: "Floats", work: float | None = None) -> "Floats":
        """The values with nothing running and all work left, in the stationary distribution of each zone's market: one
        row per quantity, one column per zone."""
        at = (self.training.work_seconds if work is None else work) / self.h
        k = min(len(self.w) - 2, int(at))
        value = off[..., k, :] + (at - k) * (off[..., k + 1, :] - off[..., k, :])
        found: Floats = (value * self.stationary).sum(axis=-1)
        return found

    def wait(self, off: "Floats") -> "Floats":
        after: Floats = off @ self.transition
        if len(after) > 1:
            after[SECONDS] += self.h
        return after

    def on_demand(self, demand: "Floats") -> "tuple[Floats, Floats]":
        """The values of a slot on demand: of starting a machine, and of continuing on one."""
        after: Floats = demand @ self.transition
        return (
            _interpolate(after, self.after_starting) + self.starting.on_demand,
            _interpolate(after, self.after_running) + self.running.on_demand,
        )

    def on_spot(self, off: "Floats", on: "Floats") -> "tuple[Floats, Floats]":
        """The values of a slot on spot: of starting a machine, and of continuing on one."""
        stay, lost = on @ self.stay, off @ self.loss
        start = _interpolate(stay, self.after_starting) + self.starting.lost_share * lost
        run = _interpolate(stay, self.after_running) + self.running.lost_share * _interpolate(lost, self.after_losing)
        if len(off) > 1:
            start += self.starting.on_spot
            run += self.running.on_spot
        return start, run


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTerms:
    """The cost of a slot, whatever comes after it, by remaining work."""

    lost_share: "Floats"
    """Work that ends within the slot is lost only if the machine is lost before that."""
    on_spot: "Floats"
    on_demand: "Floats"

    @classmethod
    def of(cls, training: SpotTraining, h: float, left: "Floats", loss: "Floats") -> "SlotTerms":
        import numpy as np

        share, used = np.minimum(left / h, 1.0)[:, None], np.minimum(left, h)[:, None]
        # A loss comes in the middle of the slot, on average; the rest of it is spent waiting.
        charged = used * (1 - share * loss.sum(axis=1)[:, None] / 2)
        on_spot, on_demand = np.zeros((3, *charged.shape)), np.zeros((3, 1, len(left), 1))
        on_spot[USD] = training.spot_usd_per_hour / SECONDS_PER_HOUR * charged
        on_demand[USD] = training.on_demand_usd_per_hour / SECONDS_PER_HOUR * used
        on_spot[SECONDS] = on_demand[SECONDS] = used
        return cls(lost_share=share, on_spot=on_spot, on_demand=on_demand)


def proportional_values(
    grid: SpotGrid, usd_per_second: float, seconds_per_second: Sequence[float], fallback: float, *, states: int
) -> "Floats":
    """Values with dollars and seconds in proportion to the remaining work; the seconds differ by zone."""
    import numpy as np

    values = np.empty((3, grid.zones, len(grid.w), states))
    values[USD] = usd_per_second * grid.w[:, None]
    values[SECONDS] = np.asarray(seconds_per_second)[:, None, None] * grid.w[:, None]
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
    result: Floats = less * values.take(below, axis=-2) + more * values.take(above, axis=-2)
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
