"""The choice among the estimates: eligible, within the limits, certain enough on spot, or split over two machines."""

from dataclasses import dataclass

from trainfare.app.recommending.question import Question
from trainfare.app.recommending.search import SearchResult, find_eligible, is_guessed
from trainfare.app.recommending.split import plan_split
from trainfare.app.recommending.spot import check_spot, is_spot
from trainfare.app.recommending.workload import Workload
from trainfare.errors import InfeasibleError
from trainfare.estimator.cpu.busy import idle_factor
from trainfare.estimator.estimate import Totals
from trainfare.model.plan import Goal
from trainfare.model.spot import SpotRisk
from trainfare.recommender.choose import (
    IdealPoint,
    Rejections,
    best_of,
    best_per_machine,
    ideal_point,
    in_order,
    rejected,
    score,
    scores,
    weight_of_time,
    with_value_of_time,
    without_idle_copies,
)
from trainfare.recommender.here import HereRule, rule_for_here, worth_renting
from trainfare.recommender.limits import limit_conflict, reject_beyond_limits, within_limits
from trainfare.recommender.names import candidate_name
from trainfare.recommender.options import Options
from trainfare.recommender.pareto import front
from trainfare.recommender.split.planning import SplitAdvice
from trainfare.recommender.split.reasons import single_machine_reason
from trainfare.units import format_duration, format_percent
from trainfare.views.infeasible import infeasible_error, question_remedy
from trainfare.views.names import goal_limits
from trainfare.views.reasons import sentence

EQUAL_SCORE = 1e-9
"""Scores that differ by a smaller share are equal but for the rounding of floats."""
CLEARLY_BETTER = 0.9
"""Another batch size is offered if its score is below this share of that of the chosen candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The candidates in order, and why others were rejected."""

    ideal: IdealPoint
    totals: Options[Totals]
    """All candidates, best first, also those that are not eligible; those whose number of epochs is a guess last."""
    eligible: Options[Totals]
    """The candidates to rent that fit in memory on an allowed market, within the limits or not, best first. Under a
    deadline, spot candidates only if they were accepted."""
    accepted: Options[Totals]
    """The eligible candidates to rent that are within the limits and not rejected for another reason, best first."""
    ordered: Options[Totals]
    """The accepted candidates, one per machine, best first; empty if only a split plan or the machine at hand is within
    the limits."""
    front: Options[Totals]
    """The Pareto front of the eligible candidates and the machine at hand."""
    rejections: Rejections[Totals]
    spot_risk: SpotRisk | None
    """The risk of the first candidate, if it is on spot and there is a deadline."""
    split: SplitAdvice | None
    goal: Goal
    """The goal by which they are in order: with weights, if the user states the value of an hour."""
    here: Totals | None
    """The machine at hand; None if the profiles say nothing about it or the scope leaves it out."""
    here_rule: HereRule | None
    """Why the machine at hand is the answer; None if it is not."""
    here_idle_factor: float
    """The share of the time of `here` that would remain without the other work during its profile."""
    other_batch_size: Totals | None
    """A better candidate at a batch size whose number of epochs is a guess; it is offered, not chosen."""


def choose(found: SearchResult, question: Question) -> Choice:
    """The best candidates for the goal of a question. Raises InfeasibleError if nothing is within its limits."""
    every, ineligible = find_eligible(found)
    ideal = ideal_point(every)
    goal = with_value_of_time(question.goal, ideal)
    totals = in_order(found.totals, goal, ideal=ideal)
    none = totals[:0]
    at_hand, eligible, guessed = _groups(totals.among(every), found)
    here = _here(at_hand, goal)
    here_alone = none if here is None else at_hand.matching(here.candidate)
    within, beyond_limits = reject_beyond_limits(eligible, goal)
    here_within = here if here is not None and within_limits((here,), goal) else None
    idle = 1.0 if here is None else idle_factor(here.table.predict(here.candidate).profile)
    worth = worth_renting(within, here_within, goal, idle_factor=idle)
    spot = check_spot(best_per_machine(worth), found, goal)
    accepted = spot.accepted
    split = None
    if question.split or question.early is not None or goal.deadline_seconds is not None or goal.budget_usd is not None:
        others = worth.without(accepted).followed_by(eligible.without(within))
        split = _split_advice(found.workload, question, goal, accepted, others)
    ordered = accepted if question.early is None else _in_time(split, found, question)
    rule = None
    if here_within is not None and question.early is None:
        rule = rule_for_here(here_within, ordered, goal, ideal, any_within_limits=bool(within), idle_factor=idle)
    if not ordered and rule is None and (split is None or split.plan is None):
        not_allowed = ineligible.get("market_not_allowed", none)
        not_allowed = not_allowed.where_candidate(lambda c: not is_guessed(found.workload, found.scope, c.batch_size))
        raise _nothing_within_limits(goal, eligible.followed_by(here_alone), within, not_allowed)
    slower = within.without(worth)
    if rule is not None:  # the others are alternatives to here, also those that end no sooner
        steady = within if goal.deadline_seconds is None else within.without(_on_spot(within))
        ordered = accepted = best_per_machine(steady)
        slower, worth = none, within
    unaccepted = none if goal.deadline_seconds is None else _on_spot(eligible).without(accepted)
    eligible, unaccepted, worth = eligible.without(unaccepted), worth.among(unaccepted), worth.without(unaccepted)
    too_late = _too_late(worth, ordered[0], goal, ideal) if question.early is not None and ordered else none
    return Choice(
        goal=goal,
        ideal=ideal,
        totals=totals.without(guessed).followed_by(guessed),
        eligible=eligible,
        accepted=worth.without(too_late),
        ordered=without_idle_copies(ordered),
        front=front(eligible.followed_by(here_alone)),
        rejections={
            **ineligible,
            **beyond_limits,
            **rejected(
                epochs_guessed=guessed,
                slower_than_here=slower,
                spot_too_risky=unaccepted.among(spot.too_risky),
                spot_not_checked=unaccepted.without(spot.too_risky),
                too_late_for_early_target=too_late,
            ),
        },
        spot_risk=spot.risk if rule is None and ordered[:1] == spot.accepted[:1] else None,
        split=None if rule is not None else split,
        here=here,
        here_rule=rule,
        here_idle_factor=idle,
        other_batch_size=None if rule is not None else _other_batch_size(guessed, ordered, goal, ideal),
    )


