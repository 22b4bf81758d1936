"""The recommendation as data: rejections, reasons, and estimates that are made when they are read."""

from typing import Any

import pytest

from tests.makers import make_profile, make_program
from trainfare.app.recommending.plans import list_plans, show_plan
from trainfare.app.recommending.question import Question
from trainfare.app.recommending.recommend import (
    Recommendation,
    answer,
    choose_plan,
    estimate_candidates,
    recommend,
)
from trainfare.app.stated import StatedLength
from trainfare.errors import InfeasibleError, NotFoundError, Remedy, UsageError
from trainfare.model.plan import Goal, Target
from trainfare.model.profile import Epoch
from trainfare.model.reason import Reason
from trainfare.model.scope import Scope
from trainfare.settings import read_settings
from trainfare.store.open import open_history

COMMAND = make_program(command=("python", "train.py", "--batch-size", "64"))


@pytest.fixture(autouse=True)
def _stored() -> None:
    add_profile()


def add_profile(**changes: Any) -> None:
    fields: dict[str, Any] = {"activation_bytes": 50_000_000, "samples": 6400, "program": COMMAND}
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(**(fields | changes)))


def find(found: Recommendation, code: str) -> Reason:
    return next(reason for reason in found.plan.reasons if reason.code == code)


def count(found: Recommendation, name: str) -> int:
    value = find(found, "best_candidate").values[name]
    assert isinstance(value, int)
    return value


def test_every_estimate_is_listed_once_in_the_order_of_the_totals() -> None:
    found = recommend(epochs=300)
    assert [e.candidate for e in found.estimates] == [each.candidate for each in found.totals]
    assert len({e.candidate for e in found.estimates}) == len(found.estimates) == found.plan.considered
    assert next(e for e in found.estimates if e.candidate == found.plan.chosen.candidate) == found.plan.chosen
    assert all(each.bill is not None for each in (found.plan.chosen, *found.plan.runners_up, *found.plan.front))


def test_machines_are_the_best_estimates_of_each_machine_and_market() -> None:
    found = recommend(epochs=300)
    keys = [(e.candidate.offer.vm_type.key, e.candidate.offer.market) for e in found.machines]
    assert len(set(keys)) == len(keys)
    assert set(found.machines) <= set(found.estimates)
    assert set(keys) == {(e.candidate.offer.vm_type.key, e.candidate.offer.market) for e in found.estimates}


def test_alternatives_are_eligible() -> None:
    found = recommend(epochs=300)
    assert {e.candidate.offer.market for e in found.alternatives} == {"on_demand"}
    assert found.alternatives[0] == found.plan.chosen


def test_candidates_and_rejections_add_up_to_all_that_were_considered() -> None:
    free = recommend(epochs=300, scope=Scope(spot=True))
    left_out = count(free, "does_not_fit") + count(free, "epochs_guessed")
    assert count(free, "candidates") + left_out == free.plan.considered
    slowest = max(each.seconds.upper_bound(0.9) for each in free.alternatives)
    limited = recommend(epochs=300, goal=Goal(deadline_seconds=0.9 * slowest), scope=Scope(spot=True))
    rejected = ("beyond_limits", "spot_too_risky", "spot_not_checked", "does_not_fit", "epochs_guessed")
    assert count(limited, "beyond_limits") > 0
    assert count(limited, "spot_not_checked") > 0
    assert count(limited, "candidates") + sum(count(limited, name) for name in rejected) == limited.plan.considered


def test_a_reason_names_the_argument_that_would_change_the_plan() -> None:
    reason = find(recommend(epochs=300), "spot_would_be_better")
    assert reason.arguments == {"spot": True}
    cheaper = recommend(epochs=300, scope=Scope(spot=True)).plan.chosen
    assert cheaper.candidate.offer.market == "spot"
    assert cheaper.usd.value == reason.values["usd"]


def test_an_assumed_number_of_epochs_is_a_reason() -> None:
    reason = find(recommend(), "epochs_assumed")
    assert (reason.topic, reason.values, reason.arguments) == ("assumptions", {"epochs": 10}, {"epochs": "N"})


def test_the_epochs_at_another_batch_size_are_a_reason() -> None:
    found = recommend(epochs=300, scope=Scope(batch_sizes=(256,), any_batch_size=False))
    if found.plan.chosen.candidate.batch_size == 256 and found.workload.epochs_at:
        assert find(found, "epochs_at_batch_size").arguments == {"batch_sizes": 64}


