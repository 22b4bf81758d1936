"""The times to boot, to set up and to collect of a further run, from those of the user's earlier runs.

    log t = μ + m + p + e        μ of the provider, m of the machine, p of the program on it, e of the run
    m ~ N(0, τₘ²),  p ~ N(0, τₚ²),  e ~ N(0, σ²)

The assumption for the provider, d within a factor f with 90% confidence, is about some run on some machine. So it is
a belief about μ with what remains of its variance, at least a quarter:

    μ ~ N(log d, τ²),   τ² = (log f / 1.645)² − τₘ² − τₚ² − σ₀²

An assumption of no time, as for the user's own machines, says nothing about μ. The belief about μ, then that about the
machine, then that about the program on it, is combined with what other machines and other programs took, each group by
the weight 1/(τ² + σ²/n) of its mean of n runs, and at last with the n runs of this program on this machine:

    t = exp(M ± √(1.645²·V + t(0.95, ν)²·σ²)),   ν = ν₀ + Σ(n − 1),   σ² = (ν₀·σ₀² + ΣΣ(log tᵢ − mean)²) / ν

M and V are the mean and the variance that result. So a single run moves an assumption within a factor of 3 most of the
way, and the interval narrows with every run towards the variation from run to run, which is itself learned from groups
of several runs. σ² is moderated as in Smyth (2004).

Limits: σ₀, τₘ, τₚ and ν₀ are assumptions. The size of what is sent and collected is not in the model: where it is
known, `transfer_rates.py` converts the times before.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean

from trainfare.model.bill import MeasuredTime
from trainfare.model.interval import Interval

RUN_DEVIATION = 0.25
"""σ₀: a run within a factor of 1.5 of the next."""
RUN_DEGREES = 3.0
"""ν₀: σ₀ counts like so many further runs."""
MACHINE_DEVIATION = math.log(2.0) / 1.645
"""τₘ: machines of one provider are within a factor of 2 of one another."""
PROGRAM_DEVIATION = math.log(3.0) / 1.645
"""τₚ: the setups of two programs, and their results, are within a factor of 3."""
SHORTEST_SECONDS = 1e-3
"""Shorter times are counted as this: below it the clock of the machine at home decides."""

_Z = NormalDist().inv_cdf(0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Files that were sent to a machine, or fetched from it, in one run."""

    machine: str
    """The key of its VmType."""
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTime:
    """One time of one run."""

    machine: str
    """The key of its VmType."""
    program: str
    seconds: float
    transfer: Transfer | None = None
    """The files that were sent or fetched in it, if that is known."""


@dataclass(frozen=True, slots=True)
class _Belief:
    """A mean and its variance; an infinite variance says nothing."""

    mean: float = 0.0
    variance: float = math.inf

    def and_seen(self, mean: float, variance: float) -> "_Belief":
        """The belief after something that was seen with this variance."""
        if math.isinf(self.variance):
            return _Belief(mean, variance)
        weights = 1 / self.variance, 1 / variance
        return _Belief((weights[0] * self.mean + weights[1] * mean) / sum(weights), 1 / sum(weights))

    def of_a_member(self, deviation: float) -> "_Belief":
        """The belief about one member of a group whose members differ by so much."""
        return _Belief(self.mean, self.variance + deviation**2)


def predict_boot(times: Sequence[StartTime], machine: str, *, assumed: Interval) -> MeasuredTime | None:
    """The time until a machine is ready. It does not depend on the program, whose deviation is left out."""
    return _predict([replace(time, program="") for time in times], machine, "", assumed)


def predict_for_program(
    times: Sequence[StartTime], machine: str, program: str, *, assumed: Interval
) -> MeasuredTime | None:
    """The time of a setup, or of collecting results. None if no run was on a machine of the provider."""
    return _predict(times, machine, program, assumed)


def _predict(times: Sequence[StartTime], machine: str, program: str, assumed: Interval) -> MeasuredTime | None:
    provider = machine.partition("/")[0]
    near = [time for time in times if time.machine.partition("/")[0] == provider]
    if not near:
        return None
    groups: dict[tuple[str, str], list[float]] = {}
    for time in near:
        groups.setdefault((time.machine, time.program), []).append(math.log(max(SHORTEST_SECONDS, time.seconds)))
    v, s2 = _run_variance(groups.values())
    belief = _assumption(assumed, MACHINE_DEVIATION**2 + (PROGRAM_DEVIATION**2 if program else 0.0) + RUN_DEVIATION**2)
    for other in sorted({where for where, _ in groups} - {machine}):
        logs = [log for (where, _), logs in groups.items() if where == other for log in logs]
        belief = belief.and_seen(fmean(logs), MACHINE_DEVIATION**2 + s2 / len(logs))
    belief = belief.of_a_member(MACHINE_DEVIATION)
    for (where, what), logs in sorted(groups.items()):
        if where == machine and what != program:
            belief = belief.and_seen(fmean(logs), PROGRAM_DEVIATION**2 + s2 / len(logs))
    if program:
        belief = belief.of_a_member(PROGRAM_DEVIATION)
    if own := groups.get((machine, program)):
        belief = belief.and_seen(fmean(own), s2 / len(own))
    half = math.sqrt(_Z**2 * belief.variance + _student_quantile(v) ** 2 * s2)
    value, factor = math.exp(belief.mean), math.exp(half)
    here = sum(time.machine == machine for time in near)
    return MeasuredTime(seconds=Interval.within_factor(value, factor), runs=here, others=len(near) - here)


def _assumption(assumed: Interval, below: float) -> _Belief:
    """The belief about a provider, if its machines, programs and runs have the variance `below` together."""
    if not assumed.value:
        return _Belief()
    variance = (math.log(assumed.high / assumed.value) / _Z) ** 2
    return _Belief(math.log(assumed.value), max(variance - below, variance / 4) or math.inf)


def _run_variance(groups: Iterable[Sequence[float]]) -> tuple[float, float]:
    """ν and σ² of the formula."""
    degrees, squares = RUN_DEGREES, RUN_DEGREES * RUN_DEVIATION**2
    for logs in groups:
        mean = fmean(logs)
        degrees += len(logs) - 1
        squares += sum((log - mean) ** 2 for log in logs)
    return degrees, squares / degrees


def _student_quantile(v: float) -> float:
    """The 95% quantile of Student's t, by the expansion of Abramowitz and Stegun (1964, 26.7.5): within 0.3% from three
    degrees of freedom on, and without SciPy, whose import takes longer than the whole estimate."""
    z = _Z
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )
