"""Split plans from profiles, catalog and terms, checked against every split estimated one by one."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.makers import make_profile
from trainfare.app.recommending.split import plan_split
from trainfare.app.recommending.workload import TrainingLength, Workload, build_workload
from trainfare.errors import InfeasibleError, NotFoundError, TrainfareError, UsageError
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.profile import Epoch, Profile
from trainfare.model.split import EarlyTarget, SplitPlan
from trainfare.recommender.choose import in_order
from trainfare.recommender.limits import within_limits
from trainfare.recommender.split.planning import SplitAdvice
from trainfare.settings import Settings
from trainfare.views.reasons import sentence

EPOCHS = 200
FAST, CHEAP = "aws/g5.xlarge", "aws/g4dn.xlarge"
CURVE = tuple(Epoch(number=k, loss=1 / (0.3 * k + 0.4) + 0.2) for k in range(1, 9))


def on(machine: str, iteration: float, **changes: object) -> Profile:
    fields = {
        "id": f"p{machine}",
        "host": Host(name="there", vm_type=machine),
        "init_seconds": 5.0,
        "iteration_seconds": (iteration,) * 40,
        "validation_seconds": (),
        "iterations_per_epoch": 1000,
        "samples": 64_000,
        "loss": (),
        "curve": CURVE,
    }
    return make_profile(**(fields | changes))


def make_workload(
    tmp_path: Path, *profiles: Profile, length: TrainingLength | None = None, overheads: Overheads | None = None
) -> Workload:
    return build_workload(
        profiles,
        decide=lambda _profile, _iterations: length or TrainingLength(epochs=EPOCHS),
        iterations_per_epoch=None,
        overheads=overheads,
        settings=Settings(
            store=str(tmp_path / "h.db"), machines=str(tmp_path / "m.toml"), prices=str(tmp_path / "prices")
        ),
    )


def estimates_of(workload: Workload, goal: Goal, machines: Sequence[str] = (FAST, CHEAP)) -> tuple[Estimate, ...]:
    """Estimates on demand in one region, those within the limits first."""
    offers = [
        next(
            offer
            for offer in workload.catalog.offers
            if (offer.vm_type.key, offer.market, offer.region) == (key, "on_demand", "us-east-1")
        )
        for key in machines
    ]
    every = workload.estimate([Candidate(offer=offer, nodes=1, batch_size=64) for offer in offers])
    within = in_order(within_limits(every, goal), goal)
    return *within, *(e for e in in_order(every, goal) if e not in within)


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    """The fast machine ($1.006 an hour) is 1.6 times as fast as the cheap one ($0.526): each is better in one way."""
    return make_workload(tmp_path, on(FAST, 0.30), on(CHEAP, 0.48))


def advise(workload: Workload, goal: Goal, early: EarlyTarget | None = None) -> SplitAdvice:
    return plan_split(workload, estimates_of(workload, goal), goal, early=early)


def found(advice: SplitAdvice) -> SplitPlan:
    assert advice.plan is not None, advice.reasons
    return advice.plan


def between(workload: Workload, share: float) -> Goal:
    """A deadline between the times of the fast and the cheap machine: `share` of the way from one to the other."""
    ends = sorted(e.seconds.upper_bound(0.9) for e in estimates_of(workload, Goal()))
    return Goal(deadline_seconds=ends[0] + share * (ends[1] - ends[0]))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_a_deadline_between_two_machines_is_met_by_a_split(workload: Workload, share: float) -> None:
    goal = between(workload, share)
    plan = found(advise(workload, goal))
    machines = [segment.estimate.candidate.offer.vm_type.key for segment in plan.segments]
    assert machines == [FAST, CHEAP]
    assert goal.deadline_seconds is not None
    assert plan.seconds.upper_bound(0.9) <= goal.deadline_seconds
    assert plan.single_machine is not None
    assert plan.single_machine.candidate.offer.vm_type.key == FAST
    assert plan.saving is not None
    assert plan.usd.value < plan.single_machine.usd.value
    assert plan.saving.amount.value == pytest.approx(plan.single_machine.usd.value - plan.usd.value)


def test_no_other_split_within_the_deadline_is_cheaper(workload: Workload) -> None:
    goal = between(workload, 0.5)
    plan = found(advise(workload, goal))
    first, second = (segment.estimate.candidate for segment in plan.segments)
    costs = {}
    for k in range(1, EPOCHS):
        one, two = (
            workload.estimate([candidate], epochs)[0] for candidate, epochs in ((first, k), (second, EPOCHS - k))
        )
        total = one.seconds + plan.migration.seconds + two.seconds
        if total.upper_bound(0.9) <= (goal.deadline_seconds or 0):
            costs[k] = one.usd.value + plan.migration.usd.value + two.usd.value
    assert min(costs.values()) == pytest.approx(costs[plan.split_after], rel=2e-3)


def test_more_confidence_splits_later(workload: Workload) -> None:
    goal = between(workload, 0.5)
    confident = Goal(deadline_seconds=goal.deadline_seconds, confidence=0.99)
    assert found(advise(workload, confident)).split_after > found(advise(workload, goal)).split_after


def test_a_budget_between_two_machines_buys_time(workload: Workload) -> None:
    ends = sorted(e.usd.upper_bound(0.9) for e in estimates_of(workload, Goal()))
    goal = Goal(kind="fastest", budget_usd=ends[0] + 0.5 * (ends[1] - ends[0]))
    plan = found(advise(workload, goal))
    assert plan.usd.upper_bound(0.9) <= (goal.budget_usd or 0)
    assert plan.saving is not None
    assert plan.saving.quantity == "seconds"


def test_a_split_is_planned_if_no_single_machine_is_within_both_limits(workload: Workload) -> None:
    times = sorted(e.seconds.upper_bound(0.9) for e in estimates_of(workload, Goal()))
    costs = sorted(e.usd.upper_bound(0.9) for e in estimates_of(workload, Goal()))
    goal = Goal(deadline_seconds=sum(times) / 2, budget_usd=costs[0] + 0.9 * (costs[1] - costs[0]))
    assert within_limits(estimates_of(workload, goal), goal) == ()
    advice = advise(workload, goal)
    plan = found(advice)
    assert (advice.single_machine, plan.single_machine, plan.saving) == (None, None, None)
    assert advice.reasons[0].values["single_machine"] is None


def test_without_a_limit_no_split_is_searched(workload: Workload) -> None:
    advice = advise(workload, Goal())
    assert advice.plan is None
    assert [reason.code for reason in advice.reasons] == ["split_needs_limit"]


def test_a_deadline_that_the_cheapest_machine_meets_needs_no_split(workload: Workload) -> None:
    advice = advise(workload, Goal(deadline_seconds=1e6))
    assert advice.plan is None
    assert [reason.code for reason in advice.reasons] == ["no_split_is_better"]


def test_a_saving_smaller_than_its_uncertainty_is_not_planned(tmp_path: Path) -> None:
    """Eight iterations that vary by a tenth do not show which machine has the cheaper epochs."""

    def noisy(machine: str, iteration: float) -> Profile:
        factors = (1.0, 1.0, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9)
        return on(machine, iteration, iteration_seconds=tuple(iteration * factor for factor in factors))

    workload = make_workload(tmp_path, noisy(FAST, 0.30), noisy(CHEAP, 0.48))
    advice = advise(workload, between(workload, 0.5))
    assert advice.plan is None
    assert advice.single_machine is not None
    (reason,) = advice.reasons
    assert reason.code == "split_saving_uncertain"
    assert cast("float", reason.values["usd"]) < advice.single_machine.usd.value


def test_two_unmeasured_machines_are_not_split(tmp_path: Path) -> None:
    profile = make_profile(iterations_per_epoch=1000, samples=64_000, loss=(), device=None)
    workload = make_workload(tmp_path, profile)
    advice = advise(workload, between(workload, 0.5))
    assert advice.plan is None
    assert advice.single_machine is not None


def test_a_migration_that_costs_more_than_it_saves_is_not_planned(tmp_path: Path) -> None:
    """The data set takes hours to download to the second machine."""
    profiles = on(FAST, 0.30), on(CHEAP, 0.48)
    heavy = make_workload(tmp_path, *profiles, overheads=Overheads(data_gib=2000.0))
    assert advise(heavy, between(heavy, 0.5)).plan is None


def test_an_early_target_is_trained_on_the_fast_machine_and_the_rest_on_the_cheap_one(workload: Workload) -> None:
    """Sanghvi: the target is reached as early as on the fastest machine, and the rest is as cheap as possible."""
    advice = advise(workload, Goal(kind="fastest"), EarlyTarget(metric="loss", value=0.5))
    plan = found(advice)
    assert plan.early_target is not None
    assert plan.split_after == round(plan.early_target.epochs.value)
    assert [segment.estimate.candidate.offer.vm_type.key for segment in plan.segments] == [FAST, CHEAP]
    first, second = plan.segments
    assert (first.change_per_usd or 0) > 3 * (second.change_per_usd or 1)
    assert first.delta is not None
    assert second.delta == pytest.approx(1.0)
    assert "early_target_expected" in [reason.code for reason in advice.reasons]


def test_an_early_target_with_a_time_is_a_limit(workload: Workload) -> None:
    """With much time the cheap machine meets it alone, with little none does, in between a split does."""
    fast = found(advise(workload, Goal(kind="fastest"), EarlyTarget(metric="loss", value=0.5)))
    assert fast.early_target is not None
    in_time = fast.early_target.seconds.upper_bound(0.9)
    plan = found(advise(workload, Goal(), EarlyTarget(metric="loss", value=0.5, seconds=in_time * 1.01)))
    assert plan.early_target is not None
    assert plan.early_target.seconds.upper_bound(0.9) <= in_time * 1.01
    assert advise(workload, Goal(), EarlyTarget(metric="loss", value=0.5, seconds=in_time * 4)).plan is None
    late = advise(workload, Goal(), EarlyTarget(metric="loss", value=0.5, seconds=in_time / 4))
    assert (late.plan, late.single_machine) == (None, None)


@pytest.mark.parametrize(
    ("early", "error", "message"),
    [
        (EarlyTarget(metric="loss", value=0.5), UsageError, "has no time limit"),
        (EarlyTarget(metric="loss", value=-5.0, seconds=3600.0), InfeasibleError, "cannot be predicted"),
        (EarlyTarget(metric="cosiness", value=0.5, seconds=3600.0), NotFoundError, "cosiness"),
    ],
)
def test_an_early_target_that_cannot_be_predicted_is_an_error(
    workload: Workload, early: EarlyTarget, error: type[TrainfareError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        advise(workload, Goal(), early)
    assert raised.value.field in ("early", "metric")


def test_uncertain_epochs_are_within_the_deadline_too(tmp_path: Path) -> None:
    uncertain = TrainingLength(epochs=EPOCHS, epochs_interval=Interval(value=EPOCHS, low=150, high=250))
    workload = make_workload(tmp_path, on(FAST, 0.30), on(CHEAP, 0.48), length=uncertain)
    goal = between(workload, 0.6)
    plan = found(advise(workload, goal))
    assert plan.seconds.upper_bound(0.9) <= (goal.deadline_seconds or 0)
    assert plan.segments[1].estimate.epochs_interval is not None


def test_the_split_comes_after_an_epoch_with_a_checkpoint(tmp_path: Path) -> None:
    every_fifth = {"iteration_seconds": (0.30,) * 100, "iterations_per_epoch": 20, "checkpoint_seconds": (0.5,)}
    workload = make_workload(
        tmp_path,
        on(FAST, 0.30, **every_fifth),
        on(CHEAP, 0.48, **(every_fifth | {"iteration_seconds": (0.48,) * 100})),
        length=TrainingLength(epochs=2000),
    )
    assert found(advise(workload, between(workload, 0.5))).split_after % 5 == 0


def test_the_reasons_explain_the_split(workload: Workload) -> None:
    goal = between(workload, 0.5)
    advice = advise(workload, goal)
    plan = found(advice)
    reasons = {reason.code: reason for reason in advice.reasons}
    assert list(reasons) == ["split_plan", "migration_cost", "split_deltas", "split_progress", "program_must_resume"]
    said = sentence(reasons["split_plan"])
    assert f"epochs 1 – {plan.split_after} on aws g5.xlarge" in said
    assert f"epochs {plan.split_after + 1} – {EPOCHS} on aws g4dn.xlarge" in said
    assert said.endswith("relative to aws g5.xlarge alone")
    assert reasons["program_must_resume"].values["writes_checkpoints"] is False


def test_a_split_plan_comes_back_from_json(workload: Workload) -> None:
    plan = found(advise(workload, between(workload, 0.5)))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=SplitPlan) == plan


def test_one_epoch_is_not_split(tmp_path: Path) -> None:
    workload = make_workload(tmp_path, on(FAST, 0.30), on(CHEAP, 0.48), length=TrainingLength(epochs=1))
    advice = advise(workload, Goal(deadline_seconds=1e6))
    assert advice.plan is None
    assert advice.single_machine is not None
    assert [reason.code for reason in advice.reasons] == ["one_epoch_cannot_be_split"]


def test_a_program_that_counts_iterations_keeps_its_short_last_epoch(tmp_path: Path) -> None:
    """199.1 epochs: the segments together train as many iterations as a single machine."""
    length = TrainingLength(epochs=EPOCHS, iterations=199_100)
    workload = make_workload(tmp_path, on(FAST, 0.30), on(CHEAP, 0.48), length=length)
    plan = found(advise(workload, between(workload, 0.5)))
    trained = sum(
        phase.seconds.value / segment.estimate.iteration_seconds.value
        for segment in plan.segments
        for phase in segment.estimate.phases
        if phase.name == "steady iterations"
    )
    assert trained == pytest.approx(199_100 - 2, abs=1)


def test_a_weighted_goal_is_split_if_its_weight_prefers_the_cheap_machine(workload: Workload) -> None:
    """1.6 times as long for 0.84 of the cost: a split wins with a weight of 0.1 on time, but not with 0.6."""
    limit = between(workload, 0.6).deadline_seconds
    plan = found(advise(workload, Goal(kind="weighted", weight_time=0.1, deadline_seconds=limit)))
    assert plan.saving is not None
    assert plan.saving.quantity == "score"
    assert plan.seconds.upper_bound(0.9) <= (limit or 0)
    assert advise(workload, Goal(kind="weighted", weight_time=0.6, deadline_seconds=limit)).plan is None