def test_limits_that_conflict_raise_an_error_with_remedies_that_help() -> None:
    goal = Goal(deadline_seconds=60.0)
    with pytest.raises(InfeasibleError) as raised:
        recommend(epochs=300, goal=goal)
    assert "deadline" in raised.value.remedies[0].arguments
    assert "--" not in str(raised.value)


def test_a_scope_without_candidates_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="No candidate is left"):
        recommend(epochs=300, scope=Scope(min_gpu_gib=100_000))


def test_an_answer_is_not_stored_and_a_recommendation_is() -> None:
    settings = read_settings()
    answer(Question(goal=Goal(), length=StatedLength(epochs=300)), settings=settings)
    assert list_plans().plans == ()
    plan = recommend(epochs=300).plan
    assert list_plans().plans == (plan,)
    assert show_plan(plan.id) == plan


def test_epochs_and_a_target_contradict_each_other() -> None:
    with pytest.raises(UsageError) as raised:
        Question(goal=Goal(target=Target(metric="loss", value=0.5)), length=StatedLength(epochs=3))
    assert raised.value.field == "epochs"


@pytest.mark.parametrize("epochs", [0, -3])
def test_fewer_than_one_epoch_are_refused(epochs: int) -> None:
    with pytest.raises(UsageError) as raised:
        Question(goal=Goal(), length=StatedLength(epochs=epochs))
    assert raised.value.field == "epochs"


def test_an_unknown_baseline_is_named_with_its_field() -> None:
    with pytest.raises(NotFoundError) as raised:
        recommend(epochs=300, baseline="aws/p3.2xlargo")
    assert raised.value.field == "baseline"


def test_an_unpredictable_target_suggests_a_longer_profile() -> None:
    add_profile(id="curve", curve=tuple(Epoch(number=n, seconds=9.0, loss=0.5) for n in range(1, 6)))
    with pytest.raises(InfeasibleError) as raised:
        recommend(["curve"], goal=Goal(target=Target(metric="training loss", value=1e-9)))
    profile, epochs = raised.value.remedies
    assert (profile.command, profile.program) == ("profile", "python train.py --batch-size 64")
    assert epochs == Remedy({"epochs": "N"})


def test_batch_sizes_need_a_profiled_batch_size() -> None:
    add_profile(id="other", micro_batch_size=None)
    with pytest.raises(UsageError) as raised:
        recommend(["other"], epochs=300, iterations_per_epoch=100, scope=Scope(batch_sizes=(32,)))
    assert raised.value.field == "batch_sizes"


def test_what_fits_nowhere_is_said_with_what_would_make_it_fit() -> None:
    """70 B parameters in bfloat16 with AdamW: the weights alone are 130 GiB, so two GPUs or more must share them."""
    n = 70 * 10**9
    add_profile(
        id="plarge", device="cuda", parameters=n, weight_bytes=2 * n, gradient_bytes=2 * n, optimizer_bytes=4 * n
    )
    with pytest.raises(InfeasibleError) as caught:
        recommend(["plarge"], epochs=3)
    message = caught.value.message
    assert message.startswith("It does not fit on any machine: an iteration needs about ")
    assert "There it would fit with: " in message
    assert "divided over 4 GPUs, as FSDP does (about " in message


@pytest.mark.parametrize(
    "goal",
    [
        Goal(kind="fastest"),
        Goal(kind="weighted", weight_time=0.5),
        Goal(deadline_seconds=6 * 3600.0),
        Goal(kind="fastest", budget_usd=5.0),
    ],
)
def test_another_goal_is_answered_from_the_same_estimates(goal: Goal) -> None:
    settings, length = read_settings(), StatedLength(epochs=3000)
    found = estimate_candidates(Question(goal=Goal(), length=length), settings=settings)
    again = choose_plan(found, Question(goal=goal, length=length))
    anew = answer(Question(goal=goal, length=length), settings=settings)
    assert again.plan.chosen == anew.plan.chosen
    assert again.plan.front == anew.plan.front
    assert again.plan.runners_up == anew.plan.runners_up
    assert again.plan.reasons == anew.plan.reasons
    assert again.alternatives == anew.alternatives
