"""How long real programs train and in which batches, as they say themselves, and the loss that they log."""

import pytest

from tests.frameworks.runs import run_profiled

pytestmark = pytest.mark.heavy


def test_nano_gpt_says_its_iterations_and_its_batch() -> None:
    found = run_profiled("nano_gpt.py", "--batch_size=6", "--max_iters=2000", iterations=6)
    profile = found.profile
    assert profile.planned_iterations == 2000
    assert profile.sources["planned_iterations"].startswith("`if iter_num > max_iters: break`")
    assert (profile.micro_batch_size, profile.accumulation_steps, profile.effective_batch_size) == (6, 2, 12)
    assert profile.sources["micro_batch_size"] == "argument --batch_size"
    assert profile.tokens_per_iteration == 12 * 64
    assert profile.loss == pytest.approx(found.own["losses"][: len(profile.loss)])


def test_a_compiled_model_tells_its_batch_without_a_warning() -> None:
    found = run_profiled("nano_gpt.py", "--compile=True", iterations=4)
    assert found.profile.micro_batch_size == 12
    assert found.profile.tokens_per_sample == 64
    assert "hook" not in found.measured.log.text()


@pytest.mark.parametrize("kind", ["step", "complete", "argument", "in_place", "method"])
def test_a_compiled_function_tells_the_batch_that_it_is_given(kind: str) -> None:
    profile = run_profiled("torch_compiled_functions.py", kind, iterations=4, trace=False).profile
    assert profile.micro_batch_size == 6
    assert profile.tokens_per_sample == 16
    assert profile.sources["micro_batch_size"] == "the first dimension of what the model is given"


def test_the_model_tells_its_batch_next_to_a_compiled_update_of_gradients() -> None:
    """Libraries compile functions when they are imported, such as the updates of 8-bit optimizers."""
    profile = run_profiled("torch_compiled_functions.py", "update", iterations=4, trace=False).profile
    assert (profile.micro_batch_size, profile.tokens_per_sample) == (6, 16)


def test_the_word_model_says_its_batches_and_epochs() -> None:
    profile = run_profiled("word_model.py", "--epochs", "6", iterations=8).profile
    assert (profile.iterations_per_epoch, profile.epochs) == (279, 6)
    assert (profile.micro_batch_size, profile.tokens_per_sample) == (20, 35)
    assert profile.sources["epochs"].startswith("`for epoch in range(1, args.epochs + 1)`")


def test_epochs_of_argparse_drive_the_loop() -> None:
    profile = run_profiled("mnist.py", "--epochs", "6", iterations=12).profile
    assert (profile.epochs, profile.iterations_per_epoch, profile.planned_iterations) == (6, 10, None)
    assert profile.tokens_per_sample is None


def test_a_notebook_trains_all_of_its_epochs() -> None:
    profile = run_profiled("notebook.py", iterations=1000).profile
    assert profile.epochs == 40
    assert profile.sources["epochs"].startswith("`for number in range(40)`")


def test_one_and_a_half_epochs_of_the_trainer() -> None:
    found = run_profiled("hf_lengths.py", "--epochs", "1.5", "--accumulate", "2", iterations=6)
    profile = found.profile
    assert (profile.epochs, profile.planned_iterations, profile.iterations_per_epoch) == (1.5, 15, 10)
    assert profile.sources["epochs"] == "argument num_train_epochs of the Trainer"
    assert profile.tokens_per_iteration == 8 * 16
    # As the Trainer logs it: the sum of the divided losses.
    assert profile.loss[:4] == pytest.approx(found.own["losses"][:4], rel=1e-4)


def test_steps_of_the_trainer() -> None:
    profile = run_profiled("hf_lengths.py", "--max-steps", "17", iterations=4).profile
    assert (profile.epochs, profile.planned_iterations) == (1, 17)
    assert profile.sources["planned_iterations"] == "argument max_steps of the Trainer"


def test_lightning_logs_the_loss_before_it_is_divided() -> None:
    found = run_profiled("lightning_lengths.py", '{"max_epochs": 4, "accumulate_grad_batches": 2}', iterations=5)
    profile, own = found.profile, found.own["losses"]
    assert (profile.epochs, profile.iterations_per_epoch, profile.effective_batch_size) == (4, 10, 10)
    assert profile.loss[:4] == pytest.approx([(own[2 * n] + own[2 * n + 1]) / 2 for n in range(4)], rel=1e-4)


def test_steps_of_lightning() -> None:
    profile = run_profiled("lightning_lengths.py", '{"max_steps": 50}', iterations=4).profile
    assert (profile.planned_iterations, profile.epochs) == (50, 3)


def test_a_plain_loop_of_jax() -> None:
    profile = run_profiled("jax_loop.py", iterations=25).profile
    assert (profile.iterations_per_epoch, profile.epochs) == (10, 5)
    assert (profile.micro_batch_size, profile.tokens_per_sample) == (4, 17)


@pytest.mark.parametrize("backend", ["jax"])
def test_epochs_of_fit(backend: str) -> None:
    profile = run_profiled("keras_fit.py", backend=backend, iterations=12).profile
    assert profile.epochs is not None
    assert profile.sources["epochs"] == "argument epochs of fit"
