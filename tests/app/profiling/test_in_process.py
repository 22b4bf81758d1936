"""`with trainfare.profile()`, in programs of their own processes, so that their hooks do not affect these tests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.needs import need_installed
from tests.pythons import python_with
from trainfare.app.profiling.profile import profile
from trainfare.errors import UsageError
from trainfare.settings import Settings
from trainfare.store.open import open_history

PROGRAMS = Path(__file__).parents[2] / "programs"


def run(program: str, store: Path, **environment: str) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, program],
        cwd=PROGRAMS,
        env=os.environ | {"TRAINFARE_STORE": str(store)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    account: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return account


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store") / "history.db"


@pytest.fixture(scope="module")
def own(store: Path) -> dict[str, Any]:
    return run("measures_itself.py", store)


def test_loop_in_the_block_is_measured_and_trains_to_its_end(own: dict[str, Any]) -> None:
    assert own["steps"] == 70
    assert own["iterations"] == [12, 20, None]
    assert own["batch_sizes"] == [4, 4, None]
    assert all(0.002 < seconds < 0.02 for seconds in own["medians"][:2])


def test_long_loop_is_traced_and_a_short_loop_is_finished(own: dict[str, Any]) -> None:
    assert own["endings"] == ["enough", "finished", None]
    assert own["operations"][0] > 0


def test_profiles_from_code_have_the_origin_code(own: dict[str, Any], store: Path) -> None:
    with open_history(str(store)) as history:
        assert {found.id: found.origin for found in history.profiles.all()} == dict.fromkeys(own["ids"][:2], "code")


def test_fit_of_keras_goes_on_to_its_last_epoch(tmp_path: Path) -> None:
    need_installed("keras")
    own = run("keras_measures_itself.py", tmp_path / "history.db", KERAS_BACKEND="torch")
    assert own == {"epochs": [3, 2], "iterations": 10, "framework": "keras", "batch_size": 4}


def test_failing_block_is_saved_and_raises_its_own_error(tmp_path: Path) -> None:
    code = """
import torch, trainfare
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
measured = trainfare.profile()
try:
    with measured:
        for number in range(9):
            (weight**2).sum().backward()
            optimizer.step()
        raise KeyError("mine")
except KeyError:
    print(measured.profile.ending, len(measured.profile.iteration_seconds))
"""
    measuring = python_with("torch", "torch._dynamo")
    result = subprocess.run([measuring, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["failed", "9"], result.stderr


def test_profiled_program_does_not_measure_itself(tmp_path: Path) -> None:
    found = profile(
        (sys.executable, "measures_itself.py"),
        settings=Settings(store=str(tmp_path / "history.db"), iterations=30),
        directory=PROGRAMS,
    )
    assert (found.origin, len(found.iteration_seconds)) == ("probe", 30)
    assert not (PROGRAMS / "history.db").exists()


def test_blocks_do_not_nest(tmp_path: Path) -> None:
    code = "import trainfare\nwith trainfare.profile():\n    with trainfare.profile():\n        pass"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "UsageError: a `with trainfare.profile()` block cannot be nested in another one." in result.stderr


def test_one_iteration_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 2"):
        profile(settings=Settings(store=str(tmp_path / "history.db")), iterations=1)


def test_a_time_limit_ends_the_measurement_and_not_the_training(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LIMITED)
    own = run(str(tmp_path / "train.py"), tmp_path / "history.db")
    assert own["steps"] == 40
    assert 2 <= own["iterations"] < 39


LIMITED = """
import json, time, torch, trainfare
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
steps = 0
with trainfare.profile(iterations=1000, max_seconds=0.2) as measured:
    for _ in range(40):
        time.sleep(0.05)
        (weight**2).sum().backward()
        optimizer.step()
        steps += 1
print(json.dumps({"steps": steps, "iterations": len(measured.profile.iteration_seconds)}))
"""


def test_options_of_a_command_are_refused_without_one() -> None:
    with pytest.raises(TypeError, match="epochs"):
        profile(epochs=2)  # type: ignore[call-overload] # the wrong argument is what is tested
