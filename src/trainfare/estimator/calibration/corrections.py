"""What the user's own measurements say of the model: a correction for each GPU and each program.

    log(observed / predicted) = c_gpu + c_program + ε
    c_gpu ~ N(0, 0.25²),  c_program ~ N(0, 0.15²),  ε ~ N(0, 0.08²)

A correction is the mean of what is believed after the rows are seen (ridge regression), so one row moves it a part of
the way and many agreeing ones all of it; a GPU or a program without rows keeps 1. Several profiles of one program on
one GPU count as one row, their median: nobody outvotes the others by repeating a mistake.

Rows that cannot be right are set aside with the reason and change nothing. Corrections are taken only where they make
the error smaller on programs that were left out of them.

The deviations are of the size of what the shipped coefficients miss on GPUs and families that were left out of their
fit (docs/accuracy.md); they are not fitted.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from trainfare.model.checks import require_positive, require_text

GPU_DEVIATION, PROGRAM_DEVIATION, NOISE = 0.25, 0.15, 0.08

ABSURD_FACTOR = 5.0
"""No prediction was ever this far off: what differs more was measured of something else."""
ODD_DEVIATIONS, ODD_AT_LEAST, ODD_ROWS = 4.0, 0.4, 5
"""Among at least five rows of one GPU, one that is four deviations and a factor of 1.5 off the middle is odd."""
FEWEST_PROGRAMS = 2
"""With one there is nothing to leave out, so nothing shows that it helps others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """One profile on a GPU: the time of an iteration that the model gives, and the one that was measured."""

    profile_id: str
    program: str
    gpu: str
    predicted_seconds: float
    observed_seconds: float

    def __post_init__(self) -> None:
        require_text(profile_id=self.profile_id, program=self.program, gpu=self.gpu)
        require_positive(predicted_seconds=self.predicted_seconds, observed_seconds=self.observed_seconds)

    @property
    def log_ratio(self) -> float:
        return math.log(self.observed_seconds / self.predicted_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRun:
    """A row that is not believed, and why."""

    seen: ObservedRun
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Logarithms of the factors, by GPU and by program."""

    gpus: Mapping[str, float] = field(default_factory=dict)
    programs: Mapping[str, float] = field(default_factory=dict)
    doubt: Mapping[str, float] = field(default_factory=dict)
    """By GPU: what is left of the deviation of c, from 1, where nothing was seen, towards 0."""

    def factor(self, gpu: str, program: str | None = None) -> float:
        return math.exp(self.gpus.get(gpu, 0.0) + self.programs.get(program or "", 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCorrections:
    """What came of the rows: the corrections, the rows that were set aside, and the error without and with them."""

    corrections: Corrections
    rows: int
    set_aside: tuple[RejectedRun, ...]
    error_before: float | None = None
    """Mean absolute error on programs left out, in percent; None with too few rows to tell."""
    error_after: float | None = None

    @property
    def helps(self) -> bool:
        before, after = self.error_before, self.error_after
        return before is not None and after is not None and after < before


def learn_corrections(rows: Sequence[ObservedRun]) -> LearnedCorrections:
    """Corrections from rows that can be right, with what they are worth on programs left out."""
    believed, set_aside = reject_implausible_runs(rows)
    merged = _one_a_program_and_gpu(believed)
    found = fit_corrections(merged)
    programs = sorted({row.program for row in merged})
    if len(programs) < FEWEST_PROGRAMS:
        return LearnedCorrections(corrections=found, rows=len(merged), set_aside=set_aside)
    before, after = [], []
    for program in programs:
        without = fit_corrections([row for row in merged if row.program != program])
        for row in merged:
            if row.program == program:
                before.append(abs(1 / math.exp(row.log_ratio) - 1))
                after.append(abs(without.factor(row.gpu) / math.exp(row.log_ratio) - 1))
    return LearnedCorrections(
        corrections=found,
        rows=len(merged),
        set_aside=set_aside,
        error_before=100 * fmean(before),
        error_after=100 * fmean(after),
    )


def reject_implausible_runs(rows: Sequence[ObservedRun]) -> tuple[tuple[ObservedRun, ...], tuple[RejectedRun, ...]]:
    """Those that can be right, and the others with the reason."""
    by_gpu: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if abs(row.log_ratio) <= math.log(ABSURD_FACTOR):
            by_gpu[row.gpu].append(row.log_ratio)
    believed, set_aside = [], []
    for row in rows:
        why = _why_not(row, by_gpu[row.gpu])
        if why is None:
            believed.append(row)
        else:
            set_aside.append(RejectedRun(seen=row, why=why))
    return tuple(believed), tuple(set_aside)


def _why_not(row: ObservedRun, alike: Sequence[float]) -> str | None:
    ratio = row.observed_seconds / row.predicted_seconds
    if abs(row.log_ratio) > math.log(ABSURD_FACTOR):
        than = f"{ratio:.2g} ×" if ratio > 1 else f"1/{1 / ratio:.2g} of"
        return (
            f"an iteration took {than} what the model gives, and it was never off by more than {ABSURD_FACTOR:g}: "
            "was it measured on that GPU?"
        )
    if len(alike) >= ODD_ROWS:
        middle = median(alike)
        deviation = 1.4826 * median(abs(other - middle) for other in alike)
        if abs(row.log_ratio - middle) > max(ODD_DEVIATIONS * deviation, ODD_AT_LEAST):
            others = f"{math.exp(middle):.2g} for the other profiles on {row.gpu}"
            return f"observed over predicted is {ratio:.2g}, and {others}"
    return None


def fit_corrections(rows: Sequence[ObservedRun]) -> Corrections:
    """The means of c after the rows; rows are taken as they are."""
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
        doubt={gpu: float(deviation[i] / GPU_DEVIATION) for i, gpu in enumerate(gpus)},
    )


def _one_a_program_and_gpu(rows: Sequence[ObservedRun]) -> list[ObservedRun]:
    alike: dict[tuple[str, str], list[ObservedRun]] = defaultdict(list)
    for row in rows:
        alike[row.program, row.gpu].append(row)
    return [sorted(own, key=lambda row: row.log_ratio)[(len(own) - 1) // 2] for own in alike.values()]
