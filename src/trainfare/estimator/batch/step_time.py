"""Iteration time as a function of the batch size: T(B) = a + b·B.

a  the time of an iteration whatever its batch: launches, weights, the optimizer, waiting for the host
b  the time of each sample once the device is busy

With both at least zero T never falls, and throughput B/T(B) rises towards 1/b. It reaches the share u of that limit at

    B_u = u/(1 − u) · a/b

Several batch sizes on one machine give the line by least squares on relative errors. Between two known sizes the time
lies on the line through those two, below all of them on the line through all, and above them it grows as in
`larger.py`. One batch size gives no line: then the measured time is multiplied by a ratio of modelled times, within the
two bounds of physics, no change at all (everything is a) and proportion (everything is b).

Limits: a library may choose another algorithm where memory is short or a batch size suits it, and then a point lies off
any line; the intervals were measured on CNNs in float32 on four GPUs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from trainfare.estimator.batch.larger import (
    DEFAULT_LARGER_BATCH_FIT,
    KnownBatch,
    LargerBatchFit,
    predict_larger_batch,
)
from trainfare.model.checks import require_not_negative, require_positive
from trainfare.model.interval import Interval

# These cover 90% of a family that was left out, for ten CNNs on four EC2 types (ddps-lab/profet): a factor of 1.10
# between two batch sizes that differ by 4x and 1.14 where they differ by 16x; 1.18 one halving below the smallest and
# 1.3 two halvings below; repeats of one batch size differ by 1.3%.
MEASURED_FACTOR = 1.03
INTERPOLATION_LOG_FACTOR = 0.07
"""Log factor per √log₂ of the ratio of the two neighbouring batch sizes."""
SMALLER_LOG_FACTOR = 0.17
"""Log factor per halving below the smallest known batch size."""
ONE_SIZE_EXPONENT = 0.8
"""T grows by r^0.8 where one batch size and no model is known; on those CNNs by r^0.4 to r^1."""
ONE_SIZE_LOG_FACTOR = 0.2
"""Log factor per doubling or halving by modelled ratios: an assumption."""
SLACK = 1.05
"""Margin around the bounds of physics for run-to-run variation and changes of algorithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """a and b of the formula."""

    fixed_seconds: float
    seconds_per_sample: float

    def __post_init__(self) -> None:
        require_not_negative(fixed_seconds=self.fixed_seconds, seconds_per_sample=self.seconds_per_sample)

    def seconds(self, batch_size: float) -> float:
        return self.fixed_seconds + self.seconds_per_sample * batch_size

    def saturating_batch(self, share: float = 0.9) -> float | None:
        """The batch size at which throughput reaches `share` of its limit; None where it has no limit."""
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1, got {share}")
        if not self.seconds_per_sample:
            return None
        return share / (1 - share) * self.fixed_seconds / self.seconds_per_sample


def batch_line(known: Sequence[tuple[float, float]]) -> BatchLine:
    """The line through (batch, seconds) that minimises Σ ((a + b·B)/T − 1)² with a ≥ 0 and b ≥ 0."""
    points = _medians(known)
    if len(points) < 2:
        raise ValueError("a line by batch size needs two batch sizes")
    w = [1 / t**2 for _, t in points]
    sw = sum(w)
    sb = sum(v * b for v, (b, _) in zip(w, points, strict=True))
    sbb = sum(v * b * b for v, (b, _) in zip(w, points, strict=True))
    st = sum(1 / t for _, t in points)
    sbt = sum(b / t for b, t in points)
    determinant = sw * sbb - sb * sb
    a, b = (sbb * st - sb * sbt) / determinant, (sw * sbt - sb * st) / determinant
    if a < 0:
        a, b = 0.0, sbt / sbb
    elif b < 0:
        a, b = st / sw, 0.0
    return BatchLine(fixed_seconds=a, seconds_per_sample=b)


def predict_batch_time(
    known: Sequence[tuple[float, float]],
    batch_size: float,
    *,
    modelled: Callable[[int], float] | None = None,
    memory_share: float | None = None,
    fit: LargerBatchFit = DEFAULT_LARGER_BATCH_FIT,
) -> Interval:
    """The iteration time at `batch_size`, from (batch, seconds) measured on the same machine.

    `modelled` returns the time of a batch size by a model of the device; only its ratios count, and only where one
    batch size is known. `memory_share` is the share of the GPU's memory that is needed at `batch_size`; `fit` has the
    growth above the known batch sizes.
    """
    require_positive(batch_size=batch_size)
    points = _medians(known)
    if not points:
        raise ValueError("a time at another batch size needs at least one that was measured")
    for b, t in points:
        if b == batch_size:
            return Interval.within_factor(t, MEASURED_FACTOR)
    if len(points) == 1:
        return _from_one_size(points[0], batch_size, modelled)
    if batch_size > points[-1][0]:
        batches = [KnownBatch(batch_size=b, seconds=t) for b, t in points]
        return predict_larger_batch(batches, batch_size, fit, memory_share=memory_share)
    if batch_size < points[0][0]:
        halvings = math.log2(points[0][0] / batch_size)
        return Interval.within_factor(batch_line(points).seconds(batch_size), math.exp(SMALLER_LOG_FACTOR * halvings))
    (b1, t1), (b2, t2) = next((p, q) for p, q in pairwise(points) if p[0] < batch_size < q[0])
    value = t1 + (t2 - t1) * (batch_size - b1) / (b2 - b1)
    return Interval.within_factor(value, math.exp(INTERPOLATION_LOG_FACTOR * math.sqrt(math.log2(b2 / b1))))


def _from_one_size(point: tuple[float, float], batch_size: float, modelled: Callable[[int], float] | None) -> Interval:
    b, t = point
    r = batch_size / b
    low, high = sorted((t, t * r))
    if modelled is None:
        return Interval(value=t * r**ONE_SIZE_EXPONENT, low=low / SLACK, high=high * SLACK)
    value = min(max(t * modelled(round(batch_size)) / modelled(round(b)), low), high)
    factor = math.exp(ONE_SIZE_LOG_FACTOR * abs(math.log2(r)))
    return Interval(value=value, low=max(value / factor, low / SLACK), high=min(value * factor, high * SLACK))


def _medians(known: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The median time of each batch size, in order of batch size."""
    by_batch: dict[float, list[float]] = {}
    for b, t in known:
        require_positive(batch_size=b, seconds=t)
        by_batch.setdefault(b, []).append(t)
    return [(b, median(times)) for b, times in sorted(by_batch.items())]
