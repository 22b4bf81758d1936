"""Is a dearer machine worth it? Sanghvi's Δ, and time and cost up to a target.

    Δ = speed-up / fold of cost      speed-up = baseline seconds / seconds, fold of cost = usd / baseline usd

both of the same work, an epoch or a whole training. The baseline has Δ = 1. More than 1: it is faster by more than it
is dearer. Since usd = seconds × price, Δ = (baseline seconds / seconds)² × baseline price / price.
"""

from dataclasses import dataclass

from trainfare.model.checks import require_not_negative, require_positive
from trainfare.units import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """How long some work takes on a machine, and what it costs there."""

    seconds: float
    usd: float

    def __post_init__(self) -> None:
        require_positive(seconds=self.seconds, usd=self.usd)


def spent(seconds: float, usd_per_hour: float) -> Spent:
    """cost = time × price, by the second."""
    return Spent(seconds=seconds, usd=seconds * usd_per_hour / SECONDS_PER_HOUR)


def delta(work: Spent, baseline: Spent) -> float:
    """Δ: the speed-up for each fold of cost."""
    return (baseline.seconds / work.seconds) / (work.usd / baseline.usd)


def spent_to_target(epoch: Spent, *, epochs: float) -> Spent:
    """Time = epochs × time of one, cost = epochs × cost of one: an epoch is taken to last the same throughout."""
    require_positive(epochs=epochs)
    return Spent(seconds=epochs * epoch.seconds, usd=epochs * epoch.usd)


def excess(predicted: float, real: float) -> float:
    """How far a prediction lies above what came, relative to what came; below it is negative."""
    require_not_negative(predicted=predicted)
    require_positive(real=real)
    return predicted / real - 1


def saving(usd: float, instead_of: float) -> float:
    """The part of the dearer bill that is not paid."""
    require_positive(usd=usd, instead_of=instead_of)
    return 1 - usd / instead_of
