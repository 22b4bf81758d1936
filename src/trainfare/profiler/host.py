"""Describes this machine: CPU, cores, vector registers, memory and, on EC2, the instance type."""

import os
import platform
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from trainfare.model.machine import Host
from trainfare.units import BYTES_PER_GIB


def this_host_name() -> str:
    return socket.gethostname() or "localhost"


def this_host(*, vm_type: str | None, gpu: str | None, gpus: int) -> Host:
    """The machine that runs this process; without a `vm_type` from the user, the type is read from the firmware."""
    cores = _cores()
    facts = read_cpuinfo(_read(Path("/proc/cpuinfo")))
    return Host(
        name=this_host_name(),
        cpu=facts.get("model name") or platform.processor() or None,
        cores=cores,
        physical_cores=physical_cores(cores, facts),
        simd_bits=simd_bits(facts),
        clock_ghz=clock_ghz(facts),
        memory_gib=_memory_gib(),
        gpu=gpu,
        gpus=gpus,
        vm_type=vm_type or _vm_type(Path("/sys/devices/virtual/dmi/id")),
    )


def this_gpus(folder: Path = Path("/proc/driver/nvidia/gpus")) -> tuple[str | None, int]:
    """The name and the number of the NVIDIA GPUs of this machine, as its driver lists them; None and 0 without any."""
    try:
        boards = sorted(folder.glob("*/information"))
    except OSError:
        return None, 0
    models = [
        line.partition(":")[2].strip() for path in boards for line in _read(path).splitlines() if "Model:" in line
    ]
    return (models[0], models.count(models[0])) if models else (None, 0)


def _cores() -> int | None:
    """The cores that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


_SIMD_FLAGS = (
    ("avx512f", 512),
    ("avx2", 256),
    ("avx", 256),
    ("sve", 256),
    ("asimd", 128),
    ("sse2", 128),
    ("neon", 128),
)
"""Flags of /proc/cpuinfo and the width of the registers that they stand for, the widest first. SVE has no fixed width:
256 bits is that of Neoverse V1."""


def read_cpuinfo(text: str) -> Mapping[str, str]:
    """The fields of the first processor in /proc/cpuinfo."""
    first, _, _ = text.partition("\n\n")
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines if value.strip()}


def physical_cores(cores: int | None, facts: Mapping[str, str]) -> int | None:
    """The physical cores behind so many logical CPUs; None if the machine does not tell how many share a core."""
    siblings, own = facts.get("siblings", ""), facts.get("cpu cores", "")
    if cores is None or not (siblings.isdigit() and own.isdigit() and int(siblings) and int(own)):
        return None
    return max(1, round(cores * int(own) / int(siblings)))


def simd_bits(facts: Mapping[str, str]) -> int | None:
    flags = set((facts.get("flags") or facts.get("Features") or "").lower().split())
    return next((bits for flag, bits in _SIMD_FLAGS if flag in flags), None)


def clock_ghz(facts: Mapping[str, str]) -> float | None:
    """The clock in the name of the CPU, else the clock at which it runs now; None if neither is stated."""
    named = re.search(r"@\s*(\d+(?:\.\d+)?)\s*GHz", facts.get("model name", ""), re.IGNORECASE)
    if named:
        return float(named[1]) or None
    running = facts.get("cpu MHz", "")
    return round(float(running) / 1000, 3) or None if re.fullmatch(r"\d+(\.\d+)?", running) else None


def _memory_gib() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    return round(total / BYTES_PER_GIB, 2) if total > 0 else None


def _vm_type(firmware: Path) -> str | None:
    """The instance type on EC2 (Nitro), which is the product name in the firmware; None on other machines."""
    product = _read(firmware / "product_name").strip()
    if _read(firmware / "sys_vendor").strip() == "Amazon EC2" and product:
        return f"aws/{product}"
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
