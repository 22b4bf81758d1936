"""The time of each operator in an iteration, on the device and on the host, by PyTorch's own profiler.

The profiler slows down the program, so this is the last measurement, over a few more iterations of a program that is
about to be ended. The times are self times: without the operators that an operator calls. Device time belongs to the
operator that launched the kernel.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

ITERATIONS = 5
MIN_SHARE = 1e-4
"""Operators with a smaller share of the total time are left out."""


class OperatorTimer:
    """Profiles from the end of one iteration to the end of a later one."""

    def __init__(self, torch: ModuleType) -> None:
        profiler: Any = importlib.import_module("torch.profiler")
        activities = [profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(profiler.ProfilerActivity.CUDA)
        self._profiler = profiler.profile(activities=activities)
        self._profiler.start()
        self._iterations = 0

    def enough(self) -> bool:
        """True once there are enough iterations; called at the end of each iteration."""
        self._iterations += 1
        return self._iterations >= ITERATIONS

    def stop(self) -> dict[str, Any]:
        """Stop the profiler; returns the seconds per iteration by operator."""
        self._profiler.stop()
        rows = [row for row in self._profiler.key_averages() if "CPU" in str(row.device_type)]
        device = {row.key: _device_microseconds(row) for row in rows}
        host = {row.key: float(row.self_cpu_time_total) for row in rows}
        return {"device": self._seconds(device), "host": self._seconds(host)}

    def _seconds(self, microseconds: dict[str, float]) -> dict[str, float]:
        threshold = MIN_SHARE * sum(microseconds.values())
        return {name: own / 1e6 / self._iterations for name, own in microseconds.items() if own > threshold}


def _device_microseconds(row: Any) -> float:
    """The self time on the device; older versions of PyTorch have another name for it."""
    name = "self_device_time_total" if hasattr(row, "self_device_time_total") else "self_cuda_time_total"
    return float(getattr(row, name, 0.0))
