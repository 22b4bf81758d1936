"""Unmodified Keras programs, on each backend."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.runs import ProfiledRun, assert_close, run_alone, run_profiled, within_epochs
from tests.needs import need_installed
from trainfare.model.profile import EarlyStopping

pytestmark = pytest.mark.heavy

BACKENDS = ("tensorflow", "jax", "torch", "tf_keras")
"""The last one is Keras 2, which runs on TensorFlow only."""
FORKED = ("jax", "torch")
"""Keras 3 is also run in a Python of its own on TensorFlow, as is Keras 2."""


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    need_installed("keras" if name == "torch" else name)
    return name


def fitted(backend: str, *options: str) -> ProfiledRun:
    version, keras_backend = (["--two"], "tensorflow") if backend == "tf_keras" else ([], backend)
    return run_profiled("keras_fit.py", *version, *options, backend=keras_backend, forked=backend in FORKED)


def fitted_alone(backend: str, *options: str) -> dict[str, Any]:
    version, keras_backend = (["--two"], "tensorflow") if backend == "tf_keras" else ([], backend)
    return run_alone("keras_fit.py", *version, *options, backend=keras_backend)


@pytest.fixture(scope="module")
def fit(backend: str, tmp_path_factory: pytest.TempPathFactory) -> ProfiledRun:
    return fitted(backend, "--schedule", "optimizer", "--save", str(tmp_path_factory.mktemp("saved")))


@pytest.mark.clocks
def test_iteration_times_agree_with_the_program(fit: ProfiledRun) -> None:
    assert len(fit.profile.iteration_seconds) == 25
    assert_close(*within_epochs(fit), seconds=3e-4)


@pytest.mark.clocks
def test_first_iteration_starts_with_its_epoch(fit: ProfiledRun) -> None:
    begun, ended = fit.own["ends"][0][:2]
    assert fit.profile.first_iteration_seconds == pytest.approx(ended - begun, rel=0.1, abs=0.02)


@pytest.mark.clocks
def test_validation_times_agree_with_the_program(fit: ProfiledRun) -> None:
    assert len(fit.profile.validation_seconds) == 2
    assert_close(fit.profile.validation_seconds, fit.own["validations"], seconds=3e-4)


def test_counts_are_exact(fit: ProfiledRun) -> None:
    for name in ("samples", "validation_samples", "parameters"):
        assert getattr(fit.profile, name) == fit.own[name]
    assert fit.profile.frozen_parameters is not None
    assert fit.profile.weight_bytes == pytest.approx(4 * (fit.profile.total_parameters or 0), rel=0.01)
    assert fit.profile.micro_batch_size == fit.own["batch_size"]
    assert fit.profile.effective_batch_size == 10
    assert fit.profile.iterations_per_epoch == 11
    assert fit.profile.epochs == 4
    assert fit.profile.early_stopping == EarlyStopping(metric="val_loss", patience=7)
    assert fit.profile.gradient_bytes == 195 * 4
    assert fit.profile.optimizer == "Adam"
    assert len(fit.profile.checkpoint_seconds) == 2


def test_loss_of_a_batch_follows_from_the_means_of_the_epoch(fit: ProfiledRun) -> None:
    expected = []
    for means in fit.own["means"]:
        total, samples = 0.0, 0
        for number, mean in enumerate(means):
            size = 7 if number == 10 else 10
            expected.append((mean * (samples + size) - total) / size)
            total, samples = mean * (samples + size), samples + size
    assert fit.profile.loss == pytest.approx(expected[:25], rel=1e-5)


def test_training_is_the_same_without_the_probe(fit: ProfiledRun, backend: str) -> None:
    plain = fitted_alone(backend, "--schedule", "optimizer", "--epochs", "3", "--sleep", "0")
    profiled, unprofiled = list(chain(*fit.own["means"])), list(chain(*plain["means"]))
    assert len(profiled) in (25, 26)  # one more if its operations are traced
    assert profiled == unprofiled[: len(profiled)]


def test_curve_is_what_keras_reports(fit: ProfiledRun) -> None:
    assert [epoch.number for epoch in fit.profile.curve] == [1, 2]
    for epoch, own in zip(fit.profile.curve, fit.own["epochs"], strict=True):
        assert {"loss": epoch.loss, **epoch.metrics} == pytest.approx(own)
        assert epoch.seconds is not None
        assert epoch.seconds > 0.1


def test_machine_and_framework_are_recorded(fit: ProfiledRun, backend: str) -> None:
    assert fit.profile.framework == "keras"
    assert fit.profile.framework_version is not None
    assert fit.profile.framework_version.startswith("2." if backend == "tf_keras" else "3.")
    assert backend.replace("tf_keras", "tensorflow") in fit.profile.versions
    assert (fit.profile.device, fit.profile.dtype) == ("cpu", "float32")
    assert fit.profile.init_seconds is not None
    assert fit.profile.peak_host_bytes is not None
    assert fit.profile.cpu_use is not None
    assert fit.measured.ending == "enough"
    assert fit.notes == []


def test_waits_are_recorded_if_python_fetches_the_batch(fit: ProfiledRun, backend: str) -> None:
    assert len(fit.profile.data_wait_seconds) == (0 if backend in ("tensorflow", "tf_keras") else 25)


def test_compile_time_is_recorded_on_jax(fit: ProfiledRun, backend: str) -> None:
    if backend == "jax":
        assert fit.profile.compile_seconds is not None
        assert 0 < fit.profile.compile_seconds < 60
        assert fit.profile.compile_cache_warm is False
    else:
        assert fit.profile.compile_seconds is None


def test_one_validation_is_run_if_none_was_measured(tmp_path: Path) -> None:
    found = run_profiled("keras_fit.py", "--save", str(tmp_path), backend="jax", iterations=5)
    assert len(found.profile.iteration_seconds) == 5
    assert len(found.profile.validation_seconds) == 1
    assert found.profile.curve == ()
    assert list(tmp_path.iterdir()) == []


def test_program_that_swallows_the_stop_is_ended() -> None:
    found = run_profiled("keras_fit.py", "--swallow", backend="torch", iterations=5)
    assert found.measured.ending == "enough"
    assert found.measured.log.text().count("swallowed MeasurementComplete") == 3


@pytest.mark.clocks
def test_steps_of_one_execution_are_averaged_and_the_user_is_told() -> None:
    """Eleven batches per epoch, four per execution: the last one has three."""
    found = run_profiled("keras_fit.py", "--together", "4", "--sleep", "0.02", backend="tensorflow", iterations=22)
    assert len(found.profile.iteration_seconds) == 22
    first, second = found.own["ends"]
    ours = [sum(found.profile.iteration_seconds[since:until]) for since, until in ((8, 11), (15, 19), (19, 22))]
    own = [first[3] - first[2], second[2] - second[1], second[3] - second[2]]
    # The program's own times also contain what the probe writes between two executions.
    differences = [theirs - mine for theirs, mine in zip(own, ours, strict=True)]
    assert min(map(abs, differences)) < 1e-3
    assert min(differences) > -1e-3
    # The first step gets the time by which the first execution was longer than the second.
    assert max(found.profile.iteration_seconds[1:8]) < found.profile.iteration_seconds[0] / 4
    known = [number for number, loss in enumerate(found.profile.loss, start=1) if loss is not None]
    assert known == [4, 8, 11, 15, 19, 22]
    assert ["4 steps run in one call" in note for note in found.notes] == [True]
    assert "trainfare: 4 steps run in one call" in found.measured.log.text()


def test_schedule_is_named_and_its_rates_are_recorded(fit: ProfiledRun) -> None:
    """The rates of the steps so far, and those at the start of each of the four epochs of eleven steps."""
    assert fit.profile.learning_rate_schedule == "ExponentialDecay"
    assert fit.profile.learning_rate == pytest.approx([1e-2 * 0.5 ** (n / 10) for n in range(25)], rel=1e-5)
    assert fit.profile.learning_rate_plan == pytest.approx([1e-2 * 0.5 ** (n / 10) for n in (0, 11, 22, 33)], rel=1e-5)


def test_pure_function_of_a_scheduler_is_replayed() -> None:
    found = run_profiled("keras_fit.py", "--schedule", "callback", backend="torch", iterations=12)
    assert found.profile.learning_rate_schedule == "LearningRateScheduler"
    assert found.profile.learning_rate_plan == pytest.approx([1e-2, 5e-3, 5e-3, 2.5e-3])


def test_function_of_a_scheduler_that_is_not_pure_is_not_called() -> None:
    found = run_profiled("keras_fit.py", "--schedule", "unsafe", backend="torch", iterations=12)
    assert found.own["calls"] == [0, 1]
    assert found.profile.learning_rate_schedule == "LearningRateScheduler"
    assert found.profile.learning_rate_plan == ()


@pytest.mark.clocks
def test_loop_over_single_batches() -> None:
    found = run_profiled("keras_own_loop.py", backend="tensorflow")
    assert_close(*within_epochs(found), seconds=3e-4)
    assert len(found.profile.iteration_seconds) == 25
    assert_close(found.profile.validation_seconds, found.own["validations"], seconds=3e-4)
    assert (found.profile.micro_batch_size, found.profile.iterations_per_epoch) == (10, 10)
    assert found.profile.optimizer == "SGD"
    assert found.profile.learning_rate == pytest.approx([0.01] * 25)


def test_loop_of_fits_over_a_data_set_of_unknown_batch_size() -> None:
    """Only the loop knows the number of epochs; the batch size is read from the first batch."""
    found = run_profiled("keras_stream.py", backend="torch")
    assert len(found.profile.iteration_seconds) == 25
    assert (found.profile.micro_batch_size, found.profile.iterations_per_epoch) == (10, 11)
    assert (found.profile.samples, found.profile.epochs) == (None, 4)
    assert [epoch.number for epoch in found.profile.curve] == [1, 2]
    assert None not in found.profile.loss
