"""`trainfare recommend` on stored profiles; tests/flow measures a program first."""

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
from trainfare.model.profile import EarlyStopping
from trainfare.settings import read_settings
from trainfare.store.open import open_history

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
    result = commands.succeed("recommend", "--epochs", 10)
    first = result.stdout.splitlines()[0]
    assert first.startswith("Train on  ")
    assert " $" in first
    reasons = run_json("--epochs", "10")["reasons"]
    assert all(reason in " ".join(result.stdout.split()) for reason in reasons if "plan" not in reason)
    assert any(reason.startswith("extrapolated: ") for reason in reasons)
    assert "more: --all" in result.stdout
    assert len(run("--all").stdout.splitlines()) > 100


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


@pytest.mark.parametrize("arguments", [("--epochs", "0"), ("--epochs", "ten"), ("--goal", "best"), ("--epoch", "3")])
def test_a_wrong_argument_is_refused(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error" in result.stderr
