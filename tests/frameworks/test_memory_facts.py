"""The memory of real programs: frozen weights, sharded weights, and what is predicted from them."""

from functools import cache

import pytest

from tests.frameworks.runs import BIN, PROGRAMS, ProfiledRun, run_profiled, run_profiled_command
from tests.makers import make_gpu, make_vm_type
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.batch.operations import operations_at
from trainfare.estimator.gpu.physics import PhysicsFit, step_seconds
from trainfare.estimator.memory import memory_fit, memory_need

ITERATIONS = 6
FIT = PhysicsFit(coefficients={}, launches={}, launch_seconds=1e-5)


@cache
def lora(*arguments: str) -> ProfiledRun:
    return run_profiled("torch_lora.py", *arguments, iterations=ITERATIONS)


def test_frozen_weights_are_counted_apart_and_in_bytes_as_stored() -> None:
    profile, own = lora().profile, lora().own
    assert (profile.parameters, profile.frozen_parameters) == (own["trained"], own["frozen"])
    assert profile.total_parameters == own["trained"] + own["frozen"]
    assert profile.weight_bytes == own["bytes"]
    assert profile.gradient_bytes == 4 * own["trained"]
    assert profile.zero_stage == 0


def test_state_is_that_of_the_optimizer_used() -> None:
    """Two moments with AdamW, and a step count for each of the six matrices; nothing with SGD."""
    adam, sgd = lora().profile, lora("sgd").profile
    assert adam.optimizer_bytes == 8 * (adam.parameters or 0) + 6 * 4
    assert adam.optimizer_foreach is False
    assert sgd.optimizer_bytes == 0
    assert sgd.optimizer_foreach is True


def test_a_gpu_smaller_than_the_frozen_weights_does_not_fit() -> None:
    profile = lora().profile
    need = memory_need(profile)
    assert need is not None
    assert need.weights_gib * 2**30 == pytest.approx(lora().own["bytes"])
    weights_gib = (profile.weight_bytes or 0) / 2**30
    fit = memory_fit(profile, make_vm_type(gpu=make_gpu(memory_gib=weights_gib / 2)))
    assert fit is not None
    assert fit.verdict == "does not fit"


@pytest.fixture(scope="module", params=["flat", "per-parameter"])
def sharded(request: pytest.FixtureRequest) -> ProfiledRun:
    torchrun = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2"]
    return run_profiled_command([*torchrun, str(PROGRAMS / "torch_fsdp.py"), request.param], iterations=ITERATIONS)


@pytest.mark.loopback
def test_sharded_parameters_are_those_of_the_whole_model(sharded: ProfiledRun) -> None:
    profile, whole = sharded.profile, sharded.own["parameters"]
    assert (profile.world_size, profile.zero_stage) == (2, 3)
    assert (profile.parameters, profile.frozen_parameters) == (whole, 0)
    assert profile.weight_bytes == 4 * whole
    assert profile.gradient_bytes == pytest.approx(4 * whole, rel=0.01)
    assert profile.optimizer_bytes == pytest.approx(8 * whole, rel=0.01)


@pytest.mark.loopback
def test_collectives_are_communication(sharded: ProfiledRun) -> None:
    kinds = {op.name: op.kind for op in sharded.profile.operations}
    collectives = {name for name in kinds if name and name.startswith(("c10d", "_c10d", "fsdp"))}
    assert any("allgather" in name for name in collectives)
    assert any("reduce_scatter" in name for name in collectives)
    assert {kinds[name] for name in collectives} == {"communication"}
    assert not any(kind == "communication" for name, kind in kinds.items() if name not in collectives)


@pytest.mark.loopback
def test_activations_do_not_include_gathered_weights(sharded: ProfiledRun) -> None:
    """Five samples of 400, 500, 301 and 1 values, and what the layers make of them."""
    assert sharded.profile.activation_bytes is not None
    assert sharded.profile.activation_bytes < 4 * 5 * (400 + 2 * 500 + 2 * 301 + 10)


@pytest.mark.loopback
def test_predictions_of_a_sharded_program_are_finite(sharded: ProfiledRun) -> None:
    gpus = list(load_gpus().values())
    for batch_size in (1, 5, 10, 640):
        steps = step_seconds(operations_at([sharded.profile], batch_size), gpus, FIT)
        assert all(0 < step.seconds < 1 for step in steps)


@pytest.mark.loopback
def test_each_gpu_of_a_sharded_program_has_its_share(sharded: ProfiledRun) -> None:
    one, eight = memory_need(sharded.profile), memory_need(sharded.profile, gpus=8)
    assert one is not None
    assert eight is not None
    assert eight.weights_gib == pytest.approx(one.weights_gib / 8)
    assert eight.optimizer_gib == pytest.approx(one.optimizer_gib / 8)
    assert eight.tensors_gib < one.tensors_gib


def test_frozen_weights_that_the_optimizer_is_given_are_not_trained() -> None:
    found = lora("all")
    assert found.profile.parameters == found.own["trained"]
    assert found.profile.frozen_parameters == found.own["frozen"]
