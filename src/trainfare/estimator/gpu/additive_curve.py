"""A smooth curve in each of a few features, added up: small enough to be shipped, and bounded outside its data.

    y(x) = c + Σ_f ( b_f · x_f + Σ_k w_fk · exp(−((x_f − z_k) / ℓ)²) )

x_f is held within the range that was measured, so nothing is extrapolated. c, b and w are normal around zero with the
deviations of `Stiffness`, and are estimated by the Gaussian rule. Rows of one program err alike, and so do those of
one family: without that, the family with the most rows would decide.
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
class Stiffness:
    """Standard deviations: of what the curve may do, and of what it does not explain."""

    constant: float = 0.5
    slope: float = 0.3
    bend: float = 0.3
    row: float = 0.03
    """Of a row of weight 1."""
    program: float = 0.05
    family: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One feature's share of the curve."""

    low: float
    high: float
    slope: float
    first: float
    """z of the first bump."""
    bumps: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    constant: float
    lines: tuple[Line, ...]


def curve_value(curve: Curve, x: Sequence[float]) -> float:
    """y at one point; more features than the curve knows is a mistake of the caller."""
    y = curve.constant
    for line, value in zip(curve.lines, x, strict=True):
        held = min(max(value, line.low), line.high)
        y += line.slope * held
        for k, bump in enumerate(line.bumps):
            y += bump * math.exp(-(((held - line.first) / WIDTH - k) ** 2))
    return y


def fit_curve(
    x: Array, y: Array, weights: Array, programs: Sequence[str], families: Sequence[str], stiffness: Stiffness
) -> Curve:
    """x is rows × features. No rows at all give the flat curve at zero."""
    if not len(y):
        flat = Line(low=0.0, high=0.0, slope=0.0, first=0.0, bumps=())
        return Curve(constant=0.0, lines=(flat,) * x.shape[1])
    lows, highs = x.min(axis=0), x.max(axis=0)
    centres = [np.arange(np.floor(a / WIDTH), np.ceil(b / WIDTH) + 1) * WIDTH for a, b in zip(lows, highs, strict=True)]
    columns, deviations = [np.ones((len(y), 1))], [np.array([stiffness.constant])]
    for f, z in enumerate(centres):
        columns += [x[:, f : f + 1], np.exp(-(((x[:, f : f + 1] - z) / WIDTH) ** 2))]
        # bumps one width apart overlap: their squares add up to √(π/2) at every point
        deviations += [np.array([stiffness.slope]), np.full(len(z), stiffness.bend / (np.pi / 2) ** 0.25)]
    # what rows of a family or a program have in common is fitted along with the curve, and then left away
    for names, deviation in ((families, stiffness.family), (programs, stiffness.program)):
        distinct = sorted(set(names))
        columns.append(np.array([[name == other for other in distinct] for name in names], dtype=np.float64))
        deviations.append(np.full(len(distinct), deviation))
    phi, precision = np.hstack(columns), np.concatenate(deviations) ** -2
    weighted = phi * (weights / stiffness.row**2)[:, None]
    w = np.asarray(np.linalg.solve(phi.T @ weighted + np.diag(precision), weighted.T @ y), dtype=np.float64)
    return _curve(w, lows, highs, centres)


def _curve(w: Array, lows: Array, highs: Array, centres: list[Array]) -> Curve:
    """Five digits are far more than is known, and keep the file small."""
    lines, at = [], 1
    for low, high, z in zip(lows, highs, centres, strict=True):
        bumps = tuple(round(float(v), 5) for v in w[at + 1 : at + 1 + len(z)])
        slope = round(float(w[at]), 5)
        low_, high_ = round(float(low), 5), round(float(high), 5)
        lines.append(Line(low=low_, high=high_, slope=slope, first=float(z[0]), bumps=bumps))
        at += 1 + len(z)
    return Curve(constant=round(float(w[0]), 5), lines=tuple(lines))
