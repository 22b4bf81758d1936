"""Trainings that measure themselves, with a callback of their framework or with a `with` block.

Each runs in its own process, so that its hooks do not affect these tests; those of one framework in forks of one that
has imported it.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest

import trainfare
from tests.frameworks.runs import assert_close, own_account, python_for
from tests.needs import need_installed
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
MODES = {
    "unmeasured": (),
    "callback": ("--measure", "callback"),
    "block": ("--measure", "block"),
    "stopped": ("--measure", "callback", "--stop"),
}


def stored(folder: Path) -> tuple[Profile, ...]:
    with open_history(str(folder / "history.db")) as history:
        return history.profiles.all()


def losses(own: dict[str, Any]) -> list[float]:
    return list(chain(*own["means"])) if "means" in own else list(own["losses"])


@dataclass(frozen=True)
class Training:
    """What a program reports about itself in each mode, and the folder with a store for each."""

    program: str
    own: dict[str, dict[str, Any]]
    folder: Path


@pytest.fixture(scope="module")
def trainings() -> dict[str, Training]:
    """The trainings by framework; each is run once, when a test first needs it."""
    return {}


@pytest.fixture(params=TRAININGS)
def training(
    request: pytest.FixtureRequest, trainings: dict[str, Training], tmp_path_factory: pytest.TempPathFactory
) -> Training:
    need_installed(request.param)
    if request.param not in trainings:
        trainings[request.param] = run_modes(request.param, tmp_path_factory.mktemp("stores"))
    return trainings[request.param]


def run_modes(framework: str, folder: Path) -> Training:
    python = python_for(*TRAININGS[framework], backend="tensorflow")
    own = {}
    for mode, options in MODES.items():
        (folder / mode).mkdir()
        own[mode] = own_account(run([python, *TRAININGS[framework], *options], folder / mode, check=True).stdout)
    return Training(TRAININGS[framework][0], own, folder)


def run(command: Sequence[str], folder: Path, *, check: bool = False) -> "subprocess.CompletedProcess[str]":
    """Run a program with a store in the folder."""
    environment = os.environ | {"TRAINFARE_STORE": str(folder / "history.db"), "KERAS_BACKEND": "tensorflow"}
    return subprocess.run(command, cwd=PROGRAMS, env=environment, capture_output=True, text=True, check=check)


@pytest.fixture(params=["callback", "block"])
def measured(request: pytest.FixtureRequest, training: Training) -> tuple[dict[str, Any], Profile]:
    own = training.own[request.param]
    (profile,) = stored(training.folder / request.param)
    assert own["profile"] == profile.id
    return own, profile


@pytest.mark.heavy
def test_requested_iterations_are_saved(measured: tuple[dict[str, Any], Profile], training: Training) -> None:
    _, profile = measured
    assert len(profile.iteration_seconds) == ITERATIONS
    assert (profile.origin, profile.ending) == ("code", "enough")
    assert profile.iterations_per_epoch == LENGTHS[training.program]
    assert profile.epochs
    assert profile.early_stopping
    assert len(profile.loss) == ITERATIONS
    assert profile.validation_seconds


@pytest.mark.clocks
@pytest.mark.heavy
def test_iteration_times_agree_with_the_program(measured: tuple[dict[str, Any], Profile]) -> None:
    own, profile = measured
    by_epoch = isinstance(own["ends"][0], list)
    spans = [[b - a for a, b in pairwise(ends)] for ends in (own["ends"] if by_epoch else [own["ends"]])]
    assert_close(profile.steady_iteration_seconds, list(chain(*spans))[1 if by_epoch else 0 : ITERATIONS], seconds=5e-4)


@pytest.mark.heavy
def test_training_goes_on_to_its_end_unchanged(measured: tuple[dict[str, Any], Profile], training: Training) -> None:
    own, _ = measured
    assert losses(own) == losses(training.own["unmeasured"])
    assert stored(training.folder / "unmeasured") == ()


@pytest.mark.heavy
def test_training_ends_early_on_request(training: Training) -> None:
    own = training.own["stopped"]
    assert own["profile"]
    assert ITERATIONS <= len(losses(own)) <= ITERATIONS + 6


def test_importing_a_callback_imports_no_framework() -> None:
    code = (
        "import sys, trainfare\n"
        "trainfare.KerasCallback, trainfare.LightningCallback, trainfare.TransformersCallback\n"
        "print([name for name in ('keras', 'torch', 'lightning', 'transformers') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_callback_of_a_missing_framework_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainfare.TransformersCallback, "_callback_modules", ("not_installed_anywhere.callbacks",))
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
def test_failed_training_is_saved_when_the_next_one_begins(tmp_path: Path) -> None:
    """The second callback is pickled, as by a launcher, and measures only its first training."""
    need_installed("keras")
    result = run([python_for("keras_fit.py", backend="tensorflow"), "-c", FAILING], tmp_path)
    assert result.stdout == "('failed', 6) ('enough', 5)\n", result.stderr
    assert len(stored(tmp_path)) == 2


@pytest.mark.heavy
def test_training_that_ends_the_program_is_saved(tmp_path: Path) -> None:
    need_installed("keras")
    program = FAILING.partition("try:")[0] + "model.fit(*data, batch_size=4, callbacks=[first, Failing()], verbose=0)"
    result = run([sys.executable, "-c", program], tmp_path)
    assert result.returncode == 1
    assert result.stderr.rstrip().endswith("KeyError: 'mine'")
    assert [(profile.ending, len(profile.iteration_seconds)) for profile in stored(tmp_path)] == [("failed", 6)]


@pytest.mark.heavy
def test_unusable_store_is_a_warning_and_training_goes_on(tmp_path: Path) -> None:
    need_installed("lightning")
    (tmp_path / "history.db").mkdir()
    program = FAILING.partition("class Failing")[0].replace('"error"', '"always"') + UNMEASURED
    result = run([python_for("keras_fit.py", backend="tensorflow"), "-c", program], tmp_path)
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