def _groups(eligible: Options[Totals], found: SearchResult) -> tuple[Options[Totals], Options[Totals], Options[Totals]]:
    """The candidates on the machine at hand, the others, and those at a batch size that was not asked for and whose
    number of epochs is a guess. These are candidates only if there is no other: the profiled size may fit nowhere."""
    sizes = {candidate.batch_size for candidate in eligible.candidates}
    guesses = {size for size in sizes if is_guessed(found.workload, found.scope, size)}
    at_hand = eligible.where_offer(lambda offer: offer.is_here)
    rentals = eligible.without(at_hand)
    if guesses:
        at_hand, rentals = (
            group.where_candidate(lambda candidate: candidate.batch_size not in guesses) or group
            for group in (at_hand, rentals)
        )
    return at_hand, rentals, eligible.without(at_hand).without(rentals)


def _on_spot(options: Options[Totals]) -> Options[Totals]:
    return options.where_offer(is_spot)


def _here(at_hand: Options[Totals], goal: Goal) -> Totals | None:
    """The fastest candidate on the machine at hand, of those within the limits if there are any."""
    return best_of(within_limits(at_hand, goal) or at_hand, Goal(kind="fastest"))


def _other_batch_size(
    guessed: Options[Totals], ordered: Options[Totals], goal: Goal, ideal: IdealPoint
) -> Totals | None:
    """The best rental whose number of epochs is a guess, if it would be clearly better than the chosen one."""
    rentals = guessed.where_offer(lambda offer: not offer.is_here)
    steady = rentals if goal.deadline_seconds is None else rentals.without(_on_spot(rentals))
    best = best_of(within_limits(steady, goal), goal, ideal=ideal)
    if best is None or not ordered:
        return None
    w = weight_of_time(goal)
    return best if score(best, w, ideal) < CLEARLY_BETTER * score(ordered[0], w, ideal) else None


def _too_late(options: Options[Totals], chosen: Totals, goal: Goal, ideal: IdealPoint) -> Options[Totals]:
    """The candidates within the other limits that would be better than the one with the early target in time."""
    w = weight_of_time(goal)
    return options.where(scores(options, w, ideal) < score(chosen, w, ideal) * (1 - EQUAL_SCORE))


def _nothing_within_limits(
    goal: Goal, eligible: Options[Totals], within: Options[Totals], on_other_markets: Options[Totals]
) -> InfeasibleError:
    if within:
        return InfeasibleError(
            f"Only spot machines would end before the deadline if they were not interrupted, "
            f"{candidate_name(within[0].candidate)} first. By how long such machines stay and stay away, they would be "
            "late too often, even with a fallback to on demand at the last moment. Choose a later deadline or a lower "
            "confidence.",
            remedies=[question_remedy({"deadline": "TIME"}), question_remedy({"confidence": "P"})],
        )
    return infeasible_error(limit_conflict(eligible, goal, on_other_markets=on_other_markets))


def _split_advice(
    workload: Workload, question: Question, goal: Goal, accepted: Options[Totals], others: Options[Totals]
) -> SplitAdvice | None:
    """Advice on a split plan. If it has a time limit, only on machines that are not interrupted: the wait for the next
    spot machine is estimated for a single machine only. Machines that cost nothing are not split with others."""
    early = question.early
    timed = goal.deadline_seconds is not None or (early is not None and early.seconds is not None)
    pool = accepted.followed_by(others)
    pool = pool.where(pool.usd > 0)
    if timed and accepted and early is None and is_spot(accepted[0].candidate.offer):
        why_not = single_machine_reason("split_not_on_spot")
        return SplitAdvice(plan=None, single_machine=None, reasons=(why_not,))
    if timed:
        pool = pool.without(_on_spot(pool))
    if not pool:
        return None
    size = pool[0].candidate.batch_size
    estimates = workload.unbilled(candidate for candidate in pool.candidates if candidate.batch_size == size)
    return plan_split(workload, estimates, goal, early=early, ideal=ideal_point(pool))


def _in_time(split: SplitAdvice | None, found: SearchResult, question: Question) -> Options[Totals]:
    """The best single machine that reaches the early target in time; empty if only a split plan does."""
    single = None if split is None else split.single_machine
    if single is None and split is not None and split.plan is None:
        raise InfeasibleError(f"No single machine {_early_limits(question)}, and {sentence(split.reasons[0])}.")
    return found.totals[:0] if single is None else found.totals.matching(single.candidate)


def _early_limits(question: Question) -> str:
    """`reaches val_accuracy 0.9 within 2 h with 90% confidence and ends within …`."""
    early, limits = question.early, goal_limits(question.goal, singular=True)
    if early is None or early.seconds is None:
        return limits
    reaches = f"reaches {early.metric} {early.value:g} within {format_duration(early.seconds)}"
    confidence = format_percent(question.goal.confidence)
    return f"{reaches} and {limits}" if limits else f"{reaches} with {confidence} confidence"
