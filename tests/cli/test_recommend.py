"""`trainfare recommend` on profiles that are already kept; tests/flow measures them first."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import trainfare
from tests.makers import make_profile
from trainfare.cli.main import app
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.model.machine import Host
from trainfare.model.profile import EarlyStopping, Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history

MEASURED = {"activation_bytes": 50_000_000}


@pytest.fixture
def there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines that need no time to start: what is left is the training."""
    monkeypatch.setenv("TRAINFARE_BOOT_SECONDS", "0")
    monkeypatch.setenv("TRAINFARE_SETUP_SECONDS", "0")


def keep(*profiles: Profile) -> None:
    with open_history(read_settings().store) as history:
        for profile in profiles:
            history.profiles.add(profile)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["recommend", *arguments], catch_exceptions=True)


def run_json(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_every_offer_is_estimated_and_one_is_chosen() -> None:
    keep(make_profile(**MEASURED))
    found = run_json("--epochs", "10", "--all")
    wanted = [
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
        for line in trainfare.catalog.offers().lines
        for market, price in (("on_demand", line.usd_per_hour), ("spot", line.spot_usd_per_hour))
        if price is not None and line.vm_type.gpu is not None and line.vm_type.gpu.vendor in ("nvidia", "amd")
    }
    assert {(f"{e['provider']}/{e['machine']}", e["market"]) for e in found["estimates"]} == rentable
    for estimate in (found["chosen"], *found["estimates"]):
        assert set(wanted) <= set(estimate)
        assert 0 < estimate["seconds_low"] <= estimate["seconds"] <= estimate["seconds_high"]
        assert 0 < estimate["usd_low"] <= estimate["usd"] <= estimate["usd_high"]
        assert estimate["basis"] == "extrapolated"
    assert found["chosen"] in found["estimates"]
    assert found["reasons"]
    steady = [e for e in found["estimates"] if e["market"] != "spot" and e["fits"]]
    assert found["chosen"]["usd"] == min(e["usd"] for e in steady)


def test_the_fastest_is_chosen_when_time_counts() -> None:
    keep(make_profile(**MEASURED))
    found = run_json("--goal", "fastest")
    steady = [e for e in found["estimates"] if e["market"] != "spot" and e["fits"]]
    assert found["chosen"]["seconds"] == min(e["seconds"] for e in steady)


def test_spot_may_be_chosen_when_allowed() -> None:
    keep(make_profile(**MEASURED))
    assert run_json("--spot")["chosen"]["usd"] <= run_json()["chosen"]["usd"]
    assert run_json("--spot")["chosen"]["market"] == "spot"


def test_retired_machines_are_never_offered() -> None:
    keep(make_profile(**MEASURED))
    machines = {e["machine"] for e in run_json()["estimates"]}
    assert not machines & {"p2.xlarge", "Standard_NC6", "ml.p2.xlarge", "NC6", "tpu-v2", "trn1.2xlarge"}


@pytest.mark.usefixtures("there_at_once")
def test_profiles_measured_on_several_machines_are_compared_by_what_was_measured() -> None:
    """Malta's second method: initialisation 2 + first 1 + 229 later iterations + validations."""
    keep(
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


def test_an_own_machine_at_its_own_price_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text("[bench]\nusd_per_hour = 0.0001\nvcpus = 8\nmemory_gib = 32\n")
    monkeypatch.setenv("TRAINFARE_MACHINES", str(machines))
    keep(make_profile(host=Host(name="bench", vm_type="own/bench"), **MEASURED))
    chosen = run_json()["chosen"]
    assert (chosen["provider"], chosen["machine"], chosen["basis"]) == ("own", "bench", "measured")


def test_the_plan_is_kept() -> None:
    keep(make_profile(**MEASURED))
    found = run_json()
    with open_history(read_settings().store) as history:
        (plan,) = history.plans.all()
        assert plan.id == found["plan"]
        assert history.estimates.of("p7k2")


def test_a_person_reads_the_answer_the_reasons_and_the_table() -> None:
    keep(make_profile(**MEASURED))
    result = run("--epochs", "10")
    assert result.exit_code == 0
    first = result.stdout.splitlines()[0]
    assert first.startswith("Train on  ")
    assert " $" in first
    assert "extrapolated: nobody has measured this program" in " ".join(result.stdout.split())
    assert "more: --all" in result.stdout
    assert len(run("--all").stdout.splitlines()) > 100


def test_assumed_epochs_are_said() -> None:
    keep(make_profile(**MEASURED))
    assert any("10 epochs are assumed" in reason for reason in run_json()["reasons"])
    assert not any("assumed" in reason for reason in run_json("--epochs", "10")["reasons"])


@pytest.mark.usefixtures("there_at_once")
def test_doubt_about_the_epochs_is_no_doubt_about_the_order_of_machines() -> None:
    stopping = EarlyStopping(metric="val_loss", patience=1)
    cheap, dear = (Host(name="h", vm_type=f"aws/{name}") for name in ("g4dn.xlarge", "g5.xlarge"))
    fields = {"epochs": 1000, "early_stopping": stopping, "operations": (), **MEASURED}
    keep(make_profile(id="p1", host=cheap, **fields), make_profile(id="p2", host=dear, **fields))
    found = run_json()
    steady = [e for e in found["estimates"] if e["market"] == "on_demand"]
    first, second = (next(e for e in steady if e["profile"] == name) for name in ("p1", "p2"))
    assert second["usd_low"] < first["usd"] < second["usd"]
    assert not any("cannot be told apart" in reason for reason in found["reasons"])


def test_without_any_profile_the_answer_says_how_to_make_one() -> None:
    error = run().exception
    assert isinstance(error, UsageError)
    assert "trainfare profile -- python train.py" in str(error)


def test_a_mistyped_profile_is_named_with_the_nearest() -> None:
    keep(make_profile())
    error = run("p7kk2").exception
    assert isinstance(error, NotFoundError)
    assert "Did you mean p7k2" in str(error)


@pytest.mark.usefixtures("there_at_once")
def test_several_batch_sizes_are_compared_each_by_its_own_profile() -> None:
    here = Host(name="a", vm_type="aws/g4dn.xlarge")
    keep(
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


def test_the_length_of_an_epoch_is_stated_for_one_batch_size_only() -> None:
    keep(make_profile(), make_profile(id="pother", micro_batch_size=128))
    assert isinstance(run("p7k2", "pother", "--iterations-per-epoch", "9").exception, UsageError)


def test_a_program_without_a_loader_needs_the_length_of_an_epoch() -> None:
    keep(make_profile(iterations_per_epoch=None, samples=None, **MEASURED))
    assert "--iterations-per-epoch" in str(run().exception)
    assert run_json("--iterations-per-epoch", "100")["chosen"]["seconds"] > 0


def test_what_fits_nowhere_is_infeasible() -> None:
    keep(make_profile(activation_bytes=10**15))
    error = run().exception
    assert isinstance(error, InfeasibleError)
    assert error.exit_code == 3


@pytest.mark.parametrize("arguments", [("--epochs", "0"), ("--epochs", "ten"), ("--goal", "best"), ("--epoch", "3")])
def test_a_wrong_argument_is_refused(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error" in result.stderr
