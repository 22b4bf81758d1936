"""From estimates to a split plan: the first pair of machines that beats every single machine by more than its
uncertainty, once its two segments are estimated in full."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from trainfare.errors import InfeasibleError, Remedy, UsageError
from trainfare.estimator.cost.bill import Charges
from trainfare.estimator.cost.checkpoints import Checkpoints, checkpoints_of
from trainfare.estimator.cost.delta import TimeAndCost, delta
from trainfare.estimator.cost.migration import DEFAULT_RATES, MigrationEnd, TransferRates, migration_between
from trainfare.estimator.epochs.convergence import epochs_to_reach
from trainfare.estimator.epochs.profile_epochs import profile_epochs, profile_epochs_remedy
from trainfare.estimator.estimate import CandidateEstimator, TotalsTable, TrainingWork
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval, bound_exponent
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.model.split import (
    EarlyTarget,
    EarlyTargetEstimate,
    Migration,
    Progress,
    Saving,
    Segment,
    SplitPlan,
)
from trainfare.recommender.choose import IdealPoint, ideal_point
from trainfare.recommender.split.reasons import no_split_reason, single_machine_reason, split_reasons
from trainfare.recommender.split.saving import CostTerm, error_group, estimate_saving, saving_changes
from trainfare.recommender.split.search import (
    EpochLine,
    LinearGoal,
    MachineCost,
    MachinePair,
    MigrationCost,
    Split,
    best_single_machine,
    find_splits,
    linear_goal,
    prefer_faster_first,
)
from trainfare.recommender.split.shortlist import shortlist

MAX_PAIRS = 20
"""Pairs whose segments are estimated in full, best first, until one wins."""
NEARBY_SPLITS = (0, 1, -1, 2, -2)
"""Checkpoints around the best split that are tried: rounded billing can shift a limit by an epoch or two."""
PROFILED_EPOCHS = 10
"""Epochs that a profile should cover before an early target can be predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAdvice:
    """The split plan if one wins by more than its uncertainty, else None; and the reasons for either.

    `single_machine` is the best single machine within all limits, that of an early target included.
    """

    plan: SplitPlan | None
    single_machine: Estimate | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTraining:
    """The training that may be split: one batch size, one length."""

    predictor: StepTimePredictor
    charges: Charges
    profile: Profile
    work: TrainingWork
    iterations_per_epoch: int
    """The iterations of a complete epoch; those of `work` are an average if the last epoch is shorter."""

    @property
    def epochs(self) -> int:
        return self.work.epochs


def plan_split(
    training: SplitTraining,
    estimates: Sequence[Estimate],
    goal: Goal,
    *,
    early: EarlyTarget | None = None,
    rates: TransferRates = DEFAULT_RATES,
    ideal: IdealPoint | None = None,
) -> SplitAdvice:
    """The best split plan for a goal with a limit. `estimates` are the eligible candidates, the best first, and `ideal`
    is the ideal point if it belongs to more candidates than those given.

    Candidates outside the limits take part: a machine that is too slow alone may be one half of a split that is in
    time. Splits are searched at the batch size of the first estimate.
    """
    best = estimates[0]
    if early is None and goal.deadline_seconds is None and goal.budget_usd is None:
        return SplitAdvice(plan=None, single_machine=best, reasons=(single_machine_reason("split_needs_limit"),))
    early_epochs = None if early is None else expected_early_epochs(training, early, goal)
    if training.epochs < 2:
        return _advice_for_one_epoch(best, goal, early)
    size = best.candidate.batch_size
    cheapest = _cheapest_regions([e for e in estimates if e.candidate.batch_size == size])
    listed = shortlist(cheapest, early_epochs=None if early_epochs is None else round(early_epochs.value))
    planner = _SplitPlanner(
        training=training,
        goal=goal,
        early=early,
        early_epochs=early_epochs,
        rates=rates,
        candidates=(best.candidate, *(e.candidate for e in listed)),
        ideal=ideal or ideal_point(estimates),
        best=best,
    )
    return planner.advice()


