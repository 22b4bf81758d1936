"""Would the first epochs on one machine and the rest on another be better than any machine alone?"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from trainfare.app.recommending.epochs import profile_epochs
from trainfare.app.recommending.workload import BatchSizeGroup, Workload
from trainfare.errors import InfeasibleError, UsageError
from trainfare.estimator.cost.bill import INSTANT, Charges
from trainfare.estimator.cost.checkpoints import Checkpoints, checkpoints_of
from trainfare.estimator.cost.delta import Spent, delta
from trainfare.estimator.cost.migration import USUAL, Rates, Side, migration_between
from trainfare.estimator.epochs.convergence import epochs_to_reach
from trainfare.estimator.estimate import estimate_all, estimate_totals
from trainfare.model.bill import Terms
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.model.split import Early, Move, Progress, Reached, Saving, Segment, SplitPlan
from trainfare.recommender.choose import IdealPoint, ideal_point
from trainfare.recommender.split.reasons import no_split_reason, split_reasons
from trainfare.recommender.split.search import (
    Course,
    Line,
    MigrationCost,
    Pair,
    Share,
    Split,
    Wanted,
    best_alone,
    drift_of,
    errs_alike,
    fast_first,
    keeps_limits,
    saving,
    shortlist,
    splits,
    wanted_of,
)

TRIED = 20
"""Pairs whose legs are estimated, best first, until one wins for sure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAdvice:
    """`legs` where two legs win for sure; `alone` is the best single machine within all limits, the early one too."""

    legs: SplitPlan | None
    alone: Estimate | None
    reasons: tuple[str, ...]
    """Why, or why not, in sentences."""


def plan_split(
    workload: Workload,
    estimates: Sequence[Estimate],
    goal: Goal,
    *,
    early: Early | None = None,
    rates: Rates = USUAL,
) -> SplitAdvice:
    """What two legs would bring. `estimates` are all that may be chosen, the best within the limits first.

    The others need not keep the limits, nor the first where none does: what misses one alone may be half of what keeps
    it. SplitPlan are looked for at the batch size of the first.
    """
    size = estimates[0].candidate.batch_size
    group = workload.at(size)
    if early is None and goal.deadline_seconds is None and goal.budget_usd is None:
        return SplitAdvice(
            legs=None, alone=estimates[0], reasons=("without a limit two legs are never better than one",)
        )
    reached = None if early is None else _early_epochs(group.profiles[0], group.length.epochs, early, goal)
    if group.length.epochs < 2:
        return _of_one_epoch(estimates[0], goal, early)
    cheapest = _best_per_machine([e for e in estimates if e.candidate.batch_size == size])
    listed = shortlist(cheapest, early_epochs=None if reached is None else round(reached.value))
    wanted = [estimates[0].candidate, *(e.candidate for e in listed)]
    search = _Search(
        workload=workload,
        group=group,
        goal=goal,
        early=early,
        reached=reached,
        rates=rates,
        wanted=tuple(wanted),
        least=ideal_point(estimates),
        best=estimates[0],
    )
    return search.advice()


def _of_one_epoch(best: Estimate, goal: Goal, early: Early | None) -> SplitAdvice:
    """What is wanted early is there when it ends."""
    late = early is not None and early.seconds is not None and best.seconds.at(goal.confidence).high > early.seconds
    keeps = keeps_limits(best.seconds, best.usd, goal) and not late
    why = "one epoch cannot be split: a move is after a whole epoch"
    return SplitAdvice(legs=None, alone=best if keeps else None, reasons=(why,))


def _best_per_machine(estimates: Sequence[Estimate]) -> list[Estimate]:
    """The cheapest region of each machine, market and number of nodes."""
    best: dict[tuple[object, ...], Estimate] = {}
    for estimate in estimates:
        candidate, offer = estimate.candidate, estimate.candidate.offer
        key = (offer.vm_type.key, offer.market, offer.held, candidate.nodes, candidate.gpus_used)
        if key not in best or estimate.usd.value < best[key].usd.value:
            best[key] = estimate
    return list(best.values())


