"""How certain the choice is: the basis of the time, candidates that may be better after all, and what would help."""

from collections.abc import Iterator, Sequence

from trainfare.estimator.cpu.busy import queue_share
from trainfare.model.estimate import Estimate
from trainfare.model.machine import HERE_PROVIDER
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason, Scalar
from trainfare.recommender.choose import score, weight_of_time
from trainfare.recommender.explain.codes import reason
from trainfare.recommender.explain.context import ChoiceContext
from trainfare.recommender.pareto import difference
from trainfare.recommender.ranking_confidence import ranking_confidence

WIDE = 1.4
"""An interval is called wide if its upper end is more than this many times the value."""
BARGAIN = 0.8
"""A candidate of uncertain rank is mentioned if it takes at most this share of the time, or of the cost."""


def certainty(context: ChoiceContext) -> Iterator[Reason]:
    yield basis(context.chosen, context.profile, suggest_profile=context.probe is None)
    yield from profiled_host(context.chosen, context.profile, idle_here_seconds=_idle_here_seconds(context))
    if context.here_rule is None:
        yield from _uncertain_ranking(context)
    if context.probe is not None:
        yield context.probe


def basis(estimate: Estimate, profile: Profile, *, suggest_profile: bool = True) -> Reason:
    """The basis of the iteration time; `suggest_profile` adds that a profile taken there would be certain."""
    vm_type = estimate.candidate.offer.vm_type
    if estimate.basis == "measured":
        here = estimate.candidate.offer.is_here
        return reason("certainty", "basis_measured", profile=estimate.profile_id, here=here)
    if estimate.basis == "extrapolated":
        return reason(
            "certainty",
            "basis_extrapolated",
            gpu=vm_type.gpu.name if vm_type.gpu else None,
            wide=estimate.iteration_seconds.high > WIDE * estimate.iteration_seconds.value,
            profile_on=vm_type.key if suggest_profile else None,
        )
    if profile.host.vm_type == vm_type.key or (estimate.candidate.offer.is_here and profile.host.vm_type is None):
        return reason(
            "certainty",
            "basis_scaled_from_same_machine",
            profile=estimate.profile_id,
            batch_size=profile.effective_batch_size,
            gpus=profile.world_size,
        )
    if vm_type.gpu is None and vm_type.provider != HERE_PROVIDER:
        return reason(
            "certainty",
            "basis_scaled_from_cpu",
            profile=estimate.profile_id,
            from_cpu=profile.host.cpu,
            from_cores=profile.host.physical_cores or profile.host.cores,
            to_cpu=vm_type.cpu.name if vm_type.cpu else None,
            vcpus=vm_type.vcpus,
            threads_per_core=vm_type.cpu.threads_per_core if vm_type.cpu else None,
            by_operations=bool(profile.operations),
        )
    if vm_type.gpu is None:
        return reason("certainty", "basis_scaled_from_slice", profile=estimate.profile_id, machine=profile.host.vm_type)
    return reason(
        "certainty",
        "basis_scaled_from_gpu",
        profile=estimate.profile_id,
        from_gpu=profile.host.gpu,
        to_gpu=vm_type.gpu.name,
    )


def profiled_host(estimate: Estimate, profile: Profile, *, idle_here_seconds: float | None = None) -> Iterator[Reason]:
    """The host of the profile makes a time less certain by other work on it, and by waits for data."""
    if share := queue_share(profile):
        yield reason("certainty", "busy_profile", profile=profile.id, share=share, idle_here_seconds=idle_here_seconds)
    if estimate.limited_by == "data" and estimate.basis != "measured":
        yield reason("certainty", "data_wait_uncertain", profile=profile.id, workers=profile.loader_workers)


def _idle_here_seconds(context: ChoiceContext) -> float | None:
    """The time of training here if this machine did nothing else; None if nothing else kept it busy.

    The time here is as it was measured, with the other work, and those of rented machines are without it.
    """
    here, factor = context.here, context.here_idle_factor
    return None if here is None or factor == 1 else here.seconds.value * factor


def _uncertain_ranking(context: ChoiceContext) -> Iterator[Reason]:
    """The first candidate whose rank behind the chosen one is uncertain, how many more there are, and the one among
    them that is best in what the goal does not minimise."""
    goal, ideal, chosen = context.goal, context.ideal, context.ordered[0]
    uncertain: list[Estimate] = []
    probability = 0.0
    for other in context.ordered[1:]:
        confidence = ranking_confidence(chosen, other, goal, ideal=ideal)
        if confidence < goal.confidence:
            probability = probability if uncertain else 1 - confidence
            uncertain.append(other)
    if not uncertain:
        return
    w = weight_of_time(goal)
    yield reason(
        "certainty",
        "ranking_uncertain",
        goal=goal.kind,
        machine=context.describe(uncertain[0]),
        confidence=goal.confidence,
        ratio=_ratio(score(uncertain[0], w, ideal), score(chosen, w, ideal)),
        probability=probability,
        others=len(uncertain) - 1,
        bargain=_bargain(context, uncertain),
    )


def _ratio(score: float, other: float) -> float:
    """Both are zero if both machines cost nothing."""
    return score / other if other else 1.0


def _bargain(context: ChoiceContext, uncertain: Sequence[Estimate]) -> dict[str, Scalar] | None:
    """The candidate that takes much less time for about the same cost, or costs much less for about the same time."""
    if context.goal.kind == "weighted":
        return None
    if context.goal.kind == "fastest":
        best = min(uncertain, key=lambda e: e.usd.value)
        ratio = difference(context.chosen, best).cost_ratio
    else:
        best = min(uncertain, key=lambda e: e.seconds.value)
        ratio = difference(context.chosen, best).time_ratio
    if ratio is None or ratio > BARGAIN:
        return None
    return context.describe(best) | {"ratio": ratio, "is_first": best is uncertain[0]}
