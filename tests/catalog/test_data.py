"""Invariants of the figures that are shipped: a wrong one spoils every estimate that leans on it."""

from collections import Counter
from datetime import date

import pytest

from trainfare.catalog.bundled import load_history, load_offers
from trainfare.catalog.gpu_boards import plain
from trainfare.catalog.gpus import bundled_rows, load_figures, load_gpus, load_sources
from trainfare.catalog.terms import load_term_facts
from trainfare.model.machine import Gpu

BUILT_ON = date(2026, 11, 16)
GPUS = load_gpus()
WHOLE = [gpu for name, gpu in GPUS.items() if "/" not in name]


def test_there_are_enough_machines_to_choose_from() -> None:
    with_gpu = {offer.vm_type.key for offer in load_offers() if offer.vm_type.gpu}
    assert len(with_gpu) >= 150
    assert {offer.vm_type.provider for offer in load_offers()} == {"aws", "azure", "gcp", "lambda", "nebius"}


def test_a_machine_has_one_price_in_a_region_and_market() -> None:
    assert max(Counter(offer.key for offer in load_offers()).values()) == 1


def test_a_document_has_one_price_for_a_machine() -> None:
    assert max(Counter((*offer.key, offer.source) for offer in load_history()).values()) == 1


def test_a_machine_is_the_same_machine_everywhere() -> None:
    kinds: dict[str, set[object]] = {}
    for offer in (*load_offers(), *load_history()):
        kinds.setdefault(offer.vm_type.key, set()).add(offer.vm_type)
    assert [key for key, found in kinds.items() if len(found) > 1] == []


def test_spot_is_cheaper_than_on_demand() -> None:
    on_demand = {o.key[:2]: o.usd_per_hour for o in load_offers() if o.market == "on_demand"}
    spots = [offer for offer in load_offers() if offer.market == "spot"]
    assert [o.key for o in spots if o.usd_per_hour >= on_demand[o.key[:2]]] == []


def test_prices_are_those_of_a_computer() -> None:
    for offer in (*load_offers(), *load_history()):
        assert 0.01 < offer.usd_per_hour < 200, offer.key


def test_no_day_is_in_the_future() -> None:
    for offer in (*load_offers(), *load_history()):
        assert date(2018, 1, 1) <= offer.seen_on <= BUILT_ON, offer.key


def test_the_past_cannot_be_rented() -> None:
    assert not any(offer.rentable_on(BUILT_ON) for offer in load_history())
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
    ],
)
def test_a_machine_has_the_board_that_it_really_has(machine: str, gpu: str, count: int) -> None:
    found = next(offer.vm_type for offer in load_offers() if offer.vm_type.key == machine)
    assert found.gpu is not None
    assert (found.gpu.name, found.gpus) == (gpu, count)


def test_every_source_of_a_figure_is_named_and_every_named_source_is_used() -> None:
    used = {figure.source.key for figures in load_figures().values() for figure in figures}
    used |= {term.source.key for terms in load_term_facts().values() for term in terms}
    used |= {row["source"] for row in bundled_rows("networks.csv")}
    assert used == set(load_sources())
    assert all(source.title and source.publisher and source.date for source in load_sources().values())


def test_a_fact_is_stated_once() -> None:
    for name, figures in load_figures().items():
        assert max(Counter(figure.fact for figure in figures).values()) == 1, name


def test_names_differ_in_more_than_spelling() -> None:
    assert len({plain(name) for name in GPUS}) == len(GPUS)


def test_boards_are_gpus_of_the_catalog() -> None:
    assert {row["gpu"] for row in bundled_rows("boards.csv")} <= set(GPUS)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_tensor_cores_are_faster_than_plain_cores(gpu: Gpu) -> None:
    tensor = gpu.fp16_tensor_tflops or gpu.bf16_tensor_tflops
    if tensor:
        assert tensor > max(gpu.fp32_tflops, gpu.fp16_tflops or 0)
        assert gpu.tf32_tensor_tflops is None or gpu.fp32_tflops * 0.99 <= gpu.tf32_tensor_tflops <= tensor
        assert gpu.fp8_tensor_tflops is None or gpu.fp8_tensor_tflops >= tensor


@pytest.mark.parametrize("gpu", WHOLE, ids=lambda gpu: gpu.name)
def test_figures_are_within_what_physics_has_built(gpu: Gpu) -> None:
    assert 2 <= gpu.memory_gib <= 300
    assert 60 <= gpu.memory_gb_per_second <= 8000
    assert 1 <= gpu.fp32_tflops <= 200
    assert 30 <= gpu.interconnect_gb_per_second <= 1800
    assert 2013 <= gpu.launch_year <= BUILT_ON.year
    assert gpu.fp64_tflops is None or gpu.fp64_tflops <= gpu.fp32_tflops
    # Dense figures: no chip so far has more than 34 times its float32 rate in 16 bits on tensor cores.
    assert (gpu.fp16_tensor_tflops or 0) <= 34 * gpu.fp32_tflops


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_a_share_is_that_share_of_the_whole(parts: int) -> None:
    whole, share = GPUS["L4"], GPUS[f"L4/{parts}"]
    assert share.memory_gib * parts == whole.memory_gib
    assert share.memory_gb_per_second * parts == pytest.approx(whole.memory_gb_per_second)
    assert share.fp32_tflops * parts == pytest.approx(whole.fp32_tflops)


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
    """Training sums in float32, and boards for games do that at half the rate of boards for work."""
    assert GPUS[name].fp16_tensor_tflops == pytest.approx(times_float32 * GPUS[name].fp32_tflops, rel=0.01)


def test_documents_keep_their_prices() -> None:
    prices = {(o.vm_type.key, o.source): o.usd_per_hour for o in load_history()}
    assert prices["aws/p3.8xlarge", "Malta 2021, table 3.1"] == 12.24
    assert prices["aws/p2.xlarge", "Ta 2019, tables 1 and 2"] == 1.718
    assert prices["azure/Standard_NV24", "Ardagna 2019, slides"] == 2.48
    assert prices["gcp/gpu-p100", "Sanghvi, table I"] == 1.46
    assert {o.vm_type.name for o in load_history() if o.vm_type.gpu is None} >= {"m4.large", "t2.xlarge", "c4.8xlarge"}


def test_networks_are_of_machines_of_the_catalog_and_stated_once() -> None:
    named = [f"{row['provider']}/{row['machine']}" for row in bundled_rows("networks.csv")]
    assert len(named) == len(set(named))
    assert set(named) <= {offer.vm_type.key for offer in load_offers()}


def test_a_machine_knows_its_network_in_bytes() -> None:
    networks = {offer.vm_type.key: offer.vm_type.network_gb_per_second for offer in load_offers()}
    assert networks["aws/g4dn.12xlarge"] == 6.25, "50 Gbit/s"
    assert networks["lambda/gpu_1x_a10"] is None, "not known"
