"""A sum of smooth curves, one for each feature: small enough to ship, and bounded outside its data.

    y(x) = c + Σ_f ( b_f · x_f + Σ_k w_fk · exp(−((x_f − z_k) / ℓ)²) )

x_f is clipped to the range that was measured, so nothing is extrapolated. c, b and w have normal priors around zero
with the deviations of `CurvePrior`. Rows of one program err alike, and so do those of one family: without terms for
them, the family with the most rows would decide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
WIDTH = 0.5
"""ℓ, and the distance of the centres z_k: features are scaled to lie within a few units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePrior:
    """Standard deviations of the curve's coefficients and of what it does not explain."""

    constant: float = 0.5
    slope: float = 0.3
    bend: float = 0.3
    row: float = 0.03
    """Noise variance of a row of weight 1."""
    program: float = 0.05
    family: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureCurve:
    """The contribution of one feature."""

    low: float
    high: float
    slope: float
    first: float
    """z of the first bump."""
    bumps: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditiveCurve:
    """The fitted curve: c, and the contribution of each feature."""

    constant: float
    lines: tuple[FeatureCurve, ...]


def curve_value(curve: AdditiveCurve, x: Sequence[float]) -> float:
    """y at one point. Features beyond those of the curve do not count: a stored curve may be older than they are."""
    if len(x) < len(curve.lines):
        raise ValueError(f"the curve has {len(curve.lines)} features and the point only {len(x)}")
    y = curve.constant
    for line, value in zip(curve.lines, x, strict=False):
        clipped = min(max(value, line.low), line.high)
        y += line.slope * clipped
        for k, bump in enumerate(line.bumps):
            y += bump * math.exp(-(((clipped - line.first) / WIDTH - k) ** 2))
    return y


def fit_curve(
    x: Array, y: Array, weights: Array, programs: Sequence[str], families: Sequence[str], prior: CurvePrior
) -> AdditiveCurve:
    """The curve with the highest posterior density; x is rows × features. Without rows it is zero everywhere."""
    if not len(y):
        flat = FeatureCurve(low=0.0, high=0.0, slope=0.0, first=0.0, bumps=())
        return AdditiveCurve(constant=0.0, lines=(flat,) * x.shape[1])
    lows, highs = x.min(axis=0), x.max(axis=0)
    centres = [np.arange(np.floor(a / WIDTH), np.ceil(b / WIDTH) + 1) * WIDTH for a, b in zip(lows, highs, strict=True)]
    columns, deviations = [np.ones((len(y), 1))], [np.array([prior.constant])]
    for f, z in enumerate(centres):
        columns += [x[:, f : f + 1], np.exp(-(((x[:, f : f + 1] - z) / WIDTH) ** 2))]
        # bumps one width apart overlap: their squares add up to √(π/2) at every point
        deviations += [np.array([prior.slope]), np.full(len(z), prior.bend / (np.pi / 2) ** 0.25)]
    # what rows of a family or a program have in common is fitted along with the curve, and then dropped
    for names, deviation in ((families, prior.family), (programs, prior.program)):
        distinct = sorted(set(names))
        columns.append(np.array([[name == other for other in distinct] for name in names], dtype=np.float64))
        deviations.append(np.full(len(distinct), deviation))
    phi, precision = np.hstack(columns), np.concatenate(deviations) ** -2
    weighted = phi * (weights / prior.row**2)[:, None]
    w = np.asarray(np.linalg.solve(phi.T @ weighted + np.diag(precision), weighted.T @ y), dtype=np.float64)
    return _rounded_curve(w, lows, highs, centres)


def _rounded_curve(w: Array, lows: Array, highs: Array, centres: list[Array]) -> AdditiveCurve:
    """Five decimals are far more precise than the data, and keep the file small."""
    lines, at = [], 1
    for low, high, z in zip(lows, highs, centres, strict=True):
        bumps = tuple(round(float(v), 5) for v in w[at + 1 : at + 1 + len(z)])
        slope = round(float(w[at]), 5)
        low_, high_ = round(float(low), 5), round(float(high), 5)
        lines.append(FeatureCurve(low=low_, high=high_, slope=slope, first=float(z[0]), bumps=bumps))
        at += 1 + len(z)
    return AdditiveCurve(constant=round(float(w[0]), 5), lines=tuple(lines))
