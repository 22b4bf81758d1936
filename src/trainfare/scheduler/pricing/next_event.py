"""The time of the next event: a job arrives, or the first job of the decision ends.

    τ = min(Exp(λ_a), F)

F is the first end of the decision itself. τ is represented by five quantiles of the exponential truncated at F, each
with weight (1 - e^(-λ_a F))/5, and an atom at F with weight e^(-λ_a F). Without the atom no job appears to end, and
jobs are late.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUANTILES = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NextEvent:
    """The possible moments of the next event, in seconds from now, with their probabilities."""

    seconds: "NDArray[np.float64]"
    weights: "NDArray[np.float64]"

    @property
    def mean_seconds(self) -> float:
        return float(self.seconds @ self.weights)


def next_event(arrivals_per_second: float, first_end_seconds: float) -> NextEvent:
    """The distribution of τ for F = `first_end_seconds`, which must be finite: at least one job runs."""
    if not 0 <= first_end_seconds < math.inf:
        raise ValueError(f"first_end_seconds must be finite and not negative, got {first_end_seconds}")
    before = -math.expm1(-arrivals_per_second * first_end_seconds)
    if before <= 0:
        return NextEvent(seconds=np.array([first_end_seconds]), weights=np.ones(1))
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    arrives = -np.log1p(-quantiles * before) / arrivals_per_second
    return NextEvent(
        seconds=np.append(arrives, first_end_seconds),
        weights=np.append(np.full(QUANTILES, before / QUANTILES), 1 - before),
    )
