"""The error that no candidate is within the limits, with the nearest alternatives in words and as remedies."""

from collections.abc import Iterator, Mapping

from trainfare.errors import InfeasibleError, Remedy
from trainfare.recommender.limits import LimitConflict, rounded_up_seconds
from trainfare.recommender.names import candidate_name
from trainfare.recommender.options import Rankable
from trainfare.units import format_duration, format_percent, format_usd, plural
from trainfare.views.names import goal_limits
from trainfare.views.reasons import python_arguments


def question_remedy(arguments: Mapping[str, object]) -> Remedy:
    """A remedy with arguments of a recommendation, some of which are fields of its goal and its scope in Python."""
    return Remedy(arguments, python=python_arguments(arguments))


def infeasible_error(conflict: LimitConflict) -> InfeasibleError:
    """The limit that binds, and for each alternative a sentence and a remedy."""
    one = conflict.candidates == 1
    none = "the only candidate would not" if one else f"none of {plural(conflict.candidates, 'candidate')} would"
    advice = list(_alternatives(conflict))
    sentences = [f"{none} {goal_limits(conflict.goal)}{_binding(conflict)}.", *(text for text, _ in advice)]
    return InfeasibleError(" ".join(sentences), remedies=[remedy for _, remedy in advice])


def _binding(conflict: LimitConflict) -> str:
    """The one of two limits that excludes the candidates."""
    goal, in_time, affordable = conflict.goal, conflict.within_deadline, conflict.within_budget
    if goal.deadline_seconds is None or goal.budget_usd is None:
        return ""
    if in_time and affordable:
        return f": {_are(in_time)} within the deadline and {_are(affordable)} within the budget, but none within both"
    if in_time:
        return f": {_are(in_time)} within the deadline, none within the budget"
    if affordable:
        return f": {_are(affordable)} within the budget, none within the deadline"
    return ": none is within either limit"


def _are(count: int) -> str:
    return f"{count} {'is' if count == 1 else 'are'}"


def _alternatives(conflict: LimitConflict) -> Iterator[tuple[str, Remedy]]:
    def name(estimate: Rankable) -> str:
        return candidate_name(estimate.candidate, with_batch_size=conflict.several_batch_sizes)

    if (found := conflict.by_time) is not None:
        which = " within the budget" if found.within_budget else ""
        expected = format_duration(found.estimate.seconds.value)
        yield (
            f"The fastest{which}, {name(found.estimate)}, needs {_up_to(found.seconds)} ({expected} expected).",
            question_remedy({"deadline": found.deadline}),
        )
    if (nearest := conflict.by_cost) is not None:
        which = " within the deadline" if nearest.within_deadline else ""
        expected = format_usd(nearest.estimate.usd.value)
        yield (
            f"The cheapest{which}, {name(nearest.estimate)}, needs {format_usd(float(nearest.budget))} "
            f"({expected} expected).",
            question_remedy({"budget": float(nearest.budget)}),
        )
    if (both := conflict.by_both) is not None:
        yield (
            f"The nearest, {name(both.estimate)}, needs {_up_to(both.seconds)} and {format_usd(float(both.budget))}.",
            question_remedy({"deadline": both.deadline, "budget": float(both.budget)}),
        )
    if (less := conflict.by_confidence) is not None:
        yield (
            f"With {format_percent(less.confidence)} confidence, {name(less.estimate)} would.",
            question_remedy({"confidence": less.confidence}),
        )
    for market, estimate in conflict.on_other_markets.items():
        yield f"On the {market} market, {name(estimate)} would.", question_remedy({market: True})


def _up_to(seconds: float) -> str:
    """The time, rounded up like the deadline that is suggested for it."""
    return format_duration(rounded_up_seconds(seconds))
