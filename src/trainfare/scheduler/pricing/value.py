"""The value function of a job: the cost of finishing it from some moment on, given the work that is left.

    V_j(r, τ) = the cheapest way to do the fraction r of job j from τ on  +  w_j · (τ - D_j)⁺

In each part of time a job may work on a mixture of slots at rent + capacity price a second,

    u_k = h · share_k + π_vi · frac_k          and, late, + w_j · (1 + (S - D_j)⁺ / t_jk)

and does 1/t_jk of itself a second. The lower hull of the points (1/t_jk, u_k) gives segments, each with a price per
fraction of the job; all segments by price, filled up to r, give V, which is convex in r. This is a fluid model: a job
may change slots at any time, and lateness is counted where work is done late, so V is a low estimate. The slots that
are passed in here have h · share in segment of share (`OVERHEAD`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.scheduler.pricing.periods import PeriodParts, RemainingWork
from trainfare.scheduler.tables import SlotTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

OVERHEAD = 1.02
"""h: a node is never fully used, so GPUs cost this much more than their share of it."""

_NO_SEGMENT = 1e30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueFunctions:
    """Jobs × segments, by price: how much of each job can be done in which time at that price."""

    price: "NDArray[np.float64]"
    """$ for the complete job."""
    speed: "NDArray[np.float64]"
    """The fraction of the job per second."""
    start: "NDArray[np.float64]"
    end: "NDArray[np.float64]"
    due: "NDArray[np.float64]"
    weight: "NDArray[np.float64]"

    def usd(self, left: "NDArray[np.float64]", at_seconds: float) -> "NDArray[np.float64]":
        """V_j(r, τ) for several r of each job (jobs × any), each between 0 and 2, at one τ."""
        length = np.maximum(self.end - np.maximum(self.start, at_seconds), 0.0)
        amount = length * self.speed
        done = np.cumsum(amount, axis=1)
        paid = np.cumsum(amount * self.price, axis=1)
        # one search for all jobs: the numbers of row j lie between 3j and 3j + 2
        row = 3.0 * np.arange(len(done))[:, None]
        fraction = np.clip(left, 0.0, 2.0)
        segment = np.searchsorted((np.minimum(done, 2.5) + row).ravel(), (fraction + row).ravel()).reshape(
            fraction.shape
        )
        segment = np.minimum(segment, (np.arange(len(done))[:, None] + 1) * done.shape[1] - 1)
        found = paid.ravel()[segment] - self.price.ravel()[segment] * (done.ravel()[segment] - fraction)
        late = self.weight * np.maximum(at_seconds - np.maximum(self.due, 0.0), 0.0)
        usd: NDArray[np.float64] = np.where(fraction > 0, found, 0.0) + late[:, None]
        return usd


class ContinuationCost:
    """The cost of staying on a slot from one moment to another: the integral of its rent and capacity price."""

    def __init__(self, starts: "NDArray[np.float64]", rent: "NDArray[np.float64]") -> None:
        self._starts, self._rent = starts, rent
        self._slot = np.arange(len(rent))
        self._paid = np.zeros(rent.shape)
        self._paid[:, 1:] = np.cumsum(rent[:, :-1] * np.diff(starts), axis=1)

    def usd(self, ends: "NDArray[np.float64]", at_seconds: float) -> "NDArray[np.float64]":
        """The cost from τ until the ends (jobs × slots); infinite where a job never ends."""
        finite = np.isfinite(ends)
        before = self._until(np.full((1, len(self._slot)), at_seconds))
        return np.where(finite, self._until(np.where(finite, ends, 0.0)) - before, np.inf)

    def _until(self, moments: "NDArray[np.float64]") -> "NDArray[np.float64]":
        period = np.searchsorted(self._starts, moments, side="right") - 1
        since: NDArray[np.float64] = moments - self._starts[period]
        return self._paid[self._slot, period] + self._rent[self._slot, period] * since


def first_slot_with_same_times(seconds: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """Slot → the first slot on which every job takes equally long; the two differ in price alone."""
    first: dict[bytes, int] = {}
    columns = np.ascontiguousarray(seconds.T)
    return np.array([first.setdefault(column.tobytes(), index) for index, column in enumerate(columns)], dtype=np.int64)


def slot_rents(slots: SlotTable, prices: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Slots × periods: h · share_k + π_vi · frac_k, $ a second."""
    usd: NDArray[np.float64] = slots.share[:, None] + slots.fraction[:, None] * prices[slots.type]
    return usd


def value_functions(
    work: RemainingWork, parts: PeriodParts, slots: SlotTable, prices: "NDArray[np.float64]"
) -> ValueFunctions:
    """The segments of every job; `prices` are π, $ per node-second, types × periods."""
    first = first_slot_with_same_times(work.seconds)
    distinct = np.unique(first)
    rent = slot_rents(slots, prices)
    cheapest = np.array([rent[first == slot].min(axis=0) for slot in distinct])
    speed = 1.0 / work.seconds[:, distinct]
    usd = (
        cheapest.T[parts.period]
        + parts.late_usd_per_second[:, :, None]
        + parts.late_usd[:, :, None] * speed[:, None, :]
    )
    slope, gain = _hull(np.broadcast_to(speed[:, None, :], usd.shape), usd)
    steps = slope.shape[-1]
    slope, gain = slope.reshape(len(slope), -1), gain.reshape(len(gain), -1)
    order = np.argsort(slope, axis=1, kind="stable")
    order = order[:, : max(int((slope < _NO_SEGMENT).sum(axis=1).max()), 1)]
    part = order // steps
    return ValueFunctions(
        price=np.take_along_axis(slope, order, axis=1),
        speed=np.take_along_axis(gain, order, axis=1),
        start=np.take_along_axis(parts.start, part, axis=1),
        end=np.take_along_axis(parts.end, part, axis=1),
        due=work.due,
        weight=work.weight,
    )


def _hull(x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """The slopes and widths of the lower hull from the origin through points (..., k), padded with width 0."""
    at_x, at_y = np.zeros(x.shape[:-1]), np.zeros(x.shape[:-1])
    slopes, widths = [], []
    while True:
        ahead = x > at_x[..., None] * (1 + 1e-12)
        if not ahead.any():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(ahead, (y - at_y[..., None]) / (x - at_x[..., None]), _NO_SEGMENT)
        best = np.argmin(slope, axis=-1)[..., None]
        step = np.take_along_axis(slope, best, axis=-1)[..., 0]
        real = step < _NO_SEGMENT
        to_x = np.where(real, np.take_along_axis(x, best, axis=-1)[..., 0], at_x)
        to_y = np.where(real, np.take_along_axis(y, best, axis=-1)[..., 0], at_y)
        slopes.append(step)
        widths.append(to_x - at_x)
        at_x, at_y = to_x, to_y
    return np.stack(slopes, axis=-1), np.stack(widths, axis=-1)
