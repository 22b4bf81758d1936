"""Wiring of split plans: the workload at one batch size as the training that may be split."""

from collections.abc import Sequence

from trainfare.app.recommending.workload import Workload
from trainfare.estimator.cost.migration import DEFAULT_RATES, TransferRates
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.model.split import EarlyTarget
from trainfare.recommender.choose import IdealPoint
from trainfare.recommender.split import planning
from trainfare.recommender.split.planning import SplitAdvice, SplitTraining


def plan_split(
    workload: Workload,
    estimates: Sequence[Estimate],
    goal: Goal,
    *,
    early: EarlyTarget | None = None,
    rates: TransferRates = DEFAULT_RATES,
    ideal: IdealPoint | None = None,
) -> SplitAdvice:
    """The best split plan, at the batch size of the first of `estimates`: the eligible candidates of that batch size,
    the best first. `ideal` is the ideal point of all batch sizes, if there are several."""
    group = workload.at(estimates[0].candidate.batch_size)
    training = SplitTraining(
        predictor=workload.predictor,
        charges=workload.charges,
        profile=group.profiles[0],
        work=group.work(),
        iterations_per_epoch=group.iterations_per_epoch,
    )
    return planning.plan_split(training, estimates, goal, early=early, rates=rates, ideal=ideal)
