"""The expected cost of interruptions for a training on spot machines.

Interruptions come at random with rate λ (n·λ for n nodes: losing one stops all). A training starts in R seconds (boot,
setup, initialisation, first iteration), then does W seconds of work in k equal pieces, each followed by a checkpoint of
δ seconds, the last by δ_end. An interruption loses the current piece and requires a new start. The expected time is

    E = g(R) + e^{λR}·((k − 1)·g(W/k + δ) + g(W/k + δ_end)),   g(x) = (e^{λx} − 1)/λ

exactly: g(x) is the mean time until x seconds pass without interruption when each failure starts x anew at once, and
e^{λR} adds the starts, which may be interrupted too. λE interruptions are expected. For λ → 0, E = R + W + checkpoints.

Limits: the wait for another machine is not included, since it is not charged (`spot/deadline_risk.py` includes it, for
deadlines); nor is the warning of half a minute to two minutes that providers give, in which a program may save its
state.

All functions take numbers or arrays of them: thousands of spot candidates are computed at once.
"""

import math
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from trainfare.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Floats = NDArray[float64]
    Numbers = float | Floats

SQRT_12 = math.sqrt(12)
MAX_EXPONENT = 80.0
"""e^80 can still be multiplied; a training with a larger exponent practically never ends."""
GAUSSIAN_ABOVE = 200.0
"""Mean number of interruptions above which the number is approximately normal."""
MAX_COUNT = 100_000
"""The sum of the probabilities of smaller counts is 1 but for rounding."""

N = TypeVar("N")


class CheckpointPlan(NamedTuple):
    """The division of the work into k pieces, with the seconds of the checkpoint after each and after the last."""

    pieces: "Numbers"
    checkpoint: "Numbers"
    last_checkpoint: "Numbers"

    @property
    def written_seconds(self) -> "Numbers":
        return (self.pieces - 1) * self.checkpoint + self.last_checkpoint


class ValueRange(NamedTuple, Generic[N]):
    """A value and its bounds, before they become an Interval: tens of thousands of them are computed."""

    value: N
    low: N
    high: N


class Rework(NamedTuple, Generic[N]):
    """The time that interruptions add to a training, and their number."""

    seconds: ValueRange[N]
    interruptions: ValueRange[N]


class Bounded(Protocol):
    """A value and its bounds: an Interval, or a ValueRange of arrays."""

    @property
    def value(self) -> "Numbers": ...
    @property
    def low(self) -> "Numbers": ...
    @property
    def high(self) -> "Numbers": ...


