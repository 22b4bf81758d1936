"""Which machine should this be trained on: every candidate estimated, one chosen, with reasons."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal, Unpack, get_args

from trainfare.app.ids import new_id
from trainfare.app.recommending.choice import Choice, choose
from trainfare.app.recommending.length import decide_epochs, epochs_expected
from trainfare.app.recommending.question import Asked, Question
from trainfare.app.recommending.scope import in_catalog
from trainfare.app.recommending.search import Search, search
from trainfare.app.recommending.workload import (
    Workload,
    build_workload,
    gc_paused,
    interruptions_on,
    select_profiles,
)
from trainfare.errors import NotFoundError, UsageError
from trainfare.estimator.cost.delta import Spent, delta
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal, GoalKind, Plan
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason, text_reason
from trainfare.model.scope import Scope
from trainfare.model.split import SplitPlan
from trainfare.recommender.candidates import sensible_batch_sizes
from trainfare.recommender.choose import best_per_machine, ideal_point, in_order
from trainfare.recommender.crossovers import winning_ranges
from trainfare.recommender.explain.case import Case
from trainfare.recommender.explain.reasons import grouped
from trainfare.recommender.pareto import knee
from trainfare.recommender.probing.plan import suggest_probes, suggestion_reason
from trainfare.recommender.spot import spot_risk_reasons
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history
from trainfare.views.reasons import sentence

if TYPE_CHECKING:
    from trainfare.app.figures import Figure

RUNNERS_UP = 20
"""How many are kept with a plan: those that a person would look at."""

View = Literal["fare", "epochs", "batches", "all"]
GOALS: tuple[GoalKind, ...] = ("fastest", "cheapest")
DRAWN = 6
"""Machines in one figure of batch sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The plan that is kept, and every estimate that it was chosen from."""

    plan: Plan
    profiles: tuple[Profile, ...]
    """Those it leans on, the leading one first."""
    estimates: tuple[Estimate, ...]
    """Best first, those that may not be chosen included; of every machine and market the cheapest region, at every
    batch size and number of nodes. Only those that are in the plan have bills."""
    alternatives: tuple[Estimate, ...]
    """Those that may be chosen, whether they keep the limits or not, one a machine and market, best first."""
    workload: Workload
    """What the estimates were made with: asks for more of them."""

    def figure(self, view: View = "fare") -> "Figure":
        """Time against cost; time and cost against epochs; against batch sizes; or all of these below one another."""
        from trainfare.app.figures import all_of, batches_of, epochs_of, fare_of

        def epochs() -> "Figure":
            shortlist = [estimate.candidate for estimate in self.alternatives]
            once, twice = (self.workload.unrounded(shortlist, number) for number in (1, 2))
            fastest, cheapest = (winning_ranges(once, twice, Goal(kind=kind)) for kind in GOALS)
            return epochs_of(self.plan, once, twice, fastest=fastest, cheapest=cheapest)

        def batches() -> "Figure":
            drawn = list({id(e.candidate): e.candidate for e in (self.plan.chosen, *self.plan.front)}.values())
            sizes = self._batch_sizes()
            workload = self.workload.knowing_epochs_at(sizes)
            wanted = [replace(c, batch_size=size) for c in drawn[:DRAWN] for size in sizes if size >= c.nodes]
            return batches_of(self.plan, workload.totals(wanted))

        if view not in get_args(View):
            raise NotFoundError("view", view, get_args(View))
        if view == "all":
            every = [fare_of(self.plan, self.alternatives), epochs()]
            return all_of([*every, batches()] if self._batch_sizes() else every)
        if view == "batches" and not self._batch_sizes():
            raise UsageError("nobody knows the batch size of the profile, so none can be drawn: --view workload.")
        return {"fare": lambda: fare_of(self.plan, self.alternatives), "epochs": epochs, "batches": batches}[view]()

    def _batch_sizes(self) -> list[int]:
        """From a quarter of the profiled ones to four times as many: farther off nobody knows the epochs."""
        known = sensible_batch_sizes(self.profiles, Scope(any_batch_size=True))
        return sorted(size for size in known if size is not None)


def recommend(
    profile_ids: Sequence[str] = (),
    *,
    goal: Goal | None = None,
    settings: Settings | None = None,
    **asked: Unpack[Asked],
) -> Recommendation:
    """The plan for the named profiles, or for the newest; it is kept in the store. `asked` are fields of a Question."""
    settings = settings or read_settings()
    found = consider(profile_ids, Question(goal=goal or Goal(kind=settings.goal), **asked), settings=settings)
    keep_plan(found, settings)
    return found


def keep_plan(found: Recommendation, settings: Settings) -> None:
    with open_history(settings.store) as history:
        history.plans.add(found.plan)


@gc_paused()
def consider(profile_ids: Sequence[str], asked: Question, *, settings: Settings) -> Recommendation:
    """The same, without keeping it."""
    with open_history(settings.store) as history:
        profiles = select_profiles(history, profile_ids)
    goal = asked.goal
    workload = build_workload(
        profiles,
        decide=partial(decide_epochs, asked.epochs, target=goal.target),
        iterations_per_epoch=asked.iterations_per_epoch,
        overheads=asked.overheads,
        settings=settings,
    )
    searched = search(workload, profiles, in_catalog(asked.scope, workload.catalog), asked.epochs, datetime.now(UTC))
    found = choose(searched, asked)
    plan = _plan(searched, asked, found)
    in_full = {id(e.candidate): e for e in (plan.chosen, *plan.runners_up, *plan.front)}
    ordered = in_order(searched.estimates, goal, least=ideal_point(found.may))
    may = {id(e) for e in found.may}
    alternatives = best_per_machine(e for e in ordered if id(e) in may)
    return Recommendation(
        plan=plan,
        profiles=profiles,
        estimates=tuple(in_full.get(id(e.candidate), e) for e in ordered),
        alternatives=tuple(in_full.get(id(e.candidate), e) for e in alternatives),
        workload=searched.workload,
    )


def _plan(searched: Search, asked: Question, found: Choice) -> Plan:
    workload, goal = searched.workload, asked.goal
    at_knee = knee(found.front)
    ordered = found.ordered[: 1 + RUNNERS_UP]
    whole = {id(e.candidate): e for e in workload.estimate([e.candidate for e in (*ordered, *found.front)])}
    split = None if found.split is None or not (asked.split or not ordered) else found.split.plan
    first = whole[id(ordered[0].candidate)] if ordered else _first_segment(split)
    topics = grouped(_case(searched, asked, found, first))
    return Plan(
        id=new_id("n"),
        made_at=searched.now,
        goal=goal,
        chosen=first,
        runners_up=tuple(whole[id(e.candidate)] for e in ordered[1:]),
        considered=len(searched.estimates),
        reasons=tuple(text_reason(topic, reason) for topic, reasons in topics.items() for reason in reasons),
        front=tuple(whole[id(e.candidate)] for e in found.front),
        knee=None if at_knee is None else whole[id(at_knee.candidate)],
        split=split,
        spot_risk=found.risk,
    )


def _first_segment(split: SplitPlan | None) -> Estimate:
    if split is None:
        raise ValueError("a plan needs a single machine or a split plan")
    return split.segments[0].estimate


def _case(searched: Search, asked: Question, found: Choice, chosen: Estimate) -> Case:
    workload, goal, scope = searched.workload, asked.goal, searched.scope
    least = ideal_point(found.may)
    shortlist = [e.candidate for e in found.ordered] or [chosen.candidate]
    size = chosen.candidate.batch_size
    at_its_size = (e for e in found.may if e.candidate.batch_size == size)
    crossing = [e.candidate for e in best_per_machine(in_order(at_its_size, goal, least=least))] or shortlist
    with_fixed_epochs = in_order(workload.with_fixed_epochs(shortlist), goal, least=least)
    baseline = None if asked.baseline is None else _named(asked.baseline, found.may, goal)
    probes = suggest_probes(with_fixed_epochs, goal)
    leading = workload.leading
    offer = chosen.candidate.offer
    return Case(
        goal=goal,
        profile=next(profile for profile in workload.predictor.profiles if profile.id == chosen.profile_id),
        ordered=(replace(with_fixed_epochs[0], bill=chosen.bill, usd=chosen.usd), *with_fixed_epochs[1:]),
        estimates=searched.estimates,
        winning_ranges=winning_ranges(workload.unrounded(crossing, 1), workload.unrounded(crossing, 2), goal),
        foreign=searched.found.foreign,
        guessed_epochs=leading.length.guessed,
        spot=scope.spot,
        reserved=scope.reserved,
        today=searched.now.date(),
        iterations_per_epoch=leading.iterations_per_epoch,
        planned_iterations=leading.length.iterations,
        interruptions=interruptions_on(offer),
        may=found.may,
        front=found.front,
        knee=knee(found.front),
        baseline=baseline,
        delta=None if baseline is None else delta(_spent(chosen), _spent(baseline)),
        probe=sentence(suggestion_reason(probes)) if probes else None,
        legs=(*(spot_risk_reasons(found.risk, goal) if found.risk else ()), *map(sentence, _split_reasons(asked, found))),
        batch_epochs=_batch_epochs(workload, chosen),
    )


def _split_reasons(asked: Question, found: Choice) -> tuple[Reason, ...]:
    """The reasons for a split plan if it wins; the reason against one only if the user asked for a split."""
    if found.split is None or (found.split.plan is None and not asked.split):
        return ()
    if found.split.plan is None or asked.split or not found.ordered:
        return found.split.reasons
    return (replace(found.split.reasons[0], arguments={"split": True}),)


def _batch_epochs(workload: Workload, chosen: Estimate) -> str | None:
    size, profiled = chosen.candidate.batch_size, workload.leading.profiles[0].effective_batch_size
    answer = workload.epochs_at.get(size) if size is not None else None
    if answer is None or answer.low is None or answer.high is None:
        return None
    larger = "; larger batches can lose accuracy" if size and profiled and size > profiled else ""
    return (
        f"at batch size {size} instead of {profiled}, {epochs_expected(chosen.epochs, workload.leading.length.epochs)} "
        f"(90 %: {max(1, math.floor(answer.low))} – {math.ceil(answer.high)}), the learning rate set to suit it{larger}"
        f". --batch {profiled} keeps it"
    )


def _named(machine: str, estimates: Sequence[Estimate], goal: Goal) -> Estimate:
    """The best that may be chosen of a machine type."""
    there = [e for e in estimates if machine in (e.candidate.offer.vm_type.key, e.candidate.offer.vm_type.name)]
    if not there:
        known = {e.candidate.offer.vm_type.key for e in estimates}
        raise NotFoundError("machine to choose from called", machine, sorted(known), listed_by="trainfare catalog list")
    return in_order(there, goal, least=ideal_point(estimates))[0]


def _spent(estimate: Estimate) -> Spent:
    return Spent(seconds=estimate.seconds.value, usd=estimate.usd.value)
