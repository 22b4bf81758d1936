"""The Trainer of Hugging Face, and a loop prepared by accelerate, under the probe."""

from itertools import pairwise

import pytest

from tests.frameworks.runs import ProfiledRun, assert_close, run_alone, run_profiled
from tests.needs import need_installed
from trainfare.model.profile import EarlyStopping

need_installed("transformers", "accelerate")
pytestmark = pytest.mark.heavy

ITERATIONS = 25


@pytest.fixture(scope="module")
def trainer() -> ProfiledRun:
    return run_profiled("hf_trainer.py", iterations=ITERATIONS, forked=False)


@pytest.fixture(scope="module")
def loop() -> ProfiledRun:
    return run_profiled("hf_accelerate.py", iterations=ITERATIONS, forked=False)


def within_epochs(values: list[float], length: int) -> list[float]:
    """The values from the second iteration on, without those after a validation."""
    return [value for n, value in enumerate(values, start=1) if n % length]


@pytest.mark.clocks
def test_iteration_times_of_the_trainer_agree_with_the_program(trainer: ProfiledRun) -> None:
    assert len(trainer.profile.iteration_seconds) == ITERATIONS
    ours = within_epochs(list(trainer.profile.steady_iteration_seconds), 8)
    assert_close(ours, within_epochs([b - a for a, b in pairwise(trainer.own["ends"][:ITERATIONS])], 8))


@pytest.mark.clocks
def test_evaluations_and_checkpoints_of_the_trainer_are_recorded_separately(trainer: ProfiledRun) -> None:
    assert len(trainer.profile.validation_seconds) == len(trainer.profile.checkpoint_seconds) == 3
    assert_close(trainer.profile.checkpoint_seconds, trainer.own["saves"])
    # The profile does not include what the Trainer does before `eval()` and after the last batch.
    for ours, own in zip(trainer.profile.validation_seconds, trainer.own["validations"], strict=False):
        assert own * 0.8 - 2e-3 < ours < own * 1.2 + 2e-3
    assert trainer.profile.validation_samples == 40


def test_plan_is_that_of_the_arguments(trainer: ProfiledRun) -> None:
    assert (trainer.profile.epochs, trainer.profile.planned_iterations) == (6, None)
    assert trainer.profile.early_stopping == EarlyStopping(metric="eval_loss", patience=3)
    assert trainer.profile.learning_rate_schedule == "cosine"
    assert (trainer.profile.micro_batch_size, trainer.profile.effective_batch_size) == (8, 8)
    assert (trainer.profile.iterations_per_epoch, trainer.profile.samples) == (8, 64)
    assert trainer.profile.versions["transformers"]


def test_evaluated_metrics_are_in_the_curve(trainer: ProfiledRun) -> None:
    assert [epoch.number for epoch in trainer.profile.curve] == [1, 2, 3]
    assert [epoch.metrics["eval_loss"] for epoch in trainer.profile.curve] == trainer.own["eval_loss"]


def test_losses_of_the_trainer_are_the_same_without_the_probe(trainer: ProfiledRun) -> None:
    assert list(trainer.profile.loss) == trainer.own["losses"][:ITERATIONS]
    assert list(trainer.profile.loss) == run_alone("hf_trainer.py")["losses"][:ITERATIONS]
    assert trainer.profile.parameters == trainer.own["parameters"]


def test_accumulation_and_a_plan_by_steps() -> None:
    found = run_profiled("hf_trainer.py", "--accumulate", "2", "--max-steps", "10", iterations=8, trace=False)
    assert (found.profile.micro_batch_size, found.profile.effective_batch_size) == (8, 16)
    assert found.profile.iterations_per_epoch == 4
    assert (found.profile.epochs, found.profile.planned_iterations) == (3, 10)


@pytest.mark.clocks
def test_iteration_times_of_a_prepared_loop_agree_with_the_program(loop: ProfiledRun) -> None:
    ours = within_epochs(list(loop.profile.steady_iteration_seconds), 12)
    assert_close(ours, within_epochs([b - a for a, b in pairwise(loop.own["ends"][:ITERATIONS])], 12))
    assert_close(loop.profile.validation_seconds, loop.own["validations"])
    assert_close(loop.profile.checkpoint_seconds, loop.own["saves"])


def test_batch_size_and_epoch_of_a_prepared_loop_are_known(loop: ProfiledRun) -> None:
    assert (loop.profile.micro_batch_size, loop.profile.effective_batch_size) == (5, 10)
    assert (loop.profile.iterations_per_epoch, loop.profile.samples) == (12, 120)
    assert loop.profile.learning_rate_schedule == "CosineAnnealingLR"


def test_loss_is_the_one_before_division_for_accumulation(loop: ProfiledRun) -> None:
    assert list(loop.profile.loss) == loop.own["losses"][:ITERATIONS]
    assert list(loop.profile.loss) == run_alone("hf_accelerate.py", forked=False)["losses"][:ITERATIONS]
