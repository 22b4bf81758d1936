"""Unmodified loops over `tf.GradientTape`."""

import sys

import pytest

from tests.frameworks.runs import Seen, alone, assert_close, seen, seen_command, within_epochs

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module", params=["eager", "function"])
def shape(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def loop(shape: str) -> Seen:
    return seen("tf_tape.py", shape)


def test_iterations_take_what_the_program_clocked(loop: Seen) -> None:
    assert len(loop.profile.iteration_seconds) == 25
    assert_close(*within_epochs(loop), seconds=3e-4)


def test_first_iteration_starts_with_its_first_batch(loop: Seen) -> None:
    begun, ended = loop.own["ends"][0][:2]
    assert loop.profile.first_iteration_seconds == pytest.approx(ended - begun, rel=0.1, abs=0.02)


def test_validation_is_a_pass_in_which_nothing_is_applied(loop: Seen) -> None:
    """Before it starts the probe looks at how the data set was built, in about 1 ms."""
    ours, own = loop.profile.validation_seconds, loop.own["validations"]
    assert ours == pytest.approx(own, rel=0.05, abs=3e-3)
    assert loop.profile.validation_samples == 30


def test_counts_are_exact(loop: Seen) -> None:
    for name in ("samples", "batch_size", "parameters"):
        assert getattr(loop.profile, name) == loop.own[name]
    assert loop.profile.iterations_per_epoch == 11
    assert loop.profile.optimizer == "Adam"
    assert loop.profile.learning_rate == pytest.approx([0.01] * 25)
    assert loop.profile.gradient_bytes == loop.own["parameters"] * 4
    assert len(loop.profile.data_wait_seconds) == 25


def test_losses_are_those_of_the_program_to_the_last_bit(loop: Seen, shape: str) -> None:
    # In the compiled step the program never sees the loss of the iteration in which it is stopped.
    count = 25 if shape == "eager" else 24
    assert list(loop.profile.loss)[:count] == loop.own["losses"]


def test_losses_are_the_same_without_the_probe(loop: Seen, shape: str) -> None:
    plain = alone("tf_tape.py", shape, "--sleep", "0")
    assert list(loop.profile.loss) == plain["losses"][:25]


def test_machine_and_framework_are_told(loop: Seen) -> None:
    assert (loop.profile.framework, loop.profile.device, loop.profile.dtype) == ("tensorflow", "cpu", "float32")
    assert "keras" in loop.profile.versions
    assert loop.measured.ending == "enough"


def test_loop_inside_a_compiled_function_is_averaged_and_it_is_said() -> None:
    """No Python runs between the eleven steps of its epoch: the optimizer's own count tells how many there were."""
    found = seen("tf_tape.py", "loop", "--sleep", "0.01", "--epochs", "5", iterations=40)
    assert len(found.profile.iteration_seconds) == 44
    ends = found.own["ends"]  # the second call also writes what is known, the last one ends the program
    assert_close([sum(found.profile.iteration_seconds[22:33])], [ends[2] - ends[1]], seconds=3e-4)
    assert max(found.profile.iteration_seconds[1:11]) < found.profile.iteration_seconds[0] / 4
    assert ["11 steps run in one call" in note for note in found.notes] == [True]


def test_optimizer_of_keras_2_ends_the_iteration(shape: str) -> None:
    pytest.importorskip("tf_keras")
    found = seen_command(["env", "TF_USE_LEGACY_KERAS=1", sys.executable, "tf_tape.py", shape])
    assert_close(*within_epochs(found), seconds=3e-4)
    assert list(found.profile.loss)[:24] == found.own["losses"][:24]
    assert (found.profile.optimizer, found.profile.parameters) == ("Adam", found.own["parameters"])
    assert len(found.profile.validation_seconds) == 2
