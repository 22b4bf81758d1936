"""How much the same run differs from itself when it is run again: the interval of a measured time.

    log tᵢ ~ N(μ, s²)                  the time of an iteration in run i of one program on one kind of machine
    s² ~ s₀² · ν₀ / χ²(ν₀)             how noisy a program is there, unknown until it is repeat_interval
    s₀² = S²·(t / 0.1 s)^(2β) + (c·d)²

Short iterations vary more, since the host has more of a say in them: β < 0. And a machine that is shared with others
shows it within a run: d is the deviation of the log means of blocks of √k of its k iterations, of which a part c stays
however long one measures. From n runs with mean log m, the time of a further one lies within

    m ± √(t(0.95, ν)²·s²·(1 + 1/n) + 1.645²·w²/n),   ν = ν₀ + n − 1,   s² = (ν₀·s₀² + Σ(log tᵢ − m)²) / ν

with w = d/√(number of blocks) what the iterations of one run leave open about its own mean. One run leans on s₀ alone;
each repeat moves s towards what was seen. This is the moderated variance of Smyth (2004).

Limits: S, β and ν₀ come from ten CNNs on four EC2 types, c from two small programs on one busy machine; noise differs
more between machines than between programs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median, stdev

from trainfare.model.interval import Interval

TYPICAL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNoise:
    """S, β, ν₀ and c of the formula."""

    scale: float
    exponent: float
    degrees: float
    stays: float


# Fitted on 2026-11-16 by `python -m benchmarks.coverage` on 883 settings of nine runs each. S is 1.15 × the most
# likely: so 90 % intervals hold on the average over machine types that were left out of the fit, too. c was chosen on
# 42 runs of two programs on a machine with two to four times more work than cores; docs/bill.md has what it reaches.
ITERATION_NOISE = RunNoise(scale=0.0095, exponent=-0.27, degrees=1.6, stays=0.4)

# What happens once a run, initialisation and the first iteration: disks are cold or warm, libraries choose kernels. One
# run is taken to be within a factor of 1.65 of the next, an assumption that repeats overrule.
ONE_TIME_NOISE = RunNoise(scale=0.15, exponent=0.0, degrees=3.0, stays=0.0)

BEGIN_DEVIATION = 0.7
"""Of the log of what the first iteration of an epoch takes beyond the others: an assumption, a factor of two."""

FEW = 12
"""Iterations below which single ones are all there is."""
TRIMMED = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run: the mean time of its iterations, d and w of the formula."""

    seconds: float
    deviation: float
    own_error: float


def steady_seconds(seconds: Sequence[float], *, per_epoch: int | None = None) -> float:
    """The mean of the iterations without the 2 % at either end, so that one hiccup does not move it; of fewer than a
    dozen, the median.

    Not the median of many: it would miss what every few of them pay for, a queue that drains or a loader that
    stalls. The first iteration of an epoch often waits for a shuffle or for workers to start; where the number of
    iterations an epoch is told, those are taken apart and what they take beyond the others is spread over the epoch.
    """
    return _run(seconds, per_epoch).seconds


def repeat_interval(runs: Sequence[Sequence[float]], *, per_epoch: int | None = None, noise: RunNoise = ITERATION_NOISE) -> Interval:
    """The time of an iteration in a further run, from the iterations after the first of one run or of several."""
    if not runs or not all(runs):
        raise ValueError("a steady time needs at least one iteration after the first")
    seen = [_run(run, per_epoch) for run in runs]
    if min(run.seconds for run in seen) <= 0:
        # A validation of no time at all: there is no logarithm of it, and nothing to widen.
        times = [run.seconds for run in seen]
        return Interval(value=median(times), low=min(times), high=max(times))
    logs = [math.log(run.seconds) for run in seen]
    n, m = len(logs), fmean(logs)
    v = noise.degrees + n - 1
    s02 = (noise.scale * (math.exp(m) / TYPICAL_SECONDS) ** noise.exponent) ** 2
    s02 += noise.stays**2 * fmean(run.deviation**2 for run in seen)
    s2 = (noise.degrees * s02 + sum((log - m) ** 2 for log in logs)) / v
    w2 = fmean(run.own_error**2 for run in seen)
    half = math.sqrt(student_quantile(v) ** 2 * s2 * (1 + 1 / n) + 1.645**2 * w2 / n)
    value = math.exp(m) if n > 1 else seen[0].seconds
    return Interval(value=value, low=value * math.exp(-half), high=value * math.exp(half))


@lru_cache(maxsize=256)
def student_quantile(v: float) -> float:
    """The 95 % point of Student's t with v degrees of freedom.

    With t = √v·tan θ the density of θ is cos^(v−1) θ, which Simpson's rule integrates at once; then bisection.
    """
    whole = math.exp(math.lgamma(0.5) + math.lgamma(v / 2) - math.lgamma((v + 1) / 2)) / 2
    low, high = 0.0, math.pi / 2
    for _ in range(50):
        middle = (low + high) / 2
        if _area(middle, v) < 0.9 * whole:
            low = middle
        else:
            high = middle
    return math.sqrt(v) * math.tan((low + high) / 2)


def _area(end: float, v: float, pieces: int = 200) -> float:
    """∫ cos^(v−1) from 0 to `end`."""
    step = end / pieces
    heights = [math.pow(math.cos(i * step), v - 1) for i in range(pieces + 1)]
    return step / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]))


def _run(seconds: Sequence[float], per_epoch: int | None) -> _Run:
    """`seconds` begin with the second iteration of the first epoch."""
    begins = seconds[per_epoch - 1 :: per_epoch] if per_epoch and per_epoch > 1 else ()
    within = [t for i, t in enumerate(seconds, 2) if (i - 1) % per_epoch] if begins and per_epoch else list(seconds)
    mean = _mean(within)
    beyond = max(0.0, median(begins) - mean) / per_epoch if begins and per_epoch else 0.0
    logs = [math.log(block) for block in _blocks(within) if block > 0]
    deviation = _robust_deviation(logs) if len(within) < FEW or len(logs) < 2 else stdev(logs)
    own_error = deviation / math.sqrt(max(1, len(logs)))
    if beyond:
        own_error = math.hypot(own_error, BEGIN_DEVIATION * beyond / (mean + beyond) / math.sqrt(len(begins)))
    return _Run(seconds=mean + beyond, deviation=deviation, own_error=own_error)


def _mean(seconds: Sequence[float]) -> float:
    if len(seconds) < FEW:
        return median(seconds)
    ends = _trimmed(len(seconds))
    return fmean(sorted(seconds)[ends:-ends])


def _blocks(seconds: Sequence[float]) -> list[float]:
    """Means of √n consecutive iterations, the 2 % that `_mean` leaves out lowered to the highest it takes."""
    n = len(seconds)
    if n < FEW:
        return list(seconds)
    highest = sorted(seconds)[-1 - _trimmed(n)]
    calm = [min(t, highest) for t in seconds]
    count = math.isqrt(n)
    return [fmean(calm[a:b]) for a, b in pairwise(n * i // count for i in range(count + 1))]


def _trimmed(n: int) -> int:
    return max(1, round(TRIMMED * n))


def _robust_deviation(logs: Sequence[float]) -> float:
    """Of a few single iterations by their median deviation, which one hiccup does not move."""
    if len(logs) < 2:
        return 0.0
    middle = median(logs)
    return 1.4826 * median(abs(log - middle) for log in logs)
