"""The time of one iteration on a CPU, by its operations.

An operation of F FLOPs and D bytes takes w seconds on one core, and on k of the machine's c cores

    w    = max(F/(P·e), D/b)
    t(k) = max(w/k^a, D/M) + s·(k − 1) + o

P   peak of one core in the operation's dtype        e   the share of it that this kind of operation reaches
b   bandwidth of one core, from its cache or, for tensors that do not fit there, from memory
M   bandwidth of the memory of these cores           s   cost of one more thread: starting it and waiting for it
o   work of one thread before the operation starts (Python, the framework's dispatcher), proportional to 1/clock
a   below 1: threads share caches and bandwidth, and have unequal shares of the work

k = min(c, (a·w/s)^(1/(1+a))) minimises it: an operation is no faster on more threads than it has work for, which is why
small networks hardly gain from many cores. Programs that start all threads all the same are slower than this: up to
1.3 times on 64 vCPUs in the published runs of `benchmarks/cpu`.

a and s are near the best on two sources that know nothing of each other: programs in PyTorch 2 on one and two cores,
and published runs of TensorFlow 1.2 on 8 to 64 vCPUs (docs/cpu.md). All programs were small, so large networks may gain
more from many cores. Only ratios of two machines are used (`transfer.py`): a factor common to all operations cancels.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainfare.estimator.cpu.machine import CpuMachine
from trainfare.model.estimate import Bottleneck
from trainfare.model.prediction import IterationPart
from trainfare.model.profile import Operation

Array = npt.NDArray[np.float64]

REACHED = {"matmul": 0.6, "convolution": 0.25, "attention": 0.3, "rnn": 0.2}
"""e: the share of the peak that a kind of operation reaches."""
OTHER_REACHED = 0.1
"""e of all other kinds, which are limited by their bytes."""
DTYPE_SPEED = {"float64": 0.5, "float16": 0.1, "bfloat16": 0.15}
"""Speed relative to float32. Without a matrix unit 16-bit types are converted to float32 and back: a product of
1,536 × 1,536 in bfloat16 ran at 0.15 of the speed of float32 on Ice Lake."""
MATRIX_UNIT_SPEED = 6.0
"""bfloat16 on a matrix unit such as AMX, relative to float32: 16 times the nominal peak, of which programs reach a
part."""
CACHE_BYTES_PER_CYCLE = 5.0
"""b from the cache, in bytes per cycle of the clock."""
MEMORY_BYTES_PER_CYCLE = 2.0
"""b from memory, in bytes per cycle: new tensors are also cleared by the operating system, page by page."""
CACHE_BYTES = 2e6
"""Operations with more bytes than this, per core in use, go to memory."""
PARALLEL_EXPONENT = 0.6
"""a."""
THREAD_SECONDS = 80e-6
"""s."""
OPERATION_SECONDS = 20e-6
"""o at 2.8 GHz."""
REFERENCE_GHZ = 2.8
RNN_THREADS = 4.0
"""Most threads of a recurrent layer, whose steps wait for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuStep:
    """The modelled time of one iteration on one machine."""

    serial: float
    """Seconds of one thread: they depend on its clock alone."""
    parallel: float
    """Seconds of operations on the cores that they have work for."""
    by_kind: tuple[tuple[str, float, Bottleneck], ...]
    """Seconds of `parallel` of each kind of operation, and what limits it."""

    @property
    def seconds(self) -> float:
        return self.serial + self.parallel

    @property
    def limited_by(self) -> Bottleneck:
        longest = max(self.by_kind, key=lambda kind: kind[1], default=None)
        return "launches" if longest is None or self.serial > self.parallel else longest[2]

    def parts(self, seconds: float) -> tuple[IterationPart, ...]:
        """The parts of an iteration that takes so long, the longest first."""
        scale = seconds / self.seconds if self.seconds else 0.0
        parts = [IterationPart(name=name, seconds=s * scale, limited_by=by) for name, s, by in self.by_kind]
        parts.append(IterationPart(name="starting operations", seconds=self.serial * scale, limited_by="launches"))
        return tuple(sorted((part for part in parts if part.seconds > 0), key=lambda part: -part.seconds))


class CpuStepModel:
    """The operations of one iteration as arrays, for many machines."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        computing = [operation for operation in operations if operation.kind != "communication"]
        self._flops = np.array([operation.flops for operation in computing], dtype=float)
        self._bytes = np.array([operation.bytes for operation in computing], dtype=float)
        self._count = np.array([operation.count for operation in computing], dtype=float)
        self._reached = np.array([REACHED.get(operation.kind, OTHER_REACHED) for operation in computing])
        kinds = np.array([operation.kind for operation in computing], dtype=object)
        self._of_kind = {kind: kinds == kind for kind in dict.fromkeys(kinds)}
        self._most_threads = np.where(kinds == "rnn", RNN_THREADS, np.inf)
        self._speed = {
            has_unit: np.array([_dtype_speed(operation.dtype, matrix_unit=has_unit) for operation in computing])
            for has_unit in (False, True)
        }

    def step(self, machine: CpuMachine, *, threads: float | None = None) -> CpuStep:
        """The iteration on a machine; with at most so many threads, if the program limits them."""
        cpu = machine.cpu
        cores = machine.cores if threads is None else min(machine.cores, threads)
        share = min(1.0, cores)
        whole = max(1.0, cores)
        peak = cpu.fp32_gflops_per_core * 1e9 * self._speed[cpu.bf16_matrix_unit]
        computing = self._flops / (peak * self._reached)
        in_cache = self._bytes <= CACHE_BYTES * whole
        per_cycle = np.where(in_cache, CACHE_BYTES_PER_CYCLE, MEMORY_BYTES_PER_CYCLE)
        moving = self._bytes / (per_cycle * cpu.clock_ghz * 1e9)
        work = np.maximum(computing, moving)
        from_memory = np.where(in_cache, 0.0, self._bytes / (machine.memory_gb_per_second * 1e9))
        useful = np.divide(work, from_memory, out=np.full_like(work, np.inf), where=from_memory > 0)
        useful = useful ** (1 / PARALLEL_EXPONENT)
        most = np.maximum(1.0, np.minimum(np.minimum(whole, self._most_threads), useful))
        best = (PARALLEL_EXPONENT * work / THREAD_SECONDS) ** (1 / (1 + PARALLEL_EXPONENT))
        used = np.clip(best, 1.0, most)
        shared = work / used**PARALLEL_EXPONENT
        seconds = np.maximum(shared, from_memory) + THREAD_SECONDS * (used - 1)
        total = seconds * self._count / share
        serial = float(self._count.sum()) * OPERATION_SECONDS * REFERENCE_GHZ / cpu.clock_ghz / share
        return CpuStep(
            serial=serial,
            parallel=float(total.sum()),
            by_kind=tuple(self._sums(total, (computing >= moving) & (shared >= from_memory))),
        )

    def _sums(self, seconds: Array, computes: npt.NDArray[np.bool_]) -> Iterable[tuple[str, float, Bottleneck]]:
        for kind, own in self._of_kind.items():
            total = float(seconds[own].sum())
            by_compute = float(seconds[own & computes].sum())
            yield kind, total, "compute" if 2 * by_compute >= total else "memory bandwidth"


def _dtype_speed(dtype: str, *, matrix_unit: bool) -> float:
    """The speed of a core in this dtype relative to float32. tf32 is a setting of GPUs: a CPU computes in float32."""
    if dtype == "bfloat16" and matrix_unit:
        return MATRIX_UNIT_SPEED
    return DTYPE_SPEED.get(dtype, 1.0)
