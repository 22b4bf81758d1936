"""Lightning under the probe, as `lightning` and as `pytorch_lightning`."""

import pytest

from tests.frameworks.runs import ProfiledRun, assert_close, run_alone, run_profiled
from tests.needs import need_installed
from trainfare.model.profile import EarlyStopping

need_installed("lightning")
pytestmark = pytest.mark.heavy

ITERATIONS = 25


@pytest.fixture(scope="module")
def fit() -> ProfiledRun:
    return run_profiled("lightning_fit.py", iterations=ITERATIONS, forked=False)


@pytest.mark.clocks
def test_iteration_times_agree_with_the_program(fit: ProfiledRun) -> None:
    ends = fit.own["ends"]
    between_epochs = {10, 20}
    ours = [s for n, s in enumerate(fit.profile.iteration_seconds) if n and n not in between_epochs]
    own = [ends[n] - ends[n - 1] for n in range(1, ITERATIONS) if n not in between_epochs]
    assert len(fit.profile.iteration_seconds) == ITERATIONS
    assert_close(ours, own)


@pytest.mark.clocks
def test_first_iteration_is_without_the_sanity_check(fit: ProfiledRun) -> None:
    assert fit.profile.first_iteration_seconds is not None
    assert fit.profile.iteration_seconds[0] < 0.02 + 3 * fit.profile.iteration_seconds[1]


@pytest.mark.clocks
def test_validation_is_without_the_sanity_check(fit: ProfiledRun) -> None:
    assert len(fit.profile.validation_seconds) == 2
    assert_close(fit.profile.validation_seconds, fit.own["validations"])
    assert fit.profile.validation_samples == 80


def test_plan_is_that_of_the_trainer(fit: ProfiledRun) -> None:
    assert (fit.profile.epochs, fit.profile.planned_iterations) == (7, None)
    assert fit.profile.early_stopping == EarlyStopping(metric="val_loss", patience=4)
    assert fit.profile.learning_rate_schedule == "CosineAnnealingLR"
    assert (fit.profile.micro_batch_size, fit.profile.samples, fit.profile.iterations_per_epoch) == (8, 80, 10)


def test_logged_metrics_are_in_the_curve(fit: ProfiledRun) -> None:
    assert [epoch.number for epoch in fit.profile.curve] == [1, 2]
    assert [epoch.metrics["val_loss"] for epoch in fit.profile.curve] == fit.own["val_loss"]
    for epoch in fit.profile.curve:
        assert epoch.loss == pytest.approx(epoch.metrics["train_loss"], rel=1e-5)


def test_checkpoints_are_recorded_separately(fit: ProfiledRun) -> None:
    assert len(fit.profile.checkpoint_seconds) == 2
    pairs = list(zip(fit.profile.checkpoint_seconds, fit.own["saves"], strict=True))
    assert all(0 < ours <= own for ours, own in pairs), "the program's clock is around ours"


def test_losses_are_the_same_without_the_probe(fit: ProfiledRun) -> None:
    assert list(fit.profile.loss) == fit.own["losses"][:ITERATIONS]
    assert list(fit.profile.loss) == run_alone("lightning_fit.py")["losses"][:ITERATIONS]


def test_forward_and_backward_inside_the_step_are_not_counted_as_optimizer(fit: ProfiledRun) -> None:
    flops = sum(o.flops * o.count for o in fit.profile.operations if o.kind == "matmul")
    assert flops == 8 * (2 * (2 * 16 * 32) + 3 * (2 * 32 * 1))
    assert any(o.kind == "optimizer" for o in fit.profile.operations)


def test_no_callback_is_added_to_the_trainer(fit: ProfiledRun) -> None:
    assert fit.own["callbacks"] == 0
    assert fit.profile.versions["lightning"]


def test_plan_by_steps_is_a_plan_by_epochs_under_the_older_name() -> None:
    found = run_profiled("lightning_fit.py", "--max-steps", "34", "--old", iterations=12, trace=False)
    assert (found.profile.epochs, found.profile.planned_iterations) == (4, 34)
    assert found.profile.versions["pytorch_lightning"]
