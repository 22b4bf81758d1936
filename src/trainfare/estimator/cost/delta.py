"""Sanghvi's Δ, the speed-up of a more expensive machine per fold of cost, and time and cost up to a target.

    Δ = speed-up / fold of cost      speed-up = baseline seconds / seconds, fold of cost = usd / baseline usd

both for the same work, an epoch or a complete training. The baseline has Δ = 1. Above 1 the machine is faster by a
larger factor than it is more expensive. Since usd = seconds × price, Δ = (baseline seconds / seconds)² × baseline
price / price.
"""

from dataclasses import dataclass

from trainfare.model.checks import require_not_negative, require_positive
from trainfare.units import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAndCost:
    """The time and cost of some work on a machine."""

    seconds: float
    usd: float

    def __post_init__(self) -> None:
        require_positive(seconds=self.seconds, usd=self.usd)


def time_and_cost(seconds: float, usd_per_hour: float) -> TimeAndCost:
    """The work with cost = time × price, billed by the second."""
    return TimeAndCost(seconds=seconds, usd=seconds * usd_per_hour / SECONDS_PER_HOUR)


def delta(work: TimeAndCost, baseline: TimeAndCost) -> float:
    """Δ: the speed-up per fold of cost."""
    return (baseline.seconds / work.seconds) / (work.usd / baseline.usd)


def to_target(epoch: TimeAndCost, *, epochs: float) -> TimeAndCost:
    """Time and cost of a number of epochs, each of the same length."""
    require_positive(epochs=epochs)
    return TimeAndCost(seconds=epochs * epoch.seconds, usd=epochs * epoch.usd)


def relative_excess(predicted: float, real: float) -> float:
    """The relative error of a prediction; negative where it is below the real value."""
    require_not_negative(predicted=predicted)
    require_positive(real=real)
    return predicted / real - 1
