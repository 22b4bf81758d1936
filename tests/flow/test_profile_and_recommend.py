"""From a real program to a recommendation: profile it, recommend a machine, on the command line and in Python."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TRAINFARE = str(Path(sys.executable).with_name("trainfare"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("flow") / "history.db")


@pytest.fixture(scope="module")
def profile(store: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The profile of the example, copied to its own folder."""
    folder = tmp_path_factory.mktemp("program")
    shutil.copy(ROOT / "examples" / "pytorch_cnn.py", folder / "train.py")
    command = ["profile", "--iterations", "30", "--json", "--", sys.executable, "train.py", "--batch-size", "128"]
    result = trainfare(*command, store=store, cwd=folder)
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == ["train.py"]
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def trainfare(*arguments: str, store: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TRAINFARE_STORE": store}
    return subprocess.run(
        [TRAINFARE, *arguments], capture_output=True, text=True, env=environment, cwd=cwd, timeout=600, check=True
    )


def test_the_profile_describes_the_program(profile: dict[str, Any]) -> None:
    assert profile["framework"] == "pytorch"
    assert (profile["batch_size"], profile["samples"], profile["iterations_per_epoch"]) == (128, 1437, 12)
    assert profile["parameters"] == 310698
    assert len(profile["iteration_seconds"]) == len(profile["loss"]) == 30
    assert profile["first_iteration_seconds"] == profile["iteration_seconds"][0]
    assert len(profile["validation_seconds"]) == 2
    assert profile["init_seconds"] > 0
    assert profile["loss"][-1] < profile["loss"][0]
    assert sum(o["flops"] * o["count"] for o in profile["operations"]) > 1e9


def test_the_newest_profile_gets_a_recommendation(profile: dict[str, Any], store: str) -> None:
    words = ("recommend", "--epochs", "30", "--batch", "128", "--only", "gpu=T4", "--json")
    found = json.loads(trainfare(*words, store=store).stdout)
    chosen = found["chosen"]
    assert found["profiles"] == [profile["id"]]
    assert chosen["basis"] == "extrapolated"
    assert chosen["fits"] is True
    assert 0 < chosen["usd_low"] < chosen["usd"] < chosen["usd_high"]
    assert 0 < chosen["seconds_low"] < chosen["seconds"] < chosen["seconds_high"]
    assert (chosen["nodes"], chosen["gpus"], chosen["batch_size"], chosen["epochs"]) == (1, 1, 128, 30)


def test_an_imported_profile_is_used(profile: dict[str, Any], store: str, tmp_path: Path) -> None:
    """The estimate follows Malta's equation 5.3 with the imported measurements."""
    elsewhere = profile | {"id": "pelsewhere", "host": profile["host"] | {"vm_type": "aws/g4dn.xlarge"}}
    elsewhere |= {"init_seconds": 1.0, "iteration_seconds": [0.5, 0.001, 0.001], "data_wait_seconds": [], "loss": []}
    elsewhere |= {"validation_seconds": [0.02, 0.01]}
    file = tmp_path / "elsewhere.json"
    file.write_text(json.dumps(elsewhere))
    trainfare("profiles", "import", str(file), store=store)
    words = ("recommend", profile["id"], "--epochs", "10", "--only", "machine=g4dn.xlarge", "--json")
    found = json.loads(trainfare(*words, store=store).stdout)
    measured = [e for e in found["estimates"] if e["basis"] == "measured"]
    assert {e["machine"] for e in measured} == {"g4dn.xlarge"}
    for estimate in (e for e in measured if e["market"] == "on_demand"):
        phases = estimate["phases"]
        assert estimate["seconds"] == pytest.approx(sum(phases.values()))
        training = estimate["seconds"] - phases["boot"] - phases["setup"]
        assert training == pytest.approx(1.0 + 0.5 + 0.001 * (12 * 10 - 1) + 0.02 + 9 * 0.01)
        lines = {line["name"]: line["usd"] for line in estimate["bill"]["lines"]}
        assert estimate["usd"] == pytest.approx(sum(lines.values()))
        other = lines.get("storage", 0.0) + lines.get("egress", 0.0)
        billed = estimate["bill"]["billed_seconds"]
        assert estimate["usd"] == pytest.approx(estimate["usd_per_hour"] * billed / 3600 + other)


def test_python_gives_the_same_result_as_the_command(profile: dict[str, Any], store: str) -> None:
    import trainfare as api

    settings = api.Settings(store=store)
    assert api.profiles.show(profile["id"], settings=settings).parameters == profile["parameters"]
    found = api.recommend([profile["id"]], epochs=30, scope=api.Scope(exclude=("here",)), settings=settings)
    assert found.plan.chosen.usd.value == min(
        e.usd.value for e in found.estimates if e.fits and e.candidate.offer.market != "spot"
    )


def test_the_terminal_shows_the_chosen_machine_first(profile: dict[str, Any], store: str) -> None:
    shown = trainfare("recommend", profile["id"], "--epochs", "30", "--exclude", "here", store=store).stdout
    assert shown.startswith("Train on  ")
    assert "✔" in shown
    here = trainfare("recommend", profile["id"], "--epochs", "2", store=store).stdout
    assert here.startswith("Train here:  ")
    assert ",  $0  (90%: " in here
