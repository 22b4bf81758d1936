"""`trainfare recommend` on stored profiles; tests/flow measures a program first."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.cli import commands
from tests.cli.commands import store
from tests.makers import make_profile
from trainfare.app.catalog.offers import list_offers
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.model.machine import Host
from trainfare.model.offer import MARKETPLACES
from trainfare.model.profile import EarlyStopping
from trainfare.profiler.host import this_host_name
from trainfare.settings import read_settings
from trainfare.store.open import open_history
from trainfare.units import format_age

MEASURED = {"activation_bytes": 50_000_000}


@pytest.fixture
def no_start_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines need no time to boot and to be set up, so that the time is that of the training."""
    monkeypatch.setenv("TRAINFARE_BOOT_SECONDS", "0")
    monkeypatch.setenv("TRAINFARE_SETUP_SECONDS", "0")


def run(*arguments: object) -> Result:
    return commands.run("recommend", *arguments)


def run_json(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = commands.read_json("recommend", *arguments)
    return found


def test_every_offer_is_estimated_and_one_is_chosen() -> None:
    store(make_profile(**MEASURED))
    found = run_json("--epochs", "10", "--all")
    names = [
        "provider",
        "machine",
        "region",
        "nodes",
        "gpus",
        "batch_size",
        "seconds",
        "seconds_low",
        "seconds_high",
        "usd",
        "usd_low",
        "usd_high",
        "basis",
        "fits",
    ]
    rentable = {
        (line.vm_type.key, market)
        for line in list_offers().rows
        for market, price in (("on_demand", line.usd_per_hour), ("spot", line.spot_usd_per_hour))
        if price is not None and line.vm_type.gpu is not None and line.vm_type.gpu.vendor in ("nvidia", "amd")
        if line.vm_type.provider not in MARKETPLACES  # their old prices are left out
    }
    assert {(f"{e['provider']}/{e['machine']}", e["market"]) for e in found["estimates"]} == rentable
    for estimate in (found["chosen"], *found["estimates"]):
        assert set(names) <= set(estimate)
        assert 0 < estimate["seconds_low"] <= estimate["seconds"] <= estimate["seconds_high"]
        assert 0 < estimate["usd_low"] <= estimate["usd"] <= estimate["usd_high"]
        assert estimate["basis"] == "extrapolated"
    assert found["chosen"] in found["estimates"]
    assert found["reasons"]
    steady = [e for e in found["estimates"] if e["market"] != "spot" and e["fits"]]
    assert found["chosen"]["usd"] == min(e["usd"] for e in steady)


def test_the_goal_fastest_chooses_the_fastest() -> None:
    store(make_profile(**MEASURED))
    found = run_json("--goal", "fastest")
    steady = [e for e in found["estimates"] if e["market"] != "spot" and e["fits"]]
    assert found["chosen"]["seconds"] == min(e["seconds"] for e in steady)


def test_spot_is_chosen_with_the_option() -> None:
    store(make_profile(**MEASURED))
    assert run_json("--spot")["chosen"]["usd"] <= run_json()["chosen"]["usd"]
    assert run_json("--spot")["chosen"]["market"] == "spot"


def test_retired_machines_are_never_offered() -> None:
    store(make_profile(**MEASURED))
    machines = {e["machine"] for e in run_json()["estimates"]}
    assert not machines & {"p2.xlarge", "Standard_NC6", "ml.p2.xlarge", "NC6", "tpu-v2", "trn1.2xlarge"}


@pytest.mark.usefixtures("no_start_time")
def test_machines_with_a_profile_are_compared_by_their_measurements() -> None:
    """Malta's second method: initialisation 2 + first 1 + 229 later iterations + validations."""
    store(
        make_profile(id="pslow", host=Host(name="a", vm_type="aws/g4dn.xlarge"), **MEASURED),
        make_profile(
            id="pfast",
            host=Host(name="b", vm_type="aws/g5.xlarge"),
            iteration_seconds=(1.0, 0.05, 0.05, 0.05, 0.05),
            **MEASURED,
        ),
    )
    found = run_json("--epochs", "10", "--goal", "fastest")
    steady = [e for e in found["estimates"] if e["market"] == "on_demand"]
    by_machine = {e["machine"]: e for e in steady if e["basis"] == "measured"}
    assert set(by_machine) == {"g4dn.xlarge", "g5.xlarge"}
    assert by_machine["g4dn.xlarge"]["seconds"] == pytest.approx(2 + 1 + 229 * 0.1 + 0.3 + 9 * 0.2)
    assert by_machine["g5.xlarge"]["seconds"] == pytest.approx(2 + 1 + 229 * 0.05 + 0.3 + 9 * 0.2)
    assert sorted(found["profiles"]) == ["pfast", "pslow"]


def test_a_machine_of_the_user_is_considered_at_its_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text("[bench]\nusd_per_hour = 0.0001\nvcpus = 8\nmemory_gib = 32\n")
    monkeypatch.setenv("TRAINFARE_MACHINES", str(machines))
    store(make_profile(host=Host(name="bench", vm_type="own/bench"), **MEASURED))
    chosen = run_json()["chosen"]
    assert (chosen["provider"], chosen["machine"], chosen["basis"]) == ("own", "bench", "measured")


def test_the_plan_is_stored() -> None:
    store(make_profile(**MEASURED))
    found = run_json()
    with open_history(read_settings().store) as history:
        (plan,) = history.plans.all()
        assert plan.id == found["plan"]
        assert history.estimates.of("p7k2")


def test_the_answer_the_reasons_and_the_table_are_printed() -> None:
    store(make_profile(**MEASURED))
    result = commands.succeed("recommend", "--epochs", 10, "--explain")
    first = result.stdout.splitlines()[0]
    assert first.startswith("Train on  ")
    assert " $" in first
    reasons = run_json("--epochs", "10")["reasons"]
    assert all(reason in " ".join(result.stdout.split()) for reason in reasons if "plan" not in reason)
    assert any(reason.startswith("extrapolated: ") for reason in reasons)
    assert "more: --all" in result.stdout
    assert len(run("--all").stdout.splitlines()) > 100


def here_profile(iteration: float, **changes: Any) -> None:
    """A profile of this machine, with 1,000 iterations of so many seconds in an epoch."""
    host = Host(name=this_host_name(), cores=2, memory_gib=8.0)
    times = {
        "iteration_seconds": (3 * iteration, iteration, iteration),
        "iterations_per_epoch": 1000,
        "samples": 64_000,
    }
    store(make_profile(**(MEASURED | times | {"host": host, "init_seconds": 0.0, "validation_seconds": ()} | changes)))


def test_the_answer_is_here_for_a_training_of_seconds() -> None:
    here_profile(0.001)
    shown = commands.succeed("recommend", "--epochs", "16").stdout
    assert shown.startswith("Train here:  16 s,  $0  (90%: ")
    found = run_json("--epochs", "16")
    assert found["chosen_is_here"]
    assert (found["chosen"]["provider"], found["chosen"]["machine"]) == ("local", "here")
    assert (found["chosen"]["usd"], found["chosen"]["basis"]) == (0, "measured")
    rented = run_json("--epochs", "16", "--exclude", "here")
    assert rented["here"] is None
    assert rented["chosen"]["usd"] > 0
    assert run_json("--epochs", "16", "--only", "machine=here")["chosen"]["machine"] == "here"


def test_by_default_each_question_has_one_line() -> None:
    here_profile(3.6)
    shown = commands.succeed("recommend", "--epochs", "10").stdout
    found = run_json("--epochs", "10")
    headings = [line.split("·")[0].strip() for line in shown.splitlines() if "  · " in line]
    assert [heading for heading in headings if heading != "price"][:3] == ["why", "how sure", "what if"]
    assert len(headings) == len(found["summary"]) <= 5
    assert "sooner than training here, for $" in " ".join(shown.split())
    assert all(each["sentence"] in " ".join(shown.split()) for each in found["summary"] if each["topic"] != "what if")
    assert "all reasons: --explain" in shown
    assert len(found["reasons"]) > len(found["summary"])


def test_the_row_of_an_old_price_has_its_age() -> None:
    here_profile(3.6)
    found = run_json("--epochs", "10", "--only", "provider=azure", "--only", "machine=Standard_NC24ads_A100_v4")
    age = format_age(date.fromisoformat(found["chosen"]["price_seen_on"]), date.fromisoformat(found["made_at"][:10]))
    shown = commands.succeed("recommend", "--epochs", "10", "--only", "machine=Standard_NC24ads_A100_v4").stdout
    if (date.fromisoformat(found["made_at"][:10]) - date.fromisoformat(found["chosen"]["price_seen_on"])).days > 30:
        assert f"/h ({age})" in shown
        assert "`trainfare catalog update` renews prices" in " ".join(shown.split())


def test_the_value_of_time_is_dollars_an_hour() -> None:
    here_profile(3.6)
    found = run_json("--epochs", "10", "--value-of-time", "30/h")
    assert found["value_of_time_usd_per_hour"] == 30
    assert found["goal"] == "cheapest"
    assert "with your time at $30.00 an hour" in found["reasons"][0]
    for arguments in (("--value-of-time", "much"), ("--value-of-time", "30", "--goal", "fastest")):
        assert commands.complaint("recommend", *arguments).startswith("--value-of-time: ")


def test_the_table_has_no_machine_at_500_times_the_cost() -> None:
    here_profile(3.6)
    found = run_json("--epochs", "10")
    usd = {(e["provider"], e["machine"]): e["usd"] for e in found["estimates"]}
    shown = commands.succeed("recommend", "--epochs", "10").stdout.splitlines()
    rows = [line for line in shown if line[:1] in "✔●◆·"]
    named = [name for name in usd if any(f" {name[0]} {name[1]} " in row for row in rows)]
    assert named
    assert all(usd[name] <= 10 * found["chosen"]["usd"] * 1.001 for name in named if name != ("local", "here"))


def test_an_excluded_name_must_exist() -> None:
    here_profile(3.6)
    assert "Did you mean aws/g4dn.xlarge?" in commands.complaint("recommend", "--exclude", "aws/g4dn.xlarg")


def test_an_assumed_number_of_epochs_is_a_reason_with_the_flag() -> None:
    store(make_profile(**MEASURED))
    (assumed,) = [reason for reason in run_json()["reasons"] if "10 epochs are assumed" in reason]
    assert "--epochs N" in assumed
    assert not any("assumed" in reason for reason in run_json("--epochs", "10")["reasons"])


@pytest.mark.usefixtures("no_start_time")
def test_uncertain_epochs_do_not_make_the_order_of_machines_uncertain() -> None:
    stopping = EarlyStopping(metric="val_loss", patience=1)
    cheap, expensive = (Host(name="h", vm_type=f"aws/{name}") for name in ("g4dn.xlarge", "g5.xlarge"))
    fields = {"epochs": 1000, "early_stopping": stopping, "operations": (), **MEASURED}
    store(make_profile(id="p1", host=cheap, **fields), make_profile(id="p2", host=expensive, **fields))
    found = run_json()
    steady = [e for e in found["estimates"] if e["market"] == "on_demand"]
    first, second = (next(e for e in steady if e["profile"] == name) for name in ("p1", "p2"))
    assert second["usd_low"] < first["usd"] < second["usd"]
    assert not any("after all, with a probability" in reason for reason in found["reasons"])


def test_without_a_profile_the_error_names_the_command_that_makes_one() -> None:
    assert isinstance(commands.error_of("recommend"), UsageError)
    assert "`trainfare profile -- python train.py`" in commands.complaint("recommend")


def test_a_mistyped_profile_is_named_with_the_nearest() -> None:
    store(make_profile())
    error = commands.error_of("recommend", "p7kk2")
    assert isinstance(error, NotFoundError)
    assert error.near == "p7k2"


@pytest.mark.usefixtures("no_start_time")
def test_each_batch_size_is_estimated_from_its_own_profile() -> None:
    here = Host(name="a", vm_type="aws/g4dn.xlarge")
    store(
        make_profile(host=here, **MEASURED),
        make_profile(
            id="pother",
            host=here,
            micro_batch_size=128,
            iterations_per_epoch=12,
            iteration_seconds=(1.0, *[0.12] * 4),
            **MEASURED,
        ),
    )
    found = run_json("p7k2", "pother", "--epochs", "10", "--goal", "fastest", "--all")
    steady = [e for e in found["estimates"] if e["market"] == "on_demand"]
    seconds = {e["batch_size"]: e["seconds"] for e in steady if e["basis"] == "measured"}
    assert seconds[64] == pytest.approx(2 + 1 + 229 * 0.1 + 0.3 + 9 * 0.2)
    assert seconds[128] == pytest.approx(2 + 1 + 119 * 0.12 + 0.3 + 9 * 0.2)
    assert any("the same number of epochs is assumed" in reason for reason in found["reasons"])
    at_each = [(e["machine"], e["batch_size"]) for e in found["estimates"] if e["market"] == "on_demand"]
    assert len(set(at_each)) == len(at_each) > 200


def test_a_stated_length_of_an_epoch_needs_one_batch_size() -> None:
    store(make_profile(), make_profile(id="pother", micro_batch_size=128))
    assert isinstance(run("p7k2", "pother", "--iterations-per-epoch", "9").exception, UsageError)


def test_a_program_without_a_loader_needs_the_length_of_an_epoch() -> None:
    store(make_profile(iterations_per_epoch=None, samples=None, **MEASURED))
    assert "--iterations-per-epoch" in commands.complaint("recommend")
    assert run_json("--iterations-per-epoch", "100")["chosen"]["seconds"] > 0


def test_a_program_that_fits_in_no_memory_is_infeasible() -> None:
    store(make_profile(activation_bytes=10**15))
    error = run().exception
    assert isinstance(error, InfeasibleError)
    assert error.exit_code == 3


def test_a_training_has_at_least_some_epochs() -> None:
    store(make_profile(**MEASURED))
    assert isinstance(run("--epochs", "0").exception, UsageError)
    assert "--epochs" in commands.complaint("recommend", "--epochs", "0")


@pytest.mark.parametrize("arguments", [("--epochs", "ten"), ("--goal", "best"), ("--epoch", "3")])
def test_a_wrong_argument_is_refused(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error" in result.stderr
