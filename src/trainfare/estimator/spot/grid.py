"""One slot of a training on spot: from what things are worth a slot later to what they are worth now.

Availability is a chain of eight states: a machine can be had, or none can, each on four rungs of age. A rung of w
hours with rate λ is left upwards at the rate λ/(e^{λw} − 1): so the chance to outlast it, e^{−λw}, and the mean time on
it are those of a rate that is constant up to exactly w. In a slot of h seconds

    P = e^{Qh}        from state to state
    S = e^{Q_uu·h}    the same among states with a machine, never having lost it

A value is of w seconds of work left, in state s, with nothing running (o), a spot machine (m) or one on demand (d).
With R a start and τ the work between checkpoints, the actions are worth

    on demand   p_d·h + P·d(w − h)                                   from o or m with w + R for w
    wait        P·o(w)
    spot        p_s·h + S·m(w − h) + (P − S)·o(w − h/2 + τ/2)        from o or d with w + R for w, and there a loss in
                                                                     the first slot leaves w as it was

between grid points by a line. Arrays have the axes: what is counted (dollars, seconds, having been on demand; or being
late alone), work left, state.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainfare.model.spot import AGE_HOURS, AGE_BINS, Availability, SpotTraining
from trainfare.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

    Floats = NDArray[float64]
    Places = tuple[NDArray[int64], NDArray[int64], Floats, Floats]

STATES = 2 * AGE_BINS
USD, SECONDS, FALLBACK = 0, 1, 2
LONG_HOURS = 1e4
"""After which the state at the beginning is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Work left in steps of h, and all that is the same in every slot."""

    training: SpotTraining
    h: float
    w: "Floats"
    stationary: "Floats"
    moved: "Floats"
    """P, transposed, as are the next two."""
    stayed: "Floats"
    lost: "Floats"
    """P − S."""
    after_going: "Places"
    after_starting: "Places"
    after_losing: "Places"

    @classmethod
    def of(cls, training: SpotTraining, availability: Availability, steps: int, most_work: float = 0.0) -> "Grid":
        import numpy as np

        h = training.deadline_seconds / steps
        tau, start = min(training.checkpoint_every_seconds, training.work_seconds), training.start_seconds
        most = max(training.work_seconds, most_work) + start + tau
        size = math.ceil(most / h) + 3
        q = _generator(availability)
        move = _exponential(q * h / SECONDS_PER_HOUR)
        stay = _exponential(q[:AGE_BINS, :AGE_BINS] * h / SECONDS_PER_HOUR)
        return cls(
            training=training,
            h=h,
            w=h * np.arange(size, dtype=np.float64),
            stationary=_exponential(q * LONG_HOURS)[0],
            moved=np.ascontiguousarray(move.T),
            stayed=np.ascontiguousarray(stay.T),
            lost=np.ascontiguousarray((move[:AGE_BINS] - np.pad(stay, ((0, 0), (0, AGE_BINS)))).T),
            after_going=_places(size, -1.0),
            after_starting=_places(size, start / h - 1.0),
            after_losing=_places(size, (tau / h - 1.0) / 2),
        )

    def begin(self, off: "Floats", work: float | None = None) -> list[float]:
        """With nothing running and all work left, the market being as it mostly is."""
        at = (self.training.work_seconds if work is None else work) / self.h
        k = min(len(self.w) - 2, int(at))
        value = off[:, k] + (at - k) * (off[:, k + 1] - off[:, k])
        return [float(each) for each in value @ self.stationary]

    def wait(self, off: "Floats") -> "Floats":
        after: Floats = off @ self.moved
        if len(after) > 1:
            after[SECONDS] += self.h
        return after

    def demand_go(self, demand: "Floats") -> "Floats":
        return self._paid(_at(demand, self.after_going) @ self.moved, self.w)

    def demand_start(self, demand: "Floats") -> "Floats":
        return self._paid(_at(demand, self.after_starting) @ self.moved, self.w + self.training.start_seconds)

    def spot_go(self, off: "Floats", on: "Floats") -> "Floats":
        return self._spot(_at(on, self.after_going), _at(off, self.after_losing), self.w)

    def spot_start(self, off: "Floats", on: "Floats") -> "Floats":
        return self._spot(_at(on, self.after_starting), off, self.w + self.training.start_seconds)

    def _spot(self, on: "Floats", off: "Floats", left: "Floats") -> "Floats":
        import numpy as np

        # What ends within the slot is lost only if the machine goes before that.
        share = np.minimum(left / self.h, 1.0)[:, None]
        after: Floats = on @ self.stayed + share * (off @ self.lost)
        if len(after) == 1:
            return after
        # A loss comes in the middle of the slot; the rest of it is waited.
        used = np.minimum(left, self.h)[:, None]
        gone = share * self.lost.sum(axis=0)
        after[USD] += self.training.spot_usd_per_hour / SECONDS_PER_HOUR * used * (1 - gone / 2)
        after[SECONDS] += used
        return after

    def _paid(self, after: "Floats", left: "Floats") -> "Floats":
        import numpy as np

        used = np.minimum(left, self.h)[:, None]
        after[USD] += self.training.on_demand_usd_per_hour / SECONDS_PER_HOUR * used
        after[SECONDS] += used
        return after


def along(grid: Grid, usd_per_second: float, seconds_per_second: float, fallback: float, *, states: int) -> "Floats":
    """Dollars and seconds in proportion to the work left."""
    import numpy as np

    values = np.empty((3, len(grid.w), states))
    values[USD] = usd_per_second * grid.w[:, None]
    values[SECONDS] = seconds_per_second * grid.w[:, None]
    values[FALLBACK] = fallback
    return values


def _places(size: int, more: float) -> "Places":
    """Where w + more·h lies for every w: nothing below zero, beyond the grid as at its end."""
    import numpy as np

    at = np.clip(np.arange(size) + more, 0.0, size - 1.000001)
    k = at.astype(np.int64)
    part = (at - k)[:, None]
    return k, k + 1, 1 - part, part


def _at(values: "Floats", places: "Places") -> "Floats":
    below, above, less, more = places
    found: Floats = less * values.take(below, axis=1) + more * values.take(above, axis=1)
    return found


def _generator(availability: Availability) -> "Floats":
    """Q, per hour: up and down, each up its ladder, and from every rung to the foot of the other."""
    import numpy as np

    q = np.zeros((STATES, STATES))
    for base, other, rates in ((0, AGE_BINS, availability.lost_per_hour), (AGE_BINS, 0, availability.return_per_hour)):
        for rung, (rate, width) in enumerate(zip(rates, _widths(), strict=True)):
            q[base + rung, other] += rate
            if rung + 1 < AGE_BINS:
                climb = rate / math.expm1(min(80.0, rate * width)) if rate > 1e-9 else 1 / width
                q[base + rung, base + rung + 1] += climb
    q[np.diag_indices(STATES)] = -q.sum(axis=1)
    return q


def _widths() -> Iterator[float]:
    begin = 0.0
    for end in AGE_HOURS:
        yield end - begin
        begin = end
    yield math.inf


def _exponential(matrix: "Floats") -> "Floats":
    """By halving until small, a few terms of the series, and squaring back."""
    import numpy as np

    halvings = max(0, math.ceil(math.log2(max(1e-9, float(np.abs(matrix).max())))) + 6)
    small = matrix / 2**halvings
    result = term = np.eye(len(matrix))
    for n in range(1, 7):
        term = term @ small / n
        result = result + term
    for _ in range(halvings):
        result = result @ result
    return np.asarray(result)
