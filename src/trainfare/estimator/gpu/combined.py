"""One time believed in two ways: by the operations of a program, and by what other programs gain between GPUs.

A program that was timed on some GPUs is moved to another one

    by operations   what `physics.py` says of it there, by what that missed where it was timed
    by times        by the figures of both GPUs and what other programs made of them, `programs.py`

They err by different things. Operations tell what waits for the host, what computes and what only moves bytes, of
which times tell little; times tell what a GPU reaches of its figures in programs of all kinds, where the kernels of
`physics.py` are those of image models. Neither is always the better, and each says how far off it may be:

    log t ~ N(m₁, s₁²) and N(m₂, s₂²)      w = s₂² / (s₁² + s₂²)      m = w·m₁ + (1 − w)·m₂      s = w·s₁ + (1 − w)·s₂

m is what two independent beliefs make together. s is not: both lean on the same measured times, and where those are
odd both are wrong, so the interval is as wide as if they erred together. A program that resembles one whose operations
were measured (`physics.NEAR`) goes by its operations alone: nothing tells more of it.

Limits: who is too sure pulls too much.
"""

import math
from collections.abc import Sequence

from trainfare.estimator.gpu.physics import NEAR, PhysicsFit, StepSeconds, interval_factor, scaled_seconds
from trainfare.model.interval import Interval

Foretold = tuple[StepSeconds, float]
"""What the model says of a program on a GPU, and the seconds that it took there."""


def both_ways(
    there: StepSeconds, gpu: str, known: Sequence[Foretold], fit: PhysicsFit, times: Interval, *, least: float = 1.0
) -> Interval:
    """Seconds on `gpu` of a program that took `known` elsewhere; `times` is what these say without its operations."""
    operations = by_operations(there, gpu, known, fit, least=least)
    return operations if there.near >= NEAR else between(operations, times)


def by_operations(
    there: StepSeconds, gpu: str, known: Sequence[Foretold], fit: PhysicsFit, *, least: float = 1.0
) -> Interval:
    """The same by operations alone.

    As doubtful as if nothing of it had been measured: what a measured time tells of the program it does not tell of
    the GPU, where most of the doubt is. `least` is the factor that any moved time is off by.
    """
    return Interval.within_factor(scaled_seconds(there, known), max(least, interval_factor(there, gpu, fit)))


def between(one: Interval, other: Interval) -> Interval:
    """The nearer to either, the surer that one is; never beyond both, and never surer than the surer one."""
    doubts = [_doubt(way) for way in (one, other)]
    if not min(doubts):
        return (one, other)[doubts.index(0.0)]
    weight = doubts[1] ** 2 / (doubts[0] ** 2 + doubts[1] ** 2)

    def weighed(this: float, that: float) -> float:
        return math.exp(weight * math.log(this) + (1 - weight) * math.log(that))

    value = weighed(one.value, other.value)
    return Interval(
        value=value,
        low=value / weighed(one.value / one.low, other.value / other.low),
        high=value * weighed(one.high / one.value, other.high / other.value),
        confidence=min(one.confidence, other.confidence),
    )


def _doubt(belief: Interval) -> float:
    """Half of its width, in logarithms."""
    if not belief.low > 0:
        raise ValueError(f"a time that may be nothing, {belief.low} to {belief.high}, cannot be weighed")
    return math.log(belief.high / belief.low) / 2
