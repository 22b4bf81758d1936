"""Trainings that measure themselves, by a callback of their framework and by a `with` block around it.

Each runs in a process of its own: the hooks stay there and do not reach these tests.
"""

import json
import os
import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest

import trainfare
from tests.frameworks.runs import assert_close
from trainfare.model.profile import Profile
from trainfare.store.open import open_history

PROGRAMS = Path(__file__).parents[2] / "programs"
ITERATIONS = 15

TRAININGS = {
    "lightning": ("lightning_fit.py",),
    "pytorch_lightning": ("lightning_fit.py", "--old"),
    "transformers": ("hf_trainer.py",),
    "keras": ("keras_fit.py",),
    "tf_keras": ("keras_fit.py", "--two"),
}
LENGTHS = {"lightning_fit.py": 10, "hf_trainer.py": 8, "keras_fit.py": 11}


def run(*words: str, folder: Path) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, *words],
        cwd=PROGRAMS,
        env=os.environ | {"TRAINFARE_STORE": str(folder / "history.db"), "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "trainfare" not in result.stderr
    own: dict[str, Any] = json.loads(next(line for line in result.stdout.splitlines() if line.startswith('{"')))
    return own


def kept(folder: Path) -> tuple[Profile, ...]:
    with open_history(str(folder / "history.db")) as history:
        return history.profiles.all()


def losses(own: dict[str, Any]) -> list[float]:
    return list(chain(*own["means"])) if "means" in own else list(own["losses"])


@pytest.fixture(scope="module", params=TRAININGS)
def training(request: pytest.FixtureRequest) -> tuple[str, ...]:
    pytest.importorskip(request.param)
    return TRAININGS[request.param]


@pytest.fixture(scope="module", params=["callback", "block"])
def measured(
    request: pytest.FixtureRequest, training: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Profile]:
    folder = tmp_path_factory.mktemp("store")
    own = run(*training, "--measure", request.param, folder=folder)
    (profile,) = kept(folder)
    assert own["profile"] == profile.id
    return own, profile


@pytest.mark.heavy
def test_the_wanted_iterations_are_kept(measured: tuple[dict[str, Any], Profile], training: tuple[str, ...]) -> None:
    _, profile = measured
    assert len(profile.iteration_seconds) == ITERATIONS
    assert (profile.origin, profile.ending) == ("code", "enough")
    assert profile.iterations_per_epoch == LENGTHS[training[0]]
    assert profile.epochs
    assert profile.early_stopping
    assert len(profile.loss) == ITERATIONS
    assert profile.validation_seconds


@pytest.mark.heavy
def test_iterations_take_what_the_program_clocked(measured: tuple[dict[str, Any], Profile]) -> None:
    own, profile = measured
    by_epoch = isinstance(own["ends"][0], list)
    spans = [[b - a for a, b in pairwise(ends)] for ends in (own["ends"] if by_epoch else [own["ends"]])]
    assert_close(profile.steady_iteration_seconds, list(chain(*spans))[1 if by_epoch else 0 : ITERATIONS], seconds=5e-4)


@pytest.mark.heavy
def test_training_goes_on_to_its_end_and_is_the_same(
    measured: tuple[dict[str, Any], Profile], training: tuple[str, ...], tmp_path: Path
) -> None:
    own, _ = measured
    assert losses(own) == losses(run(*training, folder=tmp_path))
    assert kept(tmp_path) == ()


@pytest.mark.heavy
def test_training_ends_early_if_that_is_asked(training: tuple[str, ...], tmp_path: Path) -> None:
    own = run(*training, "--measure", "callback", "--stop", folder=tmp_path)
    assert own["profile"]
    assert ITERATIONS <= len(losses(own)) <= ITERATIONS + 6


def test_naming_a_callback_imports_no_framework() -> None:
    code = (
        "import sys, trainfare\n"
        "trainfare.KerasCallback, trainfare.LightningCallback, trainfare.TransformersCallback\n"
        "print([name for name in ('keras', 'torch', 'lightning', 'transformers') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_callback_of_a_framework_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainfare.TransformersCallback, "_homes", ("not_installed_anywhere.callbacks",))
    with pytest.raises(trainfare.TrainfareError, match="needs not_installed_anywhere, which is not installed"):
        trainfare.TransformersCallback()


FAILING = """
import pickle, warnings, numpy as np, keras, trainfare
warnings.simplefilter("error")
data = np.ones((64, 4), "float32"), np.ones((64, 1), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")

class Failing(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 6:
            raise KeyError("mine")

first, second = trainfare.KerasCallback(), pickle.loads(pickle.dumps(trainfare.KerasCallback(iterations=5)))
assert isinstance(second, trainfare.KerasCallback) and isinstance(second, keras.callbacks.Callback)
try:
    model.fit(*data, batch_size=4, callbacks=[first, Failing()], verbose=0)
except KeyError:
    model.fit(*data, batch_size=4, callbacks=[second], verbose=0)
model.fit(*data, batch_size=4, callbacks=[second], verbose=0)
print(*[(one.profile.ending, len(one.profile.iteration_seconds)) for one in (first, second)])
"""


@pytest.mark.heavy
def test_training_that_failed_gives_way_to_the_next_and_keeps_what_it_showed(tmp_path: Path) -> None:
    """The second was sent through a pickle, as launchers do, and measures its first training only."""
    pytest.importorskip("keras")
    environment = os.environ | {"TRAINFARE_STORE": str(tmp_path / "history.db"), "KERAS_BACKEND": "torch"}
    result = subprocess.run(
        [sys.executable, "-c", FAILING], env=environment, capture_output=True, text=True, check=False
    )
    assert result.stdout == "('failed', 6) ('enough', 5)\n", result.stderr
    assert len(kept(tmp_path)) == 2


@pytest.mark.heavy
def test_training_that_ends_the_program_keeps_what_it_showed(tmp_path: Path) -> None:
    pytest.importorskip("keras")
    environment = os.environ | {"TRAINFARE_STORE": str(tmp_path / "history.db"), "KERAS_BACKEND": "torch"}
    program = FAILING.partition("try:")[0] + "model.fit(*data, batch_size=4, callbacks=[first, Failing()], verbose=0)"
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.rstrip().endswith("KeyError: 'mine'")
    assert [(profile.ending, len(profile.iteration_seconds)) for profile in kept(tmp_path)] == [("failed", 6)]


@pytest.mark.heavy
def test_store_that_cannot_be_opened_is_a_warning_and_training_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    (tmp_path / "history.db").mkdir()
    result = subprocess.run(
        [sys.executable, "-c", FAILING.partition("class Failing")[0].replace('"error"', '"always"') + UNMEASURED],
        env=os.environ | {"TRAINFARE_STORE": str(tmp_path / "history.db"), "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "16 None\n", result.stderr
    assert "this training is not measured" in result.stderr


UNMEASURED = """
callback = trainfare.KerasCallback()
steps = []
class Count(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        steps.append(batch)
model.fit(*data, batch_size=4, callbacks=[callback, Count()], verbose=0)
print(len(steps), callback.profile)
"""
