"""The facts about CPUs: physically plausible, sourced, and found by the names that machines give."""

from collections import Counter
from datetime import date

import pytest

from trainfare.catalog.cpu_facts import cpu_for, cpu_of_machine, load_cpu_sources, load_cpus
from trainfare.catalog.gpu_facts import bundled_rows
from trainfare.model.machine import Cpu
from trainfare.profiler.host import this_host

BUILT_ON = date(2026, 11, 16)
CPUS = load_cpus()

UNITS = {
    "Haswell": {(256, 2)},
    "Broadwell": {(256, 2)},
    "Skylake-SP": {(512, 2), (512, 1)},
    "Cascade Lake": {(512, 2), (512, 1)},
    "Ice Lake-SP": {(512, 2)},
    "Sapphire Rapids": {(512, 2)},
    "Emerald Rapids": {(512, 2)},
    "Granite Rapids": {(512, 2)},
    "Alder Lake": {(256, 2)},
    "Zen": {(256, 1)},
    "Zen+": {(256, 1)},
    "Zen 2": {(256, 2)},
    "Zen 3": {(256, 2)},
    "Zen 4": {(256, 2)},
    "Zen 5": {(512, 2), (256, 2)},
    "Neoverse N1": {(128, 2)},
    "Neoverse V1": {(256, 2)},
    "Neoverse V2": {(128, 4)},
}
"""The vector units of an architecture: 512-bit code of Zen 4 runs through 256-bit units; Silver Xeons before Ice Lake
have one 512-bit unit, and Zen 5 in laptops has 256-bit ones."""


@pytest.mark.parametrize("cpu", CPUS.values(), ids=lambda cpu: cpu.name)
def test_figures_are_plausible(cpu: Cpu) -> None:
    assert 4 <= cpu.cores <= 144
    assert cpu.threads_per_core in (1, 2)
    assert 1.5 <= cpu.clock_ghz <= 5.5
    assert 2013 <= cpu.launch_year <= BUILT_ON.year
    assert 25 <= cpu.memory_gb_per_second <= 850
    assert 40 <= cpu.fp32_gflops_per_core <= 310
    # A core that computes on every byte it reads needs bandwidth: the Threadripper 3990X has least of it, Apple most.
    assert 1.5 <= cpu.memory_gb_per_second / cpu.cores <= 60
    assert (cpu.simd_bits, cpu.fma_units) in UNITS.get(cpu.architecture, {(256, 2), (512, 1), (512, 2), (128, 4)})


def test_only_intel_since_sapphire_rapids_multiplies_bfloat16_matrices() -> None:
    with_unit = {cpu.architecture for cpu in CPUS.values() if cpu.bf16_matrix_unit}
    assert with_unit == {"Sapphire Rapids", "Emerald Rapids", "Granite Rapids"}


def test_every_cpu_is_described_once_with_a_source() -> None:
    assert max(Counter(row["name"] for row in bundled_rows("cpus.csv")).values()) == 1
    assert set(load_cpu_sources()) == set(CPUS)


@pytest.mark.parametrize("name", CPUS)
def test_every_cpu_is_found_by_its_own_name(name: str) -> None:
    assert cpu_for(name) == CPUS[name]


