"""Prediction intervals for a new program or a new GPU: split-conformal on log errors, by group.

The errors of one group (one family of programs, one GPU) are correlated, so a new group is one new draw, however many
rows the known groups have. With K groups each weighs 1/(K+1), shared by its rows, and the last 1/(K+1) belongs to the
unseen group, whose errors are unbounded. The factor is the smallest q with

    Σ_g 1/(K+1) · share of rows of g with |log error| ≤ log q   ≥   confidence

(pooled distribution functions: Dunn, Wasserman and Ramdas 2022). Fewer groups than 1/(1 − confidence) − 1 cannot
guarantee that at any width; then the factor is that of the worst group alone.

The guarantee is conservative: with K groups it requires (K+1)/K of the confidence. `typical_factor` reserves nothing
for the unseen group, as if it were like the known ones:

    Σ_g 1/K · share of rows of g with |log error| ≤ log q   ≥   confidence

It is narrower, and right on average over many groups. Below `MIN_GROUPS` groups the worst group decides.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

MIN_GROUPS = 4


def conformal_factor(log_errors: Sequence[float], groups: Sequence[Hashable], *, confidence: float = 0.9) -> float:
    """The factor such that the truth lies within value ÷ factor and value × factor, for a row of a new group."""
    if not log_errors or len(log_errors) != len(groups):
        raise ValueError(f"{len(log_errors)} errors of {len(groups)} groups: each error needs its group")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    by_group: dict[Hashable, list[float]] = defaultdict(list)
    for error, group in zip(log_errors, groups, strict=True):
        by_group[group].append(abs(error))
    count = len(by_group)
    if count / (count + 1) < confidence:
        return math.exp(max(_quantile([(e, 1 / len(own)) for e in own], confidence) for own in by_group.values()))
    weighted = [(e, 1 / ((count + 1) * len(own))) for own in by_group.values() for e in own]
    return math.exp(_quantile(weighted, confidence))


def typical_factor(log_errors: Sequence[float], groups: Sequence[Hashable], *, confidence: float = 0.9) -> float:
    """The factor such that the truth lies within value ÷ factor and value × factor, for a row of a similar group."""
    count = len(set(groups))
    share = confidence * count / (count + 1) if count >= MIN_GROUPS else confidence
    return conformal_factor(log_errors, groups, confidence=share)


def _quantile(weighted: list[tuple[float, float]], share: float) -> float:
    """The smallest value at which the weights, in order of the values, add up to `share`."""
    reached = 0.0
    for value, weight in sorted(weighted):
        reached += weight
        if reached >= share - 1e-12:
            return value
    return max(value for value, _ in weighted)
