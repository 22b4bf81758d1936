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
    mixture; importing its error function and root finders takes longer than everything that is computed here.
    """
    import numpy as np

    weights, means, deviations = np.array(parts).T
    widest = deviations.max()
    low, high = means.min() - 2 * widest, means.max() + 2 * widest
    x = (low + high) / 2
    scales = 1 / (deviations * math.sqrt(2))
    while high - low > _TOLERANCE:
        z = (x - means) * scales
        excess = weights @ list(map(math.erf, z.tolist())) - (2 * probability - 1)
        low, high = (x, high) if excess < 0 else (low, x)
        density = weights @ (scales * np.exp(-z * z))
        step = excess * math.sqrt(math.pi) / 2 / density if density else math.inf
        if abs(step) < _TOLERANCE:
            break
        x = x - step if low < x - step < high else (low + high) / 2
    return float(x)
