"""The memory that one iteration needs on one GPU, at this batch size and at others.

An iteration with B samples in a forward pass has two moments that may be its peak:

    P(B) = W + O + max(max_m (F_m + A_m(B)) + N, G + S + N)

W      all weights and buffers as they are stored, frozen and quantised ones too
O      the optimizer's state, as it was after a step
F_m    what a moment m of the forward and backward pass has whatever the batch: gradients of weights that exist by then,
       and the copies of weights that autocast keeps
A_m(B) what grows with the batch there: activations, logits, their gradients and temporary tensors. Proportional to B
       from one profile; with profiles at several sizes it grows as their activations do
G, S   in the optimizer's step: all gradients, and the temporary tensors of an optimizer with two moments that takes all
       parameters at once (S = G, as in PyTorch's foreach implementation: "~ sizeof(params) more peak memory")
N      over several GPUs, the copy of the gradients from which each sends

Where no moments were traced there are two: (F, A) is (G, A) at the end of the forward pass and (0, 1.2·A) before the
gradients of weights exist, with the activations A. Where the program divides its state over n processes (FSDP), each
has 1/n of what is divided and the buffers of the two largest units that are gathered.

The GPU needs C + m·P(B), with C for the CUDA context and m for fragmentation and workspace. Where the peak was measured
on a GPU it is P there. Gradient accumulation needs the memory of one forward pass, whatever the number of passes.

Limits: a measured peak does not show another algorithm at another batch size; a CPU may run other attention kernels
than a GPU. `docs/memory.md` compares P with measurements.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from trainfare.model.checks import require_positive
from trainfare.model.estimate import MemoryFit
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.prediction import LargestBatch
from trainfare.model.profile import Profile
from trainfare.units import BYTES_PER_GIB

CONTEXT_GIB = 0.5
"""Memory of CUDA and its libraries before the first tensor: 0.3 to 0.8 GiB is typical."""
ALLOCATOR_FACTORS = (0.9, 1.1, 1.4)
"""Low, middle and high m: tensors never pack without gaps, and kernels need workspace. P itself was within 15% of
PyTorch's memory tracker, so m may also be below one."""
MEASURED_FACTORS = (1.0, 1.08, 1.3)
"""m where the peak was measured on a GPU."""
GRADIENT_SHARE = 0.2
"""Gradients of activations over activations, where no moments were traced: 6 to 33% on the networks of
`docs/memory.md`."""
TWO_MOMENTS = 1.5
"""Optimizer state over gradients above which the optimizer has two moments, like Adam."""
CHECKPOINTED_SHARE = 0.25
"""Activations that checkpointing every layer leaves, at most; a transformer keeps 2 of some 30 values a token."""
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
    `others` are profiles of the same program at other batch sizes. What ran on this machine type fits there.
    """
    micro = None if batch_size is None else math.ceil(batch_size / (gpus * profile.accumulation_steps))
    if vm_type.gpu is None:
        needed, available = _host_gib(profile, micro, others), vm_type.memory_gib
    else:
        need = memory_need(profile, micro_batch_size=micro, gpus=gpus, others=others)
        needed, available = (None if need is None else need.needed_gib), vm_type.gpu.memory_gib
    if needed is None or available is None:
        return None
    fit = MemoryFit(needed_gib=needed, available_gib=available)
    size = micro or profile.micro_batch_size
    return fit.of_a_run() if any(_ran_there(one, vm_type, size, gpus) for one in (profile, *others)) else fit


def _ran_there(profile: Profile, vm_type: VmType, micro_batch_size: int | None, gpus: int) -> bool:
    """The profile was taken on this machine type, with at least as many samples on each of at most as many GPUs."""
    other_device = (profile.device == "cpu") if vm_type.gpu is not None else profile.device not in ("cpu", None)
    if profile.host.vm_type != vm_type.key or other_device or profile.world_size > gpus:
        return False
    if gpus > 1 and profile.world_size == 1:
        return False  # several GPUs have a second copy of the gradients
    size = profile.micro_batch_size
    return micro_batch_size == size or (None not in (micro_batch_size, size) and (micro_batch_size or 0) < (size or 0))


@dataclass(frozen=True, slots=True)
class _States:
    """Bytes that one GPU holds, whatever the batch size."""

    weights: float
    gradients: float
    optimizer: float
    sending: float
    """A copy of the gradients to send from, or the gathered units of a sharded model."""

    @classmethod
    def of(cls, profile: Profile, gpus: int) -> "_States":
        gradients = float(profile.gradient_bytes or 4 * (profile.parameters or 0))
        weights = float(profile.weight_bytes or gradients)
        state = float(profile.optimizer_bytes or 0)
        if gpus == 1:
            return cls(weights, gradients, state, 0.0)
        stage = profile.zero_stage
        shares = [1 / gpus if stage >= needed else 1.0 for needed in (3, 2, 1)]
        gathered = _gathered(profile, weights) if stage >= 3 else 0.0
        sending = gathered if stage else gradients
        return cls(weights * shares[0], gradients * shares[1], state * shares[2], sending)

    @property
    def sum(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.sending


def _gathered(profile: Profile, weights: float) -> float:
    """The two largest units of a sharded model, which are gathered at once: the outermost one and a layer, or two
    layers. At most all weights.

    The collective of a unit reads or writes all of it, and also the share of one process.
    """
    moved = sorted({op.bytes for op in profile.operations if op.kind == "communication"}, reverse=True)
    if not moved:
        return weights
    return min(weights, (moved[0] + moved[min(1, len(moved) - 1)]) * profile.world_size / (profile.world_size + 1))


def memory_need(
    profile: Profile, *, micro_batch_size: int | None = None, gpus: int = 1, others: Sequence[Profile] = ()
) -> MemoryNeed | None:
    """The memory of one GPU with `micro_batch_size` samples in a forward pass.

    None where neither a peak was measured nor the operations traced.
    """
    here = profile.micro_batch_size if micro_batch_size is None else micro_batch_size
    states = _States.of(profile, gpus)
    measured = bool(profile.peak_device_bytes)
    if measured:
        peak_states = _States.of(profile, profile.world_size).sum
        peak = _bytes_at("peak_device_bytes", profile, here, others, fixed=peak_states)
        if peak is None:
            return None
        # Where the peak is less than the sum, gradients were freed before it.
        tensors, temporary = max(0.0, peak - peak_states), 0.0
        gradients = states.gradients + min(0.0, peak - peak_states)
    else:
        activations = None if profile.parameters is None else _activations(profile, here, others)
        if activations is None:
            return None
        tensors = activations
        gradients, temporary = _traced_peak(profile, states, activations)
    low, middle, high = MEASURED_FACTORS if measured else ALLOCATOR_FACTORS
    p = (states.weights + states.optimizer + states.sending + gradients + tensors + temporary) / BYTES_PER_GIB
    return MemoryNeed(
        micro_batch_size=here,
        weights_gib=states.weights / BYTES_PER_GIB,
        gradients_gib=(gradients + states.sending) / BYTES_PER_GIB,
        optimizer_gib=states.optimizer / BYTES_PER_GIB,
        activations_gib=tensors / BYTES_PER_GIB,
        temporary_gib=temporary / BYTES_PER_GIB,
        context_gib=CONTEXT_GIB,
        margin_gib=(middle - 1) * p,
        needed_gib=Interval(value=CONTEXT_GIB + middle * p, low=low * p, high=2 * CONTEXT_GIB + high * p),
    )


def _activations(profile: Profile, micro_batch_size: int | None, others: Sequence[Profile]) -> float | None:
    """Activations at the end of the forward pass, without the copies of weights that autocast keeps."""
    copies = float(profile.weight_copy_bytes or 0)
    found = _bytes_at("activation_bytes", profile, micro_batch_size, others, fixed=copies)
    return None if found is None else max(0.0, found - copies)


def _traced_peak(profile: Profile, states: _States, activations: float) -> tuple[float, float]:
    """The gradients at the peak, and what else is there apart from weights, state and `activations`.

    The peak is the largest of the moments of the forward and backward pass, and of the optimizer's step.
    """
    held = max(0.0, float(profile.activation_bytes or 0) - (profile.weight_copy_bytes or 0))
    growth = activations / held if held else 1.0
    passes = max(fixed + growing * growth for fixed, growing in _moments(profile, states))
    two_moments = (profile.optimizer_bytes or 0) >= TWO_MOMENTS * (profile.gradient_bytes or math.inf)
    temporary = states.gradients if two_moments and profile.optimizer_foreach is not False else 0.0
    peak = max(passes, states.gradients + temporary)
    return min(states.gradients, max(0.0, peak - activations)), max(0.0, peak - activations - states.gradients)


def _moments(profile: Profile, states: _States) -> list[tuple[float, float]]:
    """Fixed and growing bytes at the moments that may be the peak, at the profiled batch size."""
    copies = float(profile.weight_copy_bytes or 0)
    if profile.memory_moments:
        share = states.gradients / profile.gradient_bytes if profile.gradient_bytes else 1.0
        return [(share * m.fixed_bytes, float(m.growing_bytes)) for m in profile.memory_moments]
    held = max(0.0, float(profile.activation_bytes or 0) - copies)
    return [(copies + states.gradients, held), (copies, (1 + GRADIENT_SHARE) * held)]


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


WayName = Literal["smaller batch", "accumulation", "checkpointing", "adapters", "sharding", "larger gpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WayToFit:
    """A change of the program, or of the machine, after which it would fit."""

    way: WayName
    needed_gib: float | None = None
    """The memory that one GPU then needs; None where that is not known."""
    micro_batch_size: int | None = None
    steps: int | None = None
    gpus: int | None = None


def ways_to_fit(
    profiles: Sequence[Profile], vm_type: VmType, *, batch_size: int | None = None, gpus: int = 1
) -> tuple[WayToFit, ...]:
    """The changes after which the training would fit on this machine type, the least first; empty where not known.

    Without gradients and state of the weights, as with LoRA, the weights and the activations remain. Checkpointing
    keeps at most a quarter of the activations. A larger GPU is always a way.
    """
    profile, others = profiles[0], profiles[1:]
    size = batch_size or profile.effective_batch_size
    gpu = vm_type.gpu
    micro = None if size is None else math.ceil(size / (gpus * profile.accumulation_steps))
    need = memory_need(profile, micro_batch_size=micro, gpus=gpus, others=others)
    if gpu is None or need is None:
        return ()
    ways = []
    fewer = accumulation(profiles, vm_type, size, gpus=gpus) if size else None
    if fewer is not None and fewer.steps > profile.accumulation_steps:
        passes = {"micro_batch_size": fewer.micro_batch_size, "steps": fewer.steps, "gpus": gpus}
        ways += [WayToFit(way="smaller batch", **passes), WayToFit(way="accumulation", **passes)]

    def needed(tensors_gib: float) -> float:
        return CONTEXT_GIB + ALLOCATOR_FACTORS[1] * tensors_gib

    growing = _growing_gib(profile, need)
    # In the optimizer's step the temporary tensors are as large as the gradients, and the activations are gone.
    states = need.weights_gib + need.gradients_gib + need.optimizer_gib + max(0.0, need.temporary_gib - growing)
    changes: list[tuple[WayName, float, int | None]] = [("checkpointing", states + CHECKPOINTED_SHARE * growing, None)]
    if not profile.frozen_parameters:
        changes.append(("adapters", need.weights_gib + growing, None))
    shards = next((n for n in (2, 4, 8, 16, 32, 64) if needed(growing + states / n) <= gpu.memory_gib), None)
    if shards is not None and gpus == 1:
        changes.append(("sharding", growing + states / shards, shards))
    ways += [
        WayToFit(way=way, needed_gib=needed(tensors), gpus=count)
        for way, tensors, count in changes
        if needed(tensors) <= gpu.memory_gib
    ]
    return (*ways, WayToFit(way="larger gpu", needed_gib=need.needed_gib.value))


def _growing_gib(profile: Profile, need: MemoryNeed) -> float:
    """The memory that grows with the batch, at the moment where it is largest, at the batch size of `need`."""
    held = float(profile.activation_bytes or 0) - (profile.weight_copy_bytes or 0)
    most = max((float(m.growing_bytes) for m in profile.memory_moments), default=(1 + GRADIENT_SHARE) * held)
    if profile.peak_device_bytes or held <= 0:
        return need.activations_gib
    return need.activations_gib * most / held


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
    """The measured peak of the process, plus the activations of additional samples; and plus all tensors, where they
    were on a GPU."""
    if profile.peak_host_bytes is None:
        return None
    if profile.device not in ("cpu", None):
        need = memory_need(profile, micro_batch_size=batch_size, others=others)
        added = None if need is None else need.tensors_gib * BYTES_PER_GIB
    elif batch_size is None or batch_size == profile.micro_batch_size:
        added = 0.0
    else:
        now, then = profile.activation_bytes, _bytes_at("activation_bytes", profile, batch_size, others, fixed=0.0)
        # A process does not return memory: with fewer samples it may or may not need less.
        added = None if now is None or then is None else (1 + GRADIENT_SHARE) * max(0.0, then - now)
    if added is None:
        return None
    return Interval.within_factor((profile.peak_host_bytes + added) / BYTES_PER_GIB, HOST_FACTOR)
