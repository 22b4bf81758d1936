"""Use case: the machine to train on. Every candidate is estimated, one is chosen, and the choice is explained."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, Unpack, get_args

from trainfare.app.catalog.starts import observed_starts
from trainfare.app.ids import new_id
from trainfare.app.recommending.choice import Choice, choose
from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.question import EVERYTHING, Question
from trainfare.app.recommending.scope import in_catalog
from trainfare.app.recommending.search import SearchResult, search
from trainfare.app.recommending.spot import spot_fallbacks
from trainfare.app.recommending.workload import (
    Workload,
    build_workload,
    gc_paused,
    interruptions_on,
    select_profiles,
)
from trainfare.app.stated import LengthKeywords, StatedLength
from trainfare.catalog.published import PUBLISHED
from trainfare.errors import NotFoundError, UsageError
from trainfare.estimator.cost.delta import TimeAndCost, delta
from trainfare.estimator.estimate import Totals
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal, GoalKind, Plan
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.model.scope import Scope
from trainfare.model.split import EarlyTarget, SplitPlan
from trainfare.recommender.candidates import sensible_batch_sizes
from trainfare.recommender.choose import best_of, best_per_machine, in_order
from trainfare.recommender.crossovers import WinningRange, winning_ranges
from trainfare.recommender.explain.codes import reason
from trainfare.recommender.explain.context import ChoiceContext
from trainfare.recommender.explain.reasons import reasons
from trainfare.recommender.explain.spot_risk import spot_risk_reasons
from trainfare.recommender.here import Lines, rent_from_epochs
from trainfare.recommender.options import Options
from trainfare.recommender.pareto import knee
from trainfare.recommender.probing.plan import suggest_probes, suggestion_reason
from trainfare.runner.recovery import REMEMBERED_SECONDS
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history, open_history

if TYPE_CHECKING:
    from trainfare.app.figures import Figure

RUNNERS_UP = 20
"""The number of runners-up that are stored with a plan: as many as a person would look at."""

View = Literal["fare", "epochs", "batches", "all"]
EXTREMES: tuple[GoalKind, ...] = ("fastest", "cheapest")
MACHINES_DRAWN = 6
"""Machines in the figure of batch sizes."""


@dataclass(frozen=True, kw_only=True)  # without slots: estimates are made when they are read
class Recommendation:
    """The plan that is stored, and what it was chosen from."""

    plan: Plan
    profiles: tuple[Profile, ...]
    """The profiles it is based on, the leading one first."""
    eligible: Options[Totals]
    """Time and cost of the eligible candidates, within the limits or not, one per machine and market, best first."""
    totals: Options[Totals]
    """Time and cost of all candidates, best first, also those that are not eligible: the cheapest region of every
    machine and market, at every batch size and number of nodes."""
    workload: Workload
    """The workload that the estimates were made from; it can make more of them."""

    resolved_goal: Goal
    """The goal of the plan; with weights, if the user states the value of an hour."""

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """Estimates of all candidates, best first. Only those that are in the plan have bills."""
        return self._estimates(self.totals.candidates)

    @cached_property
    def alternatives(self) -> tuple[Estimate, ...]:
        """The estimates of the eligible candidates."""
        return self._estimates(self.eligible.candidates)

    @cached_property
    def machines(self) -> tuple[Estimate, ...]:
        """The best estimate of each machine and market, best first, eligible or not."""
        return self._estimates(best_per_machine(self.totals).candidates)

    def _estimates(self, candidates: Sequence[Candidate]) -> tuple[Estimate, ...]:
        extra = [e for e in (self.plan.here, self.plan.other_batch_size) if e is not None]
        known = {e.candidate: e for e in (*self.plan.runners_up, *self.plan.front, *extra)}
        if self.plan.chosen.epochs == self.workload.at(self.plan.chosen.candidate.batch_size).length.epochs:
            known[self.plan.chosen.candidate] = self.plan.chosen  # else it is only a segment
        known |= {e.candidate: e for e in self.workload.unbilled(c for c in candidates if c not in known)}
        return tuple(known[candidate] for candidate in candidates)

    def figure(self, view: View = "fare") -> "Figure":
        """Time against cost; time and cost against epochs; time and cost against batch sizes; or all of these."""
        from trainfare.app.figures import draw_time_cost, stack

        if view not in get_args(View):
            raise NotFoundError("view", view, get_args(View), field="view")
        if view == "batches" and not self._batch_sizes():
            raise UsageError(
                "The batch size of the profile is not known, so there are no batch sizes to draw. Choose another view.",
                field="view",
            )
        if view == "all":
            every = [draw_time_cost(self.plan, self.alternatives), self._epochs_figure()]
            return stack([*every, self._batches_figure()] if self._batch_sizes() else every)
        if view == "epochs":
            return self._epochs_figure()
        return self._batches_figure() if view == "batches" else draw_time_cost(self.plan, self.alternatives)

    def _epochs_figure(self) -> "Figure":
        from trainfare.app.figures import draw_epochs

        rentals = [estimate.candidate for estimate in self.alternatives]
        here = [] if self.plan.here is None else [self.plan.here.candidate]
        once, twice = (self.workload.unrounded([*rentals, *here], number) for number in (1, 2))
        # Here is always the cheapest where it is free, which needs no figure.
        paid = len(once) if not rentals or (self.plan.here and self.plan.here.usd.value) else len(rentals)
        fastest = winning_ranges(once, twice, Goal(kind="fastest"))
        cheapest = winning_ranges(once[:paid], twice[:paid], Goal(kind="cheapest"))
        return draw_epochs(self.plan, once, twice, fastest=fastest, cheapest=cheapest)

    def _batches_figure(self) -> "Figure":
        from trainfare.app.figures import draw_batches

        drawn = list(dict.fromkeys(e.candidate for e in (self.plan.chosen, *self.plan.front)))[:MACHINES_DRAWN]
        sizes = self._batch_sizes()
        workload = self.workload.with_epochs_at(sizes)
        return draw_batches(
            self.plan,
            workload.unbilled(replace(c, batch_size=size) for c in drawn for size in sizes if size >= c.nodes),
        )

    def _batch_sizes(self) -> list[int]:
        """From a quarter of the profiled batch sizes to four times as large ones: the range of predicted epochs."""
        known = sensible_batch_sizes(self.profiles, Scope(any_batch_size=True))
        return sorted(size for size in known if size is not None)


def recommend(
    profile_ids: Sequence[str] = (),
    *,
    goal: Goal | None = None,
    scope: Scope = EVERYTHING,
    early: EarlyTarget | None = None,
    split: bool = False,
    baseline: str | None = None,
    overheads: Overheads | None = None,
    settings: Settings | None = None,
    **length: Unpack[LengthKeywords],
) -> Recommendation:
    """The plan for the named profiles, or for the newest; it is stored.

    The arguments are the fields of a Question and of a StatedLength: `epochs`, `steps` or `tokens` to train, and facts
    of the profile that were not measured.
    """
    settings = settings or read_settings()
    question = Question(
        goal=goal or Goal(kind=settings.goal),
        scope=scope,
        length=StatedLength(**length),
        early=early,
        split=split,
        baseline=baseline,
        overheads=overheads,
    )
    found = answer(question, profile_ids, settings=settings)
    save_plan(found, settings)
    return found


def save_plan(found: Recommendation, settings: Settings) -> None:
    """Store the plan of a recommendation."""
    with open_history(settings.store) as history:
        history.plans.add(found.plan)


def answer(question: Question, profile_ids: Sequence[str] = (), *, settings: Settings) -> Recommendation:
    """The recommendation for a question; its plan is not stored."""
    return choose_plan(estimate_candidates(question, profile_ids, settings=settings), question)


@gc_paused()
def estimate_candidates(question: Question, profile_ids: Sequence[str] = (), *, settings: Settings) -> SearchResult:
    """Time and cost of every candidate of a question. Of its goal, they depend only on the target."""
    with open_existing_history(settings.store) as history:
        profiles = question.length.apply(select_profiles(history, profile_ids))
        starts = observed_starts(history)
        now = datetime.now(UTC)
        refusals = history.facts.refusals(since=now - timedelta(seconds=REMEMBERED_SECONDS))
    workload = build_workload(
        profiles,
        decide=partial(decide_epochs, question.length, leading=profiles[0], target=question.goal.target),
        iterations_per_epoch=question.length.iterations_per_epoch,
        overheads=question.overheads,
        settings=settings,
        starts=starts,
    )
    scope = in_catalog(question.scope, workload.catalog)
    return search(workload, profiles, scope, question.length, now, refusals)


@gc_paused()
def choose_plan(found: SearchResult, question: Question) -> Recommendation:
    """The recommendation from candidates that are estimated already: another goal, deadline or budget is answered
    without estimating them again. The scope, the length and the target are those of the question they were made for."""
    choice = choose(found, question)
    listed = choice.ordered[: 1 + RUNNERS_UP]
    others = [e for e in (choice.here, choice.other_batch_size, *choice.front) if e is not None]
    in_plan = dict.fromkeys((*listed.candidates, *(each.candidate for each in others)))
    detailed = {e.candidate: e for e in found.workload.estimate(in_plan)}
    plan = _plan(
        found,
        question,
        choice,
        listed=tuple(detailed[candidate] for candidate in listed.candidates),
        front=tuple(detailed[candidate] for candidate in choice.front.candidates),
        here=None if choice.here is None else detailed[choice.here.candidate],
        other_batch_size=None if choice.other_batch_size is None else detailed[choice.other_batch_size.candidate],
    )
    return Recommendation(
        plan=plan,
        profiles=found.profiles,
        eligible=best_per_machine(choice.eligible),
        totals=choice.totals,
        workload=found.workload,
        resolved_goal=choice.goal,
    )


def _plan(
    found: SearchResult,
    question: Question,
    choice: Choice,
    *,
    listed: tuple[Estimate, ...],
    front: tuple[Estimate, ...],
    here: Estimate | None,
    other_batch_size: Estimate | None,
) -> Plan:
    """The plan with its reasons; `listed` is the best rental and its runners-up."""
    if choice.here_rule is not None and here is not None:
        listed = (here, *listed[:RUNNERS_UP])
    split = choice.split.plan if choice.split and (question.split or not listed) else None
    chosen = listed[0] if listed else _first_segment(split)
    return Plan(
        id=new_id("n"),
        made_at=found.now,
        goal=question.goal,
        chosen=chosen,
        runners_up=listed[1:],
        considered=len(found.totals),
        reasons=reasons(_context(found, question, choice, chosen)),
        front=front,
        knee=knee(front),
        split=split,
        spot_risk=choice.spot_risk,
        here=here,
        other_batch_size=other_batch_size,
        spot_fallbacks=spot_fallbacks(found, chosen.candidate) if split is None else (),
    )


def _first_segment(split: SplitPlan | None) -> Estimate:
    if split is None:
        raise ValueError("a plan needs a single machine or a split plan")
    return split.segments[0].estimate


def _context(found: SearchResult, question: Question, choice: Choice, chosen: Estimate) -> ChoiceContext:
    workload, goal, ideal = found.workload, choice.goal, choice.ideal
    leading = workload.leading
    shortlist = choice.ordered.candidates or [chosen.candidate]
    ordered = in_order(workload.with_fixed_epochs(shortlist), goal, ideal=ideal)
    baseline = None if question.baseline is None else _baseline(question.baseline, choice)
    probes = suggest_probes(ordered, goal) if choice.here_rule is None else ()
    crossings = _crossings(workload, choice, chosen, goal)
    return ChoiceContext(
        goal=goal,
        profile=next(profile for profile in workload.predictor.profiles if profile.id == chosen.profile_id),
        chosen=chosen,
        ordered=ordered,
        compared=found.totals,
        eligible=choice.eligible,
        accepted=choice.accepted,
        ideal=ideal,
        rejections=choice.rejections,
        winning_ranges=crossings.winning_ranges,
        here=choice.here,
        here_rule=choice.here_rule,
        here_idle_factor=choice.here_idle_factor,
        rent_from=crossings.rent_from,
        other_batch_size=choice.other_batch_size,
        incompatible_offers=found.candidates.incompatible,
        old_marketplace_offers=found.candidates.old_marketplace,
        refusals=found.candidates.refused,
        now=found.now,
        renewable_prices=chosen.candidate.offer.vm_type.provider in PUBLISHED,
        spot=found.scope.spot,
        reserved=found.scope.reserved,
        today=found.now.date(),
        iterations_per_epoch=leading.iterations_per_epoch,
        planned_iterations=leading.length.iterations,
        interruptions=interruptions_on(chosen.candidate.offer),
        front=choice.front,
        knee=knee(choice.front),
        baseline=baseline,
        delta=_delta(chosen, baseline),
        probe=suggestion_reason(probes) if probes else None,
        more_why=(
            *(spot_risk_reasons(choice.spot_risk, goal) if choice.spot_risk else ()),
            *_split_reasons(question, choice),
        ),
        epochs=tuple(each for each in (leading.length.reason, _epochs_at_batch_size(workload, chosen)) if each),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crossings:
    """The choices at other numbers of epochs."""

    winning_ranges: tuple[WinningRange, ...] = ()
    """The best rental by number of epochs."""
    rent_from: tuple[int, Totals] | None = None
    """The number of epochs from which renting is chosen over the machine at hand, and the machine that is rented."""


def _crossings(workload: Workload, choice: Choice, chosen: Estimate, goal: Goal) -> _Crossings:
    """The winners by number of epochs, among the best candidate of each machine at the chosen batch size."""
    size = chosen.candidate.batch_size
    same_size = best_per_machine(choice.eligible.where_candidate(lambda candidate: candidate.batch_size == size))
    rentals = (same_size or choice.ordered).candidates or [chosen.candidate]
    here = choice.here.candidate if _is_decided_by_epochs(choice.here, goal) and choice.here is not None else None
    crossing = [*rentals, *((here,) if here is not None else ())]
    once, twice = (workload.unrounded(crossing, number) for number in (1, 2))
    ranges = winning_ranges(once[: len(rentals)], twice[: len(rentals)], goal) if choice.here_rule is None else ()
    if here is None:
        return _Crossings(winning_ranges=ranges)
    *others, own = (Lines.through(one, two) for one, two in zip(once, twice, strict=True))
    found = rent_from_epochs(own.without_other_work(choice.here_idle_factor), others, goal)
    return _Crossings(winning_ranges=ranges, rent_from=None if found is None else (found[0], once[found[1]]))


def _is_decided_by_epochs(here: Totals | None, goal: Goal) -> bool:
    """True if the number of epochs alone decides between renting and the machine at hand: with limits, weights or a
    price of it, other rules do."""
    limited = goal.deadline_seconds is not None or goal.budget_usd is not None
    return here is not None and not here.usd.value and not limited and goal.kind != "weighted"


def _delta(chosen: Estimate, baseline: Totals | None) -> float | None:
    """Sanghvi's Δ; None without a baseline, or if one of the two costs nothing."""
    if baseline is None or not chosen.usd.value or not baseline.usd.value:
        return None
    return delta(_time_and_cost(chosen), _time_and_cost(baseline))


