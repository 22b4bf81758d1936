"""Prices of limited resources, interval by interval, under which jobs that minimise their own cost respect the limits.

With capacity b_ri of resource r in interval i and prices p ≥ 0, every way to complete all jobs within the limits costs
at least

    L(p) = Σ_j V_j(p) - Σ_ri p_ri·b_ri              V_j: `priced_job.cheapest_plan`

L is concave. It is maximised by column generation: the plans that jobs chose so far are mixed by a linear model,

    min Σ cost·x    Σ_plans x_j = 1    Σ use·x ≤ b        (its value is above max L, its duals are prices to try)

The next prices lie between the best so far and those duals, which alone oscillate while there are few plans. With a
`box`, a price stays within that fraction of itself around the best so far: for start prices that are nearly right. The
last interval never ends and has no limit: its price is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.scheduler.bounds.priced_job import PricedJob, cheapest_plan
from trainfare.scheduler.highs import LinearModel, SolverError, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

STEP = 0.5
"""The step from the best prices so far towards those of the model."""
MAX_PRICE = 40.0
"""The largest initial price of a unit-second, in multiples of the largest cost of lateness of a job. One more second
of a unit advances every job behind it, so any such limit can be too low; the bound is valid all the same."""
PRICE_WITHOUT_LATENESS = 1e-3
"""$/s if lateness costs nothing for every job."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _JobPlans:
    """One plan of every job: its cost without prices, and its use of resources."""

    usd: "Numbers"
    use: "Numbers"
    """Jobs × (resources · intervals), the last interval left out."""


def dual_value(jobs: Sequence[PricedJob], capacity: "Numbers", prices: "Numbers") -> float:
    """L(p). `capacity` and `prices` are resources × intervals, without the last one."""
    return _choose_plans(jobs, capacity, prices)[0]


def best_prices(
    jobs: Sequence[PricedJob],
    capacity: "Numbers",
    start: "Numbers",
    *,
    rounds: int,
    tolerance: float,
    box: float | None = None,
) -> "Numbers":
    """Prices whose L is within `tolerance` of the maximum, or the best of `rounds` rounds; never worse than `start`."""
    max_price = MAX_PRICE * max(job.late_usd_per_second for job in jobs) or PRICE_WITHOUT_LATENESS
    plans: list[_JobPlans] = []
    best, highest, prices = start, -np.inf, start
    for _ in range(rounds):
        reached, chosen = _choose_plans(jobs, capacity, prices)
        plans.append(chosen)
        if reached > highest:
            best, highest = prices, reached
        if box is None:
            low, high = np.zeros_like(best), np.full_like(best, max_price)
        else:
            width = box * np.maximum(best, np.average(best, weights=capacity))
            low, high = np.maximum(best - width, 0), best + width
        try:
            reachable, duals = _cheapest_mixture(plans, capacity, low, high)
        except SolverError:  # costs differ too much for the solver; every price is valid, so the best so far is
            break
        if reachable - highest <= tolerance * abs(highest):
            break
        prices = (1 - STEP) * best + STEP * duals
    return best


def _choose_plans(jobs: Sequence[PricedJob], capacity: "Numbers", prices: "Numbers") -> tuple[float, _JobPlans]:
    all_prices = np.pad(prices, ((0, 0), (0, 1)))
    answers = [cheapest_plan(job, all_prices) for job in jobs]
    paid = np.array([usd for usd, _ in answers])
    use = np.stack([use[:, :-1].ravel() for _, use in answers])
    return float(paid.sum() - (prices * capacity).sum()), _JobPlans(usd=paid - use @ prices.ravel(), use=use)


def _cheapest_mixture(
    plans: Sequence[_JobPlans], capacity: "Numbers", low: "Numbers", high: "Numbers"
) -> tuple[float, "Numbers"]:
    """The cost of the cheapest mixture of the plans, and its prices between `low` and `high`.

    Additional capacity is sold at the price `high`, unused capacity is bought back at the price `low`. Rows are in
    fractions of the capacity, so that numbers stay near one.
    """
    jobs, limits = len(plans[0].usd), capacity.size
    mixed = jobs * len(plans)
    part = np.concatenate([each.use for each in plans]) / capacity.ravel()
    plan, limit = np.nonzero(part)
    every, spare = np.arange(limits), mixed + np.arange(limits)
    model = LinearModel(
        usd=np.concatenate([*(each.usd for each in plans), (high * capacity).ravel(), -(low * capacity).ravel()]),
        low=np.zeros(mixed + 2 * limits),
        high=np.full(mixed + 2 * limits, np.inf),
        row_low=np.concatenate([np.ones(jobs), np.full(limits, -np.inf)]),
        row_high=np.ones(jobs + limits),
        rows=np.concatenate([np.tile(np.arange(jobs), len(plans)), jobs + limit, jobs + every, jobs + every]),
        columns=np.concatenate([np.arange(mixed), plan, spare, spare + limits]),
        coefficients=np.concatenate([np.ones(mixed), part[plan, limit], -np.ones(limits), np.ones(limits)]),
    )
    solution = solve(model)
    duals = -solution.duals[jobs:] if solution.duals is not None else np.zeros(limits)
    return solution.usd, np.clip(duals.reshape(capacity.shape) / capacity, low, high)
