"""From a profile on some of a machine's cores to its other slices: no GPU, the same CPU, more or less of it.

A slice has c cores by quota and n threads (half a core is one thread for half of the time). One iteration is W seconds
of work for one thread, of which a share f runs on all threads, and q·W seconds in which it stands still: for the disk,
or because somebody else has the CPU. Threads that wait for one another spin, and burn a share g of what they could do:

    T = W·(1 − f + f/n) + q·W        the serial part, the parallel part, the wait
    B = W + g·(n·T − W)              CPU time that is used up; W on one thread
    t = max(B/c, T)                  no faster than the quota gives out time
    u = B/t                          the cores that are seen busy

On one thread u·t = W: the work is what a profile shows best, since it stays the same when others take the CPU. What one
profile cannot show (f on one thread; f, g and q apart from one another on several) has a prior, and the answer is the
average over a grid of f, g and q, each weighed by how well it explains every u and t that was measured. log W is free.
A second profile with another number of threads settles most of it. A wait that is not for data comes from a busy
machine, which may be idle in the next run, as busy, or twice as busy: each is taken as likely as the others. The value
is the median; the interval holds 90 %, with what a run differs from the next (`repeats.py`) and with ERROR, what the
formula leaves out.

Limits: memory bandwidth and caches are not divided among slices and not in the formula. On a machine that is busier
than it was, or where threads spin for others that are denied the CPU, the truth can be slower by any factor. Workers of
data loaders are processes of their own: what they use is not in u; the wait for them is taken as serial.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median

from trainfare.estimator.step.measured import StepTimes, measured_times
from trainfare.model.interval import Interval
from trainfare.model.profile import Profile

ERROR = 0.1
"""Deviation of the log of what the formula leaves out, chosen on busy runs of three small programs. On four calm runs
of `python -m benchmarks.accuracy.this_machine` after that, 128 of 144 lay within the interval, 78 to 100 % in one."""
USE_ERROR = 0.07
"""Deviation of the log of the cores that are seen busy, likewise."""

SHARES = (-0.2, *(i / 10 for i in range(11)))
"""f, each as likely: from not at all to altogether. Below zero threads cost more than they gain: small batches."""
SERIAL = (0.0,)
SPINS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""g, each as likely."""
WAITS = tuple(1.1**step - 1 for step in range(36))
"""q, up to 27 times the work."""
USUAL_WAIT = 0.1
"""Training mostly computes: q has the weight 1/(1 + q/0.1)², so that two in three programs wait for next to nothing."""
LEAST_WEIGHT = 1e-4
"""Of a point of the grid against the likeliest, below which it is left out."""


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
        """As programs are started in one: a thread for each core that is begun."""
        return cls(cores=cores, threads=max(1, math.ceil(cores)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMeasurement:
    """What one program showed on one slice."""

    slice: CpuSlice
    seconds: Interval
    """Of an iteration in a further run there."""
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
        """Deviation of the log of the time."""
        return math.log(self.seconds.high / self.seconds.value) / 1.645


@dataclass(frozen=True, slots=True)
class _Program:
    """A point of the grid, in units of W."""

    share: float
    spin: float
    wait: float

    def on(self, there: CpuSlice) -> tuple[float, float]:
        """t/W and u."""
        taken = 1 - self.share + self.share / there.threads + self.wait
        burnt = 1 + self.spin * (there.threads * taken - 1) if there.threads > 1 else 1.0
        seconds = max(burnt / there.cores, taken)
        return seconds, burnt / seconds


@dataclass(frozen=True, slots=True)
class _Belief:
    """A log-normal part of the answer."""

    weight: float
    mean: float
    deviation: float


def predict_iteration(target: CpuSlice, seen: Sequence[SliceMeasurement]) -> Interval:
    """The time of an iteration on another slice of the machine that these were measured on."""
    return _answer(target, seen, SHARES)


def _answer(target: CpuSlice, seen: Sequence[SliceMeasurement], shares: Sequence[float]) -> Interval:
    if not seen:
        raise ValueError("nothing was measured on any slice")
    most = 1 - median(each.data_wait for each in seen)
    several = max(target.threads, *(each.slice.threads for each in seen)) > 1
    beliefs = _weighed(
        [
            belief
            for f, g, q in product(shares, SPINS if several else SERIAL, WAITS)
            for belief in _believed(_Program(min(f, most), g, q), target, seen)
        ]
    )
    low, value, high = (math.exp(_quantile(beliefs, share)) for share in (0.05, 0.5, 0.95))
    return Interval(value=value, low=low, high=high)


def _believed(program: _Program, target: CpuSlice, seen: Sequence[SliceMeasurement]) -> Iterator[_Belief]:
    """log W is normal, with every measurement as one observation; the weight is the log of prior × likelihood.

    Where u is known, B is what is observed: a busy minute changes it less than t. A machine that is busy now and then
    shows each time another wait, so that several times u count as one.
    """
    observed: list[tuple[float, float]] = []
    weight = -2 * math.log(1 + program.wait / USUAL_WAIT)
    for each in seen:
        ratio, use = program.on(each.slice)
        if each.cpu_use:
            observed.append((math.log(each.cpu_use * each.seconds.value / (use * ratio)), 1 / ERROR**2))
            weight -= 0.5 * (math.log(each.cpu_use / use) / USE_ERROR) ** 2 / len(seen)
        else:
            observed.append((math.log(each.seconds.value / ratio), 1 / (ERROR**2 + each.spread**2)))
    precision = sum(p for _, p in observed)
    mean = sum(p * log for log, p in observed) / precision
    weight -= 0.5 * sum(p * (log - mean) ** 2 for log, p in observed)
    deviation = math.sqrt(ERROR**2 + median(each.spread for each in seen) ** 2 + 1 / precision)
    for_data = median(each.data_wait * program.on(each.slice)[0] for each in seen)
    calm = min(program.wait, for_data)
    for wait in (calm, program.wait, 2 * program.wait - calm):
        yield _Belief(weight, mean + math.log(replace(program, wait=wait).on(target)[0]), deviation)


def _weighed(beliefs: Sequence[_Belief]) -> list[_Belief]:
    """Weights that add up to one, without those that do not matter."""
    highest = max(belief.weight for belief in beliefs)
    kept = [b for b in beliefs if b.weight > highest + math.log(LEAST_WEIGHT)]
    total = sum(math.exp(b.weight - highest) for b in kept)
    return [_Belief(math.exp(b.weight - highest) / total, b.mean, b.deviation) for b in kept]


def _quantile(beliefs: Sequence[_Belief], share: float) -> float:
    """Of the mixture, by bisection."""
    widest = 8 * max(b.deviation for b in beliefs)
    low, high = min(b.mean for b in beliefs) - widest, max(b.mean for b in beliefs) + widest
    for _ in range(50):
        middle = (low + high) / 2
        below = sum(b.weight * math.erfc((b.mean - middle) / (b.deviation * math.sqrt(2))) / 2 for b in beliefs)
        low, high = (middle, high) if below < share else (low, middle)
    return (low + high) / 2


def slice_measurements(
    profiles: Sequence[Profile], cores_of: Callable[[str], float | None]
) -> tuple[tuple[Profile, SliceMeasurement], ...]:
    """The profiles that speak of slices of the machine of the first that does; repeats on one slice are one.

    `cores_of` says how many cores `local/half` has. A profile without a machine type was taken on all of it.
    """
    groups: dict[str | None, list[Profile]] = {}
    there: tuple[object, ...] | None = None
    for profile in profiles:
        host = profile.host
        cores = cores_of(host.vm_type) if host.vm_type else host.cores
        if profile.device != "cpu" or not profile.steady_iteration_seconds or not cores:
            continue
        there = there or (host.name, host.cpu)
        if (host.name, host.cpu) == there:
            groups.setdefault(host.vm_type, []).append(profile)
    return tuple((group[0], _on_slice(group, cores_of)) for group in groups.values())


def _on_slice(group: Sequence[Profile], cores_of: Callable[[str], float | None]) -> SliceMeasurement:
    host = group[0].host
    cores = (cores_of(host.vm_type) if host.vm_type else None) or float(host.cores or 1)
    uses = [profile.cpu_use for profile in group if profile.cpu_use]
    waits = [_data_wait(profile) for profile in group]
    return SliceMeasurement(
        slice=CpuSlice(cores=cores, threads=host.cores or math.ceil(cores)),
        seconds=measured_times(*group).later,
        cpu_use=median(uses) if uses else None,
        data_wait=median(waits),
    )


def _data_wait(profile: Profile) -> float:
    total = sum(profile.steady_iteration_seconds)
    return min(1.0, sum(profile.data_wait_seconds[1:]) / total) if total else 0.0


def predict_step_times(target: CpuSlice, seen: Sequence[tuple[Profile, SliceMeasurement]]) -> StepTimes:
    """All that equation 5.3 needs on another slice, from `slice_measurements`.

    A validation moves as an iteration does. Initialisation, and what the first iteration takes beyond a later one, is
    the work of one thread (imports, compiling): more than one core does not help, less than one is so much slower.
    """
    later = predict_iteration(target, [each for _, each in seen])
    nearest, there = min(seen, key=lambda each: abs(math.log(each[1].slice.cores / target.cores)))
    measured = [(measured_times(profile), on) for profile, on in seen]
    times = measured_times(nearest)
    ratio = later.value / there.seconds.value
    beyond = [(_beyond(each), on) for each, on in measured]
    return StepTimes(
        init=_once_on(target, [(each.init, on) for each, on in measured]),
        first=later + _once_on(target, beyond),
        later=later,
        first_validation=_moved(times.first_validation, ratio, later),
        later_validation=_moved(times.later_validation, ratio, later),
    )


def _beyond(times: StepTimes) -> Interval:
    value = max(0.0, times.first.value - times.later.value)
    return Interval.within_factor(value, _factor(times.first))


def _once_on(target: CpuSlice, seen: Sequence[tuple[Interval, SliceMeasurement]]) -> Interval:
    """What one thread does once. The machine is taken to be as busy as during the iterations."""
    known = [
        SliceMeasurement(slice=_one_thread(on.slice), seconds=seconds, cpu_use=min(1.0, on.cpu_use) if on.cpu_use else None)
        for seconds, on in seen
        if seconds.value > 0
    ]
    return _answer(_one_thread(target), known, SERIAL) if known else Interval.exactly(0.0)


def _one_thread(whole: CpuSlice) -> CpuSlice:
    return CpuSlice(cores=min(1.0, whole.cores), threads=1)


def _moved(validation: Interval | None, ratio: float, later: Interval) -> Interval | None:
    """As sure as the less sure of the two."""
    if validation is None:
        return None
    return Interval.within_factor(validation.value * ratio, max(_factor(later), _factor(validation)))


def _factor(interval: Interval) -> float:
    if not interval.low:
        return 1.0
    return max(interval.high / interval.value, interval.value / interval.low)
