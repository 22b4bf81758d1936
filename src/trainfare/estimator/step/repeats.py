"""Run-to-run variation: the interval of an iteration time that was measured in one run or in several.

    log tᵢ ~ N(μ, s²)                  the time of an iteration in run i of one program on one kind of machine
    s² ~ s₀² · ν₀ / χ²(ν₀)             the noise of a program, unknown until it is run again
    s₀² = S²·(t / 0.1 s)^(2β) + (c·d)²

Short iterations vary more, because the host takes a larger part of them: β < 0. A machine that is shared with other
users varies within a run: d is the standard deviation of the log means of blocks of √k of its k iterations, and the
share c of it remains however long a run is measured. From n runs with mean log m, a further run lies within

    m ± √(t(0.95, ν)²·s²·(1 + 1/n) + 1.645²·w²/n),   ν = ν₀ + n − 1,   s² = (ν₀·s₀² + Σ(log tᵢ − m)²) / ν

with w = d/√(number of blocks) the standard error of the mean of one run. A single run has only s₀; every repeat moves s
towards the observed variation. This is the moderated variance of Smyth (2004).

Limits: S, β and ν₀ were fitted to ten CNNs on four EC2 types, c to two small programs on one busy machine; noise
differs more between machines than between programs.
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
    persistent_share: float
    quantile: float | None = None
    """t(0.95, ν₀), for a single run; computed where it is None. It is stored because importing SciPy for it would
    double the time of a recommendation from a single profile."""


# Fitted on 2026-11-16 by `python -m benchmarks.coverage` to 883 settings of nine runs each. S is 1.15 times the maximum
# likelihood estimate, so that 90% intervals also hold on average for machine types that were left out of the fit. c was
# chosen on 42 runs of two programs on a machine with two to four times more work than cores; docs/bill.md has its
# coverage.
ITERATION_NOISE = RunNoise(scale=0.0095, exponent=-0.27, degrees=1.6, persistent_share=0.4, quantile=3.4841470238668575)

# Initialisation and the first iteration happen once a run: disks are cold or warm, libraries choose kernels. One run is
# assumed to lie within a factor of 1.65 of the next; repeats correct the assumption.
ONE_TIME_NOISE = RunNoise(scale=0.15, exponent=0.0, degrees=3.0, persistent_share=0.0, quantile=2.3533634348018233)

EPOCH_START_DEVIATION = 0.7
"""Standard deviation of the log of the extra time of an epoch's first iteration: an assumption, a factor of two."""

MEDIAN_BELOW = 12
"""With fewer iterations than this the median is used instead of a trimmed mean."""
TRIMMED_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunStatistics:
    """The mean iteration time of one run, d and w of the formula."""

    seconds: float
    deviation: float
    standard_error: float


def steady_seconds(seconds: Sequence[float], *, per_epoch: int | None = None) -> float:
    """The mean iteration time without the slowest and fastest 2%; the median of fewer than a dozen iterations.

    One outlier does not move it. The median of many iterations would miss a cost that occurs every few iterations, such
    as a queue that drains or a data loader that stalls. The first iteration of an epoch often waits for a shuffle or
    for workers to start: where `per_epoch` is known, the extra time of these iterations is spread over the epoch.
    """
    return _run_statistics(seconds, per_epoch).seconds


def repeat_interval(
    runs: Sequence[Sequence[float]], *, per_epoch: int | None = None, noise: RunNoise = ITERATION_NOISE
) -> Interval:
    """The iteration time of a further run, from the iterations after the first of one run or of several."""
    if not runs or not all(runs):
        raise ValueError("a steady time needs at least one iteration after the first")
    measured = [_run_statistics(run, per_epoch) for run in runs]
    if min(run.seconds for run in measured) <= 0:
        # A validation that takes no time has no logarithm.
        times = [run.seconds for run in measured]
        return Interval(value=median(times), low=min(times), high=max(times))
    logs = [math.log(run.seconds) for run in measured]
    n, m = len(logs), fmean(logs)
    v = noise.degrees + n - 1
    s02 = (noise.scale * (math.exp(m) / TYPICAL_SECONDS) ** noise.exponent) ** 2
    s02 += noise.persistent_share**2 * fmean(run.deviation**2 for run in measured)
    s2 = (noise.degrees * s02 + sum((log - m) ** 2 for log in logs)) / v
    w2 = fmean(run.standard_error**2 for run in measured)
    t = noise.quantile if n == 1 and noise.quantile is not None else student_quantile(v)
    half = math.sqrt(t**2 * s2 * (1 + 1 / n) + 1.645**2 * w2 / n)
    value = math.exp(m) if n > 1 else measured[0].seconds
    return Interval(value=value, low=value * math.exp(-half), high=value * math.exp(half))


@lru_cache(maxsize=256)
def student_quantile(v: float) -> float:
    """The 95% quantile of Student's t distribution with v degrees of freedom."""
    from scipy.special import stdtrit  # 0.2 s

    return float(stdtrit(v, 0.95))


def _run_statistics(seconds: Sequence[float], per_epoch: int | None) -> _RunStatistics:
    """`seconds` begin with the second iteration of the first epoch."""
    starts = seconds[per_epoch - 1 :: per_epoch] if per_epoch and per_epoch > 1 else ()
    others = [t for i, t in enumerate(seconds, 2) if (i - 1) % per_epoch] if starts and per_epoch else list(seconds)
    mean = _trimmed_mean(others)
    extra = max(0.0, median(starts) - mean) / per_epoch if starts and per_epoch else 0.0
    logs = [math.log(block) for block in _block_means(others) if block > 0]
    deviation = _robust_deviation(logs) if len(others) < MEDIAN_BELOW or len(logs) < 2 else stdev(logs)
    standard_error = deviation / math.sqrt(max(1, len(logs)))
    if extra:
        start_error = EPOCH_START_DEVIATION * extra / (mean + extra) / math.sqrt(len(starts))
        standard_error = math.hypot(standard_error, start_error)
    return _RunStatistics(seconds=mean + extra, deviation=deviation, standard_error=standard_error)


def _trimmed_mean(seconds: Sequence[float]) -> float:
    if len(seconds) < MEDIAN_BELOW:
        return median(seconds)
    ends = _trimmed_count(len(seconds))
    return fmean(sorted(seconds)[ends:-ends])


def _block_means(seconds: Sequence[float]) -> list[float]:
    """Means of √n consecutive iterations; the slowest 2% are lowered to the slowest that `_trimmed_mean` includes."""
    n = len(seconds)
    if n < MEDIAN_BELOW:
        return list(seconds)
    highest = sorted(seconds)[-1 - _trimmed_count(n)]
    clipped = [min(t, highest) for t in seconds]
    count = math.isqrt(n)
    return [fmean(clipped[a:b]) for a, b in pairwise(n * i // count for i in range(count + 1))]


def _trimmed_count(n: int) -> int:
    return max(1, round(TRIMMED_SHARE * n))


def _robust_deviation(logs: Sequence[float]) -> float:
    """The standard deviation of a few iterations, from their median absolute deviation, which ignores one outlier."""
    if len(logs) < 2:
        return 0.0
    middle = median(logs)
    return 1.4826 * median(abs(log - middle) for log in logs)