@pytest.mark.parametrize(
    ("name", "cpu"),
    [
        ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "Xeon Platinum 8375C"),
        ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "Xeon E5-2686 v4"),
        ("Intel(R) Xeon(R) Platinum 8488C", "Xeon Platinum 8488C"),
        ("INTEL(R) XEON(R) PLATINUM 8568Y+", "Xeon Platinum 8568Y+"),
        ("Intel(R) Xeon(R) 6980P", "Xeon 6980P"),
        ("AMD EPYC 7763 64-Core Processor", "EPYC 7763"),
        ("AMD EPYC 9R14", "EPYC 9R14"),
        ("AMD EPYC 7713P 64-Core Processor", "EPYC 7713"),
        ("AMD EPYC-Milan Processor", "EPYC (Milan)"),
        ("Intel Xeon Processor (Skylake, IBRS)", "Xeon (Skylake)"),
        ("Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz", "Core i7-8700K"),
        ("12th Gen Intel(R) Core(TM) i7-12700KF", "Core i7-12700K"),
        ("13th Gen Intel(R) Core(TM) i9-13900K", "Core i9-13900K"),
        ("Intel(R) Core(TM) Ultra 7 155H", "Core Ultra 7 155H"),
        ("AMD Ryzen 9 5950X 16-Core Processor", "Ryzen 9 5950X"),
        ("AMD Ryzen 7 1700 Eight-Core Processor", "Ryzen 7 1700"),
        ("AMD Ryzen 7 7840HS w/ Radeon 780M Graphics", "Ryzen 7 7840HS"),
        ("AMD Ryzen 7 5700U with Radeon Graphics", "Ryzen 7 5700U"),
        ("AMD Ryzen Threadripper PRO 5975WX 32-Cores", "Ryzen Threadripper PRO 5975WX"),
        ("Apple M2 Pro", "Apple M2 Pro"),
        # Providers that hide the model: the clock and the wording tell the generation.
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Xeon @ 2.20GHz (Broadwell)"),
        ("Intel(R) Xeon(R) CPU @ 2.80GHz", "Xeon @ 2.80GHz (Cascade Lake)"),
        ("Intel(R) Xeon(R) Processor @ 2.80GHz", "Xeon @ 2.80GHz (Ice Lake)"),
    ],
)
def test_a_cpu_is_found_by_the_name_that_the_machine_gives(name: str, cpu: str) -> None:
    found = cpu_for(name)
    assert found is not None
    assert found.name == cpu


@pytest.mark.parametrize(
    "name", ["", "x86_64", "aarch64", "Intel(R) Xeon(R) CPU @ 9.90GHz", "Intel(R) Xeon(R) Platinum 9999", "Pentium II"]
)
def test_an_unknown_name_is_none(name: str) -> None:
    assert cpu_for(name) is None


def test_the_plus_of_a_model_counts() -> None:
    assert cpu_for("Intel(R) Xeon(R) Platinum 8480+") == CPUS["Xeon Platinum 8480+"]
    assert cpu_for("Intel(R) Xeon(R) Platinum 8480") is None


def test_the_machine_at_hand_has_a_name_that_can_be_looked_up() -> None:
    """Whether it is known or not: a lookup never fails."""
    cpu = cpu_for(this_host(vm_type=None, gpu=None, gpus=0).cpu or "")
    assert cpu is None or cpu in CPUS.values()


@pytest.mark.parametrize(
    ("machine", "cpu", "threads"),
    [
        ("aws/m7i.large", "Xeon Platinum 8488C", 2),
        ("aws/c7a.4xlarge", "EPYC 9R14", 1),
        ("aws/c8g.24xlarge", "Graviton4", 1),
        ("aws/c5.24xlarge", "Xeon Platinum 8275CL", 2),
        ("aws/c5.large", "Xeon Platinum 8124M", 2),
        ("aws/g5.xlarge", "EPYC 7R32", 2),
        ("azure/Standard_NC16as_T4_v3", "EPYC 7V12", 2),
        ("azure/Standard_NC6s_v3", "Xeon E5-2690 v4", 2),
        ("azure/Standard_D16as_v5", "EPYC 7763", 2),
        ("azure/Standard_D16s_v5", "Xeon Platinum 8370C", 2),
        ("gcp/n2-standard-96", "Xeon @ 2.60GHz (Ice Lake)", 2),
        ("gcp/n2-standard-8", "Xeon @ 2.80GHz (Cascade Lake)", 2),
        ("gcp/t2d-standard-8", "EPYC 7B13 (one thread per core)", 1),
        ("gcp/c4d-standard-8", "EPYC 9B45", 2),
    ],
)
def test_a_family_has_the_right_cpu_and_vcpus_per_core(machine: str, cpu: str, threads: int) -> None:
    provider, _, name = machine.partition("/")
    found = cpu_of_machine(provider, name)
    assert found is not None
    assert (found.name, found.threads_per_core) == (cpu, threads)


def test_machines_of_other_families_have_no_known_cpu() -> None:
    assert cpu_of_machine("aws", "g7e.2xlarge") is None
    assert cpu_of_machine("gcp", "e2-standard-4") is None
    assert cpu_of_machine("nowhere", "c7a.large") is None


def test_patterns_and_hidden_names_mean_cpus_of_the_table() -> None:
    assert {row["cpu"] for table in ("cpu_machines.csv", "cpu_names.csv") for row in bundled_rows(table)} <= set(CPUS)
