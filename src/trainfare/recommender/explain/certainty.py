"""How sure it is: where the time is from, what cannot be told apart from it, what would settle it."""

from collections.abc import Iterator, Sequence

from trainfare.model.estimate import Estimate
from trainfare.model.profile import Profile
from trainfare.recommender.choose import score, weight_of_time
from trainfare.recommender.explain.case import Case
from trainfare.recommender.pareto import losses
from trainfare.recommender.ranking_confidence import likelihood
from trainfare.units import format_percent, format_ratio, plural

WIDE = 1.4
"""Times as long at the upper end, from which on an interval is called wide."""
BARGAIN = 0.8
"""Of the time or the cost: from so little on it is worth a word."""


def sure(case: Case) -> Iterator[str]:
    yield basis_words(case.chosen, case.profile) if case.probe is None else _basis(case.chosen, case.profile)
    yield from _not_told_apart(case)
    if case.probe is not None:
        yield case.probe


def basis_words(estimate: Estimate, profile: Profile) -> str:
    """Why the time is believed, and what would make it surer."""
    said = _basis(estimate, profile)
    if estimate.basis != "extrapolated":
        return said
    on = estimate.candidate.offer.vm_type.key
    return f"{said}. A profile taken there settles it: trainfare profile --on {on} -- …"


def _basis(estimate: Estimate, profile: Profile) -> str:
    gpu = estimate.candidate.offer.vm_type.gpu
    where = gpu.name if gpu else "this machine"
    match estimate.basis:
        case "measured":
            return f"measured: profile {estimate.profile_id} was taken on this machine type"
        case "scaled":
            return f"scaled: profile {estimate.profile_id} was taken {_scaled_from(estimate, profile)}"
        case "extrapolated":
            wide = estimate.iteration_seconds.high > WIDE * estimate.iteration_seconds.value
            return (
                f"extrapolated: nobody has measured this program on {where}; the time follows from its operations and "
                f"the GPU's nominal figures{', hence the wide interval' if wide else ''}"
            )


def _scaled_from(estimate: Estimate, profile: Profile) -> str:
    """Where the profile is from, and how it was moved."""
    vm_type = estimate.candidate.offer.vm_type
    if profile.host.vm_type == vm_type.key:
        gpus = "" if profile.world_size == 1 else f" on {profile.world_size} GPUs"
        return (
            f"on this machine type at batch size {profile.effective_batch_size}{gpus}, and moved to what is asked for"
        )
    if vm_type.gpu is None:
        taken = profile.host.vm_type or "all of it"
        return f"on {taken} and moved to this slice by the work of an iteration and the cores it kept busy"
    return f"on {profile.host.gpu or 'another GPU'} and moved to {vm_type.gpu.name} by the ratio of what the two can do"


def _not_told_apart(case: Case) -> Iterator[str]:
    """The first of those whose place behind the chosen one is not sure, how many more there are, and which of them is
    the best in what the goal does not ask for."""
    goal, least, chosen = case.goal, case.least, case.chosen
    doubtful = []
    for other in case.ordered[1:]:
        sureness = likelihood(chosen, other, goal, least=least)
        if sureness < goal.confidence:
            doubtful.append((other, sureness))
    if not doubtful:
        return
    other, sureness = doubtful[0]
    w = weight_of_time(goal)
    ratio = score(other, w, least) / score(chosen, w, least)
    what, better = {"cheapest": ("cost", "cheaper"), "fastest": ("time", "faster")}.get(goal.kind, ("score", "better"))
    times = format_ratio(ratio)
    expected = f"about the same {what}" if times == "1 ×" else f"{times} the {what}"
    more = f"; nor can {plural(len(doubtful) - 1, 'other')}" if len(doubtful) > 1 else ""
    yield (
        f"{case.name(other)} cannot be told apart from it at "
        f"{format_percent(goal.confidence)} confidence: {expected} is expected, and it is "
        f"{better} after all with {100 * (1 - sureness):.0f} % probability{_bargain(case, doubtful, more)}"
    )


def _bargain(case: Case, doubtful: Sequence[tuple[Estimate, float]], more: str) -> str:
    """`; nor can 3 others; of these aws a2 takes 0.31 × the time`: what is hardly given up may buy much of the other.
    `more` tells how many there are beside the first."""
    others = [other for other, _ in doubtful]
    if case.goal.kind == "fastest":
        best = min(others, key=lambda e: e.usd.value)
        ratio, words = losses(case.chosen, best).cost_ratio, "costs {} as much"
    else:
        best = min(others, key=lambda e: e.seconds.value)
        ratio, words = losses(case.chosen, best).time_ratio, "takes {} the time"
    if case.goal.kind == "weighted" or ratio > BARGAIN:
        return more
    buys = words.format(format_ratio(ratio))
    return f"; it {buys}{more}" if best is others[0] else f"{more}; of these {case.name(best)} {buys}"
