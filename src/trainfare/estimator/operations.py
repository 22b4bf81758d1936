"""Time of one iteration on a GPU that nobody measured, from the operations that it launches.

    device = k · Σ max(FLOPs / peak, bytes / bandwidth)  +  c · launches

The first term is the roofline: no kernel is faster than its arithmetic and its memory traffic allow; k says how
much slower real kernels are. The second is what the host needs to launch a kernel, which rules small networks.
Waiting for data is the host's too and is carried over as it was measured.

Limits: one k for every kind of kernel and every GPU, and one c for every host; so the interval is wide.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from trainfare.model.estimate import Limit
from trainfare.model.machine import Gpu
from trainfare.model.profile import Operation

# Fitted on 2026-11-16 by `python -m benchmarks.extrapolation` on 747 training iterations of 326 vision models on
# seven GPUs of 2017 to 2020. Each factor holds 90 % of the errors on the worst GPU that was left out of the fit.
EXTRAPOLATED_FACTOR = 2.7
SCALED_FACTOR = 2.0
SAME_GPU_FACTOR = 1.21
"""The same GPU in another host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """k and c of the formula."""

    roofline_factor: float
    launch_seconds: float


SHIPPED = Coefficients(roofline_factor=1.17, launch_seconds=51e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTime:
    """The terms of the formula, in seconds an iteration."""

    compute: float
    """Of the kernels whose arithmetic is the longer part."""
    memory: float
    """Of the kernels whose traffic is the longer part."""
    launches: float

    @property
    def seconds(self) -> float:
        return self.compute + self.memory + self.launches

    @property
    def limited_by(self) -> Limit:
        terms: dict[Limit, float] = {
            "compute": self.compute,
            "memory bandwidth": self.memory,
            "launches": self.launches,
        }
        return max(terms, key=lambda limit: terms[limit])


def device_time(operations: Iterable[Operation], gpu: Gpu, coefficients: Coefficients = SHIPPED) -> DeviceTime:
    compute = memory = 0.0
    launches = 0
    bytes_per_second = gpu.memory_gb_per_second * 1e9
    for operation in operations:
        arithmetic = operation.flops / gpu.peak_flops_per_second(_unit_dtype(operation))
        traffic = operation.bytes / bytes_per_second
        if arithmetic > traffic:
            compute += operation.count * arithmetic
        else:
            memory += operation.count * traffic
        launches += operation.count
    return DeviceTime(
        compute=coefficients.roofline_factor * compute,
        memory=coefficients.roofline_factor * memory,
        launches=coefficients.launch_seconds * launches,
    )


def _unit_dtype(operation: Operation) -> str:
    """PyTorch lets convolutions of float32 use TF32 units unless told not to, and matrix products not."""
    if operation.kind == "convolution" and operation.dtype == "float32":
        return "tf32"
    return operation.dtype
