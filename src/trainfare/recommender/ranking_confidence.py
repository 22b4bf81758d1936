"""The probability that the better-looking of two estimates is the better one.

The logarithm of each has a normal error with the deviation of its interval on that side, σ = ln(high/value)/z. With
d = ln(b/a), a, which looks better, is better than b with probability

    P = Φ(d/s),   s² = k² + a₊² + b₋²

where a₊ is how far a alone may rise, b₋ how far b alone may fall, and k the effect of an error that both share on d: if
it makes both longer and a rises by more than b, or makes both shorter and b falls by more than a, the worse of the two.

An error is shared if both estimates use one prediction of the time of an iteration: the same GPU (the same machine type
if it was measured), basis, profile, batch size and number of GPUs. Such a pair shares the errors of everything that the
program does and of the setup; of the boot if the provider is the same; of interruptions never. So a cent is enough to
rank two prices of one machine, though both intervals are wide.

Limits: other pairs share errors too, such as a program that is slow everywhere or one GPU at two batch sizes. They are
treated as independent, which understates the confidence rather than overstating it. Prices are taken as exact.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from trainfare.estimator.shared_error import shares_error
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.choose import IdealPoint, score, weight_of_time
from trainfare.recommender.limits import quantile


def is_ranking_certain(
    a: Estimate, b: Estimate, goal: Goal, *, confidence: float | None = None, ideal: IdealPoint
) -> bool:
    """True if the order of the two by the goal is right with this confidence, by default that of the goal."""
    return ranking_confidence(a, b, goal, ideal=ideal) >= (goal.confidence if confidence is None else confidence)


def ranking_confidence(a: Estimate, b: Estimate, goal: Goal, *, ideal: IdealPoint) -> float:
    """P: from 0.5, if nothing distinguishes the two, to 1. The order of a and b does not matter."""
    if not all(score(e, weight_of_time(goal), ideal) for e in (a, b)):
        return 0.5 if a.usd.value == b.usd.value else 1.0  # what is free is cheaper than what is not, for certain
    independent = _independent_phases(a, b)
    better, other = sorted((_objective(e, goal, ideal, independent) for e in (a, b)), key=lambda one: one.value)
    d = math.log(other.value / better.value)
    rise, fall = better.up, other.down
    if shares_error(a, b):
        k = max(0.0, better.shared_up - other.shared_up, other.shared_down - better.shared_down)
        rise, fall = better.own_up, other.own_down
    else:
        k = 0.0
    s = math.hypot(k, rise, fall)
    if not s:
        return 1.0 if d else 0.5
    return NormalDist().cdf(d / s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Objective:
    """The quantity that the goal minimises, the deviations of its logarithm upwards and downwards, and the share of
    them that is due to the program."""

    value: float
    up: float
    down: float
    program_up: float
    program_down: float

    @property
    def shared_up(self) -> float:
        return self.up * self.program_up

    @property
    def shared_down(self) -> float:
        return self.down * self.program_down if self.down < math.inf else 0.0

    @property
    def own_up(self) -> float:
        return self.up * math.sqrt(1 - self.program_up**2)

    @property
    def own_down(self) -> float:
        return self.down * math.sqrt(1 - self.program_down**2) if self.program_down < 1 else 0.0


def _independent_phases(a: Estimate, b: Estimate) -> frozenset[str]:
    """The phases whose errors are independent on each machine."""
    providers = {e.candidate.offer.vm_type.provider for e in (a, b)}
    return frozenset({"spot rework"} if len(providers) == 1 else {"spot rework", "boot"})


def _objective(estimate: Estimate, goal: Goal, ideal: IdealPoint, independent: frozenset[str]) -> _Objective:
    w = weight_of_time(goal)
    value = score(estimate, w, ideal)
    time_share = w * estimate.seconds.value / ideal.seconds / value  # the rest is cost, whose error is the same
    sides = {}
    for name, deviation in (("up", _up), ("down", _down)):
        parts = ((time_share, estimate.seconds), (1 - time_share, estimate.usd))
        sides[name] = sum(share * deviation(interval) for share, interval in parts if share > 0)
    above = [(p.name in independent, p.seconds.high - p.seconds.value) for p in estimate.phases]
    below = [(p.name in independent, p.seconds.value - p.seconds.low) for p in estimate.phases]
    return _Objective(
        value=value,
        up=sides["up"],
        down=sides["down"],
        program_up=_program_share(above),
        program_down=_program_share(below),
    )


def _program_share(half_widths: list[tuple[bool, float]]) -> float:
    """The program's share of a deviation: its half widths add up, independent ones add up as squares."""
    program = sum(width for independent, width in half_widths if not independent)
    total = math.hypot(program, *(width for independent, width in half_widths if independent))
    return program / total if total else 1.0


def _up(interval: Interval) -> float:
    if not interval.value:
        return 0.0
    return math.log(interval.high / interval.value) / quantile(interval.confidence)


def _down(interval: Interval) -> float:
    if not interval.value:
        return 0.0
    if not interval.low:
        return math.inf
    return math.log(interval.value / interval.low) / quantile(interval.confidence)