def plan_checkpoints(
    work: "Numbers", *, checkpoint: "Numbers", own: "Numbers", per_second: "Numbers"
) -> CheckpointPlan:
    """The program's own checkpoints, the last at its end; without any, checkpoints by Young and Daly."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        daly = np.where(np.asarray(per_second) > 0, np.sqrt(2 * np.asarray(checkpoint) / per_second), np.inf)
        every = np.maximum(daly, checkpoint)
        pieces = np.where((every > 0) & (every < np.inf), np.maximum(1, np.ceil(work / every)), 1)
    writes = np.asarray(own) > 0
    return CheckpointPlan(np.where(writes, own, pieces), checkpoint, np.where(writes, checkpoint, 0.0))


def expected_seconds(work: "Numbers", *, start: "Numbers", plan: CheckpointPlan, per_second: "Numbers") -> "Floats":
    """E of the formula, including the start."""
    import numpy as np

    interrupted = np.asarray(per_second) > 0
    rate = np.where(interrupted, per_second, 1.0)

    def g(seconds: "Numbers") -> "Floats":
        return np.asarray(np.expm1(np.minimum(MAX_EXPONENT, rate * seconds)) / rate)

    piece = work / plan.pieces
    others = (plan.pieces - 1) * g(piece + plan.checkpoint)
    last = g(piece + plan.last_checkpoint)
    starts = np.exp(np.minimum(MAX_EXPONENT, rate * start))
    return np.where(interrupted, g(start) + starts * (others + last), start + work + plan.written_seconds)


def expected_rework(
    work: "Numbers", *, start: "Numbers", plan: CheckpointPlan, per_hour: Bounded, nodes: "Numbers" = 1
) -> "Rework[Floats]":
    """The expected rework, with bounds for few and for many interruptions.

    The bounds combine both uncertainties: the rate at its low and high end, and there the 5% and 95% quantiles of the
    number of interruptions. Each interruption costs the mean at that rate.
    """
    import numpy as np

    uninterrupted = start + work + plan.written_seconds
    piece = work / plan.pieces + plan.checkpoint
    # An interruption falls uniformly within its piece: a standard deviation of piece/√12 each.
    spread = 1.645 * piece / SQRT_12

    def at(rate: "Numbers") -> "tuple[Floats, Floats, Floats, Floats]":
        """The added time, the mean number of interruptions, its variance, and the added time of one."""
        per_second = nodes * np.asarray(rate) / SECONDS_PER_HOUR
        expected = expected_seconds(work, start=start, plan=plan, per_second=per_second)
        mean = per_second * expected
        variance = _count_variance(start=start, piece=piece, pieces=plan.pieces, per_second=per_second)
        added = expected - uninterrupted
        return added, mean, variance, added / np.where(mean > 0, mean, 1.0)

    added, count, _, _ = at(per_hour.value)
    value = np.maximum(0.0, added)
    _, mean, variance, each = at(per_hour.low)
    fewest = np.where(mean > 0, count_quantile(mean, variance, 0.05), 0.0)
    low = np.maximum(0.0, fewest * each - spread * np.sqrt(fewest))
    added, mean, variance, each = at(per_hour.high)
    most = np.where(mean > 0, count_quantile(mean, variance, 0.95), 0.0)
    high = np.where(mean > 0, added + np.hypot((most - mean) * each, spread * np.sqrt(mean)), 0.0)
    return Rework(
        seconds=ValueRange(value, np.minimum(low, value), np.maximum(high, value)),
        interruptions=ValueRange(count, np.minimum(fewest, count), np.maximum(most, count)),
    )


def count_quantile(mean: "Numbers", variance: "Numbers", share: float) -> "Floats":
    """The `share` quantile of a negative binomial number; of a Poisson number if the variance is at most the mean.

    The probabilities of 0, 1, 2, … are added up until they reach the share. SciPy has the inverse, but importing
    `scipy.special` takes longer than all quantiles of a recommendation.
    """
    import numpy as np

    m, v = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64))
    shape = m.shape
    m, v = m.ravel(), v.ravel()
    overdispersed = v > m * (1 + 1e-6)
    r = np.where(overdispersed, m**2 / np.where(overdispersed, v - m, 1.0), 1.0)
    q = m / (r + m)
    probability = np.where(overdispersed, np.exp(r * np.log(r / (r + m))), np.exp(-m))
    count = np.where(
        m > GAUSSIAN_ABOVE,
        np.maximum(0.0, np.floor(m + _normal_quantile(share) * np.sqrt(np.maximum(m, v)) + 0.5)),
        0.0,
    )
    total = probability.copy()
    open_ = np.flatnonzero((m <= GAUSSIAN_ABOVE) & (total < share))
    for k in range(MAX_COUNT):
        if not len(open_):
            break
        growth = np.where(overdispersed[open_], (k + r[open_]) / (k + 1) * q[open_], m[open_] / (k + 1))
        probability[open_] *= growth
        total[open_] += probability[open_]
        count[open_] = k + 1
        open_ = open_[total[open_] < share]
    return np.asarray(count.reshape(shape))


@cache
def _normal_quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)


def _count_variance(*, start: "Numbers", piece: "Numbers", pieces: "Numbers", per_second: "Numbers") -> "Floats":
    """The variance of the number of interruptions.

    A start is repeated a geometric number of times until it succeeds, and so is a piece; each loss of a piece is
    followed by a start.
    """
    import numpy as np

    m_start = np.expm1(np.minimum(MAX_EXPONENT, per_second * start))
    v_start = m_start * (1 + m_start)
    m_piece = np.expm1(np.minimum(MAX_EXPONENT, per_second * piece))
    v_piece = m_piece * (1 + m_piece)
    return np.asarray(v_start + pieces * (m_piece * v_start + v_piece * (1 + m_start) * (1 + m_start)))