def expected_early_epochs(training: SplitTraining, early: EarlyTarget, goal: Goal) -> Interval:
    """The number of epochs after which the early target is reached, by the curve of the profile."""
    target, profile, epochs = f"{early.metric}={early.value:g}", training.profile, training.epochs
    if early.seconds is None and goal.kind == "cheapest":
        raise UsageError(
            f"{target} has no time limit, and the goal is the lowest cost, whenever the training ends. Give the early "
            "target a time limit, or choose the fastest goal or a weight of time.",
            field="early",
            remedies=[Remedy({"early": f"{target}@2h"}), Remedy({"goal": "fastest"})],
        )
    curve = profile_epochs(profile, epochs=epochs, metric=early.metric).curve
    values, higher = (curve.values, curve.higher) if curve else ((), False)
    answer = epochs_to_reach(values, early.value, higher=higher, run_epochs=epochs)
    if answer.value is None or answer.low is None or answer.high is None:
        raise InfeasibleError(
            f"the epoch of {epochs} at which {early.metric} reaches {early.value:g} cannot be predicted: {answer.why}. "
            "Profile more epochs.",
            field="early",
            remedies=[profile_epochs_remedy(profile, PROFILED_EPOCHS)],
        )
    if answer.value > epochs:
        raise InfeasibleError(
            f"{early.metric} is expected to reach {early.value:g} after {answer.value:.0f} epochs, but the training "
            f"has {epochs}. Train longer.",
            field="early",
            remedies=[Remedy({"epochs": math.ceil(answer.high)})],
        )
    return Interval(value=answer.value, low=answer.low, high=min(answer.high, epochs))


def _advice_for_one_epoch(best: Estimate, goal: Goal, early: EarlyTarget | None) -> SplitAdvice:
    """A training of one epoch is never split; its early target is reached at its end."""
    late = early is not None and early.seconds is not None and best.seconds.upper_bound(goal.confidence) > early.seconds
    within_limits = _is_within_limits(best.seconds, best.usd, goal) and not late
    return SplitAdvice(
        plan=None,
        single_machine=best if within_limits else None,
        reasons=(single_machine_reason("one_epoch_cannot_be_split"),),
    )


def _cheapest_regions(estimates: Sequence[Estimate]) -> list[Estimate]:
    """The cheapest region of each machine type, market and number of nodes."""
    best: dict[tuple[object, ...], Estimate] = {}
    for estimate in estimates:
        candidate, offer = estimate.candidate, estimate.candidate.offer
        key = (offer.vm_type.key, offer.market, offer.held, candidate.nodes, candidate.gpus_used)
        if key not in best or estimate.usd.value < best[key].usd.value:
            best[key] = estimate
    return list(best.values())


def _is_within_limits(seconds: Interval, usd: Interval, goal: Goal) -> bool:
    """True if both are within the deadline and the budget with the confidence of the goal."""
    late = goal.deadline_seconds is not None and seconds.upper_bound(goal.confidence) > goal.deadline_seconds
    too_expensive = goal.budget_usd is not None and usd.upper_bound(goal.confidence) > goal.budget_usd
    return not late and not too_expensive


