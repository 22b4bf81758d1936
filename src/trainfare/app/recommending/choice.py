"""Which of what may be taken keeps the limits, in which order: alone, on spot, as a split plan."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.app.recommending.question import Question
from trainfare.app.recommending.search import Search, may_be_chosen
from trainfare.app.recommending.split import plan_split
from trainfare.app.recommending.spot import relied_on
from trainfare.app.recommending.workload import Workload
from trainfare.errors import InfeasibleError
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.model.spot import SpotRisk
from trainfare.recommender.choose import best_per_machine, ideal_point, in_order
from trainfare.recommender.limits import infeasible, within
from trainfare.recommender.pareto import front
from trainfare.recommender.split.planning import SplitAdvice
from trainfare.recommender.split.reasons import single_machine_reason
from trainfare.recommender.names import candidate_name, limit_words
from trainfare.units import format_duration, format_percent
from trainfare.views.reasons import sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    may: tuple[Estimate, ...]
    """Those that may be chosen, whether they keep the limits or not."""
    ordered: tuple[Estimate, ...]
    """Those that keep them, one a machine, best first."""
    front: tuple[Estimate, ...]
    risk: SpotRisk | None
    split: SplitAdvice | None


def choose(search: Search, asked: Question) -> Choice:
    goal, may = asked.goal, may_be_chosen(search)
    least = ideal_point(may)
    kept = in_order(within(may, goal), goal, least=least)
    relied = relied_on(best_per_machine(kept), search.estimates, goal)
    within_limits = {id(e) for e in kept}
    others = in_order((e for e in may if id(e) not in within_limits), goal, least=least)
    limited = goal.deadline_seconds is not None or goal.budget_usd is not None or asked.early is not None
    first = {id(e) for e in relied.ordered}
    rest = (e for e in (*kept, *others) if id(e) not in first)
    split = None
    if limited or asked.split:
        split = _split_advice(search.workload, asked, relied.ordered, tuple(rest))
    ordered = relied.ordered if asked.early is None else _in_time(split, relied.ordered, asked)
    if not ordered and (split is None or split.plan is None):
        raise _nothing_keeps(goal, may, kept, search.estimates)
    risk = relied.risk if ordered[:1] == relied.ordered[:1] else None
    if goal.deadline_seconds is not None:  # spot counts only where it was looked into
        may = tuple(e for e in may if id(e) in first or e.candidate.offer.market != "spot")
    return Choice(may=may, ordered=ordered, front=front(may), risk=risk, split=split)


def _nothing_keeps(
    goal: Goal, may: Sequence[Estimate], kept: Sequence[Estimate], estimates: Sequence[Estimate]
) -> InfeasibleError:
    if kept:
        best = candidate_name(kept[0].candidate)
        return InfeasibleError(
            f"only spot machines would end in time, if none were taken away, {best} first; but going by how long such "
            "machines stay and stay away, they would too often be late, even going over to on demand at the last "
            "moment. Give a later --deadline, or less --confidence."
        )
    chosen_from = {id(e) for e in may}
    unasked = [e for e in estimates if e.fits is not False and id(e) not in chosen_from]
    return infeasible(may, goal, unasked=unasked)


def _split_advice(
    workload: Workload, asked: Question, ordered: Sequence[Estimate], rest: Sequence[Estimate]
) -> SplitAdvice | None:
    """What must be there in time is put on machines that stay: how long one waits for the next spot machine is looked
    into of one machine, and not of legs."""
    timed = asked.goal.deadline_seconds is not None or (asked.early is not None and asked.early.seconds is not None)
    if not timed:
        return plan_split(workload, (*ordered, *rest), asked.goal, early=asked.early)
    if ordered and asked.early is None and ordered[0].candidate.offer.market == "spot":
        why_not = single_machine_reason("split_not_on_spot")
        return SplitAdvice(plan=None, single_machine=ordered[0], reasons=(why_not,))
    steady = [e for e in (*ordered, *rest) if e.candidate.offer.market != "spot"]
    return plan_split(workload, steady, asked.goal, early=asked.early) if steady else None


def _in_time(split: SplitAdvice | None, ordered: Sequence[Estimate], asked: Question) -> tuple[Estimate, ...]:
    """The one machine that also has the early figure in time; of the others nobody has looked."""
    alone = None if split is None else split.single_machine
    if alone is None and split is not None and split.plan is None:
        raise InfeasibleError(f"no machine alone {_early_words(asked)}, and {sentence(split.reasons[0])}.")
    if alone is None:
        return ()
    return tuple(e for e in ordered if e.candidate == alone.candidate) or (alone,)


def _early_words(asked: Question) -> str:
    """`has val_accuracy at 0.9 within 2 h with 90 % confidence and ends within …`."""
    early, limits = asked.early, limit_words(asked.goal, one=True)
    if early is None or early.seconds is None:
        return limits
    said = f"has {early.metric} at {early.value:g} within {format_duration(early.seconds)}"
    return f"{said} and {limits}" if limits else f"{said} with {format_percent(asked.goal.confidence)} confidence"
