"""The Pareto front in time and cost, its knee, and the difference between two estimates."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainfare.model.plan import Goal
from trainfare.recommender.choose import best_of, in_order
from trainfare.recommender.options import Options, Rankable, T, as_options

FASTEST = Goal(kind="fastest")
MAX_COST_RATIO = 10.0
"""The fastest alternative is shown up to this many times the cost of the chosen candidate: eight of the newest GPUs at
500 times the cost are no alternative."""
MIN_DEPTH = 1e-9
"""A point less deep than this lies on the chord, but for the rounding of floats."""


def front(estimates: Iterable[T]) -> Options[T]:
    """The estimates that nothing dominates in time and cost, the fastest first; the first by name of equal ones.

    One dominates another if it is at most as large in both and smaller in one. In the order of time, an estimate is on
    the front if it costs less than all before: O(n·log n).
    """
    import numpy as np

    ordered = in_order(estimates, FASTEST)
    least_before = np.minimum.accumulate(np.concatenate(([np.inf], ordered.usd)))[:-1]
    return ordered.where(ordered.usd < least_before)


def fastest_within(estimates: Iterable[T], usd: float) -> T | None:
    """The fastest estimate that costs at most this much; None if there is none."""
    given = as_options(estimates)
    return best_of(given.where(given.usd <= usd), FASTEST)


def knee(front: Sequence[T]) -> T | None:
    """The point of the front that lies deepest below its chord: beyond it, more speed costs much more.

        x = ln(time/t₀)/ln(t₁/t₀),  y = ln(cost/c₁)/ln(c₀/c₁),  depth = 1 − x − y

    with the fastest (t₀, c₀) and the cheapest (t₁, c₁): both axes go from 0 to 1, and the chord is x + y = 1.
    Logarithms are used because twice the speed for twice the money is the same trade anywhere on the front; the ends
    only set the exchange rate. Candidates that cost nothing are left out. None if fewer than three points are left or
    none lies below the chord.
    """
    front = [estimate for estimate in front if estimate.usd.value > 0]
    if len(front) < 3:
        return None
    fastest, cheapest = front[0], front[-1]
    time_range = math.log(cheapest.seconds.value / fastest.seconds.value)
    cost_range = math.log(fastest.usd.value / cheapest.usd.value)

    def depth(estimate: T) -> float:
        x = math.log(estimate.seconds.value / fastest.seconds.value) / time_range
        y = math.log(estimate.usd.value / cheapest.usd.value) / cost_range
        return 1 - x - y

    deepest = max(front[1:-1], key=depth)
    return deepest if depth(deepest) > MIN_DEPTH else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The time and cost of one estimate compared with another; negative amounts are savings."""

    seconds: float
    usd: float
    time_ratio: float
    cost_ratio: float | None
    """The ratio of the costs; None if the base costs nothing."""


def difference(base: Rankable, other: Rankable) -> Difference:
    """`other` minus `base`, and `other` over `base`."""
    return Difference(
        seconds=other.seconds.value - base.seconds.value,
        usd=other.usd.value - base.usd.value,
        time_ratio=other.seconds.value / base.seconds.value,
        cost_ratio=other.usd.value / base.usd.value if base.usd.value else None,
    )
