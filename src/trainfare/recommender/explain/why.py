"""Why this one: out of how many, what limits it, and what the others would take."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal, GoalKind
from trainfare.recommender.choose import IdealPoint, best_of, score
from trainfare.recommender.explain.case import Case
from trainfare.recommender.explain.charges import months, pays_off
from trainfare.recommender.limits import within
from trainfare.recommender.pareto import Losses, losses
from trainfare.recommender.words import limit_words, machine_words
from trainfare.units import SECONDS_PER_HOUR, format_count, format_duration, format_ratio, format_usd, plural

LIMIT_WORDS = {
    "compute": "arithmetic",
    "memory bandwidth": "memory bandwidth",
    "launches": "launching kernels, not by the GPU: a faster GPU gains little",
    "network": "adding up gradients between GPUs",
    "data": "waiting for data, not by the GPU: a faster GPU gains little",
}

SAME = 0.001
"""A difference that nobody would call one."""
HARDLY_SLOWER = 1.1
"""Times as long: worth a word where it costs less."""
NEXT = 2
"""Runners-up that are told of in a sentence; the table has more."""


def why(case: Case) -> Iterator[str]:
    chosen = case.chosen
    if not case.kept:
        yield f"none of {plural(len(case.choosable), 'candidate')} alone would {limit_words(case.goal)}"
        yield from case.legs
        return
    yield _best_of(case)
    if case.goal.kind == "weighted":
        yield _weighed(chosen, case.goal.weight_time or 0.0, case.least)
    yield from _limited(chosen)
    yield from _extremes(case)
    yield from _next(case)
    yield from _knee(case)
    yield from _against_baseline(case)
    if not case.spot:
        yield from _spot_would_be(case)
    if not case.reserved:
        yield from _commitment_would_be(case)
    if case.reserved is not False:
        yield from _held_would_be(case, chosen)
    yield from case.legs


def _best_of(case: Case) -> str:
    """`cheapest of 1 312 candidates (181 machine types, up to 4 nodes, 3 batch sizes) that end within …`."""
    kept = case.kept
    best = {"weighted": "best by these weights"}.get(case.goal.kind, case.goal.kind)
    limits = limit_words(case.goal, one=len(kept) == 1)
    left_out = []
    if beyond := len(case.relied_on) - len(kept):
        left_out.append(f"{format_count(beyond)} more would not")
    left_out += _dismissed(case)
    if too_large := sum(e.fits is False for e in case.estimates):
        left_out.append(f"{format_count(too_large)} {'does' if too_large == 1 else 'do'} not fit in memory")
    return (
        f"{best} of {plural(len(kept), 'candidate')} ({_kinds(kept)})"
        + (f" that {limits}" if limits else "")
        + (f"; {', '.join(left_out)}" if left_out else "")
    )


def _dismissed(case: Case) -> Iterator[str]:
    """What looks better and is not taken: spot, for its interruptions; else what has an early figure too late."""
    relied_on = {id(e) for e in case.relied_on}
    dismissed = [e for e in case.choosable if id(e) not in relied_on]
    spot = sum(e.candidate.offer.market == "spot" for e in dismissed)
    if spot:
        yield f"{plural(spot, 'spot offer')} that would be better {'is' if spot == 1 else 'are'} not relied on"
    if late := len(dismissed) - spot:
        are = "is" if late == 1 else "are"
        yield f"{format_count(late)} that would be better {are} too late for what is wanted early"


def _kinds(kept: Sequence[Estimate]) -> str:
    types = {(e.candidate.offer.vm_type.provider, e.candidate.offer.vm_type.name) for e in kept}
    nodes = max((e.candidate.nodes for e in kept), default=1)
    sizes = {e.candidate.batch_size for e in kept}
    said = [plural(len(types), "machine type")]
    if nodes > 1:
        said.append(f"up to {nodes} nodes")
    if len(sizes) > 1:
        said.append(f"{len(sizes)} batch sizes")
    return ", ".join(said)


def _weighed(chosen: Estimate, w: float, least: IdealPoint) -> str:
    """What the weights made of it, and what they say an hour is worth: w/least time against (1 − w)/least cost."""
    said = (
        f"with time weighed at {w:.2g} and cost at {1 - w:.2g}: it takes "
        f"{format_ratio(chosen.seconds.value / least.seconds)} the least time and costs "
        f"{format_ratio(chosen.usd.value / least.usd)} the least cost, {score(chosen, w, least):.3g} in all"
    )
    if not 0 < w < 1:
        return said
    hour = w / (1 - w) * SECONDS_PER_HOUR * least.usd / least.seconds
    return f"{said}; so weighed, an hour less is worth {format_usd(hour)}"


def _limited(chosen: Estimate) -> Iterator[str]:
    if chosen.limited_by is None:
        return
    candidate = chosen.candidate
    workers = candidate.nodes * candidate.gpus_working
    there = f"on {workers} GPUs" if workers > 1 else "there"
    yield (
        f"an iteration takes {format_duration(chosen.iteration_seconds.value)} {there}, "
        f"limited by {LIMIT_WORDS[chosen.limited_by]}"
    )


def _extremes(case: Case) -> Iterator[str]:
    """What the goal did not ask for, at its best within the limits."""
    chosen = case.chosen
    extremes: tuple[GoalKind, ...] = ("fastest", "cheapest")
    for name in extremes:
        if name == case.goal.kind:
            continue
        best = best_of(case.kept, Goal(kind=name)) or chosen
        if not _same(best, chosen):
            beside = losses(chosen, best)
            yield (
                f"the {name}, {case.name(best)}, takes "
                f"{format_ratio(beside.time_ratio)} the time and costs {format_ratio(beside.cost_ratio)} as much"
            )


def _next(case: Case) -> Iterator[str]:
    """`next: aws g6.xlarge (+1 h 25 min, +0.12 $), …`."""
    others = islice((e for e in case.ordered[1:] if not _same(e, case.chosen)), NEXT)
    said = [f"{case.name(other)} ({_more(losses(case.chosen, other))})" for other in others]
    if said:
        yield f"next: {'; '.join(said)}"


def _knee(case: Case) -> Iterator[str]:
    if case.knee is None or not any(e is case.knee for e in case.kept):
        return
    if _same(case.knee, case.chosen):
        yield f"of the {len(case.front)} on the Pareto front it is where more speed begins to cost much"
        return
    beside = losses(case.chosen, case.knee)
    yield (
        f"more speed begins to cost much from {case.name(case.knee)} on, which "
        f"takes {format_ratio(beside.time_ratio)} the time and costs {format_ratio(beside.cost_ratio)} as much"
    )


def _against_baseline(case: Case) -> Iterator[str]:
    if case.baseline is None or case.delta is None:
        return
    if _same(case.baseline, case.chosen):
        yield "it is the baseline itself"
        return
    beside = losses(case.baseline, case.chosen)
    yield (
        f"against {case.name(case.baseline)} it is "
        f"{format_ratio(1 / beside.time_ratio)} as fast for {format_ratio(beside.cost_ratio)} the cost: "
        f"Δ, the speed-up for each fold of cost, is {case.delta:.2g}"
    )


def _spot_would_be(case: Case) -> Iterator[str]:
    found = _instead(case, [e for e in case.estimates if e.candidate.offer.market == "spot"])
    if found is None:
        return
    told = ""
    if found.interruptions is not None:
        told = f", {format_count(found.interruptions.value)} expected interruptions included"
    yield (
        f"{case.name(found)} would cost {format_usd(found.usd.value)}{told}; "
        "it may be taken away at any moment, so spot is chosen only with --spot"
    )


def _commitment_would_be(case: Case) -> Iterator[str]:
    """One that is still to be bought."""
    found = _instead(case, [e for e in case.estimates if e.candidate.offer.to_be_bought])
    commitment = found.candidate.offer.commitment if found else None
    if found is not None and commitment is not None:
        yield (
            f"with a commitment of {months(commitment)}, {case.name(found)} would cost {format_usd(found.usd.value)}; "
            f"it {pays_off(commitment)}, so it is chosen only with --reserved"
        )


def _instead(case: Case, offered: Sequence[Estimate]) -> Estimate | None:
    """What would be taken of these, had they been asked for: where time alone counts, what costs less and is hardly
    slower; else what is better by the goal."""
    chosen, goal = case.chosen, case.goal
    kept = within((e for e in offered if e.fits is not False), goal)
    if goal.kind == "fastest":
        kept = tuple(e for e in kept if e.seconds.value <= HARDLY_SLOWER * chosen.seconds.value)
        goal = replace(goal, kind="cheapest")
    best = best_of((*kept, chosen), goal, least=case.least)
    return None if best is chosen else best


def _held_would_be(case: Case, chosen: Estimate) -> Iterator[str]:
    """What is held and not taken stands idle, and is paid for."""
    held = [e for e in case.estimates if e.candidate.offer.held and e.fits is not False]
    best = min(held, key=lambda e: e.usd.value, default=None)
    if best is not None and not chosen.candidate.offer.held:
        yield (
            f"{machine_words(best.candidate.offer)} is paid for already: it would take "
            f"{format_ratio(best.seconds.value / chosen.seconds.value)} the time and, if nobody else needs it then, add "
            f"nothing to its price; its share of what was paid is {format_usd(best.usd.value)}"
        )


def _more(lost: Losses) -> str:
    """`+1 h 25 min, −0.12 $`."""
    time = "the same time" if abs(lost.time_ratio - 1) < SAME else _signed(lost.seconds, format_duration)
    cost = "the same cost" if abs(lost.cost_ratio - 1) < SAME else _signed(lost.usd, format_usd)
    return f"{time}, {cost}"


def _signed(amount: float, spell: Callable[[float], str]) -> str:
    return f"+{spell(amount)}" if amount >= 0 else f"−{spell(-amount)}"


def _same(one: Estimate, other: Estimate) -> bool:
    """The same machine, in whichever region."""
    return _machine(one) == _machine(other)


def _machine(estimate: Estimate) -> tuple[object, ...]:
    candidate = estimate.candidate
    return candidate.offer.vm_type.key, candidate.nodes, candidate.batch_size, candidate.gpus_used
