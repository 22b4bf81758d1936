"""The candidates within the deadline and the budget, and the nearest alternatives if there are none.

A candidate is within a limit if it is so with the confidence c of the goal, P(T ≤ limit) ≥ c:

    u_c = value·(high/value)^(z'/z) ≤ limit

as `Interval.upper_bound` computes it: z' is the c quantile of the normal, since a limit has one side, and z the
quantile of an end of the interval, which has two. Time and cost are checked separately: both hold together with that
confidence only if their errors are fully correlated, as they are on one machine, whose cost is its time at a price.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import cache
from statistics import NormalDist

from trainfare.model.offer import Candidate, Market
from trainfare.model.plan import Goal
from trainfare.recommender.choose import Rankable, Rejection, T
from trainfare.units import write_duration

MIN_CONFIDENCE = 0.5
"""The lowest confidence that is suggested: below it, most trainings would exceed the limit."""
OPT_IN_MARKETS: tuple[Market, ...] = ("spot", "reserved")
"""Markets that are considered only if the user allows them."""


@cache
def quantile(confidence: float) -> float:
    """z: the number of standard deviations on either side that contain this share of a normal distribution."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def within_limits(estimates: Iterable[T], goal: Goal) -> tuple[T, ...]:
    """The estimates within both limits, in the order given."""
    found, confidence = tuple(estimates), goal.confidence
    deadline, budget = goal.deadline_seconds, goal.budget_usd
    if deadline is not None:
        found = tuple(e for e in found if e.seconds.upper_bound(confidence) <= deadline)
    if budget is not None:
        found = tuple(e for e in found if e.usd.upper_bound(confidence) <= budget)
    return found


def reject_beyond_limits(estimates: Iterable[T], goal: Goal) -> tuple[tuple[T, ...], dict[Candidate, Rejection]]:
    """The estimates within both limits, in the order given, and the rejections of the others."""
    confidence, deadline, budget = goal.confidence, goal.deadline_seconds, goal.budget_usd
    if deadline is None and budget is None:
        return tuple(estimates), {}
    within: list[T] = []
    rejections: dict[Candidate, Rejection] = {}
    for estimate in estimates:
        if deadline is not None and estimate.seconds.upper_bound(confidence) > deadline:
            rejections[estimate.candidate] = "beyond_deadline"
        elif budget is not None and estimate.usd.upper_bound(confidence) > budget:
            rejections[estimate.candidate] = "beyond_budget"
        else:
            within.append(estimate)
    return tuple(within), rejections


def confidence_within_limits(estimate: Rankable, goal: Goal) -> float:
    """The greatest confidence at which the estimate is within both limits; 0 if even its expected value is not.

    c = Φ(z·ln(limit/value)/ln(high/value))
    """
    found = 1.0
    for interval, limit in ((estimate.seconds, goal.deadline_seconds), (estimate.usd, goal.budget_usd)):
        if limit is None:
            continue
        if interval.value > limit:
            return 0.0
        if not interval.value:
            found = min(found, float(interval.high <= limit))
        elif interval.high > interval.value:
            deviations = math.log(limit / interval.value) / math.log(interval.high / interval.value)
            found = min(found, NormalDist().cdf(quantile(interval.confidence) * deviations))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestByTime:
    """The fastest candidate, of those within the budget if there are any, and the deadline that would include it."""

    estimate: Rankable
    seconds: float
    deadline: str
    within_budget: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestByCost:
    """The cheapest candidate, of those within the deadline if there are any, and the budget that would include it."""

    estimate: Rankable
    budget: str
    within_deadline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestByBoth:
    """The candidate that exceeds both limits by the smallest factor, and the limits that would include it."""

    estimate: Rankable
    seconds: float
    deadline: str
    budget: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestByConfidence:
    """The candidate that is within the limits at the highest confidence, if that is worth suggesting."""

    estimate: Rankable
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitConflict:
    """No eligible candidate is within the limits: which of them binds, and the nearest alternatives."""

    goal: Goal
    candidates: int
    within_deadline: int
    within_budget: int
    several_batch_sizes: bool
    by_time: NearestByTime | None = None
    by_cost: NearestByCost | None = None
    by_both: NearestByBoth | None = None
    by_confidence: NearestByConfidence | None = None
    on_other_markets: Mapping[Market, Rankable]
    """The cheapest candidate within the limits on each market that the user did not allow."""


