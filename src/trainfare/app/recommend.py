"""Which machine should this be trained on: every candidate estimated, one chosen, with reasons."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, get_args

from trainfare.app.fare import (
    Fare,
    gather,
    interruptions_on,
    profiles_asked,
    require_epochs,
    without_collecting,
)
from trainfare.app.ids import new_id
from trainfare.app.legs import LegsAdvice, legs_for
from trainfare.app.length import decide_epochs, epochs_expected
from trainfare.app.scope import in_catalog
from trainfare.app.spot import relied_on
from trainfare.errors import AskedWrongly, Infeasible, NotFound
from trainfare.estimator.delta import Spent, delta
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.legs import Early, Legs
from trainfare.model.plan import Goal, GoalKind, Plan
from trainfare.model.profile import Profile
from trainfare.model.scope import Scope
from trainfare.model.spot import SpotRisk
from trainfare.recommender.candidates import Candidates, candidates, sensible_batch_sizes
from trainfare.recommender.case import Case
from trainfare.recommender.choose import choosable, in_order, least_of, one_a_machine
from trainfare.recommender.crossovers import stretches
from trainfare.recommender.explain import grouped
from trainfare.recommender.limits import infeasible, within
from trainfare.recommender.pareto import front, knee
from trainfare.recommender.probe_plan import sentence, suggest
from trainfare.recommender.spot import spot_risk_reasons
from trainfare.recommender.words import candidate_words, duration_words, limit_words, percent, plural
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

if TYPE_CHECKING:
    from trainfare.app.figures import Figure

RUNNERS_UP = 20
"""How many are kept with a plan: those that a person would look at."""
EVERYTHING = Scope()

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
    fare: Fare
    """What the estimates were made with: asks for more of them."""

    def figure(self, view: View = "fare") -> "Figure":
        """Time against cost; time and cost against epochs; against batch sizes; or all of these below one another."""
        from trainfare.app.figures import all_of, batches_of, epochs_of, fare_of

        def epochs() -> "Figure":
            shortlist = [estimate.candidate for estimate in self.alternatives]
            once, twice = (self.fare.on_a_line(shortlist, number) for number in (1, 2))
            fastest, cheapest = (stretches(once, twice, Goal(kind=kind)) for kind in GOALS)
            return epochs_of(self.plan, once, twice, fastest=fastest, cheapest=cheapest)

        def batches() -> "Figure":
            drawn = list({id(e.candidate): e.candidate for e in (self.plan.chosen, *self.plan.front)}.values())
            sizes = self._batch_sizes()
            fare = self.fare.knowing_epochs_at(sizes)
            wanted = [replace(c, batch_size=size) for c in drawn[:DRAWN] for size in sizes if size >= c.nodes]
            return batches_of(self.plan, fare.in_brief(wanted))

        if view not in get_args(View):
            raise NotFound("view", view, get_args(View))
        if view == "all":
            every = [fare_of(self.plan, self.alternatives), epochs()]
            return all_of([*every, batches()] if self._batch_sizes() else every)
        if view == "batches" and not self._batch_sizes():
            raise AskedWrongly("nobody knows the batch size of the profile, so none can be drawn: --view fare.")
        return {"fare": lambda: fare_of(self.plan, self.alternatives), "epochs": epochs, "batches": batches}[view]()

    def _batch_sizes(self) -> list[int]:
        """From a quarter of the profiled ones to four times as many: farther off nobody knows the epochs."""
        known = sensible_batch_sizes(self.profiles, Scope(any_batch_size=True))
        return sorted(size for size in known if size is not None)


class Asked(TypedDict, total=False):
    """The fields of a Question that `recommend` takes as they are."""

    scope: Scope
    epochs: int | None
    early: Early | None
    legs: bool
    baseline: str | None
    iterations_per_epoch: int | None
    overheads: Overheads | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a recommendation is asked for.

    `scope` says what may be chosen from: providers, machines, clusters, batch sizes, markets. With `legs` the training
    may begin on one machine and end on another; `early` is a figure that is wanted before it ends. `baseline` is a
    machine to hold the chosen one against.
    """

    goal: Goal
    scope: Scope = EVERYTHING
    epochs: int | None = None
    early: Early | None = None
    legs: bool = False
    baseline: str | None = None
    iterations_per_epoch: int | None = None
    overheads: Overheads | None = None

    def __post_init__(self) -> None:
        require_epochs(self.epochs)
        if self.epochs is not None and self.goal.target is not None:
            raise AskedWrongly("--epochs and --target both say how long to train: give one of them.")


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
        history.add_plan(found.plan)


