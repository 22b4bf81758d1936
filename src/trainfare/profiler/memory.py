"""Reads the memory of this machine, and of the processes of a program, from the files of the Linux kernel.

Where these files do not exist, as on macOS, nothing is known and the functions return None or zero.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainfare.model.startup import MemoryReading

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")
_UNLIMITED_BYTES = 1 << 60
"""Version 1 of control groups writes a number near 2 ** 63 for no limit."""
_ACCELERATOR_DEVICES = ("nvidia[0-9]*", "nvhost-gpu", "dxg", "kfd", "accel*", "neuron[0-9]*", "davinci[0-9]*")
"""Device files of NVIDIA (also Jetson, and in Windows' Linux), AMD, Google TPU and Intel Gaudi, AWS Trainium, and
Huawei Ascend."""


def has_accelerator(devices: Path = Path("/dev")) -> bool:
    """True if the kernel shows a GPU or another accelerator for training."""
    return any(any(devices.glob(pattern)) for pattern in _ACCELERATOR_DEVICES)


@dataclass(slots=True)
class MemoryWatch:
    """Reads the memory of a program and of its machine now and then, and remembers the peak."""

    pid: int
    """The process that was started; its children are found through the kernel."""
    peak_program_bytes: int = 0
    _oom_kills_before: int = field(default_factory=lambda: _counters(PROC / "vmstat").get("oom_kill", 0))
    _swapped: tuple[float, int] | None = None

    def read(self) -> MemoryReading | None:
        """The present state; None if the kernel does not show it."""
        machine = _counters(PROC / "meminfo", unit=1024)
        total, available = machine.get("MemTotal:"), machine.get("MemAvailable:")
        if not total or available is None:
            return None
        program = sum(map(_resident_bytes, descendants(self.pid)))
        self.peak_program_bytes = max(self.peak_program_bytes, program)
        limit, used = group_memory(self.pid)
        if limit is not None:
            total, available = min(total, limit), min(available, max(0, limit - used))
        return MemoryReading(
            total_bytes=total,
            available_bytes=available,
            program_bytes=program,
            peak_program_bytes=self.peak_program_bytes,
            swap_bytes_per_second=self._swap_rate(),
            pressure=_pressure(),
        )

    @property
    def oom_killed(self) -> bool:
        """The kernel has killed a process for lack of memory since the watch began; perhaps one of another program."""
        return _counters(PROC / "vmstat").get("oom_kill", 0) > self._oom_kills_before

    def _swap_rate(self) -> float:
        counters = _counters(PROC / "vmstat")
        now = time.monotonic(), counters.get("pswpin", 0) + counters.get("pswpout", 0)
        before, self._swapped = self._swapped, now
        if before is None or now[0] <= before[0]:
            return 0.0
        return max(0.0, (now[1] - before[1]) * _page_bytes() / (now[0] - before[0]))


def descendants(pid: int) -> Iterator[int]:
    """The process and everything that it has started and that still runs."""
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        yield each
        for task in (PROC / str(each) / "task").glob("*/children"):
            with contextlib.suppress(OSError, ValueError):  # it has just ended
                waiting += map(int, task.read_text().split())


def group_memory(pid: int) -> tuple[int | None, int]:
    """The smallest memory limit of the control groups of a process, and what is used of it; None without a limit.

    Files in the cache count as used, but the kernel gives them up first, so they are subtracted.
    """
    found: list[tuple[int, int]] = []
    for folder, limit_name, usage_name in _group_folders(pid):
        limit = _number(folder / limit_name)
        if limit is not None and limit < _UNLIMITED_BYTES:
            counters = _counters(folder / "memory.stat")
            cached = counters.get("total_inactive_file", counters.get("inactive_file", 0))
            found.append((limit, max(0, (_number(folder / usage_name) or 0) - cached)))
    return min(found, key=lambda pair: pair[0] - pair[1], default=(None, 0))


def _group_folders(pid: int) -> Iterator[tuple[Path, str, str]]:
    """The folders of the memory groups of a process, from its own up, with the names of limit and usage."""
    for line in _text(PROC / str(pid) / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = GROUPS, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root, names = GROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        folder = root / path.strip("/")
        # In a container the path may be that of the host, and the container's own group is the root.
        for each in (folder, *folder.parents):
            if each.is_relative_to(root):
                yield (each, *names)


def _resident_bytes(pid: int) -> int:
    fields = _text(PROC / str(pid) / "statm").split()
    return int(fields[1]) * _page_bytes() if len(fields) > 1 else 0


def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _pressure() -> float:
    """The share of the last ten seconds in which all processes waited for memory; 0 if the kernel does not count it."""
    for line in _text(PROC / "pressure" / "memory").splitlines():
        kind, *pairs = line.split()
        if kind == "full":
            return float(dict(pair.split("=") for pair in pairs).get("avg10", 0)) / 100
    return 0.0


def _counters(path: Path, *, unit: int = 1) -> dict[str, int]:
    """The numbers of a file with a name and a number per line."""
    found = {}
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) > 1 and words[1].isdecimal():
            found[words[0]] = int(words[1]) * unit
    return found


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
