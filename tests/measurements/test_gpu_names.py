"""The catalog's name of a GPU, found in many texts."""

import pytest

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.measurements.gpu_names import find_gpu_name


@pytest.mark.parametrize(
    ("system", "gpu"),
    [
        ("LambdaCloud V100 16GB", "V100"),
        ("A100 80GB SXM4", "A100-80GB"),
        ("H100 80GB PCIe Gen5", "H100-PCIe"),
        ("1CC H100 80GB SXM5", "H100"),
        ("RTX 6000 Ada", "RTX 6000 Ada"),
        ("LambdaCloud RTX6000", "Quadro RTX 6000"),
        ("4xA6000", "RTX A6000"),
        ("2080Ti", "RTX 2080 Ti"),
        ("LambdaCloud_A10", "A10"),
        ("QuadroRTX8000", "Quadro RTX 8000"),
        ("GeForce GTX 1080 Ti", "GTX 1080 Ti"),
        ("TITAN Xp", "Titan Xp"),
        ("A100-SXM4-40GB", "A100"),
        ("A100-PCIE-80GB", "A100-80GB-PCIe"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("NVIDIA H100 80GB HBM3", "H100"),
    ],
)
def test_gpu_is_found_in_names_of_systems_and_devices(system: str, gpu: str) -> None:
    assert find_gpu_name(system) == gpu
    assert gpu in load_gpus()


def test_unknown_gpu_keeps_its_name_without_the_vendor() -> None:
    assert find_gpu_name("NVIDIA Abacus 9000") == "Abacus 9000"
