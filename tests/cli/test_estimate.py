"""`trainfare estimate` on profiles that are already kept."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import trainfare
from tests.makers import make_estimate, make_plan, make_profile
from trainfare.cli.main import app
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.model.machine import Host
from trainfare.model.profile import EarlyStopping, Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history

THERE = Host(name="h", vm_type="aws/g4dn.xlarge")


def keep(*profiles: Profile) -> None:
    with open_history(read_settings().store) as history:
        for profile in profiles:
            history.profiles.add(profile)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["estimate", *arguments], catch_exceptions=True)


def run_json(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_person_reads_the_answer_what_to_know_and_the_bill() -> None:
    keep(make_profile(host=THERE))
    result = run("p7k2", "--on", "g4dn.xlarge", "--epochs", "10", "--explain")
    assert result.exit_code == 0, result.exception
    assert result.stdout.startswith("aws g4dn.xlarge  (1 × T4, batch 64, on demand, ")
    words = " ".join(result.stdout.split())
    assert "measured: profile p7k2 was taken on this machine type" in words
    assert "starting the machine takes 4 min of the 5 min" in words
    assert "0.1 s × (23 × 10 − 1) = 22.9 s; × 0.526 $/h = 0.0033 $" in words
    assert "charged, by the second, at least 1 min, at prices of 2026-08-22" in words


def test_it_is_the_estimate_that_recommend_makes() -> None:
    keep(make_profile(activation_bytes=50_000_000))
    one = run_json("p7k2", "--on", "aws/g5.xlarge", "--region", "us-west-2", "--epochs", "30")
    only = ["--only", "machine=g5.xlarge", "--only", "region=us-west-2"]
    plan = json.loads(CliRunner().invoke(app, ["recommend", "--epochs", "30", "--json", *only]).stdout)
    assert {name: value for name, value in one.items() if name != "remarks"} == plan["chosen"]


def test_the_cheapest_region_is_taken_unless_one_is_named() -> None:
    keep(make_profile())
    cheapest = run_json("--on", "g5.xlarge")
    assert cheapest["usd_per_hour"] == min(
        line.usd_per_hour for line in trainfare.catalog.machine("g5.xlarge").lines if line.usd_per_hour
    )
    assert run_json("--on", "g5.xlarge", "--region", "EU-WEST-1")["region"] == "eu-west-1"


def test_on_spot_the_expected_interruptions_are_told() -> None:
    keep(make_profile(iteration_seconds=(1.0, *[3.0] * 9), loss=(), host=THERE))
    found = run_json("--on", "g4dn.xlarge", "--spot", "--epochs", "1000")
    assert found["market"] == "spot"
    assert found["interruptions"] > 1
    assert "interruptions are expected" in " ".join(found["remarks"])
    assert "a checkpoint every" in " ".join(found["remarks"])
    assert found["phases"]["spot rework"] > 0


def test_flags_and_settings_say_how_long_the_start_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(make_profile(host=THERE))
    found = run_json("--on", "g4dn.xlarge", "--boot", "10s", "--setup", "0", "--disk-gib", "0")
    assert (found["phases"]["boot"], found["phases"].get("setup")) == (10, None)
    assert "storage" not in {line["name"] for line in found["bill"]["lines"]}
    monkeypatch.setenv("TRAINFARE_SETUP_SECONDS", "5min")
    assert run_json("--on", "g4dn.xlarge")["phases"]["setup"] == 300


def test_a_program_that_counts_in_iterations_is_counted_exactly() -> None:
    keep(make_profile(host=THERE, planned_iterations=100, validation_seconds=()))
    found = run_json("--on", "g4dn.xlarge")
    assert found["epochs"] == 5
    assert found["phases"]["steady iterations"] == pytest.approx(0.1 * 99)
    assert any("100 of them are 4.35 epochs" in remark for remark in found["remarks"])
    assert run_json("--on", "g4dn.xlarge", "--epochs", "2")["phases"]["steady iterations"] == pytest.approx(4.5)


def test_epochs_that_are_only_expected_are_in_the_interval() -> None:
    keep(make_profile(host=THERE, epochs=100, early_stopping=EarlyStopping(metric="val_loss", patience=5)))
    found = trainfare.estimate(on="g4dn.xlarge").estimate
    assert found.epochs_interval is not None
    assert found.epochs_interval.low < found.epochs == 100
    stated = trainfare.estimate(on="g4dn.xlarge", epochs=100).estimate
    assert stated.epochs_interval is None
    assert found.seconds.value == stated.seconds.value
    assert found.seconds.low < stated.seconds.low
    assert found.usd.low < stated.usd.low
    words = " ".join(run("--on", "g4dn.xlarge", "--explain").stdout.split())
    assert "6 – 100 epochs (90 %) are in the intervals of time and cost" in words
    assert "; 6 – 100 epochs are in the interval" in words
    assert "in the interval" not in run("--on", "g4dn.xlarge", "--explain", "--epochs", "100").stdout


def test_repeats_of_one_day_are_taken_together_and_older_ones_not() -> None:
    first = make_profile(host=THERE, iteration_seconds=(1.0, *[0.12] * 9), loss=())
    again = replace(first, id="pagain", iteration_seconds=(1.0, *[0.10] * 9))
    old = replace(first, id="pold", iteration_seconds=(1.0, *[9.0] * 9), measured_at=first.measured_at - timedelta(9))
    keep(old, again, first)
    found = run_json("p7k2", "--on", "g4dn.xlarge")
    assert found["iteration_seconds"] == pytest.approx((0.10 * 0.12) ** 0.5)


def test_a_batch_larger_than_the_data_set_is_one_iteration_an_epoch() -> None:
    keep(make_profile(host=THERE, samples=40, iterations_per_epoch=None))
    assert run_json("--on", "g4dn.xlarge", "--epochs", "7")["phases"]["steady iterations"] == pytest.approx(0.1 * 6)
    reasons = trainfare.recommend(epochs=7).plan.reasons
    assert any("a batch of 64 is larger than the data set of 40 samples" in reason for reason in reasons)


def test_nodes_share_the_work_and_are_charged_each() -> None:
    keep(make_profile(host=THERE))
    one, three = (run_json("--on", "g4dn.xlarge", "--nodes", nodes) for nodes in ("1", "3"))
    assert three["iteration_seconds"] < one["iteration_seconds"]
    assert three["usd"] / three["seconds"] == pytest.approx(3 * one["usd"] / one["seconds"], rel=0.01)
    assert any("the batch of 64 is shared by 3 GPUs" in remark for remark in three["remarks"])


def test_a_retired_machine_is_estimated_with_a_word_about_it() -> None:
    keep(make_profile())
    assert any("can no longer be rented" in remark for remark in run_json("--on", "p2.xlarge")["remarks"])


@pytest.mark.parametrize(
    ("arguments", "kind", "told"),
    [
        (["--on", "g4dn.xlrge"], NotFoundError, "Did you mean g4dn.xlarge"),
        (["--on", "g4dn.xlarge", "--region", "us-est-1"], NotFoundError, "Did you mean us-east-1"),
        (["p7kk2", "--on", "g4dn.xlarge"], NotFoundError, "Did you mean p7k2"),
        (["--on", "lambda/gpu_1x_a10", "--spot"], UsageError, "no spot price"),
        (["--on", "g4dn.xlarge", "--boot", "soon"], UsageError, "not a duration"),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_the_reason(arguments: list[str], kind: type, told: str) -> None:
    keep(make_profile())
    error = run(*arguments).exception
    assert isinstance(error, kind)
    assert told in str(error)


@pytest.mark.parametrize("epochs", [0, -3])
def test_no_epochs_are_refused_from_python_too(epochs: int) -> None:
    keep(make_profile())
    for ask in (trainfare.recommend, lambda **more: trainfare.estimate(on="g4dn.xlarge", **more)):
        with pytest.raises(UsageError, match=f"epochs must be at least 1, got {epochs}"):
            ask(epochs=epochs)
    with pytest.raises(UsageError, match="nodes must be at least 1"):
        trainfare.estimate(on="g4dn.xlarge", nodes=epochs)


def test_a_machine_that_the_profile_says_nothing_of_is_infeasible() -> None:
    keep(make_profile(operations=()))
    error = run("--on", "g4dn.xlarge").exception
    assert isinstance(error, InfeasibleError)
    assert "it has no operations" in str(error)


def test_a_time_that_ran_backwards_is_not_imported(tmp_path: Any) -> None:
    """A clock that was set while measuring."""
    document = json.loads(trainfare.to_json(make_profile()))
    document["iteration_seconds"][2] = -4.0
    file = tmp_path / "p.json"
    file.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="iteration_seconds must be positive, got -4"):
        trainfare.profiles.load(str(file))


def test_a_plan_of_before_there_were_bills_is_read_and_shown() -> None:
    plan = make_plan(chosen=make_estimate())
    document = json.loads(trainfare.to_json(plan))
    for estimate in (document["chosen"], *document["runners_up"]):
        for name in ("bill", "interruptions", "checkpoint_every_seconds", "epochs_interval"):
            del estimate[name]
        for phase in estimate["phases"]:
            del phase["how"]
    old = trainfare.from_json(trainfare.Plan, json.dumps(document))
    assert old.chosen.bill is None
    keep(make_profile())
    with open_history(read_settings().store) as history:
        history.plans.add(old)
    shown = CliRunner().invoke(app, ["plans", "show", old.id])
    assert shown.exit_code == 0, shown.exception
    assert shown.stdout.startswith("Train on  aws g4dn.xlarge")


def test_a_bill_is_kept_with_its_plan() -> None:
    keep(make_profile())
    plan = trainfare.recommend(epochs=3).plan
    assert plan.chosen.bill is not None
    assert trainfare.plans.show(plan.id) == plan