def _split_reasons(question: Question, choice: Choice) -> tuple[Reason, ...]:
    """The reasons for a split plan if it wins; the reason against one only if the user asked for a split."""
    advice = choice.split
    if advice is None or (advice.plan is None and not question.split):
        return ()
    if advice.plan is None or question.split or not choice.ordered:
        return advice.reasons
    return (replace(advice.reasons[0], arguments={"split": True}),)


def _epochs_at_batch_size(workload: Workload, chosen: Estimate) -> Reason | None:
    """The expected number of epochs, if the chosen batch size was not profiled."""
    size, profiled = chosen.candidate.batch_size, workload.leading.profiles[0].effective_batch_size
    expected = workload.epochs_at.get(size) if size is not None else None
    if size is None or expected is None or expected.low is None or expected.high is None:
        return None
    return reason(
        "assumptions",
        "epochs_at_batch_size",
        {} if profiled is None else {"batch_sizes": profiled},
        batch_size=size,
        profiled_batch_size=profiled,
        epochs=chosen.epochs,
        otherwise=workload.leading.length.epochs,
        low=max(1, math.floor(expected.low)),
        high=math.ceil(expected.high),
        larger=profiled is not None and size > profiled,
        guess=expected.is_guess,
    )


def _baseline(machine: str, choice: Choice) -> Totals:
    """The best eligible candidate of a machine type."""
    here = () if choice.here is None else (choice.here,)
    there = choice.eligible.where_offer(lambda offer: machine in (offer.vm_type.key, offer.vm_type.name))
    own = [each for each in here if machine in (each.candidate.offer.vm_type.key, each.candidate.offer.vm_type.name)]
    best = best_of((*there, *own), choice.goal, ideal=choice.ideal)
    if best is None:
        known = {candidate.offer.vm_type.key for candidate in choice.eligible.candidates}
        known |= {each.candidate.offer.vm_type.key for each in here}
        raise NotFoundError(
            "eligible machine", machine, sorted(known), listed_by="trainfare catalog list", field="baseline"
        )
    return best


def _time_and_cost(estimate: Estimate | Totals) -> TimeAndCost:
    return TimeAndCost(seconds=estimate.seconds.value, usd=estimate.usd.value)
