"""Does one iteration fit in the memory of one GPU, at this batch size and at others?

At the peak of an iteration with B samples on the GPU these are held at once:

    P(B) = W + O + G + A(B) + R(B),    R(B) = max(0, T·A(B) − G, S − A(B))

W, G   weights and their gradients, as large; over several GPUs each holds both, and a second copy of the gradients
       from which it sends
O      the optimizer's state
A(B)   what the forward pass keeps for the backward pass: proportional to B from one profile, affine from several
R(B)   for a moment: the gradients of activations (T of them) that the backward pass has in hand while those of the
       weights are not yet there, or what a step of an optimizer with two moments computes beside its state (S = W, as
       PyTorch's foreach implementation: "~ sizeof(params) more peak memory")

and of the GPU's memory is needed C + m·P(B), C for the CUDA context and m for gaps and workspace. Where the peak was
measured at some batch, that is P there.

Limits: weights that are not trained are not seen; a measured peak knows of no other algorithm at another batch; C and m
are usual figures, so what lies between them is called tight. `docs/memory.md` has what P was checked against.
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
"""What CUDA and its libraries take before the first tensor: 0.3 to 0.8 GiB is usual."""
ALLOCATOR_LOW, ALLOCATOR, ALLOCATOR_HIGH = 0.9, 1.15, 1.5
"""m: tensors never pack without gaps, and kernels want workspace, up to half as much again. P itself was within 13 % of
what PyTorch's memory tracker found, so it may also be less."""
MEASURED_LOW, MEASURED, MEASURED_HIGH = 1.0, 1.08, 1.3
"""m where the peak was measured on a GPU."""
IN_HAND = 0.2
"""T: 6 to 33 % of the activations on the networks of `docs/memory.md`; the more the fewer layers there are."""
TWO_MOMENTS = 1.5
"""State of so many times the weights is that of Adam and its kin."""
HOST_FACTOR = 1.15
MOST = 2**30
"""No larger batch is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """What one GPU must hold at the peak of an iteration, part by part."""

    batch_size: int | None
    """On this GPU, at one step."""
    weights_gib: float
    gradients_gib: float
    optimizer_gib: float
    activations_gib: float
    moment_gib: float
    """R of the formula: held for a moment only."""
    context_gib: float
    margin_gib: float
    """Gaps between tensors, and workspace of kernels."""
    needed_gib: Interval
    """All of it."""

    @property
    def tensors_gib(self) -> float:
        kept = self.weights_gib + self.gradients_gib + self.optimizer_gib
        return kept + self.activations_gib + self.moment_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation:
    """So many samples a GPU at a time, and so many times before the optimizer steps."""

    per_gpu: int
    steps: int
    gpus: int = 1

    def __post_init__(self) -> None:
        require_positive(per_gpu=self.per_gpu, steps=self.steps, gpus=self.gpus)

    @property
    def batch_size(self) -> int:
        """Of the iteration; more than was asked for where that cannot be divided."""
        return self.per_gpu * self.steps * self.gpus


def memory_fit(
    profile: Profile,
    vm_type: VmType,
    *,
    batch_size: int | None = None,
    gpus: int = 1,
    others: Sequence[Profile] = (),
) -> MemoryFit | None:
    """One GPU's share of a step of `batch_size` samples over `gpus` of them; None where nobody can tell.

    Without a batch size each GPU gets the one that was profiled. Without a GPU it is the host's memory. `others` are
    profiles of the same program at other batch sizes.
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
    """What a GPU must hold; None where neither a peak was measured nor the operations traced."""
    here = profile.micro_batch_size if micro_batch_size is None else micro_batch_size
    measured = bool(profile.peak_device_bytes)
    w = float(profile.gradient_bytes or 4 * (profile.parameters or 0))
    g = w * (2 if gpus > 1 else 1)
    o = float(profile.optimizer_bytes or 0)
    if measured:
        a = _grown("peak_device_bytes", profile, here, others, fixed=w + w + o)
        a = None if a is None else a - w - w - o
        # Freed before the peak, where the peak is less than the sum.
        g, a, r = (g + min(0.0, a), max(0.0, a), 0.0) if a is not None else (g, a, 0.0)
    else:
        a = None if profile.parameters is None else _grown("activation_bytes", profile, here, others, fixed=0.0)
        r = 0.0 if a is None else max(0.0, IN_HAND * a - g, (w if o >= TWO_MOMENTS * w else 0.0) - a)
    if a is None:
        return None
    low, middle, high = (
        (MEASURED_LOW, MEASURED, MEASURED_HIGH) if measured else (ALLOCATOR_LOW, ALLOCATOR, ALLOCATOR_HIGH)
    )
    p = (w + g + o + a + r) / BYTES_PER_GIB
    return MemoryNeed(
        batch_size=here,
        weights_gib=w / BYTES_PER_GIB,
        gradients_gib=g / BYTES_PER_GIB,
        optimizer_gib=o / BYTES_PER_GIB,
        activations_gib=a / BYTES_PER_GIB,
        moment_gib=r / BYTES_PER_GIB,
        context_gib=CONTEXT_GIB,
        margin_gib=(middle - 1) * p,
        needed_gib=Interval(value=CONTEXT_GIB + middle * p, low=low * p, high=2 * CONTEXT_GIB + high * p),
    )


