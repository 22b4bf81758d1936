import math
import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_gpu, make_vm_type
from trainfare.estimator.parallel.link_residuals import NO_CORRECTIONS
from trainfare.estimator.parallel.links import (
    ClusterSeconds,
    ClusterStep,
    ScalingFit,
    cluster_seconds,
    fit_links,
    link_of,
    predict_cluster_step,
)
from trainfare.estimator.parallel.ring import GpuPlacement, RingFit

PCIE = make_gpu()
NVLINK = make_gpu(name="V100", interconnect="NVLink 2", interconnect_gb_per_second=300.0)

FIT = ScalingFit(
    gamma={"NVLink": 1.2, "PCIe": 1.5, "network": 2.0},
    straggling=0.02,
    pressing=1.0,
    crowding={"NVLink": 0.005, "PCIe": 0.02},
    efficiency={"NVLink": 0.2, "PCIe": 0.1, "network": 0.3},
    latency_seconds={"NVLink": 2e-5, "PCIe": 1e-4, "network": 3e-4},
    typical_gradient=1.0,
    half_factor=2.0,
)

alone = st.floats(1e-3, 10)
gradients = st.none() | st.floats(1e3, 1e10)
few = st.integers(1, 8)
nodes = st.integers(1, 16)
speeds = st.floats(0.1, 400)


def predict(
    seconds: float, gradient: float | None, q: int, n: int, *, network: float | None = 5.0, link: float = 32.0
) -> ClusterSeconds:
    return cluster_seconds(
        seconds,
        gradient_bytes=gradient,
        gpu=make_gpu(interconnect_gb_per_second=link),
        vm_type=make_vm_type(network_gb_per_second=network),
        gpus_per_node=q,
        nodes=n,
        fit=FIT,
    )


@given(alone, gradients)
def test_one_gpu_sends_nothing(seconds: float, gradient: float | None) -> None:
    one = predict(seconds, gradient, 1, 1)
    assert (one.seconds, one.low, one.high, one.sync_seconds) == (seconds, seconds, seconds, 0)
    assert one.limited_by == "computing"


@given(alone, gradients, nodes, nodes)
def test_more_nodes_never_lower_communication_time(seconds: float, gradient: float | None, a: int, b: int) -> None:
    """With one GPU per node; with several, measured programs did get faster from two nodes to four."""
    fewer, more = (predict(seconds, gradient, 1, n) for n in sorted((a, b)))
    assert fewer.sync_seconds <= more.sync_seconds * (1 + 1e-12)
    assert fewer.seconds <= more.seconds * (1 + 1e-12) or min(a, b) == 1, "several nodes may hide what one does not"


@given(alone, gradients, few, few, nodes)
def test_more_gpus_per_node_never_shorten_a_step(
    seconds: float, gradient: float | None, a: int, b: int, n: int
) -> None:
    fewer, more = (predict(seconds, gradient, q, n) for q in sorted((a, b)))
    assert fewer.sync_seconds <= more.sync_seconds * (1 + 1e-12)
    assert fewer.seconds <= more.seconds * (1 + 1e-12)


@given(alone, gradients, few, nodes)
def test_step_lies_between_the_longer_and_the_sum_of_computing_and_sending(
    seconds: float, gradient: float | None, q: int, n: int
) -> None:
    step = predict(seconds, gradient, q, n)
    crowded = seconds * (1 + 0.02 * (q - 1)) * (1 + 0.02 * math.log(q * n))
    assert max(crowded, step.sync_seconds) * (1 - 1e-9) <= step.seconds
    assert step.seconds <= (crowded + step.sync_seconds) * (1 + 1e-9)
    assert step.low <= step.seconds <= step.high


@given(alone, st.floats(1e3, 1e10), few, nodes, speeds, speeds)
def test_faster_link_never_lengthens_a_step(
    seconds: float, gradient: float, q: int, n: int, a: float, b: float
) -> None:
    slow, fast = sorted((a, b))
    assert (
        predict(seconds, gradient, q, n, network=fast).seconds <= predict(seconds, gradient, q, n, network=slow).seconds
    )
    assert predict(seconds, gradient, q, n, link=fast).seconds <= predict(seconds, gradient, q, n, link=slow).seconds


def test_unknown_gradient_is_larger_relative_to_a_step_in_half_precision() -> None:
    def seconds(gradient: float | None, *, half: bool) -> float:
        one = cluster_seconds(0.1, gradient_bytes=gradient, gpu=PCIE, gpus_per_node=4, nodes=1, fit=FIT, half=half)
        return one.sync_seconds

    assert seconds(None, half=True) == pytest.approx(2 * seconds(None, half=False))
    assert seconds(1e8, half=True) == seconds(1e8, half=False)


def test_unknown_network_counts_as_10_gbit() -> None:
    assert predict(0.1, 1e8, 4, 2, network=None) == predict(0.1, 1e8, 4, 2, network=1.25)


def test_bottleneck_is_named() -> None:
    assert predict(10.0, 1e8, 4, 2).limited_by == "computing"
    assert predict(0.01, 1e9, 4, 1).limited_by == "links inside a node"
    assert predict(0.01, 1e9, 1, 4).limited_by == "network"


@pytest.mark.parametrize(
    ("interconnect", "link"),
    [("NVLink 4", "NVLink"), ("PCIe 4.0 x16", "PCIe"), ("NVLink 4 bridge", "PCIe"), ("Infinity Fabric", "NVLink")],
)
def test_link_kind_by_interconnect(interconnect: str, link: str) -> None:
    assert link_of(make_gpu(interconnect=interconnect)) == link


