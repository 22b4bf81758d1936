"""Bayesian optimisation as CherryPick does it (Alipourfard et al., NSDI 2017).

A Gaussian process with a Matérn 5/2 kernel over the machines' features predicts the logarithm of the cost. Three
machines are measured first, spread over the features; then always the one with the largest expected improvement, until
at least six are measured and none is expected to improve by 10 %. The length of the kernel is found anew after each
measurement, by the likelihood.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Array = NDArray[np.float64]

FIRST = 3
FEWEST = 6
STOP_BELOW = 0.1
LENGTHS = (0.5, 1.0, 2.0, 4.0)
NOISES = (0.03, 0.1, 0.3)


def next_machine(
    features: Array, known: Sequence[int], costs: Sequence[float], draw: np.random.Generator
) -> int | None:
    """Where to measure next; None: enough. `features` has a row for each machine."""
    left = [i for i in range(len(features)) if i not in known]
    if not left:
        return None
    if not known:
        return int(draw.integers(len(features)))
    if len(known) < FIRST:
        far = [min(float(np.linalg.norm(features[i] - features[k])) for k in known) for i in left]
        return left[int(np.argmax(far))]
    improvement = _expected_improvement(features, known, np.log(costs), left)
    best = int(np.argmax(improvement))
    if len(known) >= FEWEST and improvement[best] < STOP_BELOW:
        return None
    return left[best]


def _expected_improvement(features: Array, known: Sequence[int], logs: Array, left: Sequence[int]) -> Array:
    """As a share of the least cost so far (of its logarithm)."""
    level, spread = logs.mean(), max(float(logs.std()), 0.1)
    y = (logs - level) / spread
    x, asked = features[list(known)], features[list(left)]
    length, noise = max(((a, b) for a in LENGTHS for b in NOISES), key=lambda ab: _likelihood(x, y, *ab))
    among = _matern(x, x, length) + noise**2 * np.eye(len(x))
    across = _matern(asked, x, length)
    mean = across @ np.linalg.solve(among, y)
    variance = 1 - np.einsum("ij,ji->i", across, np.linalg.solve(among, across.T))
    deviation = np.sqrt(np.maximum(variance, 1e-9))
    z = (y.min() - mean) / deviation
    improvement: Array = spread * deviation * (z * norm.cdf(z) + norm.pdf(z))
    return improvement


def _matern(these: Array, those: Array, length: float) -> Array:
    r = math.sqrt(5) * np.linalg.norm(these[:, None, :] - those[None, :, :], axis=2) / length
    kernel: Array = (1 + r + r**2 / 3) * np.exp(-r)
    return kernel


def _likelihood(x: Array, y: Array, length: float, noise: float) -> float:
    covariance = _matern(x, x, length) + noise**2 * np.eye(len(x))
    return float(-0.5 * y @ np.linalg.solve(covariance, y) - 0.5 * np.linalg.slogdet(covariance)[1])
