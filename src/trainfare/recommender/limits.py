"""Which candidates keep the deadline and the budget, and what to ask for instead where none does.

A limit is kept when the upper end of the interval with the confidence of the goal keeps it:

    u_c = value·(high/value)^(z'/z) ≤ limit

as `Interval.at` has it, z' and z being the quantiles of the goal's and of the interval's confidence. Time and cost are
asked each by itself: that both hold at once is then as likely only where they err alike, as they do on one machine,
whose cost is its time at a price.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from functools import cache
from statistics import NormalDist

from trainfare.errors import InfeasibleError
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.words import candidate_words, limit_words
from trainfare.units import SECONDS_PER_HOUR, format_duration, format_usd, plural

LEAST_CONFIDENCE = 0.5
"""No advice below it: then one training in four or more would miss the limit."""


@cache
def quantile(confidence: float) -> float:
    """z: so many deviations either side hold it with this confidence."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def upper_end(interval: Interval, confidence: float) -> float:
    """`interval.at(confidence).high`, for thousands of them."""
    of = interval.confidence
    if of == confidence or not interval.value:
        return interval.high
    return interval.value * math.pow(interval.high / interval.value, _stretch(of, confidence))


@cache
def _stretch(of: float, confidence: float) -> float:
    return quantile(confidence) / quantile(of)


def within(estimates: Iterable[Estimate], goal: Goal) -> tuple[Estimate, ...]:
    """Those that keep both limits, in the order given."""
    kept, confidence = tuple(estimates), goal.confidence
    deadline, budget = goal.deadline_seconds, goal.budget_usd
    if deadline is not None:
        kept = tuple(e for e in kept if upper_end(e.seconds, confidence) <= deadline)
    if budget is not None:
        kept = tuple(e for e in kept if upper_end(e.usd, confidence) <= budget)
    return kept


def infeasible(estimates: Sequence[Estimate], goal: Goal, *, unasked: Sequence[Estimate] = ()) -> InfeasibleError:
    """What to say where nothing that may be chosen keeps the limits: which of them binds, and the nearest plan with the
    limit that lets it in, rounded up so that it does.

    `unasked` fit too, but are on markets that the user did not ask for.
    """
    if within(estimates, goal):
        raise ValueError("something keeps the limits")
    in_time = within(estimates, replace(goal, budget_usd=None)) if goal.deadline_seconds is not None else ()
    affordable = within(estimates, replace(goal, deadline_seconds=None)) if goal.budget_usd is not None else ()
    batch = len({e.candidate.batch_size for e in estimates}) > 1
    none = (
        f"of {plural(len(estimates), 'candidate')} none would" if len(estimates) > 1 else "the one candidate would not"
    )
    said = [f"{none} {limit_words(goal)}{_binding(goal, in_time, affordable)}."]
    said += _suggestions(estimates, in_time, affordable, goal, batch)
    said += _less_sure(estimates, goal, batch)
    said += _on_other_markets(unasked, goal, batch)
    return InfeasibleError(" ".join(said))


def _binding(goal: Goal, in_time: Sequence[Estimate], affordable: Sequence[Estimate]) -> str:
    """Which of two limits it is."""
    if goal.deadline_seconds is None or goal.budget_usd is None:
        return ""
    if in_time and affordable:
        deadline_kept = f"{len(in_time)} keep{_s(in_time)} the deadline alone"
        return f", though {deadline_kept} and {len(affordable)} the budget alone"
    if in_time:
        return f": {len(in_time)} keep{_s(in_time)} the deadline, none the budget"
    if affordable:
        return f": {len(affordable)} keep{_s(affordable)} the budget, none the deadline"
    return ": none keeps even one of the two"


def _s(keeping: Sequence[Estimate]) -> str:
    """Of one: `keeps`."""
    return "s" if len(keeping) == 1 else ""


