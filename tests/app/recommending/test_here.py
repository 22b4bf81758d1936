"""The machine at hand as a candidate: when it is the answer, and what is said about it otherwise."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.makers import make_profile, make_program
from trainfare.app.catalog.offers import open_catalog
from trainfare.app.probing.planned import plan_probes
from trainfare.app.recommending.compare import compare
from trainfare.app.recommending.estimate import estimate
from trainfare.app.recommending.plans import show_plan
from trainfare.app.recommending.predict import predict
from trainfare.app.recommending.recommend import Recommendation, recommend
from trainfare.errors import InfeasibleError, NotFoundError
from trainfare.model.machine import HERE, Host
from trainfare.model.plan import Goal
from trainfare.model.profile import Operation
from trainfare.model.reason import Reason
from trainfare.model.scope import Scope
from trainfare.profiler.host import this_host_name
from trainfare.settings import read_settings
from trainfare.store.open import open_history
from trainfare.views.recommendation import recommendation_record
from trainfare.views.values import number, record

MINUTE, HOUR = 60.0, 3600.0


def add_profile(iteration: float, **changes: Any) -> None:
    """A profile of this machine, with 1,000 iterations in an epoch and the work of that many seconds on a CPU."""
    fields: dict[str, Any] = {
        "host": Host(name=this_host_name(), cores=2, memory_gib=8.0),
        "iteration_seconds": tuple(iteration * factor for factor in (3, 1, 1.01, 1, 0.99, 1)),
        "operations": (
            Operation(kind="matmul", dtype="float32", flops=4e10 * iteration, bytes=2e8 * iteration, count=10),
        ),
        "validation_seconds": (),
        "init_seconds": 0.0,
        "samples": 64_000,
        "iterations_per_epoch": 1000,
        "activation_bytes": 50_000_000,
        "peak_host_bytes": 2**30,
    }
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(**(fields | changes)))


def find(found: Recommendation, code: str) -> Reason:
    return next(reason for reason in found.plan.reasons if reason.code == code)


def codes(found: Recommendation) -> set[str]:
    return {reason.code for reason in found.plan.reasons}


def is_here(found: Recommendation) -> bool:
    return found.plan.chosen.candidate.offer.vm_type.key == HERE


def own_price(usd_per_hour: float, section: str = "here") -> None:
    path = Path(read_settings().machines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[{section}]\nusd_per_hour = {usd_per_hour}\n")


@pytest.mark.parametrize(
    "goal", [Goal(), Goal(kind="fastest"), Goal(kind="weighted", weight_time=0.5), Goal(deadline_seconds=HOUR)]
)
def test_a_training_of_seconds_is_done_here(goal: Goal) -> None:
    add_profile(0.001)
    found = recommend(epochs=10, goal=goal)
    chosen = found.plan.chosen
    assert is_here(found)
    assert chosen == found.plan.here
    assert chosen.basis == "measured"
    assert chosen.usd.high == 0
    assert chosen.seconds.value == pytest.approx(10, rel=0.05)
    assert {phase.name for phase in chosen.phases} == {"initialisation", "first iteration", "steady iterations"}
    assert find(found, "train_here").values["rule"] == "soon"
    assert found.plan.runners_up
    assert not any(e.candidate.offer.is_here for e in found.plan.runners_up)


def test_a_long_training_is_rented_and_compared_with_here() -> None:
    add_profile(3.6)
    found = recommend(epochs=10)
    chosen, here = found.plan.chosen, found.plan.here
    assert here is not None
    assert not is_here(found)
    assert here.seconds.value == pytest.approx(10 * HOUR, rel=0.02)
    assert chosen.seconds.value < 0.9 * here.seconds.value
    values = find(found, "renting_compared_with_here").values
    saved = here.seconds.value - chosen.seconds.value
    assert values["saved_seconds"] == pytest.approx(saved)
    assert values["usd_per_hour_saved"] == pytest.approx(chosen.usd.value / saved * HOUR)
    assert here in found.plan.front


def test_only_rentals_that_end_sooner_than_here_are_chosen() -> None:
    add_profile(3.6)
    found = recommend(epochs=10)
    here = found.plan.here
    assert here is not None
    listed = (found.plan.chosen, *found.plan.runners_up)
    assert all(e.seconds.value <= 0.9 * here.seconds.value for e in listed)


def test_here_can_be_excluded_and_be_the_only_machine() -> None:
    add_profile(0.001)
    rented = recommend(epochs=10, scope=Scope(exclude=("here",)))
    assert not is_here(rented)
    assert rented.plan.here is None
    assert "renting_compared_with_here" not in codes(rented)
    add_profile(3.6, id="p2")
    alone = recommend(["p2"], epochs=10, scope=Scope(machines=("here",)))
    assert is_here(alone)
    assert find(alone, "train_here").values["rule"] == "only"
    assert recommend(["p2"], epochs=10, scope=Scope(providers=("aws",))).plan.here is None


def test_a_deadline_that_here_meets_is_met_here() -> None:
    add_profile(3.6)
    found = recommend(epochs=10, goal=Goal(deadline_seconds=12 * HOUR))
    assert is_here(found)
    assert find(found, "train_here").values["rule"] == "in_time"
    sooner = recommend(epochs=10, goal=Goal(deadline_seconds=3 * HOUR))
    assert not is_here(sooner)
    machines = [record(r.values, "machine") for r in sooner.plan.reasons if r.code == "looser_deadline"]
    assert any(machine is not None and machine["machine"] == "here" for machine in machines)


def test_a_budget_below_every_rental_leaves_here() -> None:
    add_profile(3.6)
    found = recommend(epochs=10, goal=Goal(budget_usd=0.0001))
    assert is_here(found)
    assert find(found, "train_here").values["rule"] == "only"


def test_the_value_of_time_decides_between_here_and_a_rental() -> None:
    add_profile(3.6)
    for value in (0.0001, 0.01, 1.0, 30.0, 1000.0):
        found = recommend(epochs=10, goal=Goal(value_of_time_usd_per_hour=value))

        def total(e: Any, value: float = value) -> float:
            return float(e.usd.value + value * e.seconds.value / HOUR)

        others = [found.plan.here, *found.alternatives]
        assert total(found.plan.chosen) == pytest.approx(min(total(e) for e in others if e is not None))
        assert found.plan.goal.kind == "cheapest"
    assert is_here(recommend(epochs=10, goal=Goal(value_of_time_usd_per_hour=0.0001)))


def test_a_profile_that_says_nothing_about_here_does_not_list_it() -> None:
    add_profile(3.6, host=Host(name="another machine"))
    found = recommend(epochs=10)
    assert found.plan.here is None
    assert not any(each.candidate.offer.is_here for each in found.totals)


def test_here_is_predicted_from_the_cpu_of_another_machine() -> None:
    """As any other machine without a GPU, and never as measured."""
    add_profile(3.6, host=Host(name="another machine", cpu="AMD EPYC 7763 64-Core Processor", cores=4, memory_gib=8.0))
    found = recommend(epochs=10).plan.here
    assert found is not None
    assert found.basis == "scaled"
    assert not found.usd.high


def test_the_users_price_of_here_counts() -> None:
    add_profile(3.6)
    own_price(0.25)
    found = estimate(on="here", epochs=10).estimate
    assert found.usd.value == pytest.approx(0.25 * found.seconds.value / HOUR, rel=1e-3)
    own_price(1000.0)
    assert not is_here(recommend(epochs=10, goal=Goal(deadline_seconds=12 * HOUR)))


def test_the_users_machine_with_the_name_of_this_host_is_here() -> None:
    own_price(0.25, section=f'"{this_host_name()}"')
    assert open_catalog(None).find("here")[0].usd_per_hour == 0.25
    add_profile(0.001, host=Host(name=this_host_name(), vm_type=f"own/{this_host_name()}"))
    found = recommend(epochs=10)
    assert is_here(found)
    assert not any(each.candidate.offer.vm_type.provider == "own" for each in found.totals)


def test_repeated_profiles_of_here_are_one_measurement() -> None:
    add_profile(0.002, id="p1")
    add_profile(0.001, id="p2")
    assert {profile.id for profile in recommend(epochs=10).profiles} == {"p1", "p2"}


def test_a_program_that_ran_here_fits_here() -> None:
    add_profile(0.001, peak_host_bytes=2**50)
    assert recommend(epochs=10, scope=Scope(machines=("here",))).plan.chosen.fits


def test_here_is_understood_by_estimate_and_predict() -> None:
    add_profile(0.1)
    assert estimate(on="here", epochs=1).estimate.basis == "measured"
    assert predict(on="here").prediction.basis == "measured"
    assert predict(on="local/here").prediction.iteration_seconds.value == pytest.approx(0.1, rel=0.02)


def test_slices_exist_without_a_file_and_are_no_answer_unless_named() -> None:
    add_profile(0.001, cpu_use=1.0)
    half, here = (open_catalog(None).find(name)[0].vm_type for name in ("local/half", "here"))
    assert half.vcpus == (here.vcpus or 0) / 2
    found = recommend(epochs=10)
    assert not any(each.candidate.offer.vm_type.name in ("half", "one") for each in found.totals)
    named = recommend(epochs=10, scope=Scope(machines=("local/half",)))
    assert named.plan.chosen.candidate.offer.vm_type.key == "local/half"


def test_a_section_of_the_file_wins_over_a_slice_of_the_same_name() -> None:
    path = Path(read_settings().machines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[half]\nslice = true\nusd_per_hour = 0.02\nvcpus = 0.5\n")
    catalog = open_catalog(None)
    assert catalog.find("local/half")[0].vm_type.vcpus == 0.5
    assert [offer.vm_type.name for offer in catalog.slices] == ["one"]


def test_exclusions_are_machines_providers_gpus_and_regions() -> None:
    add_profile(3.6)
    every = recommend(epochs=10, scope=Scope(exclude=("aws", "T4", "westus3", "azure/Standard_NC24ads_A100_v4")))
    for each in every.totals:
        offer = each.candidate.offer
        assert offer.vm_type.provider != "aws"
        assert offer.vm_type.gpu is None or offer.vm_type.gpu.name != "T4"
        assert offer.region != "westus3"
        assert offer.vm_type.name != "Standard_NC24ads_A100_v4"
    with pytest.raises(NotFoundError):
        recommend(epochs=10, scope=Scope(exclude=("nowhere",)))


def test_the_record_and_the_store_hold_a_free_plan() -> None:
    add_profile(0.001)
    found = recommend(epochs=10)
    record = recommendation_record(found.plan, found.profiles, found.estimates)
    json.dumps(record, allow_nan=False)
    assert record["chosen_is_here"]
    assert record["here"]["machine"] == "here"
    assert show_plan(found.plan.id) == found.plan


@pytest.mark.parametrize("iteration", [0.001, 3.6])
@pytest.mark.parametrize("view", ["fare", "epochs", "batches"])
def test_figures_have_a_place_for_what_is_free(iteration: float, view: Any) -> None:
    add_profile(iteration)
    spec = json.dumps(recommend(epochs=10).figure(view).spec, allow_nan=False)
    assert "here" in spec or view == "batches"


def test_no_probe_is_planned_when_the_answer_is_here() -> None:
    add_profile(0.001)
    plan = plan_probes(epochs=10).plan
    assert plan.start.candidate.offer.is_here
    assert plan.probes == ()


def test_more_epochs_than_a_number_are_rented() -> None:
    add_profile(0.02)
    found = recommend(epochs=10)
    assert is_here(found)
    epochs = find(found, "rent_from_epochs").values["epochs"]
    assert isinstance(epochs, int)
    assert is_here(recommend(epochs=epochs - 1))
    assert not is_here(recommend(epochs=epochs + 1))


def test_the_fastest_alternative_costs_at_most_ten_times_as_much() -> None:
    add_profile(3.6)
    found = recommend(epochs=10)
    values = find(found, "other_extreme").values
    assert values["kind"] == "fastest"
    assert number(values, "cost_ratio") <= 10


def test_the_fastest_goal_says_what_the_last_bit_of_speed_costs() -> None:
    add_profile(3.6)
    found = recommend(epochs=10, goal=Goal(kind="fastest"))
    values = find(found, "last_bit_of_speed").values
    assert number(values, "usd") <= 0.5 * found.plan.chosen.usd.value
    assert number(values, "saved_seconds") > 0


def test_another_batch_size_is_not_chosen_unasked() -> None:
    command = make_program(command=("python", "train.py", "--batch-size", "64"))
    add_profile(3.6, program=command)
    found = recommend(epochs=10)
    assert found.plan.chosen.candidate.batch_size == 64
    assert {e.candidate.batch_size for e in found.plan.runners_up} == {64}
    assert {each.candidate.batch_size for each in found.totals} > {64}
    asked = recommend(epochs=10, scope=Scope(any_batch_size=True))
    other = found.plan.other_batch_size
    if other is not None:
        assert other.candidate.batch_size != 64
        assert other.usd.value < found.plan.chosen.usd.value
        assert find(found, "other_batch_size").arguments == {"batch_sizes": other.candidate.batch_size}
        assert asked.plan.chosen.usd.value <= other.usd.value


def test_a_machine_of_the_user_may_cost_nothing() -> None:
    path = Path(read_settings().machines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[bench]\nusd_per_hour = 0\ngpu = "T4"\n[tower]\nusd_per_hour = 0.5\ngpu = "T4"\n')
    add_profile(3.6)
    found = recommend(epochs=10, scope=Scope(exclude=("here",)), baseline="own/tower")
    assert found.plan.chosen.candidate.offer.vm_type.key == "own/bench"
    json.dumps(recommendation_record(found.plan, found.profiles, found.estimates), allow_nan=False)
    for name in ("bench", "tower"):
        host = Host(name=name, vm_type=f"own/{name}", gpu="Tesla T4", gpus=1)
        add_profile(0.05, id=f"p{name}", host=host, device="cuda")
    assert {machine.estimate.usd.value for machine in compare(epochs=[5]).by_iterations[5]}


def test_nothing_within_the_limits_is_still_infeasible() -> None:
    add_profile(3.6)
    with pytest.raises(InfeasibleError) as raised:
        recommend(epochs=10, goal=Goal(deadline_seconds=MINUTE))
    assert "goal=Goal(deadline_seconds=" in str(raised.value)


def test_what_an_idle_machine_ends_soon_is_not_rented_because_it_was_busy() -> None:
    """Renting takes no account of the other work, so here is compared without it too."""
    add_profile(2.4, cpu_queue_share=0.5, threads=2)
    found = recommend(epochs=1)
    assert is_here(found)
    assert found.plan.chosen.seconds.value == pytest.approx(40 * MINUTE, rel=0.05)
    assert found.plan.chosen.seconds.low == pytest.approx(10 * MINUTE, rel=0.05)
    assert found.plan.chosen.seconds.high > 40 * MINUTE
    why = find(found, "train_here").values
    assert why["rule"] == "soon"
    assert number(why, "idle_seconds") == pytest.approx(10 * MINUTE, rel=0.05)
    assert number(find(found, "busy_profile").values, "idle_here_seconds") == pytest.approx(10 * MINUTE, rel=0.05)


def test_a_machine_that_would_be_slow_without_other_work_is_not_the_answer() -> None:
    add_profile(2.4, cpu_queue_share=0.2, threads=2)
    assert not is_here(recommend(epochs=1))


def test_a_deadline_is_met_with_the_machine_as_it_is() -> None:
    add_profile(2.4, cpu_queue_share=0.5, threads=2)
    assert not is_here(recommend(epochs=1, goal=Goal(deadline_seconds=30 * MINUTE)))


def test_renting_pays_from_the_epochs_that_an_idle_machine_takes_long_for() -> None:
    add_profile(2.4, cpu_queue_share=0.5, threads=2)
    from_epochs = find(recommend(epochs=1), "rent_from_epochs").values["epochs"]
    assert from_epochs == 2
    assert not is_here(recommend(epochs=2))
