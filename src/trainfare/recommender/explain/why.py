"""Why this candidate was chosen: out of how many, what limits it, and what the alternatives would take."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from trainfare.model.estimate import Estimate
from trainfare.model.offer import Commitment
from trainfare.model.plan import Goal, GoalKind
from trainfare.model.reason import Reason, Scalar
from trainfare.recommender.choose import best_of, score
from trainfare.recommender.explain.codes import describe, limit_values, reason
from trainfare.recommender.explain.context import ChoiceContext, ComparedCandidate
from trainfare.recommender.explain.here import compared_with_here, why_here
from trainfare.recommender.limits import within_limits
from trainfare.recommender.options import Options, Rankable
from trainfare.recommender.pareto import MAX_COST_RATIO, difference, fastest_within
from trainfare.units import SECONDS_PER_HOUR

HARDLY_SLOWER = 1.1
"""If only time counts, a candidate that takes at most this many times as long and costs less is mentioned."""
CHEAPER_SHARES = (0.1, 0.5)
"""If only time counts, the fastest candidate at the first of these shares of the cost for which there is one is
mentioned."""
RUNNERS_UP = 2
"""The number of runners-up that are mentioned in a sentence; the table has more."""
EXTREMES: tuple[GoalKind, ...] = ("fastest", "cheapest")


def why(context: ChoiceContext) -> Iterator[Reason]:
    if not context.accepted and context.here_rule is None:
        yield reason(
            "why",
            "no_single_machine_within_limits",
            candidates=len(context.eligible),
            **limit_values(context.goal),
        )
        yield from context.more_why
        return
    if context.here_rule is not None:
        yield from why_here(context)
        yield from _limited_by(context.chosen)
        yield from context.more_why
        return
    yield _best_candidate(context)
    yield from compared_with_here(context)
    yield from _weights(context)
    yield from _limited_by(context.chosen)
    yield from _extremes(context)
    yield from _last_bit_of_speed(context)
    yield from _runners_up(context)
    yield from _knee(context)
    yield from _baseline(context)
    if not context.spot:
        yield from _spot(context)
    if not context.reserved:
        yield from _commitment(context)
    if context.reserved is not False:
        yield from _held_machine(context)
    yield from context.more_why


def _best_candidate(context: ChoiceContext) -> Reason:
    accepted, rejected = context.accepted.candidates, context.rejected
    return reason(
        "why",
        "best_candidate",
        goal=context.goal.kind,
        value_of_time_usd_per_hour=context.goal.value_of_time_usd_per_hour,
        usd_with_time=_usd_with_time(context),
        candidates=len(accepted),
        machine_types=len({offer.vm_type.key for offer in context.accepted.offers}),
        max_nodes=max(candidate.nodes for candidate in accepted),
        batch_sizes=len({candidate.batch_size for candidate in accepted}),
        beyond_limits=rejected["beyond_deadline"] + rejected["beyond_budget"],
        spot_too_risky=rejected["spot_too_risky"],
        spot_not_checked=rejected["spot_not_checked"],
        too_late_for_early_target=rejected["too_late_for_early_target"],
        does_not_fit=rejected["does_not_fit"],
        slower_than_here=rejected["slower_than_here"],
        epochs_guessed=rejected["epochs_guessed"],
        **limit_values(context.goal),
    )


def _usd_with_time(context: ChoiceContext) -> float | None:
    """The cost with the user's time, if an hour of it has a value."""
    hour, chosen = context.goal.value_of_time_usd_per_hour, context.chosen
    return None if hour is None else chosen.usd.value + hour * chosen.seconds.value / SECONDS_PER_HOUR


def _weights(context: ChoiceContext) -> Iterator[Reason]:
    """The time and the cost in units of the ideal point, and the price of an hour that the weights imply:
    w/least time against (1 − w)/least cost."""
    if context.goal.kind != "weighted" or context.goal.value_of_time_usd_per_hour is not None:
        return
    w, ideal, chosen = context.goal.weight_time or 0.0, context.ideal, context.chosen
    yield reason(
        "why",
        "weights",
        weight_time=w,
        time_ratio=chosen.seconds.value / ideal.seconds,
        cost_ratio=chosen.usd.value / ideal.usd,
        score=score(chosen, w, ideal),
        usd_per_hour=w / (1 - w) * SECONDS_PER_HOUR * ideal.usd / ideal.seconds if 0 < w < 1 else None,
    )


def _limited_by(chosen: Estimate) -> Iterator[Reason]:
    workers = chosen.candidate.nodes * chosen.candidate.working_gpus_per_node
    if chosen.limited_by is not None:
        yield reason(
            "why",
            "limited_by",
            limited_by=chosen.limited_by,
            iteration_seconds=chosen.iteration_seconds.value,
            gpus=0 if chosen.candidate.offer.vm_type.gpu is None else workers,
        )


def _extremes(context: ChoiceContext) -> Iterator[Reason]:
    """The fastest accepted candidate within ten times the cost of the chosen one, and the cheapest, unless it is what
    the goal asks for."""
    for kind in EXTREMES:
        best = None if kind == context.goal.kind else _extreme(context, kind)
        if best is not None and not _is_same_machine(best, context.chosen):
            yield reason(
                "why", "other_extreme", kind=kind, machine=context.describe(best), **_ratios(context.chosen, best)
            )


def _extreme(context: ChoiceContext, kind: GoalKind) -> Rankable | None:
    """The cheapest accepted candidate, or the fastest that is not out of all proportion."""
    if kind == "fastest":
        return fastest_within(context.accepted, MAX_COST_RATIO * context.chosen.usd.value)
    return best_of(context.accepted, Goal(kind=kind))


