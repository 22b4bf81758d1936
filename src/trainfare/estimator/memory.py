"""Does one iteration fit in the memory of one GPU?"""

from trainfare.model.estimate import MemoryFit
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.profile import Profile
from trainfare.units import BYTES_PER_GIB

CONTEXT_GIB = 0.5
"""What CUDA and its libraries take before the first tensor: 0.3 to 0.8 GiB is usual."""
ALLOCATOR_LOW, ALLOCATOR, ALLOCATOR_HIGH = 1.0, 1.15, 1.5
"""Tensors never pack without gaps, and kernels want workspace: from nothing to half as much again."""


def memory_fit(profile: Profile, vm_type: VmType) -> MemoryFit | None:
    """Weights, gradients, optimiser state and what the forward pass keeps; None where these are not known."""
    if vm_type.gpu is None:
        if profile.peak_host_bytes is None or vm_type.memory_gib is None:
            return None
        needed = Interval.within_factor(profile.peak_host_bytes / BYTES_PER_GIB, ALLOCATOR)
        return MemoryFit(needed_gib=needed, available_gib=vm_type.memory_gib)
    if profile.peak_device_bytes:
        return MemoryFit(
            needed_gib=_with_context(profile.peak_device_bytes / BYTES_PER_GIB),
            available_gib=vm_type.gpu.memory_gib,
        )
    if profile.activation_bytes is None or profile.parameters is None:
        return None
    weights = profile.gradient_bytes or 4 * profile.parameters
    tensors = weights + weights + (profile.optimizer_bytes or 0) + profile.activation_bytes
    return MemoryFit(needed_gib=_with_context(tensors / BYTES_PER_GIB), available_gib=vm_type.gpu.memory_gib)


def _with_context(tensors_gib: float) -> Interval:
    return Interval(
        value=CONTEXT_GIB + ALLOCATOR * tensors_gib,
        low=ALLOCATOR_LOW * tensors_gib,
        high=2 * CONTEXT_GIB + ALLOCATOR_HIGH * tensors_gib,
    )
