"""The many shapes of PyTorch programs: what the probe saw against what they say of themselves."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.frameworks.runs import Seen, alone, assert_close, seen

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
    "workers_that_persist",
    "warm_up_first",
    "accumulated",
    "compiled",
    "own_subclass",
)
ITERATIONS = 25
BATCH, LENGTH, SAMPLES = 8, 12, 96


@pytest.fixture(scope="module")
def runs() -> dict[str, Seen]:
    """Each shape is run once, when a test first asks for it."""
    return {}


@pytest.fixture
def shape(request: pytest.FixtureRequest, runs: dict[str, Seen]) -> Seen:
    name = request.param
    if name not in runs:
        runs[name] = seen("torch_shapes.py", name, iterations=ITERATIONS)
    return runs[name]


def of(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shape", names, indirect=True)


@of(*SHAPES)
def test_every_shape_takes_what_it_clocked(shape: Seen) -> None:
    assert shape.measured.ending == "enough"
    assert len(shape.profile.iteration_seconds) == ITERATIONS
    own = [end - start for start, end in pairwise(shape.own["ends"][:ITERATIONS])]
    assert_close(shape.profile.steady_iteration_seconds, own)


@of(*SHAPES)
def test_every_shape_tells_its_losses_and_parameters(shape: Seen) -> None:
    assert list(shape.profile.loss) == shape.own["losses"][:ITERATIONS]
    assert shape.profile.parameters == shape.own["parameters"]
    assert shape.profile.gradient_bytes == shape.own["parameters"] * 4 or shape.profile.gradient_bytes == 0


@of(*SHAPES)
def test_every_shape_is_traced(shape: Seen) -> None:
    kinds = {operation.kind for operation in shape.profile.operations}
    assert {"matmul", "pointwise"} <= kinds


@of(
    "autocast",
    "lbfgs",
    "checkpoints",
    "own_optimizer",
    "in_backward",
    "data_parallel",
    "workers_that_persist",
    "compiled",
    "own_subclass",
)
def test_loader_is_told(shape: Seen) -> None:
    profile = shape.profile
    assert (profile.micro_batch_size, profile.effective_batch_size) == (BATCH, BATCH)
    assert (profile.iterations_per_epoch, profile.samples) == (LENGTH, SAMPLES)
    assert [epoch.number for epoch in profile.curve] == [1, 2]


@pytest.mark.parametrize("name", SHAPES)
def test_losses_are_the_same_without_the_probe(name: str, runs: dict[str, Seen]) -> None:
    watched = runs.get(name) or seen("torch_shapes.py", name, iterations=ITERATIONS)
    assert list(watched.profile.loss) == alone("torch_shapes.py", name)["losses"][:ITERATIONS]


@of("autocast", "scaler")
def test_autocast_computes_in_bfloat16(shape: Seen) -> None:
    assert shape.profile.dtype == "bfloat16"


@of("lbfgs")
def test_step_with_a_closure_is_one_iteration_of_several_backward_passes(shape: Seen) -> None:
    assert shape.own["backwards"] > 2 * ITERATIONS
    assert shape.profile.optimizer == "LBFGS"
    flops = sum(o.flops * o.count for o in shape.profile.operations if o.kind == "matmul")
    one_pass = BATCH * (2 * (2 * 16 * 32) + 3 * (2 * 32 * 1))
    assert flops >= 2 * one_pass
    assert flops % one_pass == 0


@of("no_loader")
def test_program_without_a_loader_has_no_epoch_but_a_schedule(shape: Seen) -> None:
    assert (shape.profile.micro_batch_size, shape.profile.iterations_per_epoch) == (None, None)
    assert shape.profile.learning_rate_schedule == "StepLR"
    assert shape.profile.learning_rate == (0.01,) * 10 + (0.005,) * 10 + (0.0025,) * 5


@of("stream")
def test_length_of_a_stream_is_that_of_its_first_pass(shape: Seen) -> None:
    assert (shape.profile.iterations_per_epoch, shape.profile.samples) == (LENGTH, None)


@of("checkpoints")
def test_checkpoint_is_neither_iteration_nor_validation(shape: Seen) -> None:
    profile = shape.profile
    assert len(profile.checkpoint_seconds) == 4
    assert_close(profile.checkpoint_seconds, shape.own["saves"][:4])
    assert_close(profile.validation_seconds, shape.own["validations"][:2])
    assert profile.learning_rate_schedule == "SequentialLR"
    slow = [seconds for seconds in profile.steady_iteration_seconds if seconds > 0.03]
    assert len(slow) <= 1


@of("own_optimizer")
def test_backward_pass_ends_the_iteration_where_there_is_no_optimizer(shape: Seen) -> None:
    assert shape.profile.optimizer is None
    assert shape.profile.learning_rate == (None,) * ITERATIONS


@of("accumulated")
def test_two_batches_make_one_iteration(shape: Seen) -> None:
    profile = shape.profile
    assert (profile.micro_batch_size, profile.effective_batch_size) == (BATCH // 2, BATCH)
    assert (profile.iterations_per_epoch, profile.samples) == (LENGTH, SAMPLES)


@of("own_subclass")
def test_optimizer_of_the_programs_own_is_named(shape: Seen) -> None:
    assert (shape.profile.optimizer, shape.profile.optimizer_bytes) == ("SignDescent", 0)
    assert shape.profile.learning_rate == (0.001,) * ITERATIONS


def test_program_that_ends_by_itself_has_shown_its_epochs() -> None:
    found = seen("torch_shapes.py", "stream", iterations=1000, trace=False)
    assert found.measured.ending == "finished"
    assert (found.profile.epochs, len(found.profile.curve)) == (5, 5)
    assert len(found.profile.iteration_seconds) == 5 * LENGTH


@pytest.mark.heavy
def test_compilation_is_told_and_whether_its_cache_was_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    cold, warm = (seen("torch_inductor.py", iterations=5).profile for _ in range(2))
    assert (cold.compile_cache_warm, warm.compile_cache_warm) == (False, True)
    assert cold.compile_seconds is not None
    assert warm.compile_seconds is not None
    assert cold.compile_seconds > warm.compile_seconds > 0
    assert cold.first_iteration_seconds is not None
    assert cold.compile_seconds == pytest.approx(cold.first_iteration_seconds, rel=0.3)