def _early_epochs(profile: Profile, epochs: int, early: Early, goal: Goal) -> Interval:
    """After how many epochs the early figure is there, by the curve of the profile."""
    if early.seconds is None and goal.kind == "cheapest":
        raise UsageError(
            f"{early.metric}={early.value:g} is wanted early, but the goal is the cheapest, whenever that is. Say by "
            f"when ({early.metric}={early.value:g}@2h), or ask for the fastest or a weight of time."
        )
    curve = profile_epochs(profile, epochs=epochs, metric=early.metric).curve
    values, higher = (curve.values, curve.higher) if curve else ((), False)
    answer = epochs_to_reach(values, early.value, higher=higher, run=epochs)
    if answer.value is None or answer.low is None or answer.high is None:
        raise InfeasibleError(
            f"nobody can tell after how many of {epochs} epochs {early.metric} is {early.value:g}: {answer.why}. Let "
            f"the profile see more epochs: trainfare profile --epochs 10 -- {profile.program.command_line}"
        )
    if answer.value > epochs:
        raise InfeasibleError(
            f"{early.metric} {early.value:g} is expected after {answer.value:.0f} epochs, and it trains {epochs}. "
            f"Train longer: --epochs {math.ceil(answer.high)}."
        )
    return Interval(value=answer.value, low=answer.low, high=min(answer.high, epochs))


