"""The memory that one iteration needs on one GPU, at this batch size and at others.

At the peak of an iteration with B samples in a forward pass these are in memory at once:

    P(B) = W + O + G + A(B) + R(B),    R(B) = max(0, T·A(B) − G, S − A(B))

W, G   weights and their gradients, of equal size; over several GPUs each has both, and a second copy of the gradients
       from which it sends
O      the optimizer's state
A(B)   activations that the forward pass saves for the backward pass: proportional to B from one profile, affine from
       several
R(B)   temporary memory: the gradients of activations (a share T) in the backward pass before those of the weights
       exist, or the temporary tensors of an optimizer with two moments (S = W, as in PyTorch's foreach implementation:
       "~ sizeof(params) more peak memory")

The GPU needs C + m·P(B), with C for the CUDA context and m for fragmentation and workspace. Where the peak was measured
at some batch size, it is P there. Gradient accumulation needs the memory of one forward pass, whatever the number of
passes.

Limits: frozen weights are not counted; a measured peak does not show another algorithm at another batch size; C and m
are typical figures, and the verdict between their bounds is "tight". `docs/memory.md` compares P with measurements.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from trainfare.model.checks import require_positive
from trainfare.model.estimate import MemoryFit
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.prediction import LargestBatch
from trainfare.model.profile import Profile
from trainfare.units import BYTES_PER_GIB

CONTEXT_GIB = 0.5
"""Memory of CUDA and its libraries before the first tensor: 0.3 to 0.8 GiB is typical."""
ALLOCATOR_FACTORS = (0.9, 1.15, 1.5)
"""Low, middle and high m: tensors never pack without gaps, and kernels need workspace, up to half as much again. P
itself was within 13% of PyTorch's memory tracker, so m may also be below one."""
MEASURED_FACTORS = (1.0, 1.08, 1.3)
"""m where the peak was measured on a GPU."""
GRADIENT_SHARE = 0.2
"""T: 6 to 33% of the activations on the networks of `docs/memory.md`, more for networks with fewer layers."""
TWO_MOMENTS = 1.5
"""Optimizer state over weights above which the optimizer has two moments, like Adam."""
HOST_FACTOR = 1.15
MAX_BATCH_SIZE = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """The memory of one GPU at the peak of an iteration, by part."""

    micro_batch_size: int | None
    """Samples in one forward pass on this GPU."""
    weights_gib: float
    gradients_gib: float
    optimizer_gib: float
    activations_gib: float
    temporary_gib: float
    """R of the formula."""
    context_gib: float
    margin_gib: float
    """Fragmentation and workspace of kernels."""
    needed_gib: Interval
    """The sum."""

    @property
    def tensors_gib(self) -> float:
        permanent = self.weights_gib + self.gradients_gib + self.optimizer_gib
        return permanent + self.activations_gib + self.temporary_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation:
    """Gradient accumulation: samples per GPU in one forward pass, and passes before each step of the optimizer."""

    micro_batch_size: int
    steps: int
    gpus: int = 1

    def __post_init__(self) -> None:
        require_positive(micro_batch_size=self.micro_batch_size, steps=self.steps, gpus=self.gpus)

    @property
    def effective_batch_size(self) -> int:
        """The effective batch size; larger than the requested one where that is not divisible."""
        return self.micro_batch_size * self.steps * self.gpus


def memory_fit(
    profile: Profile,
    vm_type: VmType,
    *,
    batch_size: int | None = None,
    gpus: int = 1,
    others: Sequence[Profile] = (),
) -> MemoryFit | None:
    """The memory of one GPU at an effective batch size of `batch_size` over `gpus`; None where it is not known.

    Without a batch size each GPU has the profiled one. On a machine without a GPU it is the memory of the host.
    `others` are profiles of the same program at other batch sizes.
    """
    micro = None if batch_size is None else math.ceil(batch_size / (gpus * profile.accumulation_steps))
    if vm_type.gpu is None:
        needed = _host_gib(profile, micro, others)
        if needed is None or vm_type.memory_gib is None:
            return None
        return MemoryFit(needed_gib=needed, available_gib=vm_type.memory_gib)
    need = memory_need(profile, micro_batch_size=micro, gpus=gpus, others=others)
    return None if need is None else MemoryFit(needed_gib=need.needed_gib, available_gib=vm_type.gpu.memory_gib)


