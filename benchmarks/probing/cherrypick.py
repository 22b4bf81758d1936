"""Bayesian optimisation as CherryPick does it (Alipourfard et al., NSDI 2017).

A Gaussian process with a Matérn 5/2 kernel over the machines' features predicts the logarithm of the cost. Three
machines are measured first, spread over the features; then always the one with the largest expected improvement, until
at least six are measured and none is expected to improve by 10 %. The length of the kernel is fitted again after each
measurement, by maximum likelihood.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Array = NDArray[np.float64]

INITIAL_MEASUREMENTS = 3
MIN_MEASUREMENTS = 6
MIN_IMPROVEMENT = 0.1
LENGTHS = (0.5, 1.0, 2.0, 4.0)
NOISES = (0.03, 0.1, 0.3)


def next_machine(
    features: Array, known: Sequence[int], costs: Sequence[float], draw: np.random.Generator
) -> int | None:
    """The machine to measure next; None to stop. `features` has a row for each machine."""
    left = [i for i in range(len(features)) if i not in known]
    if not left:
        return None
    if not known:
        return int(draw.integers(len(features)))
    if len(known) < INITIAL_MEASUREMENTS:
        distances = [min(float(np.linalg.norm(features[i] - features[k])) for k in known) for i in left]
        return left[int(np.argmax(distances))]
    improvement = _expected_improvement(features, known, np.log(costs), left)
    best = int(np.argmax(improvement))
    if len(known) >= MIN_MEASUREMENTS and improvement[best] < MIN_IMPROVEMENT:
        return None
    return left[best]


def _expected_improvement(features: Array, known: Sequence[int], logs: Array, left: Sequence[int]) -> Array:
    """The expected improvement of each remaining machine, as a share of the least cost so far (in logarithms)."""
    level, spread = logs.mean(), max(float(logs.std()), 0.1)
    y = (logs - level) / spread
    x, rest = features[list(known)], features[list(left)]
    pairs = ((length, noise) for length in LENGTHS for noise in NOISES)
    length, noise = max(pairs, key=lambda pair: _log_likelihood(x, y, *pair))
    covariance = _matern(x, x, length) + noise**2 * np.eye(len(x))
    cross = _matern(rest, x, length)
    mean = cross @ np.linalg.solve(covariance, y)
    variance = 1 - np.einsum("ij,ji->i", cross, np.linalg.solve(covariance, cross.T))
    deviation = np.sqrt(np.maximum(variance, 1e-9))
    z = (y.min() - mean) / deviation
    improvement: Array = spread * deviation * (z * norm.cdf(z) + norm.pdf(z))
    return improvement


def _matern(a: Array, b: Array, length: float) -> Array:
    r = math.sqrt(5) * np.linalg.norm(a[:, None, :] - b[None, :, :], axis=2) / length
    kernel: Array = (1 + r + r**2 / 3) * np.exp(-r)
    return kernel


def _log_likelihood(x: Array, y: Array, length: float, noise: float) -> float:
    covariance = _matern(x, x, length) + noise**2 * np.eye(len(x))
    return float(-0.5 * y @ np.linalg.solve(covariance, y) - 0.5 * np.linalg.slogdet(covariance)[1])
