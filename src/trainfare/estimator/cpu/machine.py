"""A machine as a program on the CPU sees it: a model of CPU, and how many of its cores there are.

Providers count vCPUs, which are hardware threads: of a CPU with hyper-threading two of them are one core. Vector units
belong to the core, so a second thread of it hardly adds to the speed of a training.
"""

from dataclasses import dataclass, replace

from trainfare.model.checks import require_positive
from trainfare.model.machine import Cpu, Host, VmType

GENERIC_CPU = Cpu(
    name="a typical server CPU",
    vendor="intel",
    architecture="unknown",
    launch_year=2020,
    cores=32,
    simd_bits=256,
    fma_units=2,
    clock_ghz=2.8,
    memory_gb_per_second=150.0,
)
"""Stands for a CPU about which nothing is known."""


CORE_GB_PER_SECOND = 12.0
"""The memory bandwidth that one core can use alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuMachine:
    """Some cores of one model of CPU."""

    cpu: Cpu
    cores: float
    """Physical cores; less than one is a share of the time of one core."""
    facts: bool = True
    """False if the facts of the CPU are read from its name and its flags, or assumed."""

    def __post_init__(self) -> None:
        require_positive(cores=self.cores)

    @property
    def memory_gb_per_second(self) -> float:
        """Its share of the bandwidth of its sockets, but no less than one core can use."""
        share = self.cpu.memory_gb_per_second * self.cores / self.cpu.cores
        return max(min(CORE_GB_PER_SECOND, self.cpu.memory_gb_per_second), share)


def machine_of_host(host: Host, known: Cpu | None, cores: float | None = None) -> CpuMachine | None:
    """The machine of a profile; None if its number of cores is unknown.

    `known` are the facts of its CPU, if the catalog has them by the name that the host states. `cores` are the logical
    CPUs of a slice, which may be half a CPU.
    """
    logical = cores if cores is not None else host.cores
    if not logical:
        return None
    cpu = known or _from_description(host)
    if host.physical_cores and host.cores:
        physical = logical * host.physical_cores / host.cores
    elif cores is not None:
        physical = logical
    else:
        physical = max(1.0, logical / cpu.threads_per_core)
    # The flags of the host decide: a hypervisor may hide instructions that the CPU has.
    if known is not None and host.simd_bits and host.simd_bits < known.simd_bits:
        cpu = replace(cpu, simd_bits=host.simd_bits)
    return CpuMachine(cpu=cpu, cores=physical, facts=known is not None)


def machine_of_type(vm_type: VmType, otherwise: Cpu) -> CpuMachine | None:
    """The machine of a type that can be rented; None if its number of vCPUs is unknown.

    `otherwise` is the CPU to assume where the type does not state its own.
    """
    if vm_type.vcpus is None:
        return None
    cpu = vm_type.cpu or otherwise
    cores = vm_type.vcpus / cpu.threads_per_core
    return CpuMachine(cpu=cpu, cores=max(cores, min(1.0, vm_type.vcpus)), facts=vm_type.cpu is not None)


def _from_description(host: Host) -> Cpu:
    """A CPU by what the host says of itself: its name, its widest registers and its clock."""
    return replace(
        GENERIC_CPU,
        name=host.cpu or GENERIC_CPU.name,
        simd_bits=host.simd_bits or GENERIC_CPU.simd_bits,
        clock_ghz=host.clock_ghz or GENERIC_CPU.clock_ghz,
    )
