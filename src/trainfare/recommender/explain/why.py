"""Why this candidate was chosen: out of how many, what limits it, and what the alternatives would take."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from trainfare.model.estimate import Estimate
from trainfare.model.offer import Commitment
from trainfare.model.plan import Goal, GoalKind
from trainfare.model.reason import Reason, Scalar
from trainfare.recommender.choose import Rankable, best_of, score
from trainfare.recommender.explain.codes import describe, limit_values, reason
from trainfare.recommender.explain.context import ChoiceContext, ComparedCandidate
from trainfare.recommender.limits import within_limits
from trainfare.recommender.pareto import difference
from trainfare.units import SECONDS_PER_HOUR

HARDLY_SLOWER = 1.1
"""If only time counts, a candidate that takes at most this many times as long and costs less is mentioned."""
RUNNERS_UP = 2
"""The number of runners-up that are mentioned in a sentence; the table has more."""
EXTREMES: tuple[GoalKind, ...] = ("fastest", "cheapest")


def why(context: ChoiceContext) -> Iterator[Reason]:
    if not context.accepted:
        yield reason(
            "why",
            "no_single_machine_within_limits",
            candidates=len(context.eligible),
            **limit_values(context.goal),
        )
        yield from context.more_why
        return
    yield _best_candidate(context)
    yield from _weights(context)
    yield from _limited_by(context.chosen)
    yield from _extremes(context)
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
    accepted, rejected = context.accepted, context.rejected
    return reason(
        "why",
        "best_candidate",
        goal=context.goal.kind,
        candidates=len(accepted),
        machine_types=len({(m.provider, m.name) for m in (e.candidate.offer.vm_type for e in accepted)}),
        max_nodes=max(e.candidate.nodes for e in accepted),
        batch_sizes=len({e.candidate.batch_size for e in accepted}),
        beyond_limits=rejected["beyond_deadline"] + rejected["beyond_budget"],
        spot_too_risky=rejected["spot_too_risky"],
        spot_not_checked=rejected["spot_not_checked"],
        too_late_for_early_target=rejected["too_late_for_early_target"],
        does_not_fit=rejected["does_not_fit"],
        **limit_values(context.goal),
    )


def _weights(context: ChoiceContext) -> Iterator[Reason]:
    """The time and the cost in units of the ideal point, and the price of an hour that the weights imply:
    w/least time against (1 − w)/least cost."""
    if context.goal.kind != "weighted":
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
    if chosen.limited_by is not None:
        yield reason(
            "why",
            "limited_by",
            limited_by=chosen.limited_by,
            iteration_seconds=chosen.iteration_seconds.value,
            gpus=chosen.candidate.nodes * chosen.candidate.working_gpus_per_node,
        )


def _extremes(context: ChoiceContext) -> Iterator[Reason]:
    """The fastest and the cheapest accepted candidate, unless it is what the goal asks for."""
    for kind in EXTREMES:
        best = None if kind == context.goal.kind else _extreme(context, kind)
        if best is not None and not _is_same_machine(best, context.chosen):
            yield reason(
                "why", "other_extreme", kind=kind, machine=context.describe(best), **_ratios(context.chosen, best)
            )


def _extreme(context: ChoiceContext, kind: GoalKind) -> Rankable | None:
    """The fastest or the cheapest accepted candidate: an end of the Pareto front, if all are accepted."""
    if context.front and len(context.accepted) == len(context.eligible):
        return context.front[0] if kind == "fastest" else context.front[-1]
    return best_of(context.accepted, Goal(kind=kind))


def _runners_up(context: ChoiceContext) -> Iterator[Reason]:
    others = (e for e in context.ordered[1:] if not _is_same_machine(e, context.chosen))
    found = tuple(context.describe(e) | _differences(context.chosen, e) for e in islice(others, RUNNERS_UP))
    if found:
        yield reason("why", "runners_up", machines=found)


def _knee(context: ChoiceContext) -> Iterator[Reason]:
    knee = context.knee
    if knee is None or knee.candidate in context.rejections:
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
    found = _better_of(context, (e for e in context.compared.values() if e.candidate.offer.market == "spot"))
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
    found = _better_of(context, (e for e in context.compared.values() if e.candidate.offer.requires_commitment))
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


def _better_of(context: ChoiceContext, candidates: Iterable[ComparedCandidate]) -> ComparedCandidate | None:
    """The best of candidates that were not allowed, if it would have been chosen. If only time counts, also one that
    costs less and is hardly slower."""
    chosen, goal = context.chosen, context.goal
    found = within_limits((e for e in candidates if e.fits is not False), goal)
    if goal.kind == "fastest":
        found = tuple(e for e in found if e.seconds.value <= HARDLY_SLOWER * chosen.seconds.value)
        goal = replace(goal, kind="cheapest")
    best = best_of(found, goal, ideal=context.ideal)
    if best is None or best_of((best, chosen), goal, ideal=context.ideal) is chosen:
        return None
    return best


def _held_machine(context: ChoiceContext) -> Iterator[Reason]:
    """The cheapest commitment that is held: it is paid for and stands idle unless it is chosen."""
    held = [e for e in context.compared.values() if e.candidate.offer.held and e.fits is not False]
    best = min(held, key=lambda e: e.usd.value, default=None)
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
    return {"time_ratio": compared.time_ratio, "cost_ratio": compared.cost_ratio}


def _differences(chosen: Rankable, other: Rankable) -> dict[str, Scalar]:
    compared = difference(chosen, other)
    return _ratios(chosen, other) | {"more_seconds": compared.seconds, "more_usd": compared.usd}


def _is_same_machine(one: Rankable, other: Rankable) -> bool:
    """The same machine type, nodes and batch size, in whichever region."""
    return _machine(one) == _machine(other)


def _machine(estimate: Rankable) -> tuple[object, ...]:
    candidate = estimate.candidate
    return candidate.offer.vm_type.key, candidate.nodes, candidate.batch_size, candidate.gpus_used
