"""SplitPlan found from profiles, catalog and terms, against every split estimated one by one."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.makers import make_profile
from trainfare.app.recommending.split import SplitAdvice, plan_split
from trainfare.app.recommending.workload import TrainingLength, Workload, build_workload
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.profile import Epoch, Profile
from trainfare.model.split import Early, SplitPlan
from trainfare.recommender.choose import in_order
from trainfare.recommender.limits import within
from trainfare.settings import Settings

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


def fare_of(
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
    """On demand in one region, those that keep the limits first."""
    offers = [
        next(o for o in workload.catalog.offers if (o.vm_type.key, o.market, o.region) == (key, "on_demand", "us-east-1"))
        for key in machines
    ]
    every = workload.estimate([Candidate(offer=offer, nodes=1, batch_size=64) for offer in offers])
    kept = in_order(within(every, goal), goal)
    return *kept, *(e for e in in_order(every, goal) if e not in kept)


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    """Twice and a half as fast at 1.006 $ an hour as at 0.526 $ would win alone; 1.6 times does not."""
    return fare_of(tmp_path, on(FAST, 0.30), on(CHEAP, 0.48))


def advise(workload: Workload, goal: Goal, early: Early | None = None) -> SplitAdvice:
    return plan_split(workload, estimates_of(workload, goal), goal, early=early)


def found(advice: SplitAdvice) -> SplitPlan:
    assert advice.legs is not None, advice.reasons
    return advice.legs


def between(workload: Workload, share: float) -> Goal:
    """A deadline so far on the way from what the fast machine takes to what the cheap one does."""
    ends = sorted(e.seconds.high for e in estimates_of(workload, Goal()))
    return Goal(deadline_seconds=ends[0] + share * (ends[1] - ends[0]))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_a_deadline_between_two_machines_is_met_by_both(workload: Workload, share: float) -> None:
    goal = between(workload, share)
    legs = found(advise(workload, goal))
    machines = [leg.estimate.candidate.offer.vm_type.key for leg in legs.legs]
    assert machines == [FAST, CHEAP]
    assert goal.deadline_seconds is not None
    assert legs.seconds.high <= goal.deadline_seconds
    assert legs.instead_of is not None
    assert legs.instead_of.candidate.offer.vm_type.key == FAST
    assert legs.saving is not None
    assert legs.usd.value < legs.instead_of.usd.value
    assert legs.saving.amount.value == pytest.approx(legs.instead_of.usd.value - legs.usd.value)


def test_no_split_that_keeps_the_deadline_is_cheaper(workload: Workload) -> None:
    goal = between(workload, 0.5)
    legs = found(advise(workload, goal))
    first, second = (leg.estimate.candidate for leg in legs.legs)
    costs = {}
    for k in range(1, EPOCHS):
        one, two = workload.estimate([first], k)[0], workload.estimate([second], EPOCHS - k)[0]
        whole = one.seconds + legs.move.seconds + two.seconds
        if whole.high <= (goal.deadline_seconds or 0):
            costs[k] = one.usd.value + legs.move.usd.value + two.usd.value
    assert min(costs.values()) == pytest.approx(costs[legs.split_after], rel=2e-3)


def test_a_surer_deadline_moves_later(workload: Workload) -> None:
    goal = between(workload, 0.5)
    sure = Goal(deadline_seconds=goal.deadline_seconds, confidence=0.99)
    assert found(advise(workload, sure)).split_after > found(advise(workload, goal)).split_after


def test_a_budget_between_two_machines_buys_time(workload: Workload) -> None:
    ends = sorted(e.usd.high for e in estimates_of(workload, Goal()))
    goal = Goal(kind="fastest", budget_usd=ends[0] + 0.5 * (ends[1] - ends[0]))
    legs = found(advise(workload, goal))
    assert legs.usd.high <= (goal.budget_usd or 0)
    assert legs.saving is not None
    assert legs.saving.quantity == "seconds"


def test_both_limits_that_no_machine_keeps_alone(workload: Workload) -> None:
    times = sorted(e.seconds.high for e in estimates_of(workload, Goal()))
    costs = sorted(e.usd.high for e in estimates_of(workload, Goal()))
    goal = Goal(deadline_seconds=sum(times) / 2, budget_usd=costs[0] + 0.9 * (costs[1] - costs[0]))
    assert within(estimates_of(workload, goal), goal) == ()
    advice = advise(workload, goal)
    legs = found(advice)
    assert (advice.alone, legs.instead_of, legs.saving) == (None, None, None)
    assert "no single machine keeps that" in advice.reasons[0]


def test_without_a_limit_nothing_is_looked_for(workload: Workload) -> None:
    assert advise(workload, Goal()).legs is None


def test_a_deadline_that_the_cheapest_keeps_needs_no_legs(workload: Workload) -> None:
    advice = advise(workload, Goal(deadline_seconds=1e6))
    assert advice.legs is None
    assert "no two machines" in advice.reasons[0]


def test_a_gain_that_is_in_doubt_is_told_and_not_taken(tmp_path: Path) -> None:
    """Of two machines that nobody measured, the one that looks cheaper an epoch may not be."""
    workload = fare_of(tmp_path, make_profile(iterations_per_epoch=1000, samples=64_000, loss=(), device=None))
    advice = advise(workload, between(workload, 0.5))
    assert advice.legs is None
    assert advice.alone is not None


def test_a_move_that_costs_more_than_it_saves_is_not_made(tmp_path: Path) -> None:
    """Data that takes hours to bring to the second machine."""
    profiles = on(FAST, 0.30), on(CHEAP, 0.48)
    heavy = fare_of(tmp_path, *profiles, overheads=Overheads(data_gib=2000.0))
    assert advise(heavy, between(heavy, 0.5)).legs is None


def test_the_steep_part_on_the_fast_machine_where_a_loss_is_wanted_early(workload: Workload) -> None:
    """Sanghvi's recommendation: the loss is there as soon as the fastest machine has it, the rest costs the least."""
    advice = advise(workload, Goal(kind="fastest"), Early(metric="loss", value=0.5))
    legs = found(advice)
    assert legs.reached is not None
    assert legs.split_after == round(legs.reached.epochs.value)
    assert [leg.estimate.candidate.offer.vm_type.key for leg in legs.legs] == [FAST, CHEAP]
    first, second = legs.legs
    assert (first.gained_per_usd or 0) > 3 * (second.gained_per_usd or 1)
    assert first.delta is not None
    assert second.delta == pytest.approx(1.0)
    assert any("loss 0.5 is expected after epoch" in reason for reason in advice.reasons)