def _suggestions(
    estimates: Sequence[Estimate],
    in_time: Sequence[Estimate],
    affordable: Sequence[Estimate],
    goal: Goal,
    batch: bool,
) -> list[str]:
    confidence = goal.confidence
    seconds: Callable[[Estimate], float] = lambda e: upper_end(e.seconds, confidence)  # noqa: E731 two words, used below
    usd: Callable[[Estimate], float] = lambda e: upper_end(e.usd, confidence)  # noqa: E731
    said = []
    if goal.deadline_seconds is not None and (affordable or goal.budget_usd is None):
        fastest = min(affordable or estimates, key=lambda e: (seconds(e), usd(e)))
        which = "the fastest" if not affordable else "the fastest within the budget"
        text = duration_option(seconds(fastest))
        said.append(
            f"{_named(which, fastest, batch)}, needs {_seconds_words(seconds(fastest))} "
            f"({format_duration(fastest.seconds.value)} expected): --deadline {text}."
        )
    if goal.budget_usd is not None and (in_time or goal.deadline_seconds is None):
        cheapest = min(in_time or estimates, key=lambda e: (usd(e), seconds(e)))
        which = "the cheapest" if not in_time else "the cheapest within the deadline"
        text = usd_option(usd(cheapest))
        said.append(
            f"{_named(which, cheapest, batch)}, needs {text} $ "
            f"({format_usd(cheapest.usd.value)} expected): --budget {text}."
        )
    if not said:
        deadline, budget = goal.deadline_seconds or math.inf, goal.budget_usd or math.inf
        nearest = min(estimates, key=lambda e: (max(seconds(e) / deadline, usd(e) / budget), seconds(e)))
        said.append(
            f"{_named('the nearest', nearest, batch)}, needs {_seconds_words(seconds(nearest))} and "
            f"{usd_option(usd(nearest))} $: --deadline {duration_option(seconds(nearest))} "
            f"--budget {usd_option(usd(nearest))}."
        )
    return [f"{one[0].upper()}{one[1:]}" for one in said]


def _named(which: str, estimate: Estimate, batch: bool) -> str:
    return f"{which}, {candidate_words(estimate.candidate, batch=batch)}"


def _less_sure(estimates: Sequence[Estimate], goal: Goal, batch: bool) -> list[str]:
    """The candidate that keeps the limits with the greatest confidence, where that is worth asking for."""
    surest = max(estimates, key=lambda e: confidence_that_keeps(e, goal))
    whole = math.floor(100 * confidence_that_keeps(surest, goal) - 1e-9)
    if whole / 100 < LEAST_CONFIDENCE:
        return []
    return [
        f"With {whole} % confidence {candidate_words(surest.candidate, batch=batch)} would: --confidence {whole / 100}."
    ]


def confidence_that_keeps(estimate: Estimate, goal: Goal) -> float:
    """The greatest with which it keeps both limits; 0 where even what is expected does not.

    c = 2·Φ(z·ln(limit/value)/ln(high/value)) − 1
    """
    found = 1.0
    for interval, limit in ((estimate.seconds, goal.deadline_seconds), (estimate.usd, goal.budget_usd)):
        if limit is None:
            continue
        if interval.value > limit:
            return 0.0
        if interval.high > interval.value:
            deviations = math.log(limit / interval.value) / math.log(interval.high / interval.value)
            found = min(found, 2 * NormalDist().cdf(quantile(interval.confidence) * deviations) - 1)
    return found


def _on_other_markets(unasked: Sequence[Estimate], goal: Goal, batch: bool) -> list[str]:
    kept = within(unasked, goal)
    said = []
    for market, option in (("spot", "--spot"), ("reserved", "--reserved")):
        on_it = [e for e in kept if e.candidate.offer.market == market]
        if on_it:
            best = min(on_it, key=lambda e: (e.usd.value, e.seconds.value))
            said.append(f"With {option}, {candidate_words(best.candidate, batch=batch)} would.")
    return said


def duration_option(seconds: float) -> str:
    """`4h10m`: rounded up, as `--deadline` reads it."""
    whole = _rounded_up(seconds)
    parts = []
    for size, letter in ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        if size == 86_400 and whole < 2 * size:
            continue
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{letter}")
    return "".join(parts)


def _seconds_words(seconds: float) -> str:
    """The same, rounded up alike, in a sentence."""
    whole = _rounded_up(seconds)
    return format_duration(whole) if whole < SECONDS_PER_HOUR else format_duration(whole)


def _rounded_up(seconds: float) -> int:
    """By a fiftieth at the most, or a second."""
    step = next((step for below, step in ((600, 1), (3000, 10), (172_800, 60)) if seconds < below), 3600)
    return step * math.ceil(seconds / step)


def usd_option(usd: float) -> str:
    """`27.31`: rounded up to the cent, to two digits below a dollar, as `--budget` reads it."""
    exact = Decimal(usd)
    step = Decimal("0.01") if usd >= 1 else Decimal(1).scaleb(exact.adjusted() - 1)
    # No float lies between `usd` and the decimal above it, so what is read back is not below it either.
    return f"{exact.quantize(step, ROUND_CEILING):f}"
