"""The reasons for a training in two legs, in plain sentences with numbers."""

from collections.abc import Iterator, Sequence

from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.model.split import Move, Saving, Segment, SplitPlan
from trainfare.recommender.split.search import STARTING, Course, Split
from trainfare.recommender.words import candidate_words, spent_words
from trainfare.units import BYTES_PER_GIB, format_duration, format_percent, format_usd

DONE = {"checkpoint": "written", "upload": "up", "download": "down", "restore": "read"}
"""What is done to the checkpoint in each part of a move."""


def split_reasons(legs: SplitPlan, goal: Goal, *, checkpoints_seen: bool) -> tuple[str, ...]:
    """Why in two legs, what the move takes, what each leg is worth, what the program must be able to do."""
    return (
        _why(legs, goal),
        *_early(legs),
        _moved(legs.move, legs.legs[1]),
        *_worth(legs),
        _needed(legs.split_after, checkpoints_seen),
    )


def no_split_reason(best: Split | None, courses: Sequence[Course], alone: Estimate | None, goal: Goal) -> str:
    """Why a single machine is better: `best` is the best mix, where it would be better were it not for the doubt."""
    limits = _limits(goal) or "what is wanted early"
    if alone is None:
        return f"no two machines one after the other keep {limits} either"
    if best is None:
        return f"within {limits} no two machines one after the other are better than one, once the move is paid"
    first, second = (candidate_words(courses[place].candidate) for place in (best.first, best.second))
    return (
        f"{best.after} epochs on {first} and the rest on {second} would take {format_duration(best.seconds)} and cost "
        f"{format_usd(best.usd)}, against {spent_words(alone)} on {candidate_words(alone.candidate)}: it gains less "
        "than is in doubt, so one machine is recommended"
    )


def _why(legs: SplitPlan, goal: Goal) -> str:
    first, second = legs.legs
    told = (
        f"in two legs: {epochs_words(first)} on {_machine(first)}, then {epochs_words(second)} on {_machine(second)}: "
        f"{format_duration(legs.seconds.value)} and {format_usd(legs.usd.value)} in all"
    )
    limits = _limits(goal)
    kept = f", within {limits} with {format_percent(goal.confidence)} confidence" if limits else ""
    if legs.instead_of is None or legs.saving is None:
        return f"{told}{kept}: no single machine keeps that"
    alone = candidate_words(legs.instead_of.candidate)
    return f"{told}{kept}; {_less(legs.saving)} than {alone} alone"


def epochs_words(leg: Segment) -> str:
    """`epoch 1`, `epochs 2 – 90`."""
    return f"epoch {leg.first_epoch}" if leg.epochs == 1 else f"epochs {leg.first_epoch} – {leg.last_epoch}"


def _machine(leg: Segment) -> str:
    return f"{candidate_words(leg.estimate.candidate)} ({spent_words(leg.estimate)})"


def _limits(goal: Goal) -> str:
    limits = []
    if goal.deadline_seconds is not None:
        limits.append(format_duration(goal.deadline_seconds))
    if goal.budget_usd is not None:
        limits.append(format_usd(goal.budget_usd))
    return " and ".join(limits)


def _less(saving: Saving) -> str:
    share = f"{100 * saving.share:.0f} %"
    if saving.quantity == "score":
        return f"{share} less of time and cost as you weigh them"
    spell = format_usd if saving.quantity == "usd" else format_duration
    ends = f"{format_percent(saving.amount.confidence)}: {spell(saving.amount.low)} – {spell(saving.amount.high)}"
    return f"{spell(saving.amount.value)} ({share}; {ends}) less"


def _early(legs: SplitPlan) -> Iterator[str]:
    reached = legs.reached
    if reached is None:
        return
    early, epochs = reached.early, reached.epochs
    by = f", wanted within {format_duration(early.seconds)}" if early.seconds else ""
    range_ = "" if epochs.low == epochs.high else f" (90 %: {epochs.low:.0f} to {epochs.high:.0f})"
    yield (
        f"{early.metric} {early.value:g} is expected after epoch {epochs.value:.0f}{range_}, "
        f"{format_duration(reached.seconds.value)} from the start "
        f"(at the most {format_duration(reached.seconds.high)}){by}"
    )


def _moved(move: Move, second: Segment) -> str:
    """`… (checkpoint of 0.28 GiB: written 2.4 s, up 2.8 s, down 2.8 s, read 2.4 s; assumed)`."""
    start = sum(p.seconds.value for p in second.estimate.phases if p.name in STARTING)
    size = "of unknown size" if move.bytes is None else f"of {_size(move.bytes.value)}"
    done = {name: part for name, part in move.parts.items() if part.found != "nothing"}
    how = ", ".join(f"{DONE[name]} {format_duration(part.seconds.value)}" for name, part in done.items())
    known = " and ".join(dict.fromkeys(part.found for part in done.values()))
    return (
        f"the move takes {format_duration(move.seconds.value)} and {format_usd(move.usd.value)} (checkpoint {size}: "
        f"{how}; {known}), and starting the second machine {format_duration(start)}, which is in its leg"
    )


def _size(bytes_: float) -> str:
    gib = bytes_ / BYTES_PER_GIB
    return f"{gib:.3g} GiB" if gib >= 0.1 else f"{gib * 1024:.3g} MiB"


def _worth(legs: SplitPlan) -> Iterator[str]:
    """Sanghvi's Δ of each leg, and what a dollar does to the metric."""
    deltas = {candidate_words(leg.estimate.candidate): leg.delta for leg in legs.legs if leg.delta is not None}
    if deltas:
        told = ", ".join(f"{delta:.2g} on {name}" for name, delta in deltas.items())
        yield f"speed-up per fold of cost of an epoch (Δ), against the cheapest epochs: {told}"
    gained = [(leg, leg.progress, leg.gained_per_usd) for leg in legs.legs]
    parts = [
        f"{epochs_words(leg)} take{'s' if leg.epochs == 1 else ''} {progress.metric} from {progress.before:.3g} to "
        f"{progress.after:.3g}, {each:.2g} a dollar"
        for leg, progress, each in gained
        if progress is not None and each is not None
    ]
    if parts:
        yield "as the curve goes on, " + "; ".join(parts)


def _needed(after: int, checkpoints_seen: bool) -> str:
    if checkpoints_seen:
        return f"the program must go on from its own checkpoint of epoch {after} by itself"
    return (
        f"the program must write a checkpoint after epoch {after} and go on from it by itself; none was seen while "
        "profiling, and without one the second leg would start over"
    )
