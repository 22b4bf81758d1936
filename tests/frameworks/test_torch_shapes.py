"""PyTorch programs of many shapes: their profiles, compared with what the programs report themselves."""

from itertools import pairwise
from pathlib import Path
from statistics import median, median_low

import pytest

from tests.frameworks.runs import ProfiledRun, assert_close, run_alone, run_profiled

pytestmark = pytest.mark.heavy

SHAPES = (
    "autocast",
    "scaler",
    "lbfgs",
    "no_loader",
    "stream",
    "checkpoints",
    "own_optimizer",
    "in_backward",
    "data_parallel",
    "recomputed",
    "persistent_workers",
    "warm_up_first",
    "accumulated",
    "compiled",
    "own_subclass",
)
WITHOUT_GRADIENTS = ("in_backward",)
"""Shapes that free every gradient before the backward pass ends."""
ITERATIONS = 25
BATCH, LENGTH, SAMPLES = 8, 12, 96


@pytest.fixture(scope="module")
def runs() -> dict[str, ProfiledRun]:
    """The profiled runs by shape; each shape is run once, when a test first needs it."""
    return {}


@pytest.fixture
def shape(request: pytest.FixtureRequest, runs: dict[str, ProfiledRun]) -> ProfiledRun:
    name = request.param
    if name not in runs:
        runs[name] = run_profiled("torch_shapes.py", name, iterations=ITERATIONS)
    return runs[name]