def limit_conflict(
    estimates: Sequence[Rankable], goal: Goal, *, on_other_markets: Sequence[Rankable] = ()
) -> LimitConflict:
    """The conflict between the limits and the eligible estimates, none of which is within them.

    `on_other_markets` fit in memory, but are on markets that the user did not allow. Suggested limits are rounded up so
    that they include the candidate they are for.
    """
    if within_limits(estimates, goal):
        raise ValueError("at least one estimate is within the limits")
    deadline, budget = goal.deadline_seconds, goal.budget_usd
    in_time = within_limits(estimates, replace(goal, budget_usd=None)) if deadline is not None else ()
    affordable = within_limits(estimates, replace(goal, deadline_seconds=None)) if budget is not None else ()
    by_time = by_cost = None
    if deadline is not None and (affordable or budget is None):
        by_time = _nearest_by_time(affordable or estimates, goal, within_budget=bool(affordable))
    if budget is not None and (in_time or deadline is None):
        by_cost = _nearest_by_cost(in_time or estimates, goal, within_deadline=bool(in_time))
    return LimitConflict(
        goal=goal,
        candidates=len(estimates),
        within_deadline=len(in_time),
        within_budget=len(affordable),
        several_batch_sizes=len({e.candidate.batch_size for e in estimates}) > 1,
        by_time=by_time,
        by_cost=by_cost,
        by_both=None if by_time or by_cost else _nearest_by_both(estimates, goal),
        by_confidence=_nearest_by_confidence(estimates, goal),
        on_other_markets=_cheapest_by_market(on_other_markets, goal),
    )


def _upper_bounds(goal: Goal) -> tuple[Callable[[Rankable], float], Callable[[Rankable], float]]:
    """Functions for the upper bound of the time and of the cost of an estimate."""
    return lambda e: e.seconds.upper_bound(goal.confidence), lambda e: e.usd.upper_bound(goal.confidence)


def _nearest_by_time(estimates: Sequence[Rankable], goal: Goal, *, within_budget: bool) -> NearestByTime:
    seconds, usd = _upper_bounds(goal)
    fastest = min(estimates, key=lambda e: (seconds(e), usd(e)))
    deadline = sufficient_deadline(seconds(fastest))
    return NearestByTime(estimate=fastest, seconds=seconds(fastest), deadline=deadline, within_budget=within_budget)


def _nearest_by_cost(estimates: Sequence[Rankable], goal: Goal, *, within_deadline: bool) -> NearestByCost:
    seconds, usd = _upper_bounds(goal)
    cheapest = min(estimates, key=lambda e: (usd(e), seconds(e)))
    return NearestByCost(estimate=cheapest, budget=sufficient_budget(usd(cheapest)), within_deadline=within_deadline)


def _nearest_by_both(estimates: Sequence[Rankable], goal: Goal) -> NearestByBoth:
    seconds, usd = _upper_bounds(goal)
    deadline, budget = goal.deadline_seconds or math.inf, goal.budget_usd or math.inf
    nearest = min(estimates, key=lambda e: (max(seconds(e) / deadline, usd(e) / budget), seconds(e)))
    return NearestByBoth(
        estimate=nearest,
        seconds=seconds(nearest),
        deadline=sufficient_deadline(seconds(nearest)),
        budget=sufficient_budget(usd(nearest)),
    )


def _nearest_by_confidence(estimates: Sequence[Rankable], goal: Goal) -> NearestByConfidence | None:
    best = max(estimates, key=lambda e: confidence_within_limits(e, goal))
    percent = math.floor(100 * confidence_within_limits(best, goal) - 1e-9)
    if percent / 100 < MIN_CONFIDENCE:
        return None
    return NearestByConfidence(estimate=best, confidence=percent / 100)


def _cheapest_by_market(estimates: Sequence[Rankable], goal: Goal) -> dict[Market, Rankable]:
    within = within_limits(estimates, goal)
    found: dict[Market, Rankable] = {}
    for market in OPT_IN_MARKETS:
        there = [e for e in within if e.candidate.offer.market == market]
        if there:
            found[market] = min(there, key=lambda e: (e.usd.value, e.seconds.value))
    return found


def sufficient_deadline(seconds: float) -> str:
    """The deadline `4h10m` that includes a time, rounded up by at most a fiftieth or a second."""
    return write_duration(rounded_up_seconds(seconds))


def rounded_up_seconds(seconds: float) -> int:
    """The seconds, rounded up to a second below ten minutes, to 10 s below 50 minutes, to a minute below two days, and
    to an hour from there on."""
    step = next((step for below, step in ((600, 1), (3000, 10), (172_800, 60)) if seconds < below), 3600)
    return step * math.ceil(seconds / step)


def sufficient_budget(usd: float) -> str:
    """The budget `27.31` that includes a cost, rounded up to the cent, or to two digits below a dollar."""
    exact = Decimal(usd)
    step = Decimal("0.01") if usd >= 1 else Decimal(1).scaleb(exact.adjusted() - 1)
    # No float lies between `usd` and the decimal above it, so the text, read back, is not below `usd` either.
    return f"{exact.quantize(step, ROUND_CEILING):f}"
