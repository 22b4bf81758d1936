"""The predicted time of one iteration, and the times of a whole training that follow from it."""

import math
from dataclasses import dataclass

from trainfare.estimator.step.measured import StepTimes
from trainfare.model.estimate import Basis, Bottleneck
from trainfare.model.evidence import Evidence
from trainfare.model.interval import Interval
from trainfare.model.prediction import IterationPart
from trainfare.model.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedIteration:
    """One steady iteration on one GPU, on several GPUs, or on a machine without GPUs."""

    seconds: Interval
    basis: Basis
    profile: Profile
    """The profile that the prediction starts from; the first one where several were measured on the machine."""
    runs: int = 1
    """The number of profiles measured on the machine."""
    limited_by: Bottleneck | None = None
    parts: tuple[IterationPart, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimePrediction:
    """The predicted times of one machine, before they are multiplied by epochs and a price."""

    iteration: PredictedIteration
    times: StepTimes

    @property
    def profile(self) -> Profile:
        return self.iteration.profile

    @property
    def basis(self) -> Basis:
        return self.iteration.basis


def combine_errors(value: float, one: Interval, other: Interval) -> Interval:
    """`value` with the relative errors of two independent intervals.

        low  = value · exp(−√(d₁² + d₂²)),   dᵢ = log(valueᵢ/lowᵢ)
        high = value · exp(+√(u₁² + u₂²)),   uᵢ = log(highᵢ/valueᵢ)

    Independent factors of error multiply, so their logarithms add up as squares.
    """
    down = math.hypot(log_ratio(one.value, one.low), log_ratio(other.value, other.low))
    up = math.hypot(log_ratio(one.high, one.value), log_ratio(other.high, other.value))
    return Interval(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def log_ratio(larger: float, smaller: float) -> float:
    """log(larger/smaller), and 0 where that is not a positive number."""
    return math.log(larger / smaller) if larger > smaller > 0 else 0.0