@dataclass(frozen=True, kw_only=True)
class _Search:
    """All that the pairs are made of, each worked out when it is first asked for."""

    workload: Workload
    group: BatchSizeGroup
    goal: Goal
    early: Early | None
    reached: Interval | None
    rates: Rates
    wanted: tuple[Candidate, ...]
    least: IdealPoint
    best: Estimate

    @property
    def epochs(self) -> int:
        return self.group.length.epochs

    @cached_property
    def checkpoints(self) -> Checkpoints:
        iterations = max(1, round(self.group.iterations_per_epoch))
        return checkpoints_of(self.group.profiles[0], iterations_per_epoch=iterations)

    @cached_property
    def courses(self) -> tuple[Course, ...]:
        """Of each machine once; lines without rounding, through one epoch and all of them."""
        charges = replace(self.workload.charges, terms=self._unrounded)
        n, doubt = self.epochs, self.group.length.epochs_interval
        ends = {
            (count, unsure): self._estimates(self.wanted, count, doubt if unsure else None, charges, estimate_totals)
            for count in (1, n)
            for unsure in (False, True)
        }
        at = self.goal.confidence

        def line(candidate: Candidate, unsure: bool, name: str) -> Line:
            one, many = (getattr(ends[count, unsure][candidate], name) for count in (1, n))
            return Line.through(one.at(at).high, many.at(at).high, n)

        return tuple(
            Course(
                candidate=c,
                seconds=Line.through(ends[1, False][c].seconds.value, ends[n, False][c].seconds.value, n),
                usd=Line.through(ends[1, False][c].usd.value, ends[n, False][c].usd.value, n),
                most_seconds=line(c, False, "seconds"),
                most_usd=line(c, False, "usd"),
                last_seconds=line(c, True, "seconds"),
                last_usd=line(c, True, "usd"),
            )
            for c in ends[n, False]
        )

    @cached_property
    def numbers(self) -> Wanted:
        per_epoch = self.checkpoints.per_epoch
        return wanted_of(
            self.goal,
            self.courses,
            epochs=self.epochs,
            every=max(1, math.ceil(1 / per_epoch - 1e-9)) if per_epoch else 1,
            least=self.least,
            early=self.early,
            early_epochs=self.reached,
        )

    def move(self, i: int, j: int) -> Move:
        first, second = (self._side(self.courses[place].candidate) for place in (i, j))
        return migration_between(
            first, second, profile=self.group.profiles[0], checkpoints=self.checkpoints, rates=self.rates
        )

    def toll(self, i: int, j: int) -> MigrationCost:
        move, at = self.move(i, j), self.goal.confidence
        return MigrationCost(
            seconds=move.seconds.value,
            usd=move.usd.value,
            most_seconds=move.seconds.at(at).high,
            most_usd=move.usd.at(at).high,
        )

    def advice(self) -> SplitAdvice:
        """The first pair, best first, that wins by more than its doubt once its legs are estimated as they are."""
        place = self._best_alone()
        alone = None if place is None else self._unsure(place, self.epochs)
        found = splits(self.courses, self.toll, self.numbers)
        for split in (fast_first(found, self.courses), *found[:TRIED]) if found else ():
            legs = self._within_limits(split, place)
            if legs is not None and (alone is None or legs.saving is not None):
                return self._told(legs, split, alone)
        better = found[0] if found and (place is None or found[0].score < self._score(place)) else None
        return SplitAdvice(legs=None, alone=alone, reasons=(no_split_reason(better, self.courses, alone, self.goal),))

    def _best_alone(self) -> int | None:
        """The first, which is the best within deadline and budget; of an early figure it knows nothing."""
        if self.early is not None:
            return best_alone(self.courses, self.numbers)
        return 0 if keeps_limits(self.best.seconds, self.best.usd, self.goal) else None

    def _told(self, legs: SplitPlan, split: Split, alone: Estimate | None) -> SplitAdvice:
        """With what each leg is worth, which is a matter of words only."""
        first, second = legs.legs
        k = legs.split_after
        legs = replace(
            legs,
            legs=(
                replace(first, delta=self._delta(split.first), progress=self._progress(1, k)),
                replace(second, delta=self._delta(split.second), progress=self._progress(k, self.epochs)),
            ),
        )
        seen = bool(self.checkpoints.per_epoch)
        return SplitAdvice(legs=legs, alone=alone, reasons=split_reasons(legs, self.goal, checkpoints_seen=seen))

    def _within_limits(self, split: Split, place: int | None) -> SplitPlan | None:
        """The legs at the split or next to it: rounding may have moved a limit by an epoch or two."""
        every = self.numbers.every
        for step in (0, 1, -1, 2, -2):
            after = split.after + step * every
            if 0 < after < self.epochs:
                legs = self._legs(replace(split, after=after), place)
                if keeps_limits(legs.seconds, legs.usd, self.goal) and self._in_time(legs):
                    return legs
        return None

    def _legs(self, split: Split, place: int | None) -> SplitPlan:
        k, n = split.after, self.epochs
        first_charges = replace(
            self.workload.charges, overheads=replace(self.workload.charges.overheads, results_gib=0.0)
        )  # what it has learned goes to the second machine, not home
        first = self._sure(split.first, k, first_charges)
        second = self._sure(split.second, n - k, self.workload.charges)
        move = self.move(split.first, split.second)
        alone = None if place is None else self._sure(place, n, self.workload.charges)
        won = None if alone is None or place is None else self._saving(split, place, alone, first, second, move)
        last = self._unsure(split.second, n - k)
        return SplitPlan(
            legs=(
                Segment(first_epoch=1, last_epoch=k, estimate=first),
                Segment(first_epoch=k + 1, last_epoch=n, estimate=last),
            ),
            move=move,
            seconds=first.seconds + move.seconds + last.seconds,
            usd=first.usd + move.usd + last.usd,
            instead_of=self._unsure(place, n) if won and place is not None else None,
            saving=won,
            reached=self._reached(split),
        )

    def _saving(
        self, split: Split, place: int, alone: Estimate, first: Estimate, second: Estimate, move: Move
    ) -> Saving | None:
        """In what the goal wants least of, as sure as the goal wants it."""
        numbers, at = self.numbers, self.goal.confidence
        until = numbers.early[0] if numbers.early and numbers.weighs_early else self.epochs
        k = split.after

        def share(alike: object, seconds: Interval, usd: Interval) -> Share:
            return Share(alike=alike, amount=seconds.at(at) * numbers.per_second + usd.at(at) * numbers.per_usd)

        def counted(estimate: Estimate, place: int, epochs: int) -> Interval:
            """The part of its seconds that the goal weighs."""
            line = self.courses[place].seconds
            part = line.at(epochs) / line.at(estimate.epochs) if epochs else 0.0
            return estimate.seconds * min(1.0, part)

        moved = until > k
        return saving(
            share(errs_alike(alone), counted(alone, place, until), alone.usd),
            (
                share(errs_alike(first), counted(first, split.first, min(k, until)), first.usd),
                share(errs_alike(second), counted(second, split.second, max(0, until - k)), second.usd),
                share("move", move.seconds * float(moved), move.usd),
            ),
            numbers.quantity,
            drift=self._drift(split, place),
        )

    def _drift(self, split: Split, place: int) -> tuple[float, ...]:
        doubt = self.group.length.epochs_interval
        if doubt is None:
            return ()
        toll = self.toll(split.first, split.second)
        return drift_of(self.courses, place, split, toll, self.numbers, doubt)

    def _in_time(self, legs: SplitPlan) -> bool:
        wanted = self.early.seconds if self.early else None
        return wanted is None or legs.reached is None or legs.reached.seconds.high <= wanted

    def _reached(self, split: Split) -> Reached | None:
        if self.early is None or self.reached is None:
            return None
        pair = Pair(
            first=self.courses[split.first],
            second=self.courses[split.second],
            toll=self.toll(split.first, split.second),
            wanted=self.numbers,
        )
        value, most = pair.early_seconds(split.after), pair.most_early_seconds(split.after)
        return Reached(
            early=self.early,
            epochs=self.reached,
            seconds=Interval(value=value, low=value * value / max(value, most), high=max(value, most)),
        )

    def _delta(self, place: int) -> float | None:
        """Of an epoch, against the machine with the cheapest ones."""
        cheapest = min(self.courses, key=lambda course: course.usd.per_epoch)
        work, baseline = (
            Spent(seconds=course.seconds.per_epoch, usd=course.usd.per_epoch)
            for course in (self.courses[place], cheapest)
        )
        return delta(work, baseline)

    @cached_property
    def _foreseen(self) -> tuple[str, tuple[float, ...]] | None:
        """The metric over all epochs: as seen, then the middle of the forms of its curve."""
        metric = self.early.metric if self.early else None
        found = profile_epochs(self.group.profiles[0], epochs=self.epochs, metric=metric)
        drawn = [fit.values for fit in found.fits if len(fit.values) >= self.epochs]
        if found.curve is None or not drawn:
            return None
        seen = found.curve.values
        later = [median(values[k] for values in drawn) for k in range(len(seen), self.epochs)]
        return found.curve.metric, (*seen, *later)

    def _progress(self, before: int, after: int) -> Progress | None:
        if self._foreseen is None:
            return None
        metric, values = self._foreseen
        return Progress(metric=metric, before=values[before - 1], after=values[after - 1])

    def _score(self, place: int) -> float:
        numbers, course = self.numbers, self.courses[place]
        until = numbers.early[0] if numbers.early and numbers.weighs_early else self.epochs
        return numbers.per_second * course.seconds.at(until) + numbers.per_usd * course.usd.at(self.epochs)

    def _sure(self, place: int, epochs: int, charges: Charges) -> Estimate:
        """As if it were known how many epochs there are."""
        candidate = self.courses[place].candidate
        return self._estimates((candidate,), epochs, None, charges)[candidate]

    def _unsure(self, place: int, epochs: int) -> Estimate:
        candidate = self.courses[place].candidate
        doubt = self.group.length.epochs_interval
        return self._estimates((candidate,), epochs, doubt, self.workload.charges)[candidate]

    def _estimates(
        self,
        wanted: Sequence[Candidate],
        epochs: int,
        doubt: Interval | None,
        charges: Charges,
        estimates_of: Callable[..., tuple[Estimate, ...]] = estimate_all,
    ) -> dict[Candidate, Estimate]:
        """Of the last so many epochs, or the first: what is uncertain is how many come at the end."""
        length, usual = self.group.length, float(self.group.iterations_per_epoch)
        each = usual if length.iterations is None else length.iterations / length.epochs
        left_out = self.epochs - epochs
        interval = doubt and Interval(
            value=epochs, low=max(1.0, doubt.low - left_out), high=doubt.high - left_out, confidence=doubt.confidence
        )
        found = estimates_of(
            self.workload.predictor,
            tuple(dict.fromkeys(wanted)),
            iterations_per_epoch=each,
            epochs=epochs,
            epochs_interval=interval,
            charges=charges,
        )
        return {estimate.candidate: estimate for estimate in found}

    def _unrounded(self, offer: Offer) -> Terms:
        return replace(self.workload.charges.terms(offer), billing=INSTANT)

    def _side(self, candidate: Candidate) -> Side:
        return Side(candidate=candidate, terms=self.workload.charges.terms(candidate.offer))
