"""Machines without GPUs are candidates for a program that was profiled on a CPU."""

from collections.abc import Sequence

import pytest

from tests.makers import make_profile
from trainfare.app.recommending.recommend import recommend
from trainfare.model.estimate import Estimate
from trainfare.model.machine import Host
from trainfare.model.profile import Operation
from trainfare.model.scope import Scope
from trainfare.settings import read_settings
from trainfare.store.open import open_history

SCOPE = Scope(providers=("aws", "gcp", "azure"))
TINY = (
    Operation(kind="matmul", dtype="float32", flops=2e7, bytes=1e6, count=9),
    Operation(kind="pointwise", dtype="float32", flops=0, bytes=2e5, count=20),
)
HOST = Host(
    name="laptop", cpu="Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", cores=4, physical_cores=2, simd_bits=512
)


def estimates_of(**changes: object) -> Sequence[Estimate]:
    fields = {"host": HOST, "operations": TINY, "iteration_seconds": (0.1, *[0.004] * 20), "loss": ()}
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(**(fields | changes)))
    return recommend(epochs=50_000, scope=SCOPE).estimates


def without_gpu(estimates: Sequence[Estimate]) -> list[Estimate]:
    return [e for e in estimates if e.candidate.offer.vm_type.gpu is None and not e.candidate.offer.is_here]


def test_cpu_machines_of_all_three_clouds_have_estimates() -> None:
    found = without_gpu(estimates_of())
    assert {e.candidate.offer.vm_type.provider for e in found} == {"aws", "gcp", "azure"}
    assert {e.basis for e in found} == {"scaled"}
    assert all(e.iteration_seconds.low < e.iteration_seconds.value < e.iteration_seconds.high for e in found)


def cheapest_on_demand(estimates: Sequence[Estimate]) -> Estimate:
    return min((e for e in estimates if e.candidate.offer.market == "on_demand"), key=lambda e: e.usd.value)


def test_a_cpu_machine_is_the_cheapest_for_a_tiny_network() -> None:
    found = cheapest_on_demand(estimates_of(iteration_seconds=(0.1, *[0.001] * 20)))
    assert found.candidate.offer.vm_type.gpu is None


def test_a_gpu_is_cheaper_for_a_large_network() -> None:
    large = (Operation(kind="convolution", dtype="float32", flops=2e10, bytes=2e7, count=150),)
    found = cheapest_on_demand(estimates_of(operations=large, iteration_seconds=(30.0, *[27.0] * 5)))
    assert found.candidate.offer.vm_type.gpu is not None


def test_a_profile_on_a_gpu_gives_no_estimate_for_cpu_machines() -> None:
    on_gpu = Host(name="server", cpu=HOST.cpu, cores=4, physical_cores=2, gpu="Tesla T4", gpus=1)
    assert without_gpu(estimates_of(device="cuda", host=on_gpu)) == []


def test_a_larger_machine_of_a_family_is_never_slower() -> None:
    found = {e.candidate.offer.vm_type.name: e.iteration_seconds.value for e in without_gpu(estimates_of())}
    sizes = [found[f"c7i.{size}"] for size in ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1] or sizes[0] == pytest.approx(sizes[-1])
