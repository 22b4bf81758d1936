"""Iteration time on another CPU slice of the profiled machine: no GPU, the same CPU, more or fewer of its cores.

A slice has a quota of c cores and n threads (half a core is one thread for half of the time). One iteration is W
seconds of single-threaded work, of which the share f runs on all threads, and q·W seconds of waiting: for the disk, or
for a CPU that another process uses. Threads that wait for each other spin, and use up a share g of their idle time:

    T = W·(1 − f + f/n) + q·W        the serial part, the parallel part, the wait
    B = W + g·(n·T − W)              CPU time used; W on one thread
    t = max(B/c, T)                  the iteration time under the quota
    u = B/t                          the mean number of busy cores

On one thread u·t = W: a profile shows the work best, since it does not change when other processes take the CPU. The
parameters that one profile cannot identify (f on one thread; f, g and q together on several) have a prior, and the
answer is the average over a grid of f, g and q, weighted by the likelihood of every measured u and t. log W is free.
A second profile with another number of threads identifies most of them. A wait that is not for data means that the
machine was busy; in the next run it may be idle, equally busy or twice as busy, each with the same probability. The
value is the median; the 90% interval includes run-to-run variation (`repeats.py`) and MODEL_ERROR.

Limits: memory bandwidth and caches are shared by all slices and are not modelled. On a machine that is busier than it
was, or where threads spin for others that are denied the CPU, the true time can be slower by any factor. Workers of
data loaders are separate processes: u does not include them, and the wait for them counts as serial.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median

from trainfare.estimator.fitting.normal_mixture import NormalPart, mixture_quantile
from trainfare.estimator.step.measured import StepTimes, measured_times
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.profile import Profile

MODEL_ERROR = 0.1
"""Standard deviation of the log error of the formula, chosen on busy runs of three small programs. In four later runs
of `python -m benchmarks.accuracy.this_machine` on an idle machine 128 of 144 times lay within the interval, 78% to
100% in one run."""
BUSY_CORES_ERROR = 0.07
"""Standard deviation of the log of the measured number of busy cores, chosen on the same runs."""

PARALLEL_SHARES = (-0.2, *(i / 10 for i in range(11)))
"""Values of f, with equal prior probability. Below zero, threads cost more than they gain, as with small batches."""
SERIAL = (0.0,)
SPIN_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Values of g, with equal prior probability."""
WAITS = tuple(1.1**step - 1 for step in range(36))
"""Values of q, up to 27 times the work."""
TYPICAL_WAIT = 0.1
"""The prior of q is 1/(1 + q/0.1)²: two in three programs hardly wait."""
MIN_WEIGHT = 1e-4
"""Grid points with less weight than this share of the most likely one are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSlice:
    """c and n of the formula."""

    cores: float
    threads: int

    def __post_init__(self) -> None:
        if not self.cores > 0 or self.threads < 1:
            raise ValueError(f"a slice of {self.cores} cores with {self.threads} threads cannot run anything")

    @classmethod
    def of_cores(cls, cores: float) -> "CpuSlice":
        """A slice with one thread per core, rounded up, which is how programs are started in a slice."""
        return cls(cores=cores, threads=max(1, math.ceil(cores)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMeasurement:
    """The measured iteration time and CPU use of one program on one slice."""

    slice: CpuSlice
    seconds: Interval
    """The iteration time of a further run on the slice."""
    cpu_use: float | None = None
    """u of the formula."""
    data_wait: float = 0.0
    """The share of an iteration that waits for data."""

    def __post_init__(self) -> None:
        if not self.seconds.value > 0:
            raise ValueError(f"an iteration must take some time, got {self.seconds.value} s")
        if not 0 <= self.data_wait <= 1:
            raise ValueError(f"data_wait must be a share, got {self.data_wait}")

    @property
    def spread(self) -> float:
        """Standard deviation of the log of the time."""
        return math.log(self.seconds.high / self.seconds.value) / 1.645


@dataclass(frozen=True, slots=True)
class _ProgramModel:
    """f, g and q of one grid point."""

    share: float
    spin: float
    wait: float

    def on(self, target: CpuSlice) -> tuple[float, float]:
        """t/W and u on a slice."""
        elapsed = 1 - self.share + self.share / target.threads + self.wait
        used = 1 + self.spin * (target.threads * elapsed - 1) if target.threads > 1 else 1.0
        seconds = max(used / target.cores, elapsed)
        return seconds, used / seconds


def predict_iteration(target: CpuSlice, measured: Sequence[SliceMeasurement]) -> Interval:
    """The iteration time on another slice of the machine that was measured."""
    return _predict(target, measured, PARALLEL_SHARES)


def _predict(target: CpuSlice, measured: Sequence[SliceMeasurement], shares: Sequence[float]) -> Interval:
    if not measured:
        raise ValueError("nothing was measured on any slice")
    largest_share = 1 - median(each.data_wait for each in measured)
    several = max(target.threads, *(each.slice.threads for each in measured)) > 1
    posterior = _normalised(
        [
            part
            for f, g, q in product(shares, SPIN_SHARES if several else SERIAL, WAITS)
            for part in _posterior_parts(_ProgramModel(min(f, largest_share), g, q), target, measured)
        ]
    )
    low, value, high = (math.exp(mixture_quantile(posterior, share)) for share in (0.05, 0.5, 0.95))
    return Interval(value=value, low=low, high=high)


def _posterior_parts(
    program: _ProgramModel, target: CpuSlice, measured: Sequence[SliceMeasurement]
) -> Iterator[NormalPart]:
    """The normal distributions of the log time on `target`; each `weight` is the log of prior × likelihood.

    log W is normal, with every measurement as one observation. Where u is known, the observation is B, which a busy
    minute changes less than t. A machine that is busy at times shows another wait in every run, so several
    measurements of u count as one.
    """
    observed: list[tuple[float, float]] = []
    weight = -2 * math.log(1 + program.wait / TYPICAL_WAIT)
    for each in measured:
        ratio, use = program.on(each.slice)
        if each.cpu_use:
            observed.append((math.log(each.cpu_use * each.seconds.value / (use * ratio)), 1 / MODEL_ERROR**2))
            weight -= 0.5 * (math.log(each.cpu_use / use) / BUSY_CORES_ERROR) ** 2 / len(measured)
        else:
            observed.append((math.log(each.seconds.value / ratio), 1 / (MODEL_ERROR**2 + each.spread**2)))
    precision = sum(p for _, p in observed)
    mean = sum(p * log for log, p in observed) / precision
    weight -= 0.5 * sum(p * (log - mean) ** 2 for log, p in observed)
    deviation = math.sqrt(MODEL_ERROR**2 + median(each.spread for each in measured) ** 2 + 1 / precision)
    for_data = median(each.data_wait * program.on(each.slice)[0] for each in measured)
    idle = min(program.wait, for_data)
    for wait in (idle, program.wait, 2 * program.wait - idle):
        yield NormalPart(weight, mean + math.log(replace(program, wait=wait).on(target)[0]), deviation)


def _normalised(parts: Sequence[NormalPart]) -> list[NormalPart]:
    """Turn log weights into weights that add up to one, without the negligible parts."""
    highest = max(part.weight for part in parts)
    likely = [part for part in parts if part.weight > highest + math.log(MIN_WEIGHT)]
    total = sum(math.exp(part.weight - highest) for part in likely)
    return [NormalPart(math.exp(part.weight - highest) / total, part.mean, part.deviation) for part in likely]


def slice_measurements(
    profiles: Sequence[Profile], slice_cores: Mapping[str, float]
) -> tuple[tuple[Profile, SliceMeasurement], ...]:
    """The CPU profiles of one machine, one measurement per slice, each with the first profile of its repeats.

    The machine is that of the first usable profile. `slice_cores` has the number of cores of a machine type such as
    `local/half`. A profile without a machine type was taken on the whole machine.
    """
    groups: dict[str | None, list[Profile]] = {}
    machine: tuple[object, ...] | None = None
    for profile in profiles:
        host = profile.host
        if profile.device != "cpu" or not profile.steady_iteration_seconds or not _cores(host, slice_cores):
            continue
        machine = machine or (host.name, host.cpu)
        if (host.name, host.cpu) == machine:
            groups.setdefault(host.vm_type, []).append(profile)
    return tuple((group[0], _measurement(group, slice_cores)) for group in groups.values())


def _cores(host: Host, slice_cores: Mapping[str, float]) -> float | None:
    return slice_cores.get(host.vm_type) if host.vm_type else host.cores


def _measurement(group: Sequence[Profile], slice_cores: Mapping[str, float]) -> SliceMeasurement:
    host = group[0].host
    cores = float(_cores(host, slice_cores) or 1)
    uses = [profile.cpu_use for profile in group if profile.cpu_use]
    return SliceMeasurement(
        slice=CpuSlice(cores=cores, threads=host.cores or math.ceil(cores)),
        seconds=measured_times(*group).later,
        cpu_use=median(uses) if uses else None,
        data_wait=median(_data_wait(profile) for profile in group),
    )


def _data_wait(profile: Profile) -> float:
    total = sum(profile.steady_iteration_seconds)
    return min(1.0, sum(profile.data_wait_seconds[1:]) / total) if total else 0.0


def predict_step_times(target: CpuSlice, measured: Sequence[tuple[Profile, SliceMeasurement]]) -> StepTimes:
    """The times that equation 5.3 needs on another slice, from the result of `slice_measurements`.

    A validation scales like an iteration. The initialisation, and the extra time of the first iteration, is work of one
    thread (imports, compiling): more than one core does not speed it up, and less than one core slows it down in
    proportion.
    """
    later = predict_iteration(target, [each for _, each in measured])
    nearest, there = min(measured, key=lambda each: abs(math.log(each[1].slice.cores / target.cores)))
    all_times = [(measured_times(profile), on) for profile, on in measured]
    times = measured_times(nearest)
    ratio = later.value / there.seconds.value
    extra = [(_first_iteration_extra(each), on) for each, on in all_times]
    return StepTimes(
        init=_single_threaded(target, [(each.init, on) for each, on in all_times]),
        first=later + _single_threaded(target, extra),
        later=later,
        first_validation=_scaled(times.first_validation, ratio, later),
        later_validation=_scaled(times.later_validation, ratio, later),
    )


def _first_iteration_extra(times: StepTimes) -> Interval:
    value = max(0.0, times.first.value - times.later.value)
    return Interval.within_factor(value, _factor(times.first))


def _single_threaded(target: CpuSlice, measured: Sequence[tuple[Interval, SliceMeasurement]]) -> Interval:
    """The time of single-threaded work, as if the machine were as busy as during the iterations."""
    known = [
        SliceMeasurement(
            slice=_one_thread(on.slice), seconds=seconds, cpu_use=min(1.0, on.cpu_use) if on.cpu_use else None
        )
        for seconds, on in measured
        if seconds.value > 0
    ]
    return _predict(_one_thread(target), known, SERIAL) if known else Interval.exactly(0.0)


def _one_thread(target: CpuSlice) -> CpuSlice:
    return CpuSlice(cores=min(1.0, target.cores), threads=1)


def _scaled(validation: Interval | None, ratio: float, later: Interval) -> Interval | None:
    """The validation times `ratio`, with the wider of the two relative intervals."""
    if validation is None:
        return None
    return Interval.within_factor(validation.value * ratio, max(_factor(later), _factor(validation)))


def _factor(interval: Interval) -> float:
    if not interval.low:
        return 1.0
    return max(interval.high / interval.value, interval.value / interval.low)
