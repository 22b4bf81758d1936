"""Corrections of the step model for each GPU and each program, learned from the user's own measurements.

    log(observed / predicted) = c_gpu + c_program + ε
    c_gpu ~ N(0, 0.25²),  c_program ~ N(0, 0.15²),  ε ~ N(0, 0.08²)

A correction is the posterior mean of c (ridge regression), so one run moves it part of the way and many agreeing runs
all of it; a GPU or a program without runs keeps the factor 1. Several profiles of one program on one GPU count as one
run, their median, so that repeating a mistake gives it no more weight.

Implausible runs are rejected with the reason and change nothing. The corrections are used only if they reduce the
error on programs that were held out.

The deviations have the size of the errors of the shipped coefficients on held-out GPUs and families (docs/accuracy.md);
they are not fitted.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from trainfare.model.checks import require_positive, require_text
from trainfare.units import format_ratio

GPU_DEVIATION, PROGRAM_DEVIATION, NOISE = 0.25, 0.15, 0.08

IMPLAUSIBLE_FACTOR = 5.0
"""No prediction was ever this far off: a run that differs more was measured on something else."""
OUTLIER_DEVIATIONS, OUTLIER_LOG_RATIO, OUTLIER_RUNS = 4.0, 0.4, 5
"""Among at least five runs on one GPU, one that is four deviations and a factor of 1.5 off the median is an outlier."""
MIN_PROGRAMS = 2
"""With one program there is nothing to hold out, so nothing shows that the corrections help others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """One profile on a GPU: the predicted and the measured time of an iteration."""

    profile_id: str
    program: str
    gpu: str
    predicted_seconds: float
    observed_seconds: float

    def __post_init__(self) -> None:
        require_text(profile_id=self.profile_id, program=self.program, gpu=self.gpu)
        require_positive(predicted_seconds=self.predicted_seconds, observed_seconds=self.observed_seconds)

    @property
    def ratio(self) -> float:
        return self.observed_seconds / self.predicted_seconds

    @property
    def log_ratio(self) -> float:
        return math.log(self.ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRun:
    """A run that is not used, and the reason."""

    run: ObservedRun
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Logarithms of the correction factors, by GPU and by program."""

    gpus: Mapping[str, float] = field(default_factory=dict)
    programs: Mapping[str, float] = field(default_factory=dict)
    remaining_deviation: Mapping[str, float] = field(default_factory=dict)
    """By GPU: the posterior deviation of c over its prior deviation, from 1 without runs towards 0."""

    def factor(self, gpu: str, program: str | None = None) -> float:
        return math.exp(self.gpus.get(gpu, 0.0) + self.programs.get(program or "", 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCorrections:
    """The corrections, the rejected runs, and the error without and with the corrections."""

    corrections: Corrections
    rows: int
    """The number of runs used, one per program and GPU."""
    rejected: tuple[RejectedRun, ...]
    error_before: float | None = None
    """Mean absolute error on held-out programs, in percent; None with too few programs to hold out."""
    error_after: float | None = None

    @property
    def helps(self) -> bool:
        before, after = self.error_before, self.error_after
        return before is not None and after is not None and after < before


def learn_corrections(runs: Sequence[ObservedRun]) -> LearnedCorrections:
    """The corrections from the plausible runs, with their error on held-out programs."""
    plausible, rejected = reject_implausible_runs(runs)
    rows = _median_per_program_and_gpu(plausible)
    corrections = fit_corrections(rows)
    programs = sorted({row.program for row in rows})
    if len(programs) < MIN_PROGRAMS:
        return LearnedCorrections(corrections=corrections, rows=len(rows), rejected=rejected)
    before, after = [], []
    for program in programs:
        without = fit_corrections([row for row in rows if row.program != program])
        for row in rows:
            if row.program == program:
                before.append(abs(1 / math.exp(row.log_ratio) - 1))
                after.append(abs(without.factor(row.gpu) / math.exp(row.log_ratio) - 1))
    return LearnedCorrections(
        corrections=corrections,
        rows=len(rows),
        rejected=rejected,
        error_before=100 * fmean(before),
        error_after=100 * fmean(after),
    )


def reject_implausible_runs(
    runs: Sequence[ObservedRun],
) -> tuple[tuple[ObservedRun, ...], tuple[RejectedRun, ...]]:
    """The plausible runs, and the others with the reason."""
    by_gpu: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if abs(run.log_ratio) <= math.log(IMPLAUSIBLE_FACTOR):
            by_gpu[run.gpu].append(run.log_ratio)
    plausible, rejected = [], []
    for run in runs:
        reason = _rejection_reason(run, by_gpu[run.gpu])
        if reason is None:
            plausible.append(run)
        else:
            rejected.append(RejectedRun(run=run, reason=reason))
    return tuple(plausible), tuple(rejected)


def _rejection_reason(run: ObservedRun, log_ratios: Sequence[float]) -> str | None:
    """The reason to exclude a run, or None if it is plausible; `log_ratios` are those of all plausible runs on its
    GPU."""
    if abs(run.log_ratio) > math.log(IMPLAUSIBLE_FACTOR):
        return (
            f"An iteration took {format_ratio(run.ratio)} the predicted time, and predictions are never off by more "
            f"than {format_ratio(IMPLAUSIBLE_FACTOR)}. Check that it was measured on {run.gpu}."
        )
    if len(log_ratios) >= OUTLIER_RUNS:
        middle = median(log_ratios)
        deviation = 1.4826 * median(abs(other - middle) for other in log_ratios)
        if abs(run.log_ratio - middle) > max(OUTLIER_DEVIATIONS * deviation, OUTLIER_LOG_RATIO):
            return (
                f"It took {format_ratio(run.ratio)} the predicted time, and the other profiles on {run.gpu} took "
                f"{format_ratio(math.exp(middle))}."
            )
    return None


def fit_corrections(rows: Sequence[ObservedRun]) -> Corrections:
    """The posterior means of c, from all rows."""
    if not rows:
        return Corrections()
    import numpy as np

    gpus = sorted({row.gpu for row in rows})
    programs = sorted({row.program for row in rows})
    names = [*gpus, *programs]
    design = np.zeros((len(rows), len(names)))
    for i, row in enumerate(rows):
        design[i, gpus.index(row.gpu)] = 1
        design[i, len(gpus) + programs.index(row.program)] = 1
    prior = np.array([GPU_DEVIATION] * len(gpus) + [PROGRAM_DEVIATION] * len(programs)) ** -2
    precision = design.T @ design / NOISE**2 + np.diag(prior)
    covariance = np.linalg.inv(precision)
    mean = covariance @ design.T @ np.array([row.log_ratio for row in rows]) / NOISE**2
    deviation = np.sqrt(np.diag(covariance))
    return Corrections(
        gpus={gpu: float(mean[i]) for i, gpu in enumerate(gpus)},
        programs={program: float(mean[len(gpus) + i]) for i, program in enumerate(programs)},
        remaining_deviation={gpu: float(deviation[i] / GPU_DEVIATION) for i, gpu in enumerate(gpus)},
    )


def _median_per_program_and_gpu(runs: Sequence[ObservedRun]) -> list[ObservedRun]:
    groups: dict[tuple[str, str], list[ObservedRun]] = defaultdict(list)
    for run in runs:
        groups[run.program, run.gpu].append(run)
    return [sorted(own, key=lambda run: run.log_ratio)[(len(own) - 1) // 2] for own in groups.values()]