@without_collecting()
def consider(profile_ids: Sequence[str], asked: Question, *, settings: Settings) -> Recommendation:
    """The same, without keeping it."""
    with open_history(settings.store) as history:
        profiles = profiles_asked(history, profile_ids)
    goal = asked.goal
    fare = gather(
        profiles,
        decide=partial(decide_epochs, asked.epochs, target=goal.target),
        iterations_per_epoch=asked.iterations_per_epoch,
        overheads=asked.overheads,
        settings=settings,
    )
    search = _search(fare, profiles, in_catalog(asked.scope, fare.catalog), asked.epochs, datetime.now(UTC))
    found = _choose(search, asked)
    plan = _plan(search, asked, found)
    in_full = {id(e.candidate): e for e in (plan.chosen, *plan.runners_up, *plan.front)}
    ordered = in_order(search.estimates, goal, least=least_of(found.may))
    may = {id(e) for e in found.may}
    alternatives = one_a_machine(e for e in ordered if id(e) in may)
    return Recommendation(
        plan=plan,
        profiles=profiles,
        estimates=tuple(in_full.get(id(e.candidate), e) for e in ordered),
        alternatives=tuple(in_full.get(id(e.candidate), e) for e in alternatives),
        fare=search.fare,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """What was looked through."""

    fare: Fare
    scope: Scope
    found: Candidates
    estimates: tuple[Estimate, ...]
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    may: tuple[Estimate, ...]
    """Those that may be chosen, whether they keep the limits or not."""
    ordered: tuple[Estimate, ...]
    """Those that keep them, one a machine, best first."""
    front: tuple[Estimate, ...]
    risk: SpotRisk | None
    legs: LegsAdvice | None


def _search(fare: Fare, profiles: Sequence[Profile], scope: Scope, epochs: int | None, now: datetime) -> _Search:
    if scope.batch_sizes and profiles[0].batch_size is None:
        raise AskedWrongly(f"nobody knows the batch size of profile {profiles[0].id}, so no other can be asked for.")
    sizes = sensible_batch_sizes(profiles, scope)
    if not (epochs and len(sizes) == len(scope.batch_sizes) == 1):  # what is stated is of the one that is asked for
        fare = fare.knowing_epochs_at(sizes)
    unknown = {size for size, answer in fare.epochs_at.items() if answer.value is None}
    told = [size for size in sizes if size not in unknown]
    if not told:
        raise Infeasible(_no_epochs(fare, sizes))
    offers = (*fare.catalog.offers, *fare.catalog.commitments)
    found = candidates(
        offers,
        profiles,
        today=now.date(),
        scope=scope,
        batch_sizes=told,
        interrupted=lambda offer: interruptions_on(offer).per_hour.value,
    )
    if not found.candidates:
        raise Infeasible(
            f"nothing is left to choose from: {plural(found.outside, 'offer')} could run it, and none is what --only, "
            "--quota and --batch leave. "
            + ("Machines are yours that your machines.toml lists." if scope.yours else "Leave one of them out.")
        )
    estimates = tuple(e for e in fare.in_brief(found.candidates) if _is_safe(e, fare, scope))
    return _Search(fare=fare, scope=scope, found=found, estimates=estimates, now=now)


def _is_safe(estimate: Estimate, fare: Fare, scope: Scope) -> bool:
    """A batch size that nobody asked for is proposed only where it surely fits in memory."""
    size = estimate.candidate.batch_size
    if size in scope.batch_sizes or any(group.profiles[0].whole_batch_size == size for group in fare.groups):
        return True
    return estimate.memory is not None and estimate.memory.verdict == "fits"


def _no_epochs(fare: Fare, sizes: Sequence[int | None]) -> str:
    size = next(size for size in sizes if size is not None)
    return (
        f"nobody can tell how many epochs a batch size of {size} takes: {fare.epochs_at[size].why}. "
        f"Profile it at that size, or state them of it alone: --batch {size} --epochs N."
    )


def _choose(search: _Search, asked: Question) -> _Choice:
    goal, may = asked.goal, _may(search)
    least = least_of(may)
    kept = in_order(within(may, goal), goal, least=least)
    relied = relied_on(one_a_machine(kept), search.estimates, goal)
    within_limits = {id(e) for e in kept}
    others = in_order((e for e in may if id(e) not in within_limits), goal, least=least)
    limited = goal.deadline_seconds is not None or goal.budget_usd is not None or asked.early is not None
    first = {id(e) for e in relied.ordered}
    rest = (e for e in (*kept, *others) if id(e) not in first)
    in_legs = None
    if limited or asked.legs:
        in_legs = _in_legs(search.fare, asked, relied.ordered, tuple(rest))
    ordered = relied.ordered if asked.early is None else _in_time(in_legs, relied.ordered, asked)
    if not ordered and (in_legs is None or in_legs.legs is None):
        raise _nothing_keeps(goal, may, kept, search.estimates)
    risk = relied.risk if ordered[:1] == relied.ordered[:1] else None
    if goal.deadline_seconds is not None:  # spot counts only where it was looked into
        may = tuple(e for e in may if id(e) in first or e.candidate.offer.market != "spot")
    return _Choice(may=may, ordered=ordered, front=front(may), risk=risk, legs=in_legs)


def _may(search: _Search) -> tuple[Estimate, ...]:
    """Those that may be chosen; `Infeasible`, and why, where there is none."""
    profile = search.fare.leading.profiles[0]
    if not search.estimates and not any(p.steady_iteration_seconds for p in search.fare.believer.profiles):
        raise Infeasible(
            f"profile {profile.id} saw only its first iteration, which says nothing of those that follow. Let it see "
            f"more: trainfare profile --iterations 6 -- {profile.program.command_line}"
        )
    left = [candidate.offer.vm_type for candidate in search.found.candidates]
    if not search.estimates and not any(vm_type.gpu for vm_type in left):
        raise Infeasible(
            "only machines without a GPU are left, and how long it takes there is told by no profile but one of such a "
            f"machine: trainfare profile --on {left[0].key} -- {profile.program.command_line}"
        )
    scope, fitting = search.scope, sum(e.fits is not False for e in search.estimates)
    try:
        return choosable(search.estimates, spot=scope.spot, reserved=scope.reserved)
    except Infeasible:
        if not fitting:
            raise
        raise Infeasible(
            f"nothing is left to choose from: of the {plural(fitting, 'candidate')} that would do, all are on spot or "
            "bound to a commitment. --spot or --reserved lets them in."
        ) from None


def _nothing_keeps(
    goal: Goal, may: Sequence[Estimate], kept: Sequence[Estimate], estimates: Sequence[Estimate]
) -> Infeasible:
    if kept:
        best = candidate_words(kept[0].candidate)
        return Infeasible(
            f"only spot machines would end in time, if none were taken away, {best} first; but going by how long such "
            "machines stay and stay away, they would too often be late, even going over to on demand at the last "
            "moment. Give a later --deadline, or less --confidence."
        )
    chosen_from = {id(e) for e in may}
    unasked = [e for e in estimates if e.fits is not False and id(e) not in chosen_from]
    return infeasible(may, goal, unasked=unasked)


def _in_legs(fare: Fare, asked: Question, ordered: Sequence[Estimate], rest: Sequence[Estimate]) -> LegsAdvice | None:
    """What must be there in time is put on machines that stay: how long one waits for the next spot machine is looked
    into of one machine, and not of legs."""
    timed = asked.goal.deadline_seconds is not None or (asked.early is not None and asked.early.seconds is not None)
    if not timed:
        return legs_for(fare, (*ordered, *rest), asked.goal, early=asked.early)
    if ordered and asked.early is None and ordered[0].candidate.offer.market == "spot":
        why_not = "under a deadline no legs are planned on spot: how long one waits is looked into of one machine alone"
        return LegsAdvice(legs=None, alone=ordered[0], reasons=(why_not,))
    steady = [e for e in (*ordered, *rest) if e.candidate.offer.market != "spot"]
    return legs_for(fare, steady, asked.goal, early=asked.early) if steady else None


def _in_time(in_legs: LegsAdvice | None, ordered: Sequence[Estimate], asked: Question) -> tuple[Estimate, ...]:
    """The one machine that also has the early figure in time; of the others nobody has looked."""
    alone = None if in_legs is None else in_legs.alone
    if alone is None and in_legs is not None and in_legs.legs is None:
        raise Infeasible(f"no machine alone {_early_words(asked)}, and {in_legs.reasons[0]}.")
    if alone is None:
        return ()
    return tuple(e for e in ordered if e.candidate == alone.candidate) or (alone,)


def _early_words(asked: Question) -> str:
    """`has val_accuracy at 0.9 within 2 h with 90 % confidence and ends within …`."""
    early, limits = asked.early, limit_words(asked.goal, one=True)
    if early is None or early.seconds is None:
        return limits
    said = f"has {early.metric} at {early.value:g} within {duration_words(early.seconds)}"
    return f"{said} and {limits}" if limits else f"{said} with {percent(asked.goal.confidence)} confidence"


def _plan(search: _Search, asked: Question, found: _Choice) -> Plan:
    fare, goal = search.fare, asked.goal
    at_knee = knee(found.front)
    ordered = found.ordered[: 1 + RUNNERS_UP]
    whole = {id(e.candidate): e for e in fare.estimate([e.candidate for e in (*ordered, *found.front)])}
    in_legs = None if found.legs is None or not (asked.legs or not ordered) else found.legs.legs
    first = whole[id(ordered[0].candidate)] if ordered else _first_leg(in_legs)
    topics = grouped(_case(search, asked, found, first))
    return Plan(
        id=new_id("n"),
        made_at=search.now,
        goal=goal,
        chosen=first,
        runners_up=tuple(whole[id(e.candidate)] for e in ordered[1:]),
        considered=len(search.estimates),
        reasons=tuple(reason for reasons in topics.values() for reason in reasons),
        topics=tuple(topic for topic, reasons in topics.items() for _ in reasons),
        front=tuple(whole[id(e.candidate)] for e in found.front),
        knee=None if at_knee is None else whole[id(at_knee.candidate)],
        legs=in_legs,
        spot_risk=found.risk,
    )


def _first_leg(legs: Legs | None) -> Estimate:
    if legs is None:
        raise ValueError("a plan has a machine or legs")
    return legs.legs[0].estimate


def _case(search: _Search, asked: Question, found: _Choice, chosen: Estimate) -> Case:
    fare, goal, scope = search.fare, asked.goal, search.scope
    least = least_of(found.may)
    shortlist = [e.candidate for e in found.ordered] or [chosen.candidate]
    size = chosen.candidate.batch_size
    at_its_size = (e for e in found.may if e.candidate.batch_size == size)
    crossing = [e.candidate for e in one_a_machine(in_order(at_its_size, goal, least=least))] or shortlist
    equally_long = in_order(fare.equally_long(shortlist), goal, least=least)
    baseline = None if asked.baseline is None else _named(asked.baseline, found.may, goal)
    probes = suggest(equally_long, goal)
    leading = fare.leading
    offer = chosen.candidate.offer
    return Case(
        goal=goal,
        profile=next(profile for profile in fare.believer.profiles if profile.id == chosen.profile_id),
        ordered=(replace(equally_long[0], bill=chosen.bill, usd=chosen.usd), *equally_long[1:]),
        estimates=search.estimates,
        stretches=stretches(fare.on_a_line(crossing, 1), fare.on_a_line(crossing, 2), goal),
        foreign=search.found.foreign,
        guessed_epochs=leading.length.guessed,
        spot=scope.spot,
        reserved=scope.reserved,
        today=search.now.date(),
        iterations_per_epoch=leading.iterations_per_epoch,
        planned_iterations=leading.length.iterations,
        interruptions=interruptions_on(offer),
        may=found.may,
        front=found.front,
        knee=knee(found.front),
        baseline=baseline,
        delta=None if baseline is None else delta(_spent(chosen), _spent(baseline)),
        probe=sentence(probes) if probes else None,
        legs=(*(spot_risk_reasons(found.risk, goal) if found.risk else ()), *_legs_sentences(asked, found)),
        batch_epochs=_batch_epochs(fare, chosen),
    )


def _legs_sentences(asked: Question, found: _Choice) -> tuple[str, ...]:
    """Said where they win; where they do not, only to who asked for them."""
    if found.legs is None or (found.legs.legs is None and not asked.legs):
        return ()
    if found.legs.legs is None or asked.legs or not found.ordered:
        return found.legs.reasons
    return (f"{found.legs.reasons[0]}; so it is planned only with --legs",)


def _batch_epochs(fare: Fare, chosen: Estimate) -> str | None:
    size, profiled = chosen.candidate.batch_size, fare.leading.profiles[0].whole_batch_size
    answer = fare.epochs_at.get(size) if size is not None else None
    if answer is None or answer.low is None or answer.high is None:
        return None
    larger = "; larger batches can lose accuracy" if size and profiled and size > profiled else ""
    return (
        f"at batch size {size} instead of {profiled}, {epochs_expected(chosen.epochs, fare.leading.length.epochs)} "
        f"(90 %: {max(1, math.floor(answer.low))} – {math.ceil(answer.high)}), the learning rate set to suit it{larger}"
        f". --batch {profiled} keeps it"
    )


def _named(machine: str, estimates: Sequence[Estimate], goal: Goal) -> Estimate:
    """The best that may be chosen of a machine type."""
    there = [e for e in estimates if machine in (e.candidate.offer.vm_type.key, e.candidate.offer.vm_type.name)]
    if not there:
        known = {e.candidate.offer.vm_type.key for e in estimates}
        raise NotFound("machine to choose from called", machine, sorted(known), listed_by="trainfare catalog list")
    return in_order(there, goal, least=least_of(estimates))[0]


def _spent(estimate: Estimate) -> Spent:
    return Spent(seconds=estimate.seconds.value, usd=estimate.usd.value)
