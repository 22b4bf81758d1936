"""Predicted against observed: each line of a run that has ended, and how good all predictions together were.

    error of a line          predicted / observed − 1
    mean absolute error      mean of |error|
    bias                     exp(mean of log(predicted / observed)) − 1
    share inside             lines whose observed time is in their 90% interval

A line is compared if it was predicted and has ended. Of a run that failed or was stopped these are the parts before; of
a run with several attempts only the whole. Iterations are compared where as many were trained as were predicted.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Literal, get_args

from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.run import Run
from trainfare.runner.life import Life
from trainfare.runner.observed import AttemptTimes, TrainingTimes
from trainfare.runner.receipt import Receipt

LineName = Literal[
    "boot",
    "setup",
    "sending",
    "initialisation",
    "first iteration",
    "steady iterations",
    "validation",
    "checkpoints",
    "rest",
    "collecting",
    "in all",
]
"""`sending` is the part of `setup` that no setup command took. `rest` is the time of the program that is none of its
other lines: what it does after its last iteration. Neither is predicted."""

LINES: tuple[LineName, ...] = get_args(LineName)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLine:
    """A line of a run; `predicted_seconds` is None if nothing was predicted for it."""

    line: LineName
    predicted_seconds: Interval | None
    seconds: float
    predicted_usd: Interval | None
    usd: float

    @property
    def error(self) -> float | None:
        """The predicted time relative to the observed one, minus 1; None without a prediction."""
        return _error(self.predicted_seconds, self.seconds)

    @property
    def cost_error(self) -> float | None:
        """The same of the cost; None for a machine without a price."""
        return _error(self.predicted_usd, self.usd)

    @property
    def is_inside(self) -> bool | None:
        return _is_inside(self.predicted_seconds, self.seconds)

    @property
    def is_cost_inside(self) -> bool | None:
        return _is_inside(self.predicted_usd, self.usd) if self.cost_error is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """A run that has ended: what was predicted, and what was observed."""

    run: Run
    ended_at: datetime
    outcome: str
    lines: tuple[ComparedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracySummary:
    """All predictions of one line together."""

    line: LineName
    of: Literal["time", "cost"]
    runs: int
    mean_absolute_error: float
    bias: float
    """Positive if predictions are too high."""
    share_inside: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Predicted against paid over the user's own runs, the newest first."""

    runs: tuple[ComparedRun, ...]
    summaries: tuple[AccuracySummary, ...]


def compare_run(
    run: Run, life: Life, attempts: Sequence[AttemptTimes], receipt: Receipt, *, ended_at: datetime
) -> ComparedRun:
    """The lines of a run that has ended and that have ended themselves."""
    observed = _observed(run, attempts)
    if life.outcome == "succeeded":
        observed["in all"] = receipt.total.seconds
    price = run.candidate.usd_per_hour / 3600
    lines = []
    for line in LINES:
        if line not in observed:
            continue
        predicted = _predicted(run.estimate, line)
        usd = None if predicted is None else predicted * price
        if line == "in all" and run.estimate is not None:
            usd = run.estimate.usd
        paid = receipt.total.paid_usd if line == "in all" else observed[line] * price
        lines.append(
            ComparedLine(line=line, predicted_seconds=predicted, seconds=observed[line], predicted_usd=usd, usd=paid)
        )
    return ComparedRun(run=run, ended_at=ended_at, outcome=life.outcome or "", lines=tuple(lines))


def summarise(runs: Iterable[ComparedRun]) -> Accuracy:
    """All runs and the quality of each line over them."""
    runs = tuple(runs)
    lines = [line for run in runs for line in run.lines]
    summaries = []
    for name in LINES:
        mine = [line for line in lines if line.line == name]
        times = [(line.error, line.is_inside) for line in mine]
        costs = [(line.cost_error, line.is_cost_inside) for line in mine] if name == "in all" else []
        summaries += [
            *_summary(name, "time", [(error, bool(inside)) for error, inside in times if error is not None]),
            *_summary(name, "cost", [(error, bool(inside)) for error, inside in costs if error is not None]),
        ]
    return Accuracy(runs=runs, summaries=tuple(summaries))


def _summary(name: LineName, of: Literal["time", "cost"], found: list[tuple[float, bool]]) -> list[AccuracySummary]:
    if not found:
        return []
    return [
        AccuracySummary(
            line=name,
            of=of,
            runs=len(found),
            mean_absolute_error=fmean(abs(error) for error, _ in found),
            bias=math.exp(fmean(math.log1p(error) for error, _ in found)) - 1,
            share_inside=fmean(inside for _, inside in found),
        )
    ]


def _observed(run: Run, attempts: Sequence[AttemptTimes]) -> dict[LineName, float]:
    """The parts of the only attempt, if it was on the machine that was predicted."""
    if len(attempts) != 1 or attempts[0].machine != run.candidate.offer.vm_type.key:
        return {}
    (attempt,) = attempts
    training = attempt.training
    found: dict[LineName, float | None] = {
        "boot": attempt.boot_seconds,
        "setup": attempt.setup_seconds,
        "sending": attempt.sending_seconds,
        "collecting": attempt.collecting_seconds,
    }
    if training is not None:
        found |= {"initialisation": training.init_seconds, "first iteration": training.first_seconds}
        if attempt.completed and _has_predicted_length(run.estimate, training.iterations):
            found |= {
                "steady iterations": training.steady_seconds if training.iterations > 1 else None,
                "validation": training.validation_seconds if training.validations else None,
                "checkpoints": training.checkpoint_seconds if training.checkpoints else None,
                "rest": _rest(attempt, training),
            }
    return {line: seconds for line, seconds in found.items() if seconds is not None}


def _rest(attempt: AttemptTimes, training: TrainingTimes) -> float | None:
    if attempt.training_seconds is None or training.init_seconds is None:
        return None
    iterations = training.steady_seconds + (training.first_seconds or 0.0)
    known = training.init_seconds + iterations + training.validation_seconds + training.checkpoint_seconds
    return max(0.0, attempt.training_seconds - known)


def _has_predicted_length(estimate: Estimate | None, iterations: int) -> bool:
    """A training of another length than was predicted says nothing about the prediction of its iterations."""
    if estimate is None or estimate.iterations is None:
        return True
    return abs(iterations - estimate.iterations) <= max(1, 0.01 * estimate.iterations)


def _predicted(estimate: Estimate | None, line: LineName) -> Interval | None:
    if estimate is None:
        return None
    if line == "in all":
        return estimate.seconds
    return next((each.seconds for each in estimate.phases if each.name == line), None)


def _error(predicted: Interval | None, observed: float) -> float | None:
    return None if predicted is None or not predicted.value or observed <= 0 else predicted.value / observed - 1


def _is_inside(predicted: Interval | None, observed: float) -> bool | None:
    return None if predicted is None else predicted.low <= observed <= predicted.high
