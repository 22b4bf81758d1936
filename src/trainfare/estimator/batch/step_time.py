"""The time of an iteration by its batch size: T(B) = a + b·B.

a  what an iteration takes whatever it holds: launches, weights, the optimizer, waiting for the host
b  what each sample adds once the device is busy

With both at least zero T never falls, and throughput B/T(B) rises towards 1/b: it reaches the share u of that at

    B_u = u/(1 − u) · a/b

Several batch sizes on one machine give the line by least squares on relative errors. Between two that are known the
time is on the line through those two, below all of them on the line through all, and beyond them it grows as
`larger_batch.py` has it. One batch size gives no line: then the ratio of modelled times carries over what was
measured, between the two ends that physics allows, no change at all (all of it is a) and proportion (all of it is b).

Limits: a library may take another algorithm where memory gets short or a batch suits it, and then a point lies off
any line; the intervals are those of CNNs in float32 on four GPUs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from trainfare.estimator.batch.larger import SHIPPED, KnownBatch, LargerBatchFit, larger_batch
from trainfare.model.checks import require_not_negative, require_positive
from trainfare.model.interval import Interval

# What holds 90 % of a family that was left out, on ten CNNs on four EC2 types (ddps-lab/profet): ×/÷ 1.10 between two
# batch sizes 4× apart and 1.14 of 16×; 1.18 one halving below and 1.3 two; repeats of one batch differ by 1.3 %.
MEASURED_FACTOR = 1.03
BETWEEN = 0.07
"""Log factor of √log₂ of how far apart the known two are."""
BELOW = 0.17
"""Log factor of each halving."""
FROM_ONE_EXPONENT = 0.8
"""T grows by r^0.8 where only one batch is known and nothing else; on those CNNs by r^0.4 to r^1."""
FROM_ONE = 0.2
"""Log factor of each doubling or halving by modelled ratios: an assumption."""
SLACK = 1.05
"""The ends that physics allows, and what repeats and larger steps of a library add."""


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
        """Where throughput reaches `share` of its limit; None where it has none."""
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1, got {share}")
        if not self.seconds_per_sample:
            return None
        return share / (1 - share) * self.fixed_seconds / self.seconds_per_sample


def batch_line(known: Sequence[tuple[float, float]]) -> BatchLine:
    """Through (batch, seconds) of two batch sizes or more: Σ ((a + b·B)/T − 1)² is least with a ≥ 0 and b ≥ 0."""
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


def time_at(
    known: Sequence[tuple[float, float]],
    batch_size: float,
    *,
    modelled: Callable[[int], float] | None = None,
    held_share: float | None = None,
    fit: LargerBatchFit = SHIPPED,
) -> Interval:
    """Seconds of an iteration with `batch_size`, from (batch, seconds) measured on the same machine.

    `modelled` says what a model of the device makes of a batch; only its ratios count, and only where one batch is
    known. `held_share` is the part of the GPU's memory that is needed at `batch_size`; `fit` says how times grow beyond
    the known ones.
    """
    require_positive(batch_size=batch_size)
    points = _medians(known)
    if not points:
        raise ValueError("a time at another batch size needs at least one that was measured")
    for b, t in points:
        if b == batch_size:
            return Interval.within_factor(t, MEASURED_FACTOR)
    if len(points) == 1:
        return _from_one(points[0], batch_size, modelled)
    if batch_size > points[-1][0]:
        batches = [KnownBatch(batch_size=b, seconds=t) for b, t in points]
        return larger_batch(batches, batch_size, fit, held_share=held_share)
    if batch_size < points[0][0]:
        halvings = math.log2(points[0][0] / batch_size)
        return Interval.within_factor(batch_line(points).seconds(batch_size), math.exp(BELOW * halvings))
    (b1, t1), (b2, t2) = next((p, q) for p, q in pairwise(points) if p[0] < batch_size < q[0])
    value = t1 + (t2 - t1) * (batch_size - b1) / (b2 - b1)
    return Interval.within_factor(value, math.exp(BETWEEN * math.sqrt(math.log2(b2 / b1))))


def _from_one(point: tuple[float, float], batch_size: float, modelled: Callable[[int], float] | None) -> Interval:
    b, t = point
    r = batch_size / b
    low, high = sorted((t, t * r))
    if modelled is None:
        return Interval(value=t * r**FROM_ONE_EXPONENT, low=low / SLACK, high=high * SLACK)
    value = min(max(t * modelled(round(batch_size)) / modelled(round(b)), low), high)
    factor = math.exp(FROM_ONE * abs(math.log2(r)))
    return Interval(value=value, low=max(value / factor, low / SLACK), high=min(value * factor, high * SLACK))


def _medians(known: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """One point a batch size, in order."""
    by_batch: dict[float, list[float]] = {}
    for b, t in known:
        require_positive(batch_size=b, seconds=t)
        by_batch.setdefault(b, []).append(t)
    return [(b, median(times)) for b, times in sorted(by_batch.items())]
