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
from statistics import NormalDist

from trainfare.estimator.checkpoints import Checkpoints, daly_interval
from trainfare.model.interval import Interval

MOST = 80.0
"""e^80 can still be multiplied: beyond it a training never ends, which nobody would choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """How the work is cut: k pieces, and the seconds of checkpoint after each and after the last."""

    count: int
    checkpoint: float
    last_checkpoint: float

    @property
    def written_seconds(self) -> float:
        return (self.count - 1) * self.checkpoint + self.last_checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Rework:
    """What interruptions add to a training."""

    seconds: Interval
    interruptions: Interval
    pieces: Pieces


def cut(work: float, checkpoints: Checkpoints, *, epochs: int, per_second: float) -> Pieces:
    """As the program does, which ends with a checkpoint; where it writes none, by Young and Daly."""
    written = round(checkpoints.per_epoch * epochs)
    delta = checkpoints.seconds.value
    if written:
        return Pieces(count=written, checkpoint=delta, last_checkpoint=delta)
    every = max(daly_interval(delta, per_second=per_second), delta)
    count = max(1, math.ceil(work / every)) if math.isfinite(every) and every > 0 else 1
    return Pieces(count=count, checkpoint=delta, last_checkpoint=0.0)


def expected_seconds(work: float, *, start: float, pieces: Pieces, per_second: float) -> float:
    """E of the formula, the start included."""
    piece = work / pieces.count
    if per_second <= 0:
        return start + work + pieces.written_seconds
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

    def added(rate: float, share: float) -> tuple[float, float]:
        per_second = nodes * rate / 3600
        expected = expected_seconds(work, start=start, pieces=pieces, per_second=per_second)
        count = per_second * expected
        if count <= 0:
            return 0.0, 0.0
        variance = _variance(start=start, piece=piece, count=pieces.count, per_second=per_second)
        found = count_quantile(count, variance, share)
        each = (expected - undisturbed) / count
        # Where in its piece an interruption falls is even: a deviation of piece/√12 each.
        off = 1.645 * piece / math.sqrt(12)
        if share < 0.5:
            return max(0.0, found * each - off * math.sqrt(found)), found
        return expected - undisturbed + math.hypot((found - count) * each, off * math.sqrt(count)), found

    per_second = nodes * per_hour.value / 3600
    expected = expected_seconds(work, start=start, pieces=pieces, per_second=per_second)
    value, count = max(0.0, expected - undisturbed), per_second * expected
    low, fewest = added(per_hour.low, 0.05)
    high, most = added(per_hour.high, 0.95)
    return Rework(
        seconds=Interval(value=value, low=min(low, value), high=max(high, value)),
        interruptions=Interval(value=count, low=min(fewest, count), high=max(most, count)),
        pieces=pieces,
    )


def count_quantile(mean: float, variance: float, share: float) -> float:
    """The smallest number that is not exceeded with probability `share`, of a negative binomial number; with a
    variance no larger than the mean, of a Poisson number."""
    if mean > 200:
        return max(0.0, math.floor(mean + NormalDist().inv_cdf(share) * math.sqrt(max(mean, variance)) + 0.5))
    if variance > mean * (1 + 1e-6):
        r = mean**2 / (variance - mean)
        log_none, grows = r * math.log(r / (r + mean)), mean / (r + mean)
    else:
        r, log_none, grows = math.inf, -mean, 0.0
    term = passed = math.exp(log_none)
    number = 0
    while passed < share and number < 100_000:
        term *= mean / (number + 1) if r == math.inf else (number + r) / (number + 1) * grows
        number += 1
        passed += term
    return float(number)


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
