"""What interruptions cost a training on spot machines.

Interruptions come at random with rate λ (n·λ for n nodes: losing one stops all). A training starts in R seconds (boot,
setup, initialisation, first iteration), then does W seconds of work in k equal pieces, each followed by a checkpoint of
δ seconds, the last by δ_end. An interruption throws away the piece at hand and costs a start. The expected time is

    E = g(R) + e^{λR}·((k − 1)·g(W/k + δ) + g(W/k + δ_end)),   g(x) = (e^{λx} − 1)/λ

exactly: g(x) is the mean time until x seconds passed undisturbed when each failure starts x anew at once, and e^{λR}
adds the starts, which may be interrupted too. λE interruptions are expected. For λ → 0, E = R + W + checkpoints.

Limits: the wait until another machine can be had is not in it, since nothing is charged for it (`spot_risk.py` has it,
for deadlines); nor is the warning of half a minute to two minutes that providers give, in which a program may save what
it has.
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
MOST = 80.0
"""e^80 can still be multiplied: beyond it a training never ends, which nobody would choose."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """How the work is cut: k pieces, and the seconds of checkpoint after each and after the last."""

    count: int
    checkpoint: float
    last_checkpoint: float

    @property
    def written_seconds(self) -> float:
        return (self.count - 1) * self.checkpoint + self.last_checkpoint


class Between(NamedTuple):
    """A number and its ends, on the way to an Interval: there are tens of thousands of them."""

    value: float
    low: float
    high: float


class Rework(NamedTuple):
    """What interruptions add to a training."""

    seconds: Between
    interruptions: Between


def cut(work: float, checkpoints: Checkpoints, *, epochs: int, per_second: float) -> Pieces:
    """As the program does, which ends with a checkpoint; where it writes none, by Young and Daly."""
    written = round(checkpoints.per_epoch * epochs)
    delta = checkpoints.seconds.value
    if written:
        return Pieces(written, delta, delta)
    every = max(daly_interval(delta, per_second=per_second), delta)
    count = max(1, math.ceil(work / every)) if 0 < every < math.inf else 1
    return Pieces(count, delta, 0.0)


def expected_seconds(work: float, *, start: float, pieces: Pieces, per_second: float) -> float:
    """E of the formula, the start included."""
    if per_second <= 0:
        return start + work + pieces.written_seconds
    piece = work / pieces.count
    each = (pieces.count - 1) * _until(piece + pieces.checkpoint, per_second)
    last = _until(piece + pieces.last_checkpoint, per_second)
    return _until(start, per_second) + math.exp(min(MOST, per_second * start)) * (each + last)


def rework(work: float, *, start: float, pieces: Pieces, per_hour: Interval, nodes: int = 1) -> Rework:
    """The expected one, between what few and many interruptions would add.

    The ends take both doubts together: the rate at its own low and high end, and there the 5 % and 95 % points of the
    number of interruptions. Each costs what one costs on the average at that rate.
    """
    undisturbed = start + work + pieces.written_seconds
    piece = work / pieces.count + pieces.checkpoint
    # Where in its piece an interruption falls is even: a deviation of piece/√12 each.
    off = 1.645 * piece / SQRT_12

    def at(rate: float) -> tuple[float, float, float]:
        """λ, E, and how many interruptions."""
        per_second = nodes * rate / SECONDS_PER_HOUR
        expected = expected_seconds(work, start=start, pieces=pieces, per_second=per_second)
        return per_second, expected, per_second * expected

    def quantile(per_second: float, mean: float, share: float) -> float:
        variance = _variance(start=start, piece=piece, count=pieces.count, per_second=per_second)
        return count_quantile(mean, variance, share)

    _, expected, count = at(per_hour.value)
    value = max(0.0, expected - undisturbed)
    low = fewest = high = most = 0.0
    per_second, expected, mean = at(per_hour.low)
    if mean > 0:
        fewest = quantile(per_second, mean, 0.05)
        low = max(0.0, fewest * ((expected - undisturbed) / mean) - off * math.sqrt(fewest))
    per_second, expected, mean = at(per_hour.high)
    if mean > 0:
        most = quantile(per_second, mean, 0.95)
        added = expected - undisturbed
        high = added + math.hypot((most - mean) * (added / mean), off * math.sqrt(mean))
    return Rework(
        seconds=Between(value, min(low, value), max(high, value)),
        interruptions=Between(count, min(fewest, count), max(most, count)),
    )


def count_quantile(mean: float, variance: float, share: float) -> float:
    """The smallest number that is not exceeded with probability `share`, of a negative binomial number; with a
    variance no larger than the mean, of a Poisson number."""
    if mean > 200:
        return max(0.0, math.floor(mean + _normal_quantile(share) * math.sqrt(max(mean, variance)) + 0.5))
    number = 0
    if variance > mean * (1 + 1e-6):
        r = mean**2 / (variance - mean)
        grows = mean / (r + mean)
        term = passed = math.exp(r * math.log(r / (r + mean)))
        while passed < share and number < 100_000:
            term *= (number + r) / (number + 1) * grows
            number += 1
            passed += term
    else:
        term = passed = math.exp(-mean)
        while passed < share and number < 100_000:
            number += 1
            term *= mean / number
            passed += term
    return float(number)


@cache
def _normal_quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)


def _variance(*, start: float, piece: float, count: int, per_second: float) -> float:
    """Of the number of interruptions: a start is repeated a geometric number of times until it succeeds, a piece
    likewise, and each loss of a piece is followed by a start."""
    m_start = math.expm1(min(MOST, per_second * start))
    v_start = m_start * (1 + m_start)
    m_piece = math.expm1(min(MOST, per_second * piece))
    v_piece = m_piece * (1 + m_piece)
    return v_start + count * (m_piece * v_start + v_piece * (1 + m_start) * (1 + m_start))


def _until(seconds: float, per_second: float) -> float:
    """g of the formula."""
    return math.expm1(min(MOST, per_second * seconds)) / per_second