def memory_need(
    profile: Profile, *, micro_batch_size: int | None = None, gpus: int = 1, others: Sequence[Profile] = ()
) -> MemoryNeed | None:
    """The memory of one GPU with `micro_batch_size` samples in a forward pass.

    None where neither a peak was measured nor the operations traced.
    """
    here = profile.micro_batch_size if micro_batch_size is None else micro_batch_size
    measured = bool(profile.peak_device_bytes)
    w = float(profile.gradient_bytes or 4 * (profile.parameters or 0))
    g = w * (2 if gpus > 1 else 1)
    o = float(profile.optimizer_bytes or 0)
    if measured:
        a = _bytes_at("peak_device_bytes", profile, here, others, fixed=w + w + o)
        a = None if a is None else a - w - w - o
        # Where the peak is less than the sum, gradients were freed before it.
        g, a, r = (g + min(0.0, a), max(0.0, a), 0.0) if a is not None else (g, a, 0.0)
    else:
        a = None if profile.parameters is None else _bytes_at("activation_bytes", profile, here, others, fixed=0.0)
        r = 0.0 if a is None else max(0.0, GRADIENT_SHARE * a - g, (w if o >= TWO_MOMENTS * w else 0.0) - a)
    if a is None:
        return None
    low, middle, high = MEASURED_FACTORS if measured else ALLOCATOR_FACTORS
    p = (w + g + o + a + r) / BYTES_PER_GIB
    return MemoryNeed(
        micro_batch_size=here,
        weights_gib=w / BYTES_PER_GIB,
        gradients_gib=g / BYTES_PER_GIB,
        optimizer_gib=o / BYTES_PER_GIB,
        activations_gib=a / BYTES_PER_GIB,
        temporary_gib=r / BYTES_PER_GIB,
        context_gib=CONTEXT_GIB,
        margin_gib=(middle - 1) * p,
        needed_gib=Interval(value=CONTEXT_GIB + middle * p, low=low * p, high=2 * CONTEXT_GIB + high * p),
    )


def largest_batch(profiles: Sequence[Profile], vm_type: VmType, *, gpus: int = 1) -> LargestBatch | None:
    """The largest effective batch size over all `gpus`, with the accumulation of the profile.

    None where the growth of memory with the batch size is not known.
    """
    if not profiles:
        return None
    leading, others = profiles[0], profiles[1:]
    passes = gpus * leading.accumulation_steps
    smallest = memory_fit(leading, vm_type, batch_size=passes, gpus=gpus, others=others)
    if leading.micro_batch_size is None or smallest is None:
        return None

    def verdict(micro: int) -> str:
        fit = memory_fit(leading, vm_type, batch_size=micro * passes, gpus=gpus, others=others)
        return "does not fit" if fit is None else fit.verdict

    fits = _largest(lambda micro: verdict(micro) == "fits")
    at_most = _largest(lambda micro: verdict(micro) != "does not fit")
    return LargestBatch(fits=fits * passes, at_most=at_most * passes)


def accumulation(
    profiles: Sequence[Profile], vm_type: VmType, batch_size: int, *, gpus: int = 1
) -> Accumulation | None:
    """The smallest number of accumulated passes with which an effective batch of `batch_size` fits.

    Up to twice as many are used where they divide the batch and the smallest number does not. None where not even one
    sample fits, or where the memory is not known. Batch norm uses the batch of one pass, so its result changes.
    """
    largest = largest_batch(profiles, vm_type, gpus=gpus)
    if largest is None or largest.fits < gpus:
        return None
    fewest = math.ceil(batch_size * profiles[0].accumulation_steps / largest.fits)
    even = next((s for s in range(fewest, 2 * fewest + 1) if batch_size % (s * gpus) == 0), fewest)
    return Accumulation(micro_batch_size=math.ceil(batch_size / (even * gpus)), steps=even, gpus=gpus)


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest batch size that fits, by bisection: memory never falls with the batch size."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while high < MAX_BATCH_SIZE and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _bytes_at(
    field: str, profile: Profile, batch_size: int | None, others: Sequence[Profile], *, fixed: float
) -> float | None:
    """The bytes of a field at another batch size: on a line through the profiles, or from one profile in proportion.

    `fixed` bytes do not grow in proportion. The line passes through the first profile; neither its slope nor its value
    at zero samples is negative.
    """
    known: float | None = getattr(profile, field)
    b = profile.micro_batch_size
    if known is None or batch_size is None or batch_size == b:
        return known
    if b is None:
        return None
    points = [
        (p.micro_batch_size, float(getattr(p, field)))
        for p in (profile, *others)
        if p.micro_batch_size is not None and getattr(p, field) is not None
    ]
    proportional = max(0.0, known - fixed) / b
    slope = proportional
    if len({batch for batch, _ in points}) > 1:
        middle = fmean(batch for batch, _ in points)
        slope = sum((batch - middle) * size for batch, size in points) / sum((x - middle) ** 2 for x, _ in points)
        slope = min(max(0.0, slope), known / b)
    return known + slope * (batch_size - b)


def _host_gib(profile: Profile, batch_size: int | None, others: Sequence[Profile]) -> Interval | None:
    """The measured peak of the process, plus the activations of additional samples."""
    if profile.peak_host_bytes is None:
        return None
    if batch_size is None or batch_size == profile.micro_batch_size:
        return Interval.within_factor(profile.peak_host_bytes / BYTES_PER_GIB, HOST_FACTOR)
    now = profile.activation_bytes
    then = _bytes_at("activation_bytes", profile, batch_size, others, fixed=0.0)
    if now is None or then is None:
        return None
    # A process does not return memory: with fewer samples it may or may not need less.
    added = (1 + GRADIENT_SHARE) * max(0.0, then - now)
    return Interval.within_factor((profile.peak_host_bytes + added) / BYTES_PER_GIB, HOST_FACTOR)
