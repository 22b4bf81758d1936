"""The candidates within the deadline and the budget, and the nearest alternatives if there are none.

A candidate is within a limit if it is so with the confidence c of the goal, P(T ≤ limit) ≥ c:

    u_c = value·(high/value)^(z'/z) ≤ limit

as `Interval.upper_bound` computes it: z' is the c quantile of the normal, since a limit has one side, and z the
quantile of an end of the interval, which has two. Time and cost are checked separately: both hold together with that
confidence only if their errors are fully correlated, as they are on one machine, whose cost is its time at a price.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import cache, partial
from statistics import NormalDist
from typing import TYPE_CHECKING

from trainfare.model.offer import Market, Offer
from trainfare.model.plan import Goal
from trainfare.recommender.choose import Rejection, rejected
from trainfare.recommender.options import Options, Rankable, T, as_options
from trainfare.units import write_duration

if TYPE_CHECKING:
    from trainfare.recommender.options import Floats

MIN_CONFIDENCE = 0.5
"""The lowest confidence that is suggested: below it, most trainings would exceed the limit."""
OPT_IN_MARKETS: tuple[Market, ...] = ("spot", "reserved")
"""Markets that are considered only if the user allows them."""


@cache
def quantile(confidence: float) -> float:
    """z: the number of standard deviations on either side that contain this share of a normal distribution."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def within_limits(estimates: Iterable[T], goal: Goal) -> Options[T]:
    """The estimates within both limits, in the order given."""
    found = as_options(estimates)
    if goal.deadline_seconds is not None:
        found = found.where(found.upper_bounds("seconds", goal.confidence) <= goal.deadline_seconds)
    if goal.budget_usd is not None:
        found = found.where(found.upper_bounds("usd", goal.confidence) <= goal.budget_usd)
    return found


def reject_beyond_limits(estimates: Iterable[T], goal: Goal) -> tuple[Options[T], dict[Rejection, Options[T]]]:
    """The estimates within both limits, in the order given, and the rejected others."""
    given = as_options(estimates)
    in_time = within_limits(given, replace(goal, budget_usd=None))
    within = within_limits(in_time, goal)
    return within, rejected(beyond_deadline=given.without(in_time), beyond_budget=in_time.without(within))


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
    estimates: Iterable[Rankable], goal: Goal, *, on_other_markets: Iterable[Rankable] = ()
) -> LimitConflict:
    """The conflict between the limits and the eligible estimates, none of which is within them.

    `on_other_markets` fit in memory, but are on markets that the user did not allow. Suggested limits are rounded up so
    that they include the candidate they are for.
    """
    given = as_options(estimates)
    if within_limits(given, goal):
        raise ValueError("at least one estimate is within the limits")
    deadline, budget = goal.deadline_seconds, goal.budget_usd
    none = given[:0]
    in_time = within_limits(given, replace(goal, budget_usd=None)) if deadline is not None else none
    affordable = within_limits(given, replace(goal, deadline_seconds=None)) if budget is not None else none
    by_time = by_cost = None
    if deadline is not None and (affordable or budget is None):
        by_time = _nearest_by_time(affordable or given, goal, within_budget=bool(affordable))
    if budget is not None and (in_time or deadline is None):
        by_cost = _nearest_by_cost(in_time or given, goal, within_deadline=bool(in_time))
    return LimitConflict(
        goal=goal,
        candidates=len(given),
        within_deadline=len(in_time),
        within_budget=len(affordable),
        several_batch_sizes=len({candidate.batch_size for candidate in given.candidates}) > 1,
        by_time=by_time,
        by_cost=by_cost,
        by_both=None if by_time or by_cost else _nearest_by_both(given, goal),
        by_confidence=_nearest_by_confidence(given, goal),
        on_other_markets=_cheapest_by_market(as_options(on_other_markets), goal),
    )


def _upper_bounds(options: Options[T], goal: Goal) -> "tuple[Floats, Floats]":
    """The upper bounds of the times and of the costs."""
    return options.upper_bounds("seconds", goal.confidence), options.upper_bounds("usd", goal.confidence)


def _first_by(options: Options[T], key: "Floats", then: "Floats") -> T:
    """The option with the least key; of several, the one with the least second key."""
    import numpy as np

    return options[int(np.lexsort((then, key))[0])]


def _nearest_by_time(options: Options[Rankable], goal: Goal, *, within_budget: bool) -> NearestByTime:
    fastest = _first_by(options, *_upper_bounds(options, goal))
    seconds = fastest.seconds.upper_bound(goal.confidence)
    return NearestByTime(
        estimate=fastest, seconds=seconds, deadline=sufficient_deadline(seconds), within_budget=within_budget
    )


def _nearest_by_cost(options: Options[Rankable], goal: Goal, *, within_deadline: bool) -> NearestByCost:
    seconds, usd = _upper_bounds(options, goal)
    cheapest = _first_by(options, usd, seconds)
    budget = sufficient_budget(cheapest.usd.upper_bound(goal.confidence))
    return NearestByCost(estimate=cheapest, budget=budget, within_deadline=within_deadline)


def _nearest_by_both(options: Options[Rankable], goal: Goal) -> NearestByBoth:
    import numpy as np

    seconds, usd = _upper_bounds(options, goal)
    deadline, budget = goal.deadline_seconds or math.inf, goal.budget_usd or math.inf
    nearest = _first_by(options, np.maximum(seconds / deadline, usd / budget), seconds)
    needed = nearest.seconds.upper_bound(goal.confidence)
    return NearestByBoth(
        estimate=nearest,
        seconds=needed,
        deadline=sufficient_deadline(needed),
        budget=sufficient_budget(nearest.usd.upper_bound(goal.confidence)),
    )


def _nearest_by_confidence(options: Options[Rankable], goal: Goal) -> NearestByConfidence | None:
    expected = within_limits(options, replace(goal, confidence=MIN_CONFIDENCE))
    best = max(expected, key=lambda e: confidence_within_limits(e, goal), default=None)
    percent = 0 if best is None else math.floor(100 * confidence_within_limits(best, goal) - 1e-9)
    if best is None or percent / 100 < MIN_CONFIDENCE:
        return None
    return NearestByConfidence(estimate=best, confidence=percent / 100)


def _cheapest_by_market(options: Options[Rankable], goal: Goal) -> dict[Market, Rankable]:
    within = within_limits(options, goal)
    found: dict[Market, Rankable] = {}
    for market in OPT_IN_MARKETS:
        there = within.where_offer(partial(_is_on, market))
        if there:
            found[market] = _first_by(there, there.usd, there.seconds)
    return found


def _is_on(market: Market, offer: Offer) -> bool:
    return offer.market == market


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
