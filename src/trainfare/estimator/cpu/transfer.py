"""A measured iteration carried over to another CPU machine.

The model of `step.py` splits an iteration into work of one thread and work of many, S + P on the host and S' + P' on
the target. How large both really are on the host is uncertain by a factor e^δ between them, so

    t' = t · (S' + e^δ·P') / (S + e^δ·P),      δ ~ N(0, SPLIT_ERROR²)

On the host itself t' = t for every δ. Towards more cores the error grows with the work that may not be parallel.
Further measurements on the same CPU with another number of cores (slices) narrow δ: each adds the likelihood of its own
time. The value is the median over δ, and its 90% interval combines δ, the interval of the measurement, and

    CPU_ERROR       another model of CPU: caches, instructions per cycle, turbo clocks
    UNKNOWN_ERROR   facts of a CPU that are assumed, for each of the two
    CORES_ERROR     for each doubling of the number of cores
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.estimator.cpu.machine import CpuMachine
from trainfare.estimator.cpu.step import PARALLEL_EXPONENT, REFERENCE_GHZ, CpuStep, CpuStepModel
from trainfare.model.interval import Interval

SPLIT_ERROR = 0.8
"""Standard deviation of δ."""
CPU_ERROR = 0.2
UNKNOWN_ERROR = 0.2
CORES_ERROR = 0.1
"""Standard deviations of the log error; `python -m benchmarks.cpu` judges the intervals."""
SLICE_ERROR = 0.1
"""Standard deviation of the log of a time on another slice of the host."""
UNTRACED_SPLIT_ERROR = 1.2
"""SPLIT_ERROR of a program whose operations are unknown."""
UNTRACED_PARALLEL = 0.7
"""The parallel share of an iteration on one core, if the operations are unknown."""
UNTRACED_CORES = 8.0
"""The number of cores beyond which such a program is not expected to gain."""
_REFERENCE_GFLOPS = 2 * 512 / 32 * 2 * REFERENCE_GHZ
QUANTILE = 1.645
GRID = tuple(step / 8 for step in range(-24, 25))
"""Values of δ in standard deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuMeasurement:
    """The time of an iteration on some cores of the host."""

    machine: CpuMachine
    seconds: Interval
    threads: float | None = None
    """The number of threads that the program limits itself to; None if it uses all cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredStep:
    seconds: Interval
    step: CpuStep
    """The modelled iteration on the target, which shows what limits it."""


def transfer_step(
    model: CpuStepModel | None,
    measured: Sequence[CpuMeasurement],
    target: CpuMachine,
    *,
    asked: CpuStepModel | None = None,
) -> TransferredStep:
    """The iteration on another machine, from measurements on one CPU; the first measurement is scaled.

    `asked` are the operations at another batch size than the measured one.
    """
    if not measured:
        raise ValueError("nothing was measured on any CPU")
    anchor = measured[0]
    host = [_step(model, each.machine, each.threads) for each in measured]
    there = _step(asked or model, target, anchor.threads)
    deviation = SPLIT_ERROR if model is not None else UNTRACED_SPLIT_ERROR
    points = _split_points(host, measured, deviation)
    ratios = sorted((_at(there, delta) / _at(host[0], delta), weight) for delta, weight in points)
    low, value, high = (_quantile(ratios, share) for share in (0.05, 0.5, 0.95))
    error = QUANTILE * _error(anchor.machine, target)
    t = anchor.seconds
    return TransferredStep(
        seconds=Interval(
            value=t.value * value,
            low=t.value * value * math.exp(-math.hypot(_log_ratio(value, low), _log_ratio(t.value, t.low), error)),
            high=t.value * value * math.exp(math.hypot(_log_ratio(high, value), _log_ratio(t.high, t.value), error)),
        ),
        step=there,
    )


def _step(model: CpuStepModel | None, machine: CpuMachine, threads: float | None) -> CpuStep:
    return _untraced_step(machine, threads) if model is None else model.step(machine, threads=threads)


def _untraced_step(machine: CpuMachine, threads: float | None) -> CpuStep:
    """A program of which nothing is known: work of one thread, and products of matrices for a few cores."""
    cores = min(machine.cores, UNTRACED_CORES, threads or math.inf)
    share, clock = min(1.0, cores), machine.cpu.clock_ghz
    # Between a program that only computes and one that uses no vectors: the geometric mean of the two speeds.
    speed = math.sqrt(machine.cpu.fp32_gflops_per_core / _REFERENCE_GFLOPS * clock / REFERENCE_GHZ)
    parallel = UNTRACED_PARALLEL / speed / max(1.0, cores) ** PARALLEL_EXPONENT / share
    serial = REFERENCE_GHZ * (1 - UNTRACED_PARALLEL) / clock / share
    return CpuStep(serial=serial, parallel=parallel, by_kind=())


def _at(step: CpuStep, delta: float) -> float:
    return step.serial + math.exp(delta) * step.parallel


def _split_points(
    host: Sequence[CpuStep], measured: Sequence[CpuMeasurement], deviation: float
) -> list[tuple[float, float]]:
    """Values of δ and their weights: the prior, and the likelihood of every further measurement given the first."""
    logs = []
    for unit in GRID:
        delta = deviation * unit
        log = -0.5 * unit**2
        for step, each in zip(host[1:], measured[1:], strict=True):
            expected = measured[0].seconds.value * _at(step, delta) / _at(host[0], delta)
            spread = _log_ratio(each.seconds.high, each.seconds.low) / (2 * QUANTILE)
            log -= 0.5 * (math.log(each.seconds.value / expected) / math.hypot(SLICE_ERROR, spread)) ** 2
        logs.append((delta, log))
    highest = max(log for _, log in logs)
    return [(delta, math.exp(log - highest)) for delta, log in logs]


def _quantile(weighted: Sequence[tuple[float, float]], share: float) -> float:
    """The quantile of sorted values with weights, interpolated between the middles of their weights."""
    total = sum(weight for _, weight in weighted)
    wanted, before = share * total, 0.0
    position, previous = 0.0, weighted[0][0]
    for value, weight in weighted:
        middle = before + weight / 2
        if middle >= wanted:
            step = middle - position
            return value if step <= 0 else previous + (value - previous) * (wanted - position) / step
        position, previous = middle, value
        before += weight
    return weighted[-1][0]


def _error(host: CpuMachine, target: CpuMachine) -> float:
    """Standard deviation of the log error of the model between two machines; 0 on the host itself."""
    same_cpu = host.cpu == target.cpu and host.facts == target.facts
    doublings = abs(math.log2(target.cores / host.cores))
    if same_cpu:
        return CORES_ERROR * doublings
    unknown = UNKNOWN_ERROR * math.sqrt((not host.facts) + (not target.facts))
    return math.hypot(CPU_ERROR, unknown, CORES_ERROR * doublings)


def _log_ratio(larger: float, smaller: float) -> float:
    return math.log(larger / smaller) if larger > smaller > 0 else 0.0
