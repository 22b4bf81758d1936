"""When things change next: a job arrives, or the first job of the decision ends.

    τ = min(Exp(λ_a), F)

F is the first end of the decision itself. τ is stood for by five quantiles of the exponential truncated at F, of
weight (1 - e^(-λ_a F))/5 each, and an atom at F of weight e^(-λ_a F). Without the atom nothing is seen to end, and jobs
are late.
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
    """The moments at which things may change, in seconds from now, and how likely each is."""

    seconds: "NDArray[np.float64]"
    weights: "NDArray[np.float64]"

    @property
    def mean_seconds(self) -> float:
        return float(self.seconds @ self.weights)


def next_event(arrivals_per_second: float, first_end_seconds: float) -> NextEvent:
    """`first_end_seconds` is finite: something always runs."""
    if not 0 <= first_end_seconds < math.inf:
        raise ValueError(f"the first end lies ahead, got {first_end_seconds}")
    before = -math.expm1(-arrivals_per_second * first_end_seconds)
    if before <= 0:
        return NextEvent(seconds=np.array([first_end_seconds]), weights=np.ones(1))
    parts = (np.arange(QUANTILES) + 0.5) / QUANTILES
    arrives = -np.log1p(-parts * before) / arrivals_per_second
    return NextEvent(
        seconds=np.append(arrives, first_end_seconds),
        weights=np.append(np.full(QUANTILES, before / QUANTILES), 1 - before),
    )
