"""The cores that a program on the CPU sees."""

from dataclasses import replace

import pytest

from tests.makers import make_vm_type
from trainfare.estimator.cpu.machine import GENERIC_CPU, CpuMachine, machine_of_host, machine_of_type
from trainfare.model.machine import Host

SKYLAKE = replace(GENERIC_CPU, name="Skylake", simd_bits=512, clock_ghz=2.0, cores=28)


def test_two_hardware_threads_are_one_core() -> None:
    rented = make_vm_type(gpu=None, gpus=0, vcpus=8, cpu=SKYLAKE)
    found = machine_of_type(rented, GENERIC_CPU)
    assert found == CpuMachine(cpu=SKYLAKE, cores=4.0)


def test_vcpus_of_a_cpu_without_hyper_threading_are_cores() -> None:
    graviton = replace(SKYLAKE, threads_per_core=1)
    found = machine_of_type(make_vm_type(gpu=None, gpus=0, vcpus=8, cpu=graviton), GENERIC_CPU)
    assert found is not None
    assert found.cores == 8


def test_a_machine_type_without_a_cpu_has_the_assumed_one() -> None:
    found = machine_of_type(make_vm_type(gpu=None, gpus=0, vcpus=8, cpu=None), SKYLAKE)
    assert found == CpuMachine(cpu=SKYLAKE, cores=4.0, facts=False)
    assert machine_of_type(make_vm_type(gpu=None, gpus=0, vcpus=None), SKYLAKE) is None


def test_a_host_tells_its_physical_cores() -> None:
    found = machine_of_host(Host(name="h", cores=8, physical_cores=4), SKYLAKE)
    assert found == CpuMachine(cpu=SKYLAKE, cores=4.0)
    assert machine_of_host(Host(name="h"), SKYLAKE) is None


def test_a_slice_of_a_host_has_its_share_of_the_cores() -> None:
    found = machine_of_host(Host(name="h", cores=1, physical_cores=1), SKYLAKE, 0.5)
    assert found is not None
    assert found.cores == 0.5


def test_an_unknown_cpu_is_described_by_its_host() -> None:
    host = Host(name="h", cpu="Some CPU @ 3.10GHz", cores=4, physical_cores=4, simd_bits=128, clock_ghz=3.1)
    found = machine_of_host(host, None)
    assert found is not None
    assert (found.cpu.simd_bits, found.cpu.clock_ghz, found.facts) == (128, 3.1, False)


def test_vectors_that_the_hypervisor_hides_are_not_used() -> None:
    found = machine_of_host(Host(name="h", cores=2, physical_cores=2, simd_bits=256), SKYLAKE)
    assert found is not None
    assert found.cpu.simd_bits == 256


def test_a_few_cores_have_their_share_of_the_bandwidth() -> None:
    one, half, all_ = (CpuMachine(cpu=SKYLAKE, cores=cores).memory_gb_per_second for cores in (1, 14, 28))
    assert one == 12.0
    assert half == pytest.approx(all_ / 2)
