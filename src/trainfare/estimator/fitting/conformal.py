"""Intervals that hold for the next program or the next GPU: split-conformal on log errors, group by group.

Rows of one group (one family of programs, one GPU) err alike, so a new group is one new draw, however many rows the
old ones have. With K groups each weighs 1/(K+1), shared by its rows, and the last 1/(K+1) is the unseen group's, which
may err by anything. The factor is the least q with

    Σ_g 1/(K+1) · share of rows of g with |log error| ≤ log q   ≥   confidence

(pooled distribution functions: Dunn, Wasserman and Ramdas 2022). Fewer groups than 1/(1 − confidence) − 1 cannot
promise that at any width; then the factor is that of the worst group by itself.

That is a promise, and it is kept with room to spare: of K groups it asks for (K+1)/K of the confidence. `usual_factor`
keeps nothing for the unseen group, as if it will be one of those that were seen:

    Σ_g 1/K · share of rows of g with |log error| ≤ log q   ≥   confidence

It is right in the middle of many groups, and narrower. Below `FEWEST` groups there is no middle: the worst decides.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

FEWEST = 4


def conformal_factor(log_errors: Sequence[float], groups: Sequence[Hashable], *, confidence: float = 0.9) -> float:
    """Truth lies within value ÷ factor and value × factor, for a row of a group that is not among these."""
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


def usual_factor(log_errors: Sequence[float], groups: Sequence[Hashable], *, confidence: float = 0.9) -> float:
    """Truth lies within value ÷ factor and value × factor, for a row of a group like these."""
    count = len(set(groups))
    share = confidence * count / (count + 1) if count >= FEWEST else confidence
    return conformal_factor(log_errors, groups, confidence=share)


def _quantile(weighted: list[tuple[float, float]], share: float) -> float:
    reached = 0.0
    for value, weight in sorted(weighted):
        reached += weight
        if reached >= share - 1e-12:
            return value
    return max(value for value, _ in weighted)
