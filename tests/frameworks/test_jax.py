"""Unmodified JAX programs, with and without optax."""

import pytest

from tests.frameworks.runs import (
    PROGRAMS,
    STALL_SECONDS,
    ProfiledRun,
    assert_close,
    profile_from,
    python_for,
    run_alone,
    run_profiled,
)
from tests.needs import need_installed
from trainfare.model.program import Program
from trainfare.profiler.measure import measure
from trainfare.profiler.stopping import UntilEpochs

need_installed("optax")
pytestmark = pytest.mark.heavy


def iterations_without_validation(found: ProfiledRun) -> tuple[list[float], list[float]]:
    """The iterations without a validation before them, by the profile and by the program."""
    ends, ours = found.own["ends"], found.profile.iteration_seconds
    positions = [position for position in range(1, 25) if position % 11]
    return [ours[position] for position in positions], [ends[position] - ends[position - 1] for position in positions]


@pytest.fixture(scope="module")
def step() -> ProfiledRun:
    return run_profiled("jax_optax.py", "step", forked=False)


@pytest.mark.clocks
def test_iteration_times_agree_with_the_program(step: ProfiledRun) -> None:
    assert len(step.profile.iteration_seconds) == 25
    assert_close(*iterations_without_validation(step), seconds=3e-4)


@pytest.mark.clocks
def test_first_iteration_is_the_first_call_with_its_compilation(step: ProfiledRun) -> None:
    own = step.own["ends"][0] - step.own["starts"][0]
    assert step.profile.first_iteration_seconds == pytest.approx(own, rel=0.1, abs=0.02)
    assert step.profile.compile_seconds is not None
    assert step.profile.compile_seconds > 0


@pytest.mark.clocks
def test_function_that_is_called_rarely_is_the_validation(step: ProfiledRun) -> None:
    """A validation lasts from the first call to the end of the last: the program sleeps 10 ms before the first."""
    assert_close(step.profile.validation_seconds, [seconds - 0.01 for seconds in step.own["validations"]], seconds=3e-4)


def test_counts_are_exact(step: ProfiledRun) -> None:
    assert step.profile.parameters == step.own["parameters"]
    assert step.profile.gradient_bytes == step.own["parameters"] * 4
    assert (step.profile.micro_batch_size, step.profile.effective_batch_size) == (10, 10)
    assert (step.profile.samples, step.profile.iterations_per_epoch) == (None, 11)
    assert step.profile.data_wait_seconds == ()


def test_optimizer_and_schedule_are_named(step: ProfiledRun) -> None:
    assert (step.profile.optimizer, step.profile.learning_rate_schedule) == ("adam", "cosine_decay_schedule")
    rates = step.profile.learning_rate
    assert rates[0] == pytest.approx(1e-2)
    assert list(rates) == sorted(rates, key=lambda rate: -(rate or 0))


def test_losses_equal_those_of_the_program_exactly(step: ProfiledRun) -> None:
    """The program is stopped before it reads the last loss."""
    assert list(step.profile.loss)[:24] == step.own["losses"]


def test_losses_are_the_same_without_the_probe(step: ProfiledRun) -> None:
    assert list(step.profile.loss) == run_alone("jax_optax.py", "step", "--sleep", "0")["losses"][:25]


def test_operations_are_those_of_the_network(step: ProfiledRun) -> None:
    """Two products forward; backward one for each weight and one for the hidden layer."""
    operations = step.profile.operations
    assert sum(o.flops * o.count for o in operations) == 2 * 10 * (8 * 16 * 2 + 16 * 3 * 3)
    assert {o.part for o in operations} == {"forward", "backward", "optimizer"}
    assert {o.dtype for o in operations if o.flops} == {"tf32"}, "the default precision of JAX on a GPU"
    assert step.profile.activation_bytes


def test_machine_and_framework_are_recorded(step: ProfiledRun) -> None:
    assert (step.profile.framework, step.profile.device, step.profile.dtype) == ("jax", "cpu", "float32")
    assert {"jaxlib", "optax"} <= set(step.profile.versions)
    assert step.measured.ending == "enough"
    assert step.notes == []


@pytest.mark.clocks
def test_program_that_never_waits_is_timed_by_its_results() -> None:
    found = run_profiled("jax_optax.py", "lazy")
    assert_close(*iterations_without_validation(found), seconds=3e-4)
    assert list(found.profile.loss)[:24] == found.own["losses"]


def test_epochs_of_a_loop_without_a_loader_end_with_its_validations() -> None:
    measured = measure(
        Program(
            command=(python_for("jax_optax.py"), "jax_optax.py", "step", "--epochs", "300"), directory=str(PROGRAMS)
        ),
        stopping_rule=UntilEpochs(epochs=2),
        stall_seconds=STALL_SECONDS,
        trace_operations=False,
        on_progress=lambda _: None,
        on_output=None,
    )
    found = profile_from(measured)
    assert found.iterations_per_epoch == 11
    assert measured.ending == "enough"
    assert 2 <= len(found.curve) < 300, "it was stopped once it had validated three times"


@pytest.mark.clocks
def test_update_that_is_not_compiled_ends_the_iteration() -> None:
    found = run_profiled("jax_optax.py", "eager")
    assert_close(*iterations_without_validation(found), seconds=3e-4)
    assert list(found.profile.loss) == found.own["losses"]
    assert (found.profile.parameters, found.profile.micro_batch_size) == (176, 10)
    assert found.profile.learning_rate == (0.01,) * 25


@pytest.mark.clocks
def test_without_optax_a_gradient_marks_an_iteration() -> None:
    found = run_profiled("jax_optax.py", "by-hand")
    assert_close(*iterations_without_validation(found), seconds=3e-4)
    assert list(found.profile.loss)[:24] == found.own["losses"]
    assert (found.profile.optimizer, set(found.profile.learning_rate)) == (None, {None})


@pytest.mark.clocks
def test_steps_inside_a_scan_are_averaged_and_the_user_is_told() -> None:
    found = run_profiled("jax_optax.py", "scan")
    assert len(found.profile.iteration_seconds) == 25
    ends = found.own["ends"]
    calls = [sum(found.profile.iteration_seconds[n : n + 5]) for n in (10, 15)]
    own = [ends[2] - ends[1], ends[3] - ends[2]]
    assert min(abs(a - b) for a, b in zip(calls, own, strict=True)) < 1e-3  # a busy machine may interrupt one of them
    assert max(found.profile.iteration_seconds[1:10]) < found.profile.iteration_seconds[0] / 4
    assert list(found.profile.loss)[:20] == found.own["losses"]
    assert found.profile.micro_batch_size == 10
    assert ["5 steps run in one call" in note for note in found.notes] == [True]
