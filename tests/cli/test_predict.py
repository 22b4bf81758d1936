"""`trainfare predict` on stored profiles."""

from itertools import pairwise
from typing import Any

import pytest

import trainfare
from tests.cli import commands
from tests.cli.commands import store
from tests.estimator.prediction.test_predictor import on_gpu, operations
from tests.makers import make_profile
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.model.profile import Profile


def on_cpu(**changes: object) -> Profile:
    fields = {"operations": operations(), "activation_bytes": 200_000_000, "samples": 100_000}
    return make_profile(**(fields | changes))


def run_json(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = commands.read_json("predict", *arguments)
    return found


def test_the_time_its_parts_batch_sizes_and_gpus_are_printed() -> None:
    store(on_cpu())
    shown = commands.in_one_line("predict", "--on", "p4d.24xlarge")
    assert shown.startswith("aws p4d.24xlarge (1 × A100, batch 64): ")
    for words in ("limited by", "extrapolated: ", "matmul", "batch size", "requested", "same total batch"):
        assert words in shown


def test_a_prediction_agrees_with_the_estimate() -> None:
    store(on_cpu())
    estimate = trainfare.estimate("p7k2", on="p4d.24xlarge", epochs=3).estimate
    assert run_json("p7k2", "--on", "p4d.24xlarge")["iteration_seconds"] == estimate.iteration_seconds.value


def test_a_gpu_can_be_given_instead_of_a_machine() -> None:
    store(on_cpu())
    found = run_json("--on", "H100")
    assert (found["provider"], found["gpu"]) == ("any", "H100")


def test_a_profile_of_the_machine_type_is_a_measurement() -> None:
    store(on_gpu(host=on_gpu().host.__class__(name="h", gpu="Tesla T4", gpus=1, vm_type="aws/g4dn.xlarge")))
    found = run_json("--on", "g4dn.xlarge")
    assert found["basis"] == "measured"
    assert found["leans_on"][0].startswith(f"profile {on_gpu().id}, ")


def test_another_batch_and_more_gpus() -> None:
    store(on_cpu())
    found = run_json("--on", "p4d.24xlarge", "--batch", "1024", "--gpus", "8", "--nodes", "2")
    assert (found["batch_size"], found["gpus"], found["nodes"]) == (1024, 8, 2)
    assert any(part["limited_by"] == "network" for part in found["parts"])
    weak = {(one["nodes"], one["gpus"]): one["samples_per_second"] for one in found["weak_scaling"]}
    assert weak[1, 8] > 4 * weak[1, 1]


def test_workers_behind_a_parameter_server_gain_until_it_is_saturated() -> None:
    store(on_cpu(gradient_bytes=100_000_000))
    served = run_json("--on", "g4dn.xlarge", "--server-mbps", "10000")["served"]
    rates = [one["workers"] / one["asynchronous"] for one in served]
    assert rates == sorted(rates)
    assert [one["saturated"] for one in served] == [one["workers"] >= one["knee"] for one in served]
    gains = [later / earlier - 1 for earlier, later in pairwise(rates)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0.5
    assert gains[-1] < 0.05, "each time twice as many workers, and past saturation they gain almost nothing"
    shown = commands.in_one_line("predict", "--on", "g4dn.xlarge", "--server-mbps", 10000)
    assert "workers behind the server" in shown


def test_batches_stop_at_the_size_of_the_data_set() -> None:
    store(on_cpu(samples=300))
    assert max(one["batch_size"] for one in run_json("--on", "T4")["batches"]) == 256


def test_every_accumulation_step_has_a_sample() -> None:
    store(on_cpu(micro_batch_size=2, accumulation_steps=4))
    assert min(one["batch_size"] for one in run_json("--on", "A100")["batches"]) == 4


def test_a_batch_that_does_not_fit_has_a_remark_with_a_remedy() -> None:
    store(on_cpu(activation_bytes=40 * 2**30, optimizer_bytes=0))
    found = run_json("--on", "g4dn.xlarge")
    assert found["memory_fit"] == "does not fit"
    remarks = " ".join(found["remarks"])
    assert "does not fit" in remarks
    assert "accumul" in remarks
    assert "it would also fit with: activation checkpointing (about " in remarks


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("--on", "p3.8xlarg"), NotFoundError, "Did you mean p3.8xlarge"),
        (("--on", "p3.2xlarge", "--gpus", "4"), UsageError, "has 1 GPU, not 4"),
        (("--on", "p3.8xlarge", "--gpus", "4", "--batch", "3"), UsageError, "cannot be shared by 4 GPUs"),
        (("--on", "p3.8xlarge", "--nodes", "20"), UsageError, "batch of 64 cannot be shared by 80 GPUs"),
        (("pnone", "--on", "T4"), NotFoundError, "no profile pnone"),
    ],
)
def test_a_wrong_argument_is_explained(arguments: tuple[str, ...], error: type[Exception], message: str) -> None:
    store(on_cpu())
    assert isinstance(commands.error_of("predict", *arguments), error)
    assert message in commands.complaint("predict", *arguments)


def test_a_profile_without_operations_is_infeasible_elsewhere() -> None:
    store(on_cpu(operations=()))
    error = commands.error_of("predict", "--on", "T4")
    assert isinstance(error, InfeasibleError)
    assert "operations" in error.message
