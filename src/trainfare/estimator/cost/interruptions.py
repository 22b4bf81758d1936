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
"""

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

from trainfare.estimator.cost.checkpoints import Checkpoints, daly_interval
from trainfare.model.interval import Interval
from trainfare.units import SECONDS_PER_HOUR

SQRT_12 = math.sqrt(12)
MAX_EXPONENT = 80.0
"""e^80 can still be multiplied; a training with a larger exponent practically never ends."""
GAUSSIAN_ABOVE = 200.0
"""Mean number of interruptions above which the number is approximately normal."""
MAX_COUNT = 100_000
"""The sum of the probabilities of smaller counts is 1 but for rounding."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The division of the work into k pieces, with the seconds of the checkpoint after each and after the last."""

    pieces: int
    checkpoint: float
    last_checkpoint: float

    @property
    def written_seconds(self) -> float:
        return (self.pieces - 1) * self.checkpoint + self.last_checkpoint


class ValueRange(NamedTuple):
    """A value and its bounds, before they become an Interval: tens of thousands of them are computed."""

    value: float
    low: float
    high: float


class Rework(NamedTuple):
    """The time that interruptions add to a training, and their number."""

    seconds: ValueRange
    interruptions: ValueRange


def plan_checkpoints(work: float, checkpoints: Checkpoints, *, epochs: int, per_second: float) -> CheckpointPlan:
    """The program's own checkpoints, the last at its end; without any, checkpoints by Young and Daly."""
    written = round(checkpoints.per_epoch * epochs)
    delta = checkpoints.seconds.value
    if written:
        return CheckpointPlan(written, delta, delta)
    every = max(daly_interval(delta, per_second=per_second), delta)
    pieces = max(1, math.ceil(work / every)) if 0 < every < math.inf else 1
    return CheckpointPlan(pieces, delta, 0.0)


def expected_seconds(work: float, *, start: float, plan: CheckpointPlan, per_second: float) -> float:
    """E of the formula, including the start."""
    if per_second <= 0:
        return start + work + plan.written_seconds
    piece = work / plan.pieces
    others = (plan.pieces - 1) * _mean_time_to_finish(piece + plan.checkpoint, per_second)
    last = _mean_time_to_finish(piece + plan.last_checkpoint, per_second)
    starts = math.exp(min(MAX_EXPONENT, per_second * start))
    return _mean_time_to_finish(start, per_second) + starts * (others + last)


def expected_rework(work: float, *, start: float, plan: CheckpointPlan, per_hour: Interval, nodes: int = 1) -> Rework:
    """The expected rework, with bounds for few and for many interruptions.

    The bounds combine both uncertainties: the rate at its low and high end, and there the 5% and 95% quantiles of the
    number of interruptions. Each interruption costs the mean at that rate.
    """
    uninterrupted = start + work + plan.written_seconds
    piece = work / plan.pieces + plan.checkpoint
    # An interruption falls uniformly within its piece: a standard deviation of piece/√12 each.
    spread = 1.645 * piece / SQRT_12

    def at(rate: float) -> tuple[float, float, float]:
        """λ, E, and the expected number of interruptions."""
        per_second = nodes * rate / SECONDS_PER_HOUR
        expected = expected_seconds(work, start=start, plan=plan, per_second=per_second)
        return per_second, expected, per_second * expected

    def quantile(per_second: float, mean: float, share: float) -> float:
        variance = _count_variance(start=start, piece=piece, pieces=plan.pieces, per_second=per_second)
        return count_quantile(mean, variance, share)

    _, expected, count = at(per_hour.value)
    value = max(0.0, expected - uninterrupted)
    low = fewest = high = most = 0.0
    per_second, expected, mean = at(per_hour.low)
    if mean > 0:
        fewest = quantile(per_second, mean, 0.05)
        low = max(0.0, fewest * ((expected - uninterrupted) / mean) - spread * math.sqrt(fewest))
    per_second, expected, mean = at(per_hour.high)
    if mean > 0:
        most = quantile(per_second, mean, 0.95)
        added = expected - uninterrupted
        high = added + math.hypot((most - mean) * (added / mean), spread * math.sqrt(mean))
    return Rework(
        seconds=ValueRange(value, min(low, value), max(high, value)),
        interruptions=ValueRange(count, min(fewest, count), max(most, count)),
    )


def count_quantile(mean: float, variance: float, share: float) -> float:
    """The `share` quantile of a negative binomial number; of a Poisson number if the variance is at most the mean.

    The probabilities of 0, 1, 2, … are added up until they reach the share. SciPy has the inverse, but importing
    `scipy.special` takes longer than all quantiles of a recommendation.
    """
    if mean > GAUSSIAN_ABOVE:
        return max(0.0, math.floor(mean + _normal_quantile(share) * math.sqrt(max(mean, variance)) + 0.5))
    count = 0
    if variance > mean * (1 + 1e-6):
        r = mean**2 / (variance - mean)
        q = mean / (r + mean)
        probability = total = math.exp(r * math.log(r / (r + mean)))
        while total < share and count < MAX_COUNT:
            probability *= (count + r) / (count + 1) * q
            count += 1
            total += probability
    else:
        probability = total = math.exp(-mean)
        while total < share and count < MAX_COUNT:
            count += 1
            probability *= mean / count
            total += probability
    return float(count)


@cache
def _normal_quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)


def _count_variance(*, start: float, piece: float, pieces: int, per_second: float) -> float:
    """The variance of the number of interruptions.

    A start is repeated a geometric number of times until it succeeds, and so is a piece; each loss of a piece is
    followed by a start.
    """
    m_start = math.expm1(min(MAX_EXPONENT, per_second * start))
    v_start = m_start * (1 + m_start)
    m_piece = math.expm1(min(MAX_EXPONENT, per_second * piece))
    v_piece = m_piece * (1 + m_piece)
    return v_start + pieces * (m_piece * v_start + v_piece * (1 + m_start) * (1 + m_start))


def _mean_time_to_finish(seconds: float, per_second: float) -> float:
    """g of the formula."""
    return math.expm1(min(MAX_EXPONENT, per_second * seconds)) / per_second