def for_shapes(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shape", names, indirect=True)


@pytest.mark.clocks
@for_shapes(*SHAPES)
def test_iteration_times_agree_with_the_program(shape: ProfiledRun) -> None:
    assert shape.measured.ending == "enough"
    assert len(shape.profile.iteration_seconds) == ITERATIONS
    own = [end - start for start, end in pairwise(shape.own["ends"][:ITERATIONS])]
    assert_close(shape.profile.steady_iteration_seconds, own)


@for_shapes(*SHAPES)
def test_losses_and_parameters_equal_those_of_the_program(shape: ProfiledRun) -> None:
    assert list(shape.profile.loss) == shape.own["losses"][:ITERATIONS]
    assert shape.profile.parameters == shape.own["parameters"]


@for_shapes(*(name for name in SHAPES if name not in WITHOUT_GRADIENTS))
def test_gradients_have_four_bytes_per_parameter(shape: ProfiledRun) -> None:
    assert shape.profile.gradient_bytes == shape.own["parameters"] * 4


@for_shapes(*WITHOUT_GRADIENTS)
def test_gradients_freed_in_the_backward_pass_have_no_bytes(shape: ProfiledRun) -> None:
    assert shape.profile.gradient_bytes == 0


@for_shapes(*SHAPES)
def test_operations_are_traced(shape: ProfiledRun) -> None:
    kinds = {operation.kind for operation in shape.profile.operations}
    assert {"matmul", "pointwise"} <= kinds


@for_shapes(
    "autocast",
    "lbfgs",
    "checkpoints",
    "own_optimizer",
    "in_backward",
    "data_parallel",
    "persistent_workers",
    "compiled",
    "own_subclass",
)
def test_batch_size_and_epoch_are_those_of_the_loader(shape: ProfiledRun) -> None:
    profile = shape.profile
    assert (profile.micro_batch_size, profile.effective_batch_size) == (BATCH, BATCH)
    assert (profile.iterations_per_epoch, profile.samples) == (LENGTH, SAMPLES)
    assert [epoch.number for epoch in profile.curve] == [1, 2]


@pytest.fixture(scope="module")
def losses_alone() -> dict[str, list[float]]:
    """The losses of each shape without the probe."""
    return {name: run_alone("torch_shapes.py", name)["losses"] for name in SHAPES}


@for_shapes(*SHAPES)
def test_losses_are_the_same_without_the_probe(shape: ProfiledRun, losses_alone: dict[str, list[float]]) -> None:
    assert list(shape.profile.loss) == losses_alone[shape.own["shape"]][:ITERATIONS]


@for_shapes("autocast", "scaler")
def test_autocast_computes_in_bfloat16(shape: ProfiledRun) -> None:
    assert shape.profile.dtype == "bfloat16"


@for_shapes("lbfgs")
def test_step_with_a_closure_is_one_iteration_of_several_backward_passes(shape: ProfiledRun) -> None:
    assert shape.own["backwards"] > 2 * ITERATIONS
    assert shape.profile.optimizer == "LBFGS"
    flops = sum(o.flops * o.count for o in shape.profile.operations if o.kind == "matmul")
    one_pass = BATCH * (2 * (2 * 16 * 32) + 3 * (2 * 32 * 1))
    assert flops >= 2 * one_pass
    assert flops % one_pass == 0


@for_shapes("no_loader")
def test_program_without_a_loader_has_a_batch_size_a_schedule_and_no_epoch(shape: ProfiledRun) -> None:
    assert (shape.profile.micro_batch_size, shape.profile.iterations_per_epoch) == (BATCH, None)
    assert shape.profile.learning_rate_schedule == "StepLR"
    assert shape.profile.learning_rate == (0.01,) * 10 + (0.005,) * 10 + (0.0025,) * 5


@for_shapes("stream")
def test_length_of_a_stream_is_that_of_its_first_pass(shape: ProfiledRun) -> None:
    assert (shape.profile.iterations_per_epoch, shape.profile.samples) == (LENGTH, None)


@pytest.mark.clocks
@for_shapes("checkpoints")
def test_checkpoint_is_neither_iteration_nor_validation(shape: ProfiledRun) -> None:
    profile = shape.profile
    assert len(profile.checkpoint_seconds) == 4
    # An interruption between the two clocks lengthens the program's own time of one of them, and shortens no other.
    both = (
        (profile.checkpoint_seconds, shape.own["saves"][:4]),
        (profile.validation_seconds, shape.own["validations"][:2]),
    )
    for ours, own in both:
        differences = [abs(a - b) for a, b in zip(ours, own, strict=False)]
        assert median_low(differences) < max(0.03 * median(own), 2e-4)
    assert profile.learning_rate_schedule == "SequentialLR"
    slow = [seconds for seconds in profile.steady_iteration_seconds if seconds > 0.03]
    assert len(slow) <= 1


@for_shapes("own_optimizer")
def test_backward_pass_ends_the_iteration_without_an_optimizer(shape: ProfiledRun) -> None:
    assert shape.profile.optimizer is None
    assert shape.profile.learning_rate == (None,) * ITERATIONS


@for_shapes("accumulated")
def test_two_batches_make_one_iteration(shape: ProfiledRun) -> None:
    profile = shape.profile
    assert (profile.micro_batch_size, profile.effective_batch_size) == (BATCH // 2, BATCH)
    assert (profile.iterations_per_epoch, profile.samples) == (LENGTH, SAMPLES)


@for_shapes("own_subclass")
def test_optimizer_class_of_the_program_is_named(shape: ProfiledRun) -> None:
    assert (shape.profile.optimizer, shape.profile.optimizer_bytes) == ("SignDescent", 0)
    assert shape.profile.learning_rate == (0.001,) * ITERATIONS


def test_epochs_of_a_program_that_ends_by_itself_are_known() -> None:
    found = run_profiled("torch_shapes.py", "stream", iterations=1000, trace=False)
    assert found.measured.ending == "finished"
    assert (found.profile.epochs, len(found.profile.curve)) == (5, 5)
    assert len(found.profile.iteration_seconds) == 5 * LENGTH


@pytest.mark.clocks
def test_compile_time_and_cache_state_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    cold, warm = (run_profiled("torch_inductor.py", iterations=5).profile for _ in range(2))
    assert (cold.compile_cache_warm, warm.compile_cache_warm) == (False, True)
    assert cold.compile_seconds is not None
    assert warm.compile_seconds is not None
    assert cold.compile_seconds > warm.compile_seconds > 0
    assert cold.first_iteration_seconds is not None
    assert cold.compile_seconds == pytest.approx(cold.first_iteration_seconds, rel=0.3)
