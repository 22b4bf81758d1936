"""Unmodified loops over `tf.GradientTape`."""

import pytest

from tests.frameworks.runs import (
    ProfiledRun,
    assert_close,
    run_alone,
    run_profiled,
    run_profiled_command,
    within_epochs,
)
from tests.needs import need_installed
from tests.pythons import python_with

need_installed("tensorflow")
pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module", params=["eager", "function"])
def shape(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def loop(shape: str) -> ProfiledRun:
    return run_profiled("tf_tape.py", shape, forked=shape == "function")


@pytest.mark.clocks
def test_iteration_times_agree_with_the_program(loop: ProfiledRun) -> None:
    assert len(loop.profile.iteration_seconds) == 25
    assert_close(*within_epochs(loop), seconds=3e-4)


@pytest.mark.clocks
def test_first_iteration_starts_with_its_first_batch(loop: ProfiledRun) -> None:
    begun, ended = loop.own["ends"][0][:2]
    assert loop.profile.first_iteration_seconds == pytest.approx(ended - begun, rel=0.1, abs=0.02)


def test_pass_without_an_update_is_a_validation(loop: ProfiledRun) -> None:
    """Before it starts the probe inspects the data set, which takes about 1 ms."""
    ours, own = loop.profile.validation_seconds, loop.own["validations"]
    assert ours == pytest.approx(own, rel=0.05, abs=3e-3)
    assert loop.profile.validation_samples == 30


def test_counts_are_exact(loop: ProfiledRun) -> None:
    for name in ("samples", "parameters"):
        assert getattr(loop.profile, name) == loop.own[name]
    assert loop.profile.micro_batch_size == loop.own["batch_size"]
    assert loop.profile.iterations_per_epoch == 11
    assert loop.profile.optimizer == "Adam"
    assert loop.profile.learning_rate == pytest.approx([0.01] * 25)
    assert loop.profile.gradient_bytes == loop.own["parameters"] * 4
    assert len(loop.profile.data_wait_seconds) == 25


def test_losses_equal_those_of_the_program_exactly(loop: ProfiledRun, shape: str) -> None:
    # In the compiled step the program never sees the loss of the iteration in which it is stopped.
    count = 25 if shape == "eager" else 24
    assert list(loop.profile.loss)[:count] == loop.own["losses"]


def test_losses_are_the_same_without_the_probe(loop: ProfiledRun, shape: str) -> None:
    plain = run_alone("tf_tape.py", shape, "--sleep", "0")
    assert list(loop.profile.loss) == plain["losses"][:25]


def test_machine_and_framework_are_recorded(loop: ProfiledRun) -> None:
    assert (loop.profile.framework, loop.profile.device, loop.profile.dtype) == ("tensorflow", "cpu", "float32")
    assert "keras" in loop.profile.versions
    assert loop.measured.ending == "enough"


@pytest.mark.clocks
def test_loop_inside_a_compiled_function_is_averaged_and_the_user_is_told() -> None:
    """No Python runs between the eleven steps of an epoch: the count of the optimizer gives their number."""
    found = run_profiled("tf_tape.py", "loop", "--sleep", "0.01", "--epochs", "8", iterations=70)
    assert len(found.profile.iteration_seconds) == 77
    ends = found.own["ends"]  # the second call also writes events, the last one ends the program
    ours = [sum(found.profile.iteration_seconds[11 * call : 11 * (call + 1)]) for call in range(2, 6)]
    assert_close(ours, [ends[call] - ends[call - 1] for call in range(2, 6)], seconds=3e-4)
    assert max(found.profile.iteration_seconds[1:11]) < found.profile.iteration_seconds[0] / 4
    assert ["11 steps run in one call" in note for note in found.notes] == [True]


@pytest.mark.clocks
def test_optimizer_of_keras_2_ends_the_iteration(shape: str) -> None:
    need_installed("tf_keras")
    python = python_with("tensorflow", "tf_keras", TF_USE_LEGACY_KERAS="1")
    found = run_profiled_command(["env", "TF_USE_LEGACY_KERAS=1", python, "tf_tape.py", shape])
    assert_close(*within_epochs(found), seconds=3e-4)
    assert list(found.profile.loss)[:24] == found.own["losses"][:24]
    assert (found.profile.optimizer, found.profile.parameters) == ("Adam", found.own["parameters"])
    assert len(found.profile.validation_seconds) == 2
