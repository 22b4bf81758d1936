"""Describes this machine: CPU, cores, memory and, on EC2, the instance type."""

import os
import platform
import socket
from pathlib import Path

from trainfare.model.machine import Host
from trainfare.units import BYTES_PER_GIB


def this_host_name() -> str:
    return socket.gethostname() or "localhost"


def this_host(*, vm_type: str | None, gpu: str | None, gpus: int) -> Host:
    """The machine that runs this process; without a `vm_type` from the user, the type is read from the firmware."""
    return Host(
        name=this_host_name(),
        cpu=_cpu_model(),
        cores=_cores(),
        memory_gib=_memory_gib(),
        gpu=gpu,
        gpus=gpus,
        vm_type=vm_type or _vm_type(Path("/sys/devices/virtual/dmi/id")),
    )


def _cores() -> int | None:
    """The cores that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _cpu_model() -> str | None:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip() or None
    return platform.processor() or None


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
