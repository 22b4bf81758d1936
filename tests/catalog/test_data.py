"""Invariants of the shipped data: a wrong figure spoils every estimate that is based on it."""

from collections import Counter
from datetime import date
from statistics import median

import pytest

from trainfare.catalog.bundled import load_historical_offers, load_offers
from trainfare.catalog.gpu_boards import normalise_name
from trainfare.catalog.gpu_facts import bundled_rows, load_gpu_facts, load_gpus, load_sources
from trainfare.catalog.terms import load_term_facts
from trainfare.model.machine import Gpu

BUILT_ON = date(2026, 11, 16)
GPUS = load_gpus()
COMPLETE = [gpu for name, gpu in GPUS.items() if "/" not in name]


def test_there_are_enough_machines_of_every_provider() -> None:
    with_gpu = {offer.vm_type.key for offer in load_offers() if offer.vm_type.gpu}
    assert len(with_gpu) >= 480
    without = {offer.vm_type for offer in load_offers() if offer.vm_type.gpu is None}
    assert len(without) >= 250
    assert {vm_type.provider for vm_type in without} == {"aws", "azure", "gcp"}
    assert {offer.vm_type.provider for offer in load_offers()} == {
        *("aws", "azure", "gcp", "lambda", "nebius", "oci", "runpod", "vast", "shadeform", "verda", "hyperstack"),
        *("digitalocean", "cudo", "yotta", "scaleway", "ovhcloud"),
    }


def test_a_machine_without_a_gpu_has_a_known_cpu_and_no_credits() -> None:
    """Burstable machines slow down when their credits are used up, and GCP gives an e2 any CPU it has."""
    without = {offer.vm_type.key: offer.vm_type for offer in load_offers() if offer.vm_type.gpu is None}
    assert [key for key, vm_type in without.items() if vm_type.cpu is None] == []
    assert [key for key in without if key.startswith(("aws/t", "gcp/e2", "azure/Standard_B"))] == []
    for vm_type in without.values():
        assert vm_type.cpu is not None
        assert vm_type.vcpus is not None
        sockets = vm_type.vcpus / vm_type.cpu.threads_per_core / vm_type.cpu.cores
        assert sockets <= 2, f"{vm_type.key} has more cores than two sockets"


def test_a_machine_has_one_price_in_a_region_and_market() -> None:
    assert max(Counter(offer.key for offer in load_offers()).values()) == 1


def test_a_paper_has_one_price_for_a_machine() -> None:
    assert max(Counter((*offer.key, offer.source) for offer in load_historical_offers()).values()) == 1


def test_a_machine_is_the_same_machine_everywhere() -> None:
    vm_types: dict[str, set[object]] = {}
    for offer in (*load_offers(), *load_historical_offers()):
        vm_types.setdefault(offer.vm_type.key, set()).add(offer.vm_type)
    assert [key for key, found in vm_types.items() if len(found) > 1] == []


def test_spot_is_cheaper_than_on_demand() -> None:
    on_demand = {o.key[:2]: o.usd_per_hour for o in load_offers() if o.market == "on_demand"}
    spots = [offer for offer in load_offers() if offer.market == "spot"]
    assert [o.key for o in spots if o.usd_per_hour >= on_demand[o.key[:2]]] == []


def test_prices_are_plausible() -> None:
    for offer in (*load_offers(), *load_historical_offers()):
        assert 0.005 < offer.usd_per_hour < 200, offer.key
        if offer.vm_type.gpu is None:
            assert 0.003 < offer.usd_per_hour / (offer.vm_type.vcpus or 1) < 0.15, offer.key


def test_no_gpu_costs_ten_times_the_median_of_its_kind() -> None:
    prices: dict[str, list[tuple[float, str]]] = {}
    for offer in load_offers():
        if offer.vm_type.gpu and offer.market == "on_demand" and offer.rentable_on(BUILT_ON):
            per_gpu = offer.usd_per_hour / offer.vm_type.gpus
            prices.setdefault(offer.vm_type.gpu.name, []).append((per_gpu, offer.vm_type.key))
    for gpu, found in prices.items():
        middle = median(price for price, _ in found)
        assert [f for f in found if not middle / 20 < f[0] < middle * 10] == [], (gpu, middle)


def test_marketplace_prices_are_marked_in_the_table() -> None:
    marked = {offer.vm_type.provider for offer in load_offers() if "marketplace" in offer.source}
    assert (
        marked == {offer.vm_type.provider for offer in load_offers() if offer.is_marketplace} == {"vast", "shadeform"}
    )