def largest_batch(profiles: Sequence[Profile], vm_type: VmType, *, gpus: int = 1) -> LargestBatch | None:
    """The most samples a step over all `gpus`; None where nobody can tell how memory grows with the batch."""
    if not profiles:
        return None
    leading, others = profiles[0], profiles[1:]
    passes = gpus * leading.accumulation_steps
    smallest = memory_fit(leading, vm_type, batch_size=passes, gpus=gpus, others=others)
    if leading.micro_batch_size is None or smallest is None:
        return None

    def verdict(per_gpu: int) -> str:
        fit = memory_fit(leading, vm_type, batch_size=per_gpu * passes, gpus=gpus, others=others)
        return "does not fit" if fit is None else fit.verdict

    fits = _most(lambda per_gpu: verdict(per_gpu) == "fits")
    at_most = _most(lambda per_gpu: verdict(per_gpu) != "does not fit")
    return LargestBatch(fits=fits * passes, at_most=at_most * passes)


def accumulation(
    profiles: Sequence[Profile], vm_type: VmType, batch_size: int, *, gpus: int = 1
) -> Accumulation | None:
    """The fewest steps in which a batch of `batch_size` surely goes in; None where not even one sample does, or where
    nobody can tell.

    Up to twice as many steps are taken where those divide the batch and the fewest do not. A network with batch norm
    sees the batch of a step, not the whole: its result changes.
    """
    largest = largest_batch(profiles, vm_type, gpus=gpus)
    if largest is None or largest.fits < gpus:
        return None
    fewest = math.ceil(batch_size * profiles[0].accumulation_steps / largest.fits)
    even = next((s for s in range(fewest, 2 * fewest + 1) if batch_size % (s * gpus) == 0), fewest)
    return Accumulation(per_gpu=math.ceil(batch_size / (even * gpus)), steps=even, gpus=gpus)


def _most(fits: Callable[[int], bool]) -> int:
    """The largest batch for which it holds: memory only grows with the batch, so by halving."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while high < MOST and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _grown(
    field: str, profile: Profile, batch_size: int | None, others: Sequence[Profile], *, fixed: float
) -> float | None:
    """Bytes at another batch: by a line through the profiles, or with all but `fixed` in proportion from one.

    The line passes through the first profile, and neither its slope nor what it has at no samples is negative.
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
    """The measured peak of the process, and what the activations of more samples add."""
    if profile.peak_host_bytes is None:
        return None
    if batch_size is None or batch_size == profile.micro_batch_size:
        return Interval.within_factor(profile.peak_host_bytes / BYTES_PER_GIB, HOST_FACTOR)
    now = profile.activation_bytes
    then = _grown("activation_bytes", profile, batch_size, others, fixed=0.0)
    if now is None or then is None:
        return None
    # A process keeps what it once had: with fewer samples it may or may not need less.
    added = (1 + IN_HAND) * max(0.0, then - now)
    return Interval.within_factor((profile.peak_host_bytes + added) / BYTES_PER_GIB, HOST_FACTOR)