@dataclass(frozen=True, kw_only=True)
class _SplitPlanner:
    """The search over pairs of machines; each property is computed once, on first use."""

    training: SplitTraining
    goal: Goal
    early: EarlyTarget | None
    early_epochs: Interval | None
    rates: TransferRates
    candidates: tuple[Candidate, ...]
    ideal: IdealPoint
    best: Estimate

    @property
    def epochs(self) -> int:
        return self.training.epochs

    @cached_property
    def estimator(self) -> CandidateEstimator:
        return CandidateEstimator(self.training.predictor, self.training.charges)

    @cached_property
    def first_estimator(self) -> CandidateEstimator:
        """The estimator of first segments: the results are downloaded once, at the end of the second segment."""
        charges = self.training.charges
        overheads = replace(charges.overheads, results_gib=0.0)
        return CandidateEstimator(self.training.predictor, replace(charges, overheads=overheads))

    @cached_property
    def checkpoints(self) -> Checkpoints:
        iterations = max(1, round(self.training.iterations_per_epoch))
        return checkpoints_of(self.training.profile, iterations_per_epoch=iterations)

    @cached_property
    def machines(self) -> tuple[MachineCost, ...]:
        """The lines of each machine, through one epoch and all epochs, without rounded billing."""
        n, candidates = self.epochs, tuple(dict.fromkeys(self.candidates))
        ends = {
            (count, uncertain): {
                estimate.candidate: estimate
                for estimate in self._unrounded(candidates, self._work(count, uncertain=uncertain))
            }
            for count in (1, n)
            for uncertain in (False, True)
        }

        def high_line(candidate: Candidate, uncertain: bool, name: str) -> EpochLine:
            one, many = (getattr(ends[count, uncertain][candidate], name).high for count in (1, n))
            return EpochLine.through(one, many, n)

        return tuple(
            MachineCost(
                candidate=c,
                seconds=EpochLine.through(ends[1, False][c].seconds.value, ends[n, False][c].seconds.value, n),
                usd=EpochLine.through(ends[1, False][c].usd.value, ends[n, False][c].usd.value, n),
                high_seconds=high_line(c, False, "seconds"),
                high_usd=high_line(c, False, "usd"),
                last_high_seconds=high_line(c, True, "seconds"),
                last_high_usd=high_line(c, True, "usd"),
            )
            for c in ends[n, False]
        )

    @cached_property
    def linear_goal(self) -> LinearGoal:
        per_epoch = self.checkpoints.per_epoch
        return linear_goal(
            self.goal,
            self.machines,
            epochs=self.epochs,
            checkpoint_every=max(1, math.ceil(1 / per_epoch - 1e-9)) if per_epoch else 1,
            ideal=self.ideal,
            early=self.early,
            early_epochs=self.early_epochs,
            exponent=bound_exponent(self.best.seconds.confidence, self.goal.confidence),
        )

    def migration(self, i: int, j: int) -> Migration:
        first, second = (self._side(self.machines[index].candidate) for index in (i, j))
        return migration_between(
            first, second, profile=self.training.profile, checkpoints=self.checkpoints, rates=self.rates
        )

    def migration_cost(self, i: int, j: int) -> MigrationCost:
        migration = self.migration(i, j)
        return MigrationCost(
            seconds=migration.seconds.value,
            usd=migration.usd.value,
            high_seconds=migration.seconds.high,
            high_usd=migration.usd.high,
        )

    def advice(self) -> SplitAdvice:
        """The first pair, best first, that wins by more than its uncertainty with its segments estimated in full."""
        single = self._best_single_machine()
        single_estimate = None if single is None else self._estimate_uncertain(single, self.epochs)
        splits = find_splits(self.machines, self.migration_cost, self.linear_goal)
        for split in (prefer_faster_first(splits, self.machines), *splits[:MAX_PAIRS]) if splits else ():
            plan = self._plan_within_limits(split, single)
            if plan is not None and (single_estimate is None or plan.saving is not None):
                return self._advice_for(plan, split, single_estimate)
        better = splits[0] if splits and (single is None or splits[0].score < self._score(single)) else None
        reason = no_split_reason(better, self.machines, single_estimate, self.goal)
        return SplitAdvice(plan=None, single_machine=single_estimate, reasons=(reason,))

    def _best_single_machine(self) -> int | None:
        """The index of the best machine within the limits. The first candidate is the best within deadline and budget,
        but it was chosen without regard to an early target."""
        if self.early is not None:
            return best_single_machine(self.machines, self.linear_goal)
        return 0 if _is_within_limits(self.best.seconds, self.best.usd, self.goal) else None

    def _advice_for(self, plan: SplitPlan, split: Split, single_machine: Estimate | None) -> SplitAdvice:
        """The plan with Δ and progress added to its segments: these explain it and decide nothing."""
        first, second = plan.segments
        k = plan.split_after
        plan = replace(
            plan,
            segments=(
                replace(first, delta=self._delta(split.first), progress=self._progress(1, k)),
                replace(second, delta=self._delta(split.second), progress=self._progress(k, self.epochs)),
            ),
        )
        reasons = split_reasons(plan, self.goal, writes_checkpoints=bool(self.checkpoints.per_epoch))
        return SplitAdvice(plan=plan, single_machine=single_machine, reasons=reasons)

    def _plan_within_limits(self, split: Split, single: int | None) -> SplitPlan | None:
        """The plan at the split or at a checkpoint next to it, if it is within the limits."""
        for step in NEARBY_SPLITS:
            after = split.after + step * self.linear_goal.checkpoint_every
            if 0 < after < self.epochs:
                plan = self._plan(replace(split, after=after), single)
                if _is_within_limits(plan.seconds, plan.usd, self.goal) and self._reaches_target_in_time(plan):
                    return plan
        return None

    def _plan(self, split: Split, single: int | None) -> SplitPlan:
        k, n = split.after, self.epochs
        first = self._estimate_fixed(split.first, k, self.first_estimator)
        second = self._estimate_fixed(split.second, n - k, self.estimator)
        migration = self.migration(split.first, split.second)
        saving = None if single is None else self._saving(split, single, first, second, migration)
        last = self._estimate_uncertain(split.second, n - k)
        return SplitPlan(
            segments=(
                Segment(first_epoch=1, last_epoch=k, estimate=first),
                Segment(first_epoch=k + 1, last_epoch=n, estimate=last),
            ),
            migration=migration,
            seconds=first.seconds + migration.seconds + last.seconds,
            usd=first.usd + migration.usd + last.usd,
            single_machine=self._estimate_uncertain(single, n) if saving and single is not None else None,
            saving=saving,
            early_target=self._early_target(split),
        )

    def _saving(
        self, split: Split, single: int, first: Estimate, second: Estimate, migration: Migration
    ) -> Saving | None:
        """The saving in the quantity that the goal minimises, at the confidence of the goal."""
        goal, at = self.linear_goal, self.goal.confidence
        alone = self._estimate_fixed(single, self.epochs, self.estimator)
        until = goal.early_epochs[0] if goal.early_epochs and goal.weighs_early_time else self.epochs
        k = split.after

        def term(group: object, seconds: Interval, usd: Interval) -> CostTerm:
            amount = seconds.at_confidence(at) * goal.per_second + usd.at_confidence(at) * goal.per_usd
            return CostTerm(error_group=group, amount=amount)

        def weighed_seconds(estimate: Estimate, index: int, epochs: int) -> Interval:
            """The part of the seconds of an estimate that the goal weighs: those until `epochs`."""
            line = self.machines[index].seconds
            part = line.at(epochs) / line.at(estimate.epochs) if epochs else 0.0
            return estimate.seconds * min(1.0, part)

        migrates_before = until > k
        return estimate_saving(
            term(error_group(alone), weighed_seconds(alone, single, until), alone.usd),
            (
                term(error_group(first), weighed_seconds(first, split.first, min(k, until)), first.usd),
                term(error_group(second), weighed_seconds(second, split.second, max(0, until - k)), second.usd),
                term("migration", migration.seconds * float(migrates_before), migration.usd),
            ),
            goal.quantity,
            epoch_changes=self._epoch_changes(split, single),
        )

    def _epoch_changes(self, split: Split, single: int) -> tuple[float, ...]:
        """The changes of the saving for the fewest and the most epochs; empty if their number is certain."""
        interval = self.training.work.epochs_interval
        if interval is None:
            return ()
        migration = self.migration_cost(split.first, split.second)
        return saving_changes(self.machines, single, split, migration, self.linear_goal, interval)

    def _reaches_target_in_time(self, plan: SplitPlan) -> bool:
        limit, target = self.early.seconds if self.early else None, plan.early_target
        return limit is None or target is None or target.seconds.upper_bound(self.goal.confidence) <= limit

    def _early_target(self, split: Split) -> EarlyTargetEstimate | None:
        if self.early is None or self.early_epochs is None:
            return None
        pair = MachinePair(
            first=self.machines[split.first],
            second=self.machines[split.second],
            migration=self.migration_cost(split.first, split.second),
            goal=self.linear_goal,
        )
        value = pair.early_seconds(split.after)
        high = max(value, pair.high_early_seconds(split.after))
        return EarlyTargetEstimate(
            target=self.early,
            epochs=self.early_epochs,
            seconds=Interval(value=value, low=value * value / high, high=high),
        )

    def _delta(self, index: int) -> float | None:
        """Sanghvi's Δ of one epoch, relative to the machine with the cheapest epochs."""
        cheapest = min(self.machines, key=lambda machine: machine.usd.per_epoch)
        work, baseline = (
            TimeAndCost(seconds=machine.seconds.per_epoch, usd=machine.usd.per_epoch)
            for machine in (self.machines[index], cheapest)
        )
        return delta(work, baseline)

    @cached_property
    def _expected_metric(self) -> tuple[str, tuple[float, ...]] | None:
        """The metric over all epochs: the profiled values, then the median of the fitted curves."""
        metric = self.early.metric if self.early else None
        found = profile_epochs(self.training.profile, epochs=self.epochs, metric=metric)
        fitted = [fit.values for fit in found.fits if len(fit.values) >= self.epochs]
        if found.curve is None or not fitted:
            return None
        profiled = found.curve.values
        later = [median(values[k] for values in fitted) for k in range(len(profiled), self.epochs)]
        return found.curve.metric, (*profiled, *later)

    def _progress(self, before: int, after: int) -> Progress | None:
        if self._expected_metric is None:
            return None
        metric, values = self._expected_metric
        return Progress(metric=metric, before=values[before - 1], after=values[after - 1])

    def _score(self, index: int) -> float:
        goal, machine = self.linear_goal, self.machines[index]
        until = goal.early_epochs[0] if goal.early_epochs and goal.weighs_early_time else self.epochs
        return goal.per_second * machine.seconds.at(until) + goal.per_usd * machine.usd.at(self.epochs)

    def _estimate_fixed(self, index: int, epochs: int, estimator: CandidateEstimator) -> Estimate:
        """The estimate without the uncertainty of the number of epochs."""
        work = self._work(epochs, uncertain=False)
        return estimator.details((self.machines[index].candidate,), lambda _: work)[0]

    def _estimate_uncertain(self, index: int, epochs: int) -> Estimate:
        """The estimate with the uncertainty of the number of epochs."""
        work = self._work(epochs, uncertain=True)
        return self.estimator.details((self.machines[index].candidate,), lambda _: work)[0]

    def _unrounded(self, candidates: Sequence[Candidate], work: TrainingWork) -> TotalsTable:
        """Times and costs without rounding of the billed time."""
        return self.estimator.table(candidates, lambda _: work, unrounded=True)

    def _work(self, epochs: int, *, uncertain: bool) -> TrainingWork:
        """A part of the training with this many epochs.

        The uncertain epochs are the last ones, so the interval of a part is that of all epochs without the others.
        """
        work = self.training.work
        interval = work.epochs_interval if uncertain else None
        if interval is not None:
            left_out = work.epochs - epochs
            interval = Interval(
                value=epochs,
                low=max(1.0, interval.low - left_out),
                high=interval.high - left_out,
                confidence=interval.confidence,
            )
        return replace(work, epochs=epochs, epochs_interval=interval)

    def _side(self, candidate: Candidate) -> MigrationEnd:
        return MigrationEnd(candidate=candidate, terms=self.training.charges.terms(candidate.offer))
