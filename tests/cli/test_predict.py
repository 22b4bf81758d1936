"""`trainfare predict` on profiles that are already kept."""

import json
from itertools import pairwise
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import trainfare
from tests.estimator.prediction.test_predictor import on_gpu, operations
from tests.makers import make_profile
from trainfare.cli.main import app
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.model.profile import Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history


def keep(*profiles: Profile) -> None:
    with open_history(read_settings().store) as history:
        for profile in profiles:
            history.profiles.add(profile)


def on_cpu(**changes: object) -> Profile:
    fields = {"operations": operations(), "activation_bytes": 200_000_000, "samples": 100_000}
    return make_profile(**(fields | changes))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["predict", *arguments], catch_exceptions=True)


def run_json(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_person_reads_the_time_what_it_is_made_of_batches_and_gpus() -> None:
    keep(on_cpu())
    result = run("--on", "p4d.24xlarge")
    assert result.exit_code == 0, result.exception
    assert result.stdout.startswith("aws p4d.24xlarge  (1 × A100, batch 64):  ")
    words = " ".join(result.stdout.split())
    for told in ("limited by", "extrapolated: the operations", "matmul", "batch size", "asked", "batch of all stays"):
        assert told in words


def test_it_says_the_same_as_the_estimate() -> None:
    keep(on_cpu())
    estimate = trainfare.estimate("p7k2", on="p4d.24xlarge", epochs=3).estimate
    assert run_json("p7k2", "--on", "p4d.24xlarge")["iteration_seconds"] == estimate.iteration_seconds.value


def test_a_gpu_may_be_named_instead_of_a_machine() -> None:
    keep(on_cpu())
    found = run_json("--on", "H100")
    assert (found["provider"], found["gpu"]) == ("any", "H100")


def test_measured_machines_are_said_to_be_measured() -> None:
    keep(on_gpu(host=on_gpu().host.__class__(name="h", gpu="Tesla T4", gpus=1, vm_type="aws/g4dn.xlarge")))
    found = run_json("--on", "g4dn.xlarge")
    assert found["basis"] == "measured"
    assert "taken on this machine type" in found["leans_on"][0]


def test_another_batch_and_more_gpus() -> None:
    keep(on_cpu())
    found = run_json("--on", "p4d.24xlarge", "--batch", "1024", "--gpus", "8", "--nodes", "2")
    assert (found["batch_size"], found["gpus"], found["nodes"]) == (1024, 8, 2)
    assert any(part["limited_by"] == "network" for part in found["parts"])
    weak = {(one["nodes"], one["gpus"]): one["samples_per_second"] for one in found["weak_scaling"]}
    assert weak[1, 8] > 4 * weak[1, 1]


def test_workers_behind_a_parameter_server_gain_until_it_is_saturated() -> None:
    keep(on_cpu(gradient_bytes=100_000_000))
    served = run_json("--on", "g4dn.xlarge", "--server-mbps", "10000")["served"]
    rates = [one["workers"] / one["asynchronous"] for one in served]
    assert rates == sorted(rates)
    assert [one["saturated"] for one in served] == [one["workers"] >= one["knee"] for one in served]
    gains = [later / earlier - 1 for earlier, later in pairwise(rates)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0.5
    assert gains[-1] < 0.05, "each in turn twice as many, and beyond the knee they gain next to nothing"
    assert "workers behind the server" in run("--on", "g4dn.xlarge", "--server-mbps", "10000").stdout


def test_batches_stop_at_the_size_of_the_data_set() -> None:
    keep(on_cpu(samples=300))
    assert max(one["batch_size"] for one in run_json("--on", "T4")["batches"]) == 256


def test_what_does_not_fit_says_how_to_make_it_fit() -> None:
    keep(on_cpu(activation_bytes=40 * 2**30, optimizer_bytes=0))
    found = run_json("--on", "g4dn.xlarge")
    assert found["memory_fit"] == "does not fit"
    words = " ".join(found["remarks"])
    assert "does not fit" in words
    assert "accumulated steps" in words


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("--on", "p3.8xlarg"), NotFoundError, "Did you mean p3.8xlarge"),
        (("--on", "p3.2xlarge", "--gpus", "4"), UsageError, "has 1 GPU, not 4"),
        (("--on", "p3.8xlarge", "--gpus", "4", "--batch", "3"), UsageError, "cannot be shared by 4 GPUs"),
        (("--on", "p3.8xlarge", "--nodes", "20"), UsageError, "batch of 64 cannot be shared by 80 GPUs"),
        (("pnone", "--on", "T4"), NotFoundError, "no profile pnone"),
    ],
)
def test_what_is_asked_wrongly_is_said(arguments: tuple[str, ...], error: type[Exception], words: str) -> None:
    keep(on_cpu())
    result = run(*arguments)
    assert isinstance(result.exception, error)
    assert words in str(result.exception)


def test_a_profile_that_says_nothing_of_it_is_infeasible_with_the_reason() -> None:
    keep(on_cpu(operations=()))
    result = run("--on", "T4")
    assert isinstance(result.exception, InfeasibleError)
    assert "has no operations" in str(result.exception)
