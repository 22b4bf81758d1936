"""Prices of what is limited, interval by interval, under which jobs that care for themselves keep the limits.

With capacity b_ri of resource r in interval i and prices p ≥ 0, no way to work off all jobs within the limits costs
less than

    L(p) = Σ_j V_j(p) - Σ_ri p_ri·b_ri              V_j: `priced_job.cheapest`

L is concave. It is raised by column generation: the ways that jobs chose so far are mixed by a linear model,

    min Σ cost·x    Σ_ways x_j = 1    Σ use·x ≤ b        (its value is above max L, its duals are prices to try)

The next prices lie between the best so far and those duals, which alone swing wildly while the ways are few. With a
`box`, a price is kept within that part of itself around the best so far: for prices that are nearly right at the
start. The last interval never ends and has no limit: its price is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.scheduler.bounds.priced_job import PricedJob, cheapest
from trainfare.scheduler.highs import LinearModel, SolverError, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

STEP = 0.5
"""How far new prices go from the best so far to those of the model."""
DEAREST = 40.0
"""Times the dearest lateness of a job: a unit's second costs no more than that at first. A second more of one unit
moves every job behind it, so no price is safe from being too low; a bound that is held by this one is still valid."""
PRICE_WITHOUT_LATENESS = 1e-3
"""$/s where no job minds to be late."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ways:
    """One way of every job: what it costs without prices, and what it uses."""

    usd: "Numbers"
    use: "Numbers"
    """Jobs × (resources · intervals), the last interval left out."""


def value(jobs: Sequence[PricedJob], capacity: "Numbers", prices: "Numbers") -> float:
    """L(p). `capacity` and `prices` are resources × intervals, without the last one."""
    return _answer(jobs, capacity, prices)[0]


def best_prices(
    jobs: Sequence[PricedJob],
    capacity: "Numbers",
    start: "Numbers",
    *,
    rounds: int,
    enough: float,
    box: float | None = None,
) -> "Numbers":
    """Prices whose L is within `enough` of the largest, or what `rounds` rounds gave. Never worse than `start`."""
    dearest = DEAREST * max(job.late_usd_per_second for job in jobs) or PRICE_WITHOUT_LATENESS
    ways: list[_Ways] = []
    best, most, prices = start, -np.inf, start
    for _ in range(rounds):
        reached, chosen = _answer(jobs, capacity, prices)
        ways.append(chosen)
        if reached > most:
            best, most = prices, reached
        if box is None:
            low, high = np.zeros_like(best), np.full_like(best, dearest)
        else:
            width = box * np.maximum(best, np.average(best, weights=capacity))
            low, high = np.maximum(best - width, 0), best + width
        try:
            reachable, duals = _mixture(ways, capacity, low, high)
        except SolverError:  # dollars too far apart for the solver; every price is valid, so the best so far is
            break
        if reachable - most <= enough * abs(most):
            break
        prices = (1 - STEP) * best + STEP * duals
    return best


def _answer(jobs: Sequence[PricedJob], capacity: "Numbers", prices: "Numbers") -> tuple[float, _Ways]:
    all_prices = np.pad(prices, ((0, 0), (0, 1)))
    answers = [cheapest(job, all_prices) for job in jobs]
    paid = np.array([usd for usd, _ in answers])
    use = np.stack([use[:, :-1].ravel() for _, use in answers])
    return float(paid.sum() - (prices * capacity).sum()), _Ways(usd=paid - use @ prices.ravel(), use=use)


def _mixture(ways: Sequence[_Ways], capacity: "Numbers", low: "Numbers", high: "Numbers") -> tuple[float, "Numbers"]:
    """The cheapest mixture of the ways, and its prices between `low` and `high`.

    At the price `high` there is more capacity than there is, at the price `low` unused capacity is bought back. Rows
    are in parts of the capacity, so that numbers stay near one.
    """
    jobs, limits = len(ways[0].usd), capacity.size
    mixed = jobs * len(ways)
    part = np.concatenate([each.use for each in ways]) / capacity.ravel()
    way, limit = np.nonzero(part)
    every, spare = np.arange(limits), mixed + np.arange(limits)
    model = LinearModel(
        usd=np.concatenate([*(each.usd for each in ways), (high * capacity).ravel(), -(low * capacity).ravel()]),
        low=np.zeros(mixed + 2 * limits),
        high=np.full(mixed + 2 * limits, np.inf),
        row_low=np.concatenate([np.ones(jobs), np.full(limits, -np.inf)]),
        row_high=np.ones(jobs + limits),
        rows=np.concatenate([np.tile(np.arange(jobs), len(ways)), jobs + limit, jobs + every, jobs + every]),
        columns=np.concatenate([np.arange(mixed), way, spare, spare + limits]),
        coefficients=np.concatenate([np.ones(mixed), part[way, limit], -np.ones(limits), np.ones(limits)]),
    )
    solution = solve(model)
    duals = -solution.duals[jobs:] if solution.duals is not None else np.zeros(limits)
    return solution.usd, np.clip(duals.reshape(capacity.shape) / capacity, low, high)
