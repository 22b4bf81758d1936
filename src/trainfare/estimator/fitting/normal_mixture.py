"""Quantiles of a mixture of normal distributions."""

import math
from collections.abc import Sequence
from typing import NamedTuple

_TOLERANCE = 1e-12


class NormalPart(NamedTuple):
    """One normal distribution of a mixture; the weights of all parts add up to one."""

    weight: float
    mean: float
    deviation: float


def mixture_quantile(parts: Sequence[NormalPart], probability: float) -> float:
    """The x with Σ wᵢ·Φ((x − μᵢ)/σᵢ) = probability, for a probability between 0.03 and 0.97.

    Newton's method, with a bisection step whenever a Newton step would leave the bracket. SciPy has no quantile of a
    mixture; importing its root finders takes longer than everything that is computed here.
    """
    widest = max(part.deviation for part in parts)
    low, high = min(part.mean for part in parts) - 2 * widest, max(part.mean for part in parts) + 2 * widest
    x = (low + high) / 2
    rows = [(part.weight, part.mean, 1 / (part.deviation * math.sqrt(2))) for part in parts]
    while high - low > _TOLERANCE:
        z = [(x - mean) * scale for _, mean, scale in rows]
        excess = sum(row[0] * math.erf(each) for row, each in zip(rows, z, strict=True)) - (2 * probability - 1)
        low, high = (x, high) if excess < 0 else (low, x)
        density = sum(row[0] * row[2] * math.exp(-each * each) for row, each in zip(rows, z, strict=True))
        step = excess * math.sqrt(math.pi) / 2 / density if density else math.inf
        if abs(step) < _TOLERANCE:
            break
        x = x - step if low < x - step < high else (low + high) / 2
    return x