def test_a_machine_has_no_more_memory_than_its_number_of_gpus_allows() -> None:
    """Tables of RunPod multiply the memory of a machine twice by the number of its GPUs."""
    per_gpu: dict[tuple[str, str], set[float]] = {}
    for offer in load_offers():
        vm_type = offer.vm_type
        if vm_type.provider == "runpod" and vm_type.gpu and vm_type.memory_gib:
            kind = vm_type.name.partition("_")[2]
            per_gpu.setdefault((kind, vm_type.gpu.name), set()).add(vm_type.memory_gib / vm_type.gpus)
    assert [kind for kind, found in per_gpu.items() if len(found) > 1] == []


def test_no_day_is_in_the_future() -> None:
    for offer in (*load_offers(), *load_historical_offers()):
        assert date(2018, 1, 1) <= offer.seen_on <= BUILT_ON, offer.key


def test_historical_and_retired_offers_cannot_be_rented() -> None:
    assert not any(offer.rentable_on(BUILT_ON) for offer in load_historical_offers())
    retired = {o.vm_type.name for o in load_offers() if not o.rentable_on(BUILT_ON)}
    assert {"p2.xlarge", "p3.2xlarge", "g3s.xlarge", "Standard_NC6", "Standard_NC6s_v3", "Standard_NV12s_v3"} <= retired
    assert "p3dn.24xlarge" not in retired


@pytest.mark.parametrize(
    ("machine", "gpu", "count"),
    [
        ("aws/g6f.large", "L4/8", 1),
        ("aws/g6f.2xlarge", "L4/4", 1),
        ("aws/gr6f.4xlarge", "L4/2", 1),
        ("aws/p4d.24xlarge", "A100", 8),
        ("aws/p2.16xlarge", "K80", 16),
        ("aws/g7e.2xlarge", "RTX PRO 6000", 1),
        ("aws/g7.2xlarge", "RTX PRO 4500", 1),
        ("azure/Standard_NC24ads_A100_v4", "A100-80GB-PCIe", 1),
        ("azure/Standard_NC80adis_H100_v5", "H100-NVL", 2),
        ("azure/Standard_NC24rs_v3", "V100-PCIe", 4),
        ("azure/Standard_ND40rs_v2", "V100-32GB", 8),
        ("azure/Standard_NV6", "M60", 1),
        ("lambda/gpu_1x_a100", "A100-PCIe", 1),
        ("lambda/gpu_1x_a100_sxm4", "A100", 1),
        ("lambda/gpu_8x_a100", "A100", 8),
        ("lambda/gpu_1x_h100_pcie", "H100-PCIe", 1),
        ("lambda/gpu_1x_rtx6000", "Quadro RTX 6000", 1),
        ("nebius/gpu-rtx6000_1gpu-24vcpu-218gb", "RTX PRO 6000", 1),
        ("runpod/1x_A100-80GB_SECURE", "A100-80GB-PCIe", 1),
        ("runpod/2x_A100-80GB-SXM_SECURE", "A100-80GB", 2),
        ("runpod/1x_H100_SECURE", "H100-PCIe", 1),
        ("runpod/8x_MI300X_SECURE", "MI300X", 8),
        ("runpod/1x_PRO-6000-MIG-24GB_SECURE", "RTX PRO 6000/4", 1),
        ("vast/1x-RTX_3060_Ti-32-65536", "RTX 3060 Ti", 1),
        ("vast/4x-RTX_4070S_Ti-32-65536", "RTX 4070 Ti SUPER", 4),
        ("vast/1x-H100_NVL-32-65536", "H100-NVL", 1),
        ("shadeform/crusoe_A100-80GB", "A100-80GB-PCIe", 1),
        ("shadeform/denvr_A100-sxm4-80GBx8", "A100-80GB", 8),
        ("shadeform/digitalocean_H100-sxm5", "H100", 1),
        ("shadeform/vultr_A16x4", "A16", 4),
        ("oci/BM.GPU4.8", "A100", 8),
        ("hyperstack/n3-H100-SXM5x8", "H100", 8),
        ("scaleway/H100-1-80G", "H100-PCIe", 1),
        ("ovhcloud/t2-45", "V100S", 1),
    ],
)
def test_a_machine_has_the_right_gpu_board(machine: str, gpu: str, count: int) -> None:
    found = next(offer.vm_type for offer in load_offers() if offer.vm_type.key == machine)
    assert found.gpu is not None
    assert (found.gpu.name, found.gpus) == (gpu, count)


def test_every_source_is_described_and_used() -> None:
    used = {fact.source.key for facts in load_gpu_facts().values() for fact in facts}
    used |= {term.source.key for terms in load_term_facts().values() for term in terms}
    used |= {row["source"] for table in ("networks.csv", "cpus.csv", "cpu_machines.csv") for row in bundled_rows(table)}
    assert used == set(load_sources())
    assert all(source.title and source.publisher and source.date for source in load_sources().values())


