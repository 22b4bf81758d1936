"""`trainfare estimate` on stored profiles."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import trainfare
from tests.cli import commands
from tests.cli.commands import store
from tests.makers import make_estimate, make_plan, make_profile
from trainfare.app.catalog.offers import list_offers, show_machine
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.model.machine import Host
from trainfare.model.offer import MARKETPLACES
from trainfare.model.profile import EarlyStopping
from trainfare.settings import read_settings
from trainfare.store.open import open_history

ON_T4 = Host(name="h", vm_type="aws/g4dn.xlarge")


def run_json(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = commands.read_json("estimate", *arguments)
    return found


def test_the_answer_remarks_and_the_bill_are_printed() -> None:
    store(make_profile(host=ON_T4))
    shown = commands.in_one_line("estimate", "p7k2", "--on", "g4dn.xlarge", "--epochs", 10, "--explain")
    assert shown.startswith("aws g4dn.xlarge (1 × T4, batch 64, on demand, ")
    assert all(remark in shown for remark in run_json("p7k2", "--on", "g4dn.xlarge", "--epochs", 10)["remarks"])
    assert "0.1 s × (23 × 10 − 1) = 23 s; × $0.526/h = $0.0033" in shown
    assert "charged, by the second, at least 1 min, at prices of 2026-08-22" in shown


def test_the_estimate_is_the_one_of_recommend() -> None:
    store(make_profile(activation_bytes=50_000_000))
    one = run_json("p7k2", "--on", "aws/g5.xlarge", "--region", "us-west-2", "--epochs", "30")
    only = ["--only", "machine=g5.xlarge", "--only", "region=us-west-2"]
    plan = commands.read_json("recommend", "--epochs", 30, *only)
    assert {name: value for name, value in one.items() if not name.startswith("remark")} == plan["chosen"]


def test_the_cheapest_region_is_taken_unless_one_is_named() -> None:
    store(make_profile())
    cheapest = run_json("--on", "g5.xlarge")
    assert cheapest["usd_per_hour"] == min(
        row.usd_per_hour for row in show_machine("g5.xlarge").rows if row.usd_per_hour
    )
    assert run_json("--on", "g5.xlarge", "--region", "EU-WEST-1")["region"] == "eu-west-1"


def test_on_spot_the_expected_interruptions_are_remarks() -> None:
    store(make_profile(iteration_seconds=(1.0, *[3.0] * 9), loss=(), host=ON_T4))
    found = run_json("--on", "g4dn.xlarge", "--spot", "--epochs", "1000")
    assert found["market"] == "spot"
    assert found["interruptions"] > 1
    assert "interruptions are expected" in " ".join(found["remarks"])
    assert "a checkpoint every" in " ".join(found["remarks"])
    assert found["phases"]["spot rework"] > 0


def test_options_and_settings_set_the_start_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store(make_profile(host=ON_T4))
    found = run_json("--on", "g4dn.xlarge", "--boot", "10s", "--setup", "0", "--disk-gib", "0")
    assert (found["phases"]["boot"], found["phases"].get("setup")) == (10, None)
    assert "storage" not in {line["name"] for line in found["bill"]["lines"]}
    monkeypatch.setenv("TRAINFARE_SETUP_SECONDS", "5min")
    assert run_json("--on", "g4dn.xlarge")["phases"]["setup"] == 300


def test_a_program_that_counts_in_iterations_is_counted_exactly() -> None:
    store(make_profile(host=ON_T4, planned_iterations=100, validation_seconds=()))
    found = run_json("--on", "g4dn.xlarge")
    assert found["epochs"] == 5
    assert found["phases"]["steady iterations"] == pytest.approx(0.1 * 99)
    assert any("100 iterations are 4.35 epochs" in remark for remark in found["remarks"])
    assert run_json("--on", "g4dn.xlarge", "--epochs", "2")["phases"]["steady iterations"] == pytest.approx(4.5)


def test_the_interval_includes_the_uncertainty_of_expected_epochs() -> None:
    store(make_profile(host=ON_T4, epochs=100, early_stopping=EarlyStopping(metric="val_loss", patience=5)))
    found = trainfare.estimate(on="g4dn.xlarge").estimate
    assert found.epochs_interval is not None
    assert found.epochs_interval.low < found.epochs == 100
    stated = trainfare.estimate(on="g4dn.xlarge", epochs=100).estimate
    assert stated.epochs_interval is None
    assert found.seconds.value == stated.seconds.value
    assert found.seconds.low < stated.seconds.low
    assert found.usd.low < stated.usd.low
    shown = commands.in_one_line("estimate", "--on", "g4dn.xlarge", "--explain")
    assert "the 90% interval of 6 – 100 epochs" in shown
    assert "; 6 – 100 epochs are in the interval" in shown
    assert "interval of" not in commands.in_one_line("estimate", "--on", "g4dn.xlarge", "--explain", "--epochs", 100)


def test_profiles_of_one_day_are_averaged_and_older_ones_are_not() -> None:
    first = make_profile(host=ON_T4, iteration_seconds=(1.0, *[0.12] * 9), loss=())
    again = replace(first, id="pagain", iteration_seconds=(1.0, *[0.10] * 9))
    old = replace(first, id="pold", iteration_seconds=(1.0, *[9.0] * 9), measured_at=first.measured_at - timedelta(9))
    store(old, again, first)
    found = run_json("p7k2", "--on", "g4dn.xlarge")
    assert found["iteration_seconds"] == pytest.approx((0.10 * 0.12) ** 0.5)


def test_a_batch_larger_than_the_data_set_is_one_iteration_per_epoch() -> None:
    store(make_profile(host=ON_T4, samples=40, iterations_per_epoch=None))
    assert run_json("--on", "g4dn.xlarge", "--epochs", "7")["phases"]["steady iterations"] == pytest.approx(0.1 * 6)
    reasons = trainfare.recommend(epochs=7).plan.reasons
    (reason,) = [reason for reason in reasons if reason.code == "batch_larger_than_data_set"]
    assert (reason.values["batch_size"], reason.values["samples"]) == (64, 40)


def test_nodes_share_the_work_and_each_is_charged() -> None:
    store(make_profile(host=ON_T4))
    one, three = (run_json("--on", "g4dn.xlarge", "--nodes", nodes) for nodes in ("1", "3"))
    assert three["iteration_seconds"] < one["iteration_seconds"]
    assert three["usd"] / three["seconds"] == pytest.approx(3 * one["usd"] / one["seconds"], rel=0.01)
    (shared,) = [remark["values"] for remark in three["remark_data"] if remark["code"] == "batch_shared_by_gpus"]
    assert (shared["batch_size"], shared["gpus"]) == (64, 3)


def test_a_retired_machine_is_estimated_with_a_remark() -> None:
    store(make_profile())
    assert any("can no longer be rented" in remark for remark in run_json("--on", "p2.xlarge")["remarks"])


def test_a_gpu_is_the_cheapest_machine_with_one_of_them() -> None:
    store(make_profile())
    found = run_json("--on", "h100")
    single = [row for row in list_offers(gpu="H100", spot=False).rows if row.vm_type.gpus == 1]
    named = [row for row in single if row.vm_type.gpu and row.vm_type.gpu.name == "H100"]
    prices = [row.usd_per_hour for row in named if row.vm_type.provider not in MARKETPLACES]
    assert (found["gpu"], found["usd_per_hour"]) == ("H100", min(price for price in prices if price))
    assert any("is the cheapest of" in remark and "machines with 1 H100" in remark for remark in found["remarks"])


def test_a_gpu_with_a_number_is_the_cheapest_machine_with_that_many() -> None:
    store(make_profile())
    found = run_json("--on", "H100", "--gpus", "8")
    assert found["gpus"] == 8
    assert any("machines with 8 H100" in remark for remark in found["remarks"])


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["--on", "H10"], NotFoundError, "Did you mean H100"),
        (["--on", "H100", "--gpus", "64"], UsageError, "no machine of the catalog has 64 H100; the largest has 8."),
        (["--on", "H100", "--region", "nowhere"], NotFoundError, "no price of a machine with 1 H100 in nowhere"),
        (["--on", "g4dn.xlrge"], NotFoundError, "Did you mean g4dn.xlarge"),
        (["--on", "g4dn.xlarge", "--region", "us-est-1"], NotFoundError, "Did you mean us-east-1"),
        (["p7kk2", "--on", "g4dn.xlarge"], NotFoundError, "Did you mean p7k2"),
        (["--on", "lambda/gpu_1x_a10", "--spot"], UsageError, "no spot price"),
        (["--on", "g4dn.xlarge", "--boot", "soon"], UsageError, "not a duration"),
    ],
)
def test_a_wrong_argument_is_explained(arguments: list[str], kind: type, message: str) -> None:
    store(make_profile())
    assert isinstance(commands.error_of("estimate", *arguments), kind)
    assert message in commands.complaint("estimate", *arguments)


@pytest.mark.parametrize("number", [0, -3])
def test_python_refuses_no_epochs_and_no_nodes(number: int) -> None:
    store(make_profile())
    with pytest.raises(UsageError, match=f"greater than 0, got {number}") as caught:
        trainfare.recommend(epochs=number)
    assert caught.value.field == "epochs"
    with pytest.raises(UsageError, match=f"greater than 0, got {number}") as caught:
        trainfare.estimate(on="g4dn.xlarge", epochs=number)
    assert caught.value.field == "epochs"
    with pytest.raises(UsageError, match=f"at least 1 node, got {number}") as caught:
        trainfare.estimate(on="g4dn.xlarge", nodes=number)
    assert caught.value.field == "nodes"


def test_a_profile_without_operations_is_infeasible_elsewhere() -> None:
    store(make_profile(operations=()))
    error = commands.error_of("estimate", "--on", "g4dn.xlarge")
    assert isinstance(error, InfeasibleError)
    assert "operations" in error.message


def test_a_profile_with_a_negative_time_is_not_imported(tmp_path: Path) -> None:
    """The clock was set while the program was measured."""
    document = json.loads(trainfare.to_json(make_profile()))
    document["iteration_seconds"][2] = -4.0
    file = tmp_path / "p.json"
    file.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="iteration_seconds must be positive, got -4"):
        trainfare.profiles.load(str(file))


def test_a_plan_stored_before_bills_existed_can_be_shown() -> None:
    plan = make_plan(chosen=make_estimate())
    document = json.loads(trainfare.to_json(plan))
    for estimate in (document["chosen"], *document["runners_up"]):
        for name in ("bill", "interruptions", "checkpoint_every_seconds", "epochs_interval"):
            del estimate[name]
        for phase in estimate["phases"]:
            del phase["how"]
    old = trainfare.from_json(trainfare.Plan, json.dumps(document))
    assert old.chosen.bill is None
    store(make_profile())
    with open_history(read_settings().store) as history:
        history.plans.add(old)
    assert commands.succeed("plans", "show", old.id).stdout.startswith("Train on  aws g4dn.xlarge")


def test_a_bill_is_stored_with_its_plan() -> None:
    store(make_profile())
    plan = trainfare.recommend(epochs=3).plan
    assert plan.chosen.bill is not None
    assert trainfare.plans.show(plan.id) == plan