def test_fit_of_the_program_replaces_facts_where_it_was_measured() -> None:
    ring = RingFit(
        on_one_gpu=((32.0, 0.1),),
        gamma=1.0,
        crowding=0.0,
        inside_seconds=0.5,
        between_seconds=2.0,
        crossing_seconds=0.0,
        latency_share=0.0,
    )

    def with_ring(measured: RingFit, n: int) -> ClusterSeconds:
        return cluster_seconds(0.1, gradient_bytes=1e6, gpu=PCIE, gpus_per_node=2, nodes=n, fit=FIT, measured=measured)

    assert with_ring(ring, 1).seconds == pytest.approx(0.1 + 0.5)
    assert with_ring(ring, 2).seconds < 0.3, "one node does not predict two"
    both = replace(ring, max_measured_nodes=2)
    assert with_ring(both, 2).seconds == pytest.approx(0.1 + both.sync_seconds(GpuPlacement(nodes=2, gpus=4)))


def test_gpus_of_a_node_share_the_network_most_on_two_nodes() -> None:
    def pressed(n: int) -> float:
        return (
            predict(0.1, 1e9, 4, n).sync_seconds
            - predict(0.1, 1e9, 1, n).sync_seconds
            - predict(0.1, 1e9, 4, 1).sync_seconds
        )

    assert pressed(2) == pytest.approx(2 * 0.75 * 1e9 / (0.3 * 5e9))
    assert pressed(5) == pytest.approx(pressed(2) / 4)


def test_half_of_the_residual_on_one_node_is_applied_to_several() -> None:
    gpu = make_gpu(interconnect_gb_per_second=32.0)
    facts_on_one_node, facts = predict(0.1, 1e8, 4, 1).seconds, predict(0.1, 1e8, 4, 2)
    ring = RingFit(
        on_one_gpu=((32.0, 0.1),),
        gamma=1.0,
        crowding=0.0,
        inside_seconds=(2.25 * facts_on_one_node - 0.1) / 1.5,
        between_seconds=9.0,
        crossing_seconds=9.0,
        latency_share=0.0,
        max_gpus_on_one_node=4,
    )
    several = cluster_seconds(
        0.1,
        gradient_bytes=1e8,
        gpu=gpu,
        vm_type=make_vm_type(network_gb_per_second=5.0),
        gpus_per_node=4,
        nodes=2,
        fit=FIT,
        measured=ring,
    )
    assert several.seconds == pytest.approx(1.5 * facts.seconds)
    assert several.high / several.low == pytest.approx(facts.high / facts.low)
    step = replace(made_steps(programs=1)[4], gpu=gpu, single_gpu_seconds=0.1, gradient_bytes=1e8, gpus=8, nodes=2)
    assert predict_cluster_step(step, FIT, ring).seconds == pytest.approx(1.5 * predict_cluster_step(step, FIT).seconds)


def made_steps(*, programs: int = 12, noise: float = 0.02, seed: int = 1) -> list[ClusterStep]:
    rng = random.Random(seed)
    found = []
    for number in range(programs):
        gradient, seconds = 10 ** rng.uniform(6.5, 8.7), 10 ** rng.uniform(-2, 0)
        for gpu in (PCIE, NVLINK):
            for gpus, n in ((2, 1), (4, 1), (8, 1), (2, 2), (8, 2), (8, 8), (16, 4)):
                step = ClusterStep(
                    program=f"program {number}",
                    family=f"family {number}",
                    gpu=gpu,
                    gpus=gpus,
                    nodes=n,
                    single_gpu_seconds=seconds,
                    seconds=1.0,
                    gradient_bytes=gradient,
                    network_gb_per_second=5.0,
                )
                truth = predict_cluster_step(step, FIT).seconds * math.exp(rng.gauss(0, noise))
                found.append(replace(step, seconds=truth))
    return found


def test_fit_predicts_new_programs() -> None:
    fit = fit_links(made_steps(), folds=3)
    errors = [abs(math.log(predict_cluster_step(step, fit).seconds / step.seconds)) for step in made_steps(seed=2)]
    assert sorted(errors)[len(errors) * 9 // 10] < 0.15
    inside = [
        (predicted := predict_cluster_step(step, fit)).low <= step.seconds <= predicted.high
        for step in made_steps(seed=2)
    ]
    assert sum(inside) / len(inside) > 0.85


def test_fit_survives_json() -> None:
    fit = fit_links(made_steps(programs=3), folds=2)
    assert msgspec.json.decode(msgspec.json.encode(fit), type=ScalingFit) == fit


def test_without_families_to_leave_out_the_interval_is_wide() -> None:
    assert fit_links(made_steps(programs=1)).one_node == NO_CORRECTIONS


def test_steps_without_a_gradient_are_fitted_by_the_typical_one() -> None:
    steps = [
        replace(step, gradient_bytes=None, seconds=step.single_gpu_seconds * 1.2) for step in made_steps(programs=4)
    ]
    fit = fit_links(steps, folds=2)
    mean = sum(predict_cluster_step(step, fit).seconds / step.seconds for step in steps) / len(steps)
    assert mean == pytest.approx(1, abs=0.05)


def test_steps_on_one_gpu_are_not_enough_for_a_fit() -> None:
    with pytest.raises(ValueError, match="at least two GPUs"):
        fit_links([replace(made_steps(programs=1)[0], gpus=1)])


def test_step_needs_a_gpu_on_every_node() -> None:
    with pytest.raises(ValueError, match="as many GPUs"):
        replace(made_steps(programs=1)[0], gpus=1, nodes=2)
