"""What nothing else beats in time and in cost, and what one loses beside another."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.recommender.choose import in_order


def front(estimates: Iterable[Estimate]) -> tuple[Estimate, ...]:
    """Those not dominated, the fastest first: nothing else is at least as fast and as cheap, and better in one of them.

    Of several with the same time and the same cost the first by name stands for all. Sorted by time, each is on the
    front that costs less than all before it: O(n·log n).
    """
    found: list[list[Estimate]] = []
    before = (-math.inf, math.inf)
    for estimate in sorted(estimates, key=_point):
        point = _point(estimate)
        if point[1] < before[1]:
            found.append([estimate])
            before = point
        elif point == before:
            found[-1].append(estimate)
    return tuple(in_order(equals, Goal(kind="fastest"))[0] for equals in found)


def _point(estimate: Estimate) -> tuple[float, float]:
    return estimate.seconds.value, estimate.usd.value


def knee(front: Sequence[Estimate]) -> Estimate | None:
    """Where a little more speed begins to cost much: the point of the front that lies deepest below its chord.

        x = ln(time/t₀)/ln(t₁/t₀),  y = ln(cost/c₁)/ln(c₀/c₁),  depth = 1 − x − y

    with the fastest (t₀, c₀) and the cheapest (t₁, c₁): both axes go from 0 to 1, and the chord is x + y = 1. Of
    logarithms, since twice as fast for twice the money is the same bargain anywhere; and the ends decide nothing but
    the slope of that bargain. None where fewer than three are on the front, or none lies below the chord: then each
    step is as dear as any other.
    """
    if len(front) < 3:
        return None
    fastest, cheapest = front[0], front[-1]
    longest = math.log(cheapest.seconds.value / fastest.seconds.value)
    dearest = math.log(fastest.usd.value / cheapest.usd.value)

    def depth(estimate: Estimate) -> float:
        x = math.log(estimate.seconds.value / fastest.seconds.value) / longest
        y = math.log(estimate.usd.value / cheapest.usd.value) / dearest
        return 1 - x - y

    deepest = max(front[1:-1], key=depth)
    return deepest if depth(deepest) > SHALLOW else None


SHALLOW = 1e-9
"""What is on the chord but for the arithmetic of floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What is lost by taking another one; below zero what is won."""

    seconds: float
    usd: float
    time_ratio: float
    cost_ratio: float


def losses(chosen: Estimate, other: Estimate) -> Losses:
    return Losses(
        seconds=other.seconds.value - chosen.seconds.value,
        usd=other.usd.value - chosen.usd.value,
        time_ratio=other.seconds.value / chosen.seconds.value,
        cost_ratio=other.usd.value / chosen.usd.value,
    )