def test_a_fact_is_stated_once() -> None:
    for name, facts in load_gpu_facts().items():
        assert max(Counter(fact.fact for fact in facts).values()) == 1, name


def test_gpu_names_differ_in_more_than_spelling() -> None:
    assert len({normalise_name(name) for name in GPUS}) == len(GPUS)


def test_boards_are_gpus_of_the_catalog() -> None:
    assert {row["gpu"] for row in bundled_rows("boards.csv")} <= set(GPUS)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_tensor_cores_are_faster_than_plain_cores(gpu: Gpu) -> None:
    tensor = gpu.fp16_tensor_tflops or gpu.bf16_tensor_tflops
    if tensor:
        assert tensor > max(gpu.fp32_tflops, gpu.fp16_tflops or 0)
        assert gpu.tf32_tensor_tflops is None or gpu.fp32_tflops * 0.99 <= gpu.tf32_tensor_tflops <= tensor
        assert gpu.fp8_tensor_tflops is None or gpu.fp8_tensor_tflops >= tensor


@pytest.mark.parametrize("gpu", COMPLETE, ids=lambda gpu: gpu.name)
def test_gpu_figures_are_plausible(gpu: Gpu) -> None:
    assert 2 <= gpu.memory_gib <= 300
    assert 60 <= gpu.memory_gb_per_second <= 8000
    assert 1 <= gpu.fp32_tflops <= 200
    assert 30 <= gpu.interconnect_gb_per_second <= 1800
    assert 2013 <= gpu.launch_year <= BUILT_ON.year
    assert gpu.fp64_tflops is None or gpu.fp64_tflops <= gpu.fp32_tflops
    # Dense figures: no chip so far has more than 34 times its float32 rate in 16 bits on tensor cores.
    assert (gpu.fp16_tensor_tflops or 0) <= 34 * gpu.fp32_tflops


@pytest.mark.parametrize(
    ("board", "parts"), [("L4", 2), ("L4", 4), ("L4", 8), ("RTX PRO 6000", 2), ("RTX PRO 6000", 4)]
)
def test_a_share_of_a_gpu_has_that_share_of_its_figures(board: str, parts: int) -> None:
    full, share = GPUS[board], GPUS[f"{board}/{parts}"]
    assert share.memory_gib * parts == full.memory_gib
    assert share.memory_gb_per_second * parts == pytest.approx(full.memory_gb_per_second)
    assert share.fp32_tflops * parts == pytest.approx(full.fp32_tflops)


@pytest.mark.parametrize(
    ("name", "times_float32"),
    [
        ("RTX 2080 Ti", 4),
        ("RTX 3090", 2),
        ("RTX 4090", 2),
        ("RTX 5090", 2),
        ("Quadro RTX 6000", 8),
        ("RTX A6000", 4),
        ("RTX 6000 Ada", 4),
        ("RTX PRO 6000", 4),
    ],
)
def test_gaming_boards_have_half_the_tensor_rate_of_their_siblings(name: str, times_float32: int) -> None:
    """Training accumulates in float32, which gaming boards do at half the rate of workstation boards."""
    assert GPUS[name].fp16_tensor_tflops == pytest.approx(times_float32 * GPUS[name].fp32_tflops, rel=0.01)


def test_papers_keep_their_prices() -> None:
    prices = {(o.vm_type.key, o.source): o.usd_per_hour for o in load_historical_offers()}
    assert prices["aws/p3.8xlarge", "Malta 2021, table 3.1"] == 12.24
    assert prices["aws/p2.xlarge", "Ta 2019, tables 1 and 2"] == 1.718
    assert prices["azure/Standard_NV24", "Ardagna 2019, slides"] == 2.48
    assert prices["gcp/gpu-p100", "Sanghvi, table I"] == 1.46
    assert {o.vm_type.name for o in load_historical_offers() if o.vm_type.gpu is None} >= {
        "m4.large",
        "t2.xlarge",
        "c4.8xlarge",
    }


def test_every_network_belongs_to_one_machine_of_the_catalog() -> None:
    named = [f"{row['provider']}/{row['machine']}" for row in bundled_rows("networks.csv")]
    assert len(named) == len(set(named))
    assert set(named) <= {offer.vm_type.key for offer in load_offers()}


def test_the_network_of_a_machine_is_in_bytes() -> None:
    networks = {offer.vm_type.key: offer.vm_type.network_gb_per_second for offer in load_offers()}
    assert networks["aws/g4dn.12xlarge"] == 6.25, "50 Gbit/s"
    assert networks["lambda/gpu_1x_a10"] is None, "unknown"