def _last_bit_of_speed(context: ChoiceContext) -> Iterator[Reason]:
    """If only time counts: the fastest candidate at a tenth of the cost, or at half, and what the rest of the speed
    costs."""
    chosen = context.chosen
    if context.goal.kind != "fastest":
        return
    for share in CHEAPER_SHARES:
        other = fastest_within(context.accepted, share * chosen.usd.value)
        if other is not None and other.seconds.value > chosen.seconds.value:
            saved = other.seconds.value - chosen.seconds.value
            more = chosen.usd.value - other.usd.value
            yield reason(
                "why",
                "last_bit_of_speed",
                machine=context.describe(other),
                seconds=other.seconds.value,
                usd=other.usd.value,
                saved_seconds=saved,
                more_usd=more,
                usd_per_hour_saved=more * SECONDS_PER_HOUR / saved,
            )
            return


def _runners_up(context: ChoiceContext) -> Iterator[Reason]:
    others = (e for e in context.ordered[1:] if not _is_same_machine(e, context.chosen))
    found = tuple(context.describe(e) | _differences(context.chosen, e) for e in islice(others, RUNNERS_UP))
    if found:
        yield reason("why", "runners_up", machines=found)


def _knee(context: ChoiceContext) -> Iterator[Reason]:
    knee = context.knee
    if knee is None or any(found.matching(knee.candidate) for found in context.rejections.values()):
        return
    if _is_same_machine(knee, context.chosen):
        yield reason("why", "chosen_is_knee", front=len(context.front))
    else:
        yield reason("why", "knee", machine=context.describe(knee), **_ratios(context.chosen, knee))


def _baseline(context: ChoiceContext) -> Iterator[Reason]:
    baseline = context.baseline
    if baseline is None or context.delta is None:
        return
    if _is_same_machine(baseline, context.chosen):
        yield reason("why", "chosen_is_baseline")
        return
    compared = difference(baseline, context.chosen)
    yield reason(
        "why",
        "compared_with_baseline",
        machine=context.describe(baseline),
        speed_up=1 / compared.time_ratio,
        cost_ratio=compared.cost_ratio,
        delta=context.delta,
    )


def _spot(context: ChoiceContext) -> Iterator[Reason]:
    found = _better_of(context, context.at_known_sizes.where_offer(lambda offer: offer.market == "spot"))
    if found is not None:
        yield reason(
            "why",
            "spot_would_be_better",
            {"spot": True},
            machine=context.describe(found),
            usd=found.usd.value,
            interruptions=None if found.interruptions is None else found.interruptions.value,
        )


def _commitment(context: ChoiceContext) -> Iterator[Reason]:
    """A commitment that would have to be bought."""
    found = _better_of(context, context.at_known_sizes.where_offer(lambda offer: offer.requires_commitment))
    commitment = found.candidate.offer.commitment if found else None
    if found is not None and commitment is not None:
        yield reason(
            "why",
            "commitment_would_be_better",
            {"reserved": True},
            machine=context.describe(found),
            usd=found.usd.value,
            **break_even(commitment),
        )


def break_even(commitment: Commitment) -> dict[str, Scalar]:
    """The hours a month above which a commitment is cheaper than on demand, and the price on demand."""
    return {
        "months": commitment.months,
        "break_even_hours": commitment.break_even_hours,
        "on_demand_usd_per_hour": commitment.on_demand_usd_per_hour,
    }


def _better_of(context: ChoiceContext, options: Options[ComparedCandidate]) -> ComparedCandidate | None:
    """The best of candidates that were not allowed, if it would have been chosen. If only time counts, also one that
    costs less and is hardly slower."""
    chosen, goal = context.chosen, context.goal
    found = within_limits(options.where(options.fits), goal)
    if goal.kind == "fastest":
        found = found.where(found.seconds <= HARDLY_SLOWER * chosen.seconds.value)
        goal = replace(goal, kind="cheapest")
    best = best_of(found, goal, ideal=context.ideal)
    if best is None or best_of((best, chosen), goal, ideal=context.ideal) is chosen:
        return None
    return best


def _held_machine(context: ChoiceContext) -> Iterator[Reason]:
    """The cheapest commitment that is held: it is paid for and stands idle unless it is chosen."""
    held = context.at_known_sizes.where_offer(lambda offer: offer.held)
    best = min(held.where(held.fits), key=lambda e: e.usd.value, default=None)
    if best is not None and not context.chosen.candidate.offer.held:
        yield reason(
            "why",
            "held_machine_is_idle",
            machine=describe(best.candidate),
            time_ratio=best.seconds.value / context.chosen.seconds.value,
            usd=best.usd.value,
        )


def _ratios(chosen: Rankable, other: Rankable) -> dict[str, Scalar]:
    compared = difference(chosen, other)
    return {"time_ratio": compared.time_ratio, "cost_ratio": compared.cost_ratio, "usd": other.usd.value}


def _differences(chosen: Rankable, other: Rankable) -> dict[str, Scalar]:
    compared = difference(chosen, other)
    return _ratios(chosen, other) | {"more_seconds": compared.seconds, "more_usd": compared.usd}


def _is_same_machine(one: Rankable, other: Rankable) -> bool:
    """The same machine type, nodes and batch size, in whichever region."""
    return _machine(one) == _machine(other)


def _machine(estimate: Rankable) -> tuple[object, ...]:
    candidate = estimate.candidate
    return candidate.offer.vm_type.key, candidate.nodes, candidate.batch_size, candidate.gpus_used
