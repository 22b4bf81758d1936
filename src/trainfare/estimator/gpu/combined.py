"""Combines two predictions of one time: by the operations of a program, and by how other programs speed up.

A program that was timed on some GPUs is predicted on another one

    by operations   the model of `physics.py`, corrected by its error where the program was timed
    by times        by the figures of both GPUs and how other programs ran on them, `by_times.py`

Their errors have different causes. Operations show what waits for the host, what computes and what only moves bytes,
about which times say little; times show how much of its figures a GPU reaches in programs of all kinds, whereas the
kernels of `physics.py` are those of image models. Neither is always better, and each states its uncertainty:

    log t ~ N(m₁, s₁²) and N(m₂, s₂²)      w = s₂² / (s₁² + s₂²)      m = w·m₁ + (1 − w)·m₂      s = w·s₁ + (1 − w)·s₂

m is the mean of two independent estimates. s is not their deviation: both start from the same measured times, and where
those are odd both are wrong, so the interval is as wide as if they erred together. A program that is similar to one
whose operations were measured (`physics.SIMILAR`) is predicted by its operations alone: nothing says more about it.

Limits: an overconfident prediction gets too much weight.
"""

import math
from collections.abc import Sequence

from trainfare.estimator.gpu.physics import SIMILAR, PhysicsFit, StepSeconds, interval_factor, scaled_seconds
from trainfare.model.interval import Interval

ModelledRun = tuple[StepSeconds, float]
"""The modelled step of a program on a GPU, and the seconds that were measured there."""


def predict_combined(
    step: StepSeconds,
    gpu: str,
    known: Sequence[ModelledRun],
    fit: PhysicsFit,
    by_times: Interval,
    *,
    min_factor: float = 1.0,
) -> Interval:
    """Seconds on `gpu` of a program that was measured on other GPUs (`known`).

    `step` is its modelled step on `gpu`, and `by_times` the prediction without its operations.
    """
    by_operations = predict_by_operations(step, gpu, known, fit, min_factor=min_factor)
    return by_operations if step.similarity >= SIMILAR else combine_intervals(by_operations, by_times)


def predict_by_operations(
    step: StepSeconds, gpu: str, known: Sequence[ModelledRun], fit: PhysicsFit, *, min_factor: float = 1.0
) -> Interval:
    """Seconds on `gpu` by the operations alone.

    The interval is as wide as without any measurement of the program: a measured time says something about the program
    and little about the GPU, where most of the uncertainty lies. `min_factor` is its smallest half-width.
    """
    return Interval.within_factor(scaled_seconds(step, known), max(min_factor, interval_factor(step, gpu, fit)))


def combine_intervals(one: Interval, other: Interval) -> Interval:
    """The average of two estimates, weighted by their precision: it lies between them, and so does its width."""
    widths = [_log_half_width(interval) for interval in (one, other)]
    if not min(widths):
        return (one, other)[widths.index(0.0)]
    weight = widths[1] ** 2 / (widths[0] ** 2 + widths[1] ** 2)

    def average(this: float, that: float) -> float:
        return math.exp(weight * math.log(this) + (1 - weight) * math.log(that))

    value = average(one.value, other.value)
    return Interval(
        value=value,
        low=value / average(one.value / one.low, other.value / other.low),
        high=value * average(one.high / one.value, other.high / other.value),
        confidence=min(one.confidence, other.confidence),
    )


def _log_half_width(interval: Interval) -> float:
    if not interval.low > 0:
        raise ValueError(f"an interval from {interval.low} to {interval.high} has no logarithm")
    return math.log(interval.high / interval.low) / 2