def test_a_loss_by_a_time_is_a_limit(workload: Workload) -> None:
    """With much time the cheap machine alone keeps it, with little none does, in between both do."""
    fast = found(advise(workload, Goal(kind="fastest"), Early(metric="loss", value=0.5)))
    assert fast.reached is not None
    in_time = fast.reached.seconds.high
    legs = found(advise(workload, Goal(), Early(metric="loss", value=0.5, seconds=in_time * 1.01)))
    assert legs.reached is not None
    assert legs.reached.seconds.high <= in_time * 1.01
    assert advise(workload, Goal(), Early(metric="loss", value=0.5, seconds=in_time * 4)).legs is None
    none = advise(workload, Goal(), Early(metric="loss", value=0.5, seconds=in_time / 4))
    assert (none.legs, none.alone) == (None, None)


@pytest.mark.parametrize(
    ("early", "error", "said"),
    [
        (Early(metric="loss", value=0.5), UsageError, "Say by when"),
        (Early(metric="loss", value=-5.0, seconds=3600.0), InfeasibleError, "nobody can tell"),
        (Early(metric="cosiness", value=0.5, seconds=3600.0), NotFoundError, "cosiness"),
    ],
)
def test_what_cannot_be_told_early_is_said(workload: Workload, early: Early, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        advise(workload, Goal(), early)


def test_where_the_number_of_epochs_is_in_doubt_the_deadline_still_holds(tmp_path: Path) -> None:
    doubt = TrainingLength(epochs=EPOCHS, epochs_interval=Interval(value=EPOCHS, low=150, high=250))
    workload = fare_of(tmp_path, on(FAST, 0.30), on(CHEAP, 0.48), length=doubt)
    goal = between(workload, 0.6)
    legs = found(advise(workload, goal))
    assert legs.seconds.high <= (goal.deadline_seconds or 0)
    assert legs.legs[1].estimate.epochs_interval is not None


def test_a_program_that_writes_every_fifth_epoch_is_moved_after_one_of_these(tmp_path: Path) -> None:
    seen = {"iteration_seconds": (0.30,) * 100, "iterations_per_epoch": 20, "checkpoint_seconds": (0.5,)}
    workload = fare_of(
        tmp_path,
        on(FAST, 0.30, **seen),
        on(CHEAP, 0.48, **(seen | {"iteration_seconds": (0.48,) * 100})),
        length=TrainingLength(epochs=2000),
    )
    assert found(advise(workload, between(workload, 0.5))).split_after % 5 == 0


def test_the_reasons_say_where_it_is_split_and_what_it_takes(workload: Workload) -> None:
    goal = between(workload, 0.5)
    advice = advise(workload, goal)
    legs = found(advice)
    said = " | ".join(advice.reasons)
    assert f"epochs 1 – {legs.split_after} on aws g5.xlarge" in said
    assert f"epochs {legs.split_after + 1} – {EPOCHS} on aws g4dn.xlarge" in said
    assert "less than aws g5.xlarge alone" in said
    assert "the move takes" in said
    assert "none was seen while profiling" in said


def test_found_legs_come_back_from_json(workload: Workload) -> None:
    legs = found(advise(workload, between(workload, 0.5)))
    assert msgspec.json.decode(msgspec.json.encode(legs), type=SplitPlan) == legs


def test_one_epoch_has_no_legs(tmp_path: Path) -> None:
    workload = fare_of(tmp_path, on(FAST, 0.30), on(CHEAP, 0.48), length=TrainingLength(epochs=1))
    advice = advise(workload, Goal(deadline_seconds=1e6))
    assert advice.legs is None
    assert advice.alone is not None
    assert "one epoch" in advice.reasons[0]


def test_where_the_program_counts_in_iterations_the_last_epoch_is_as_short_as_it_is(tmp_path: Path) -> None:
    """199.1 epochs: the legs together train as much as the machine alone."""
    length = TrainingLength(epochs=EPOCHS, iterations=199_100)
    workload = fare_of(tmp_path, on(FAST, 0.30), on(CHEAP, 0.48), length=length)
    legs = found(advise(workload, between(workload, 0.5)))
    trained = sum(
        phase.seconds.value / leg.estimate.iteration_seconds.value
        for leg in legs.legs
        for phase in leg.estimate.phases
        if phase.name == "steady iterations"
    )
    assert trained == pytest.approx(199_100 - 2, abs=1)


def test_a_weighted_goal_is_better_in_legs_where_it_would_rather_have_the_cheap_machine(workload: Workload) -> None:
    """1.6 times as long for 0.84 of the money: with a tenth of the weight on time, but not with six."""
    limit = between(workload, 0.6).deadline_seconds
    legs = found(advise(workload, Goal(kind="weighted", weight_time=0.1, deadline_seconds=limit)))
    assert legs.saving is not None
    assert legs.saving.quantity == "score"
    assert legs.seconds.high <= (limit or 0)
    assert advise(workload, Goal(kind="weighted", weight_time=0.6, deadline_seconds=limit)).legs is None
