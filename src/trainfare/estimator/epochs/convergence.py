"""The number of epochs by the beginning of a curve, which has a wide interval: high/low is about 4.

Three forms, with k the epoch from 1 on and L a loss, or bound − metric where higher is better:

    Optimus    L = 1/(β0·k + β1) + β2, all β ≥ 0        (Peng 2018, as Sanghvi used it: non-negative least squares)
    pow3       L = c + a·k^(−α)
    vapour     metric = exp(a + b/k + c·ln k)

Each form predicts the epoch in which it settles within 2% of the improvement that it predicts over the complete run.
The ensemble is their geometric mean with `TYPICAL_SHARE` of the declared run, which alone errs less than any form.
No form predicts the effect of a later change of the learning rate: `learning_rates.py` goes first.

A curve from which nothing follows gets a refusal with the reason: too few points, not a number, no improvement, or
getting worse. Multiplying all values by a number changes no epoch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import Literal

from trainfare.estimator.epochs.learning_rates import TYPICAL_SHARE
from trainfare.estimator.epochs.stabilisation import SETTLED_WITHIN, median_window, running_median, settled_epoch
from trainfare.model.epochs import EpochsAnswer
from trainfare.units import format_percent

Form = Literal["optimus", "pow3", "vapour"]
FORMS: tuple[Form, ...] = ("optimus", "pow3", "vapour")

SCHEDULE_WARNING = "a curve does not predict the effect of a later change of the learning rate"

MIN_POINTS = 4
"""Points that a fit needs: each form has three coefficients."""

CURVE_WEIGHT = 0.3
"""Weight of the forms, in the logarithm; the schedule, or `TYPICAL_SHARE`, has the rest."""

CURVE_FACTOR = 2.0
"""90% of held-out programs lie within this factor; see `docs/epochs.md`."""

SETTLED_FACTOR = 1.5
"""The same around the epoch in which a curve has settled."""

IMPROVING_SHARE, CLEAR_GAIN, NEGLIGIBLE_GAIN = 0.75, 0.05, 0.0025
"""Share of the last epochs that improve a metric that still improves, and their least gain: of what is left, and of the
total gain. None of 76 complete curves of `benchmarks/epochs` still improves by this rule at its end."""

STILL_IMPROVES = "the metric still improved in the last of the {epochs} epochs seen, so more than these are needed"

MAX_INVERSE = 1e12
"""Largest 1/(L − β2), with L divided by its largest value: above it, least squares lose all precision."""

MAX_EXTRAPOLATION = 4.0
"""Largest multiple of the epochs seen to which a form is extrapolated where the length of the run is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFit:
    """One form fitted to the values that were seen, evaluated over the complete run."""

    form: Form
    coefficients: tuple[float, ...]
    values: tuple[float, ...]
    """The metric in epochs 1, 2, … of the run."""
    epoch: int
    """The epoch in which it settles."""


def epochs_by_curve(
    values: Sequence[float], *, higher: bool, run_epochs: int | None = None, typical_share: float = TYPICAL_SHARE
) -> EpochsAnswer:
    """The epoch in which the training settles, from the metric of its first epochs.

    `run_epochs` is the declared number of epochs.
    """
    settled = epochs_if_settled(values, higher=higher, run_epochs=run_epochs)
    if settled is not None:
        return settled
    reason = unusable_reason(values, higher=higher)
    if reason:
        return EpochsAnswer(rule="curve", why=reason)
    fits = _fits(values, higher, run_epochs)
    if run_epochs is None:
        unknown = _of_unknown_length(fits, len(values))
        return beyond_seen(unknown, values, higher=higher, run_epochs=None)
    guess = blend_with_forms(max(typical_share * run_epochs, 1.0), [fit.epoch for fit in fits], run_epochs=run_epochs)
    answer = EpochsAnswer(
        rule="curve",
        value=guess,
        low=max(1.0, guess / CURVE_FACTOR),
        high=max(guess, min(float(run_epochs), guess * CURVE_FACTOR)),
        why=f"the first {len(values)} epochs show little: most programs settle after {format_percent(typical_share)} "
        f"of their epochs, here {run_epochs}, and the forms of the curve predict {_spread(fits)}",
        warnings=(SCHEDULE_WARNING,),
    )
    return beyond_seen(answer, values, higher=higher, run_epochs=run_epochs)


def epochs_to_reach(
    values: Sequence[float],
    target: float,
    *,
    higher: bool,
    run_epochs: int | None = None,
    drops: Sequence[int] = (),
) -> EpochsAnswer:
    """The first epoch in which the metric reaches the target: as it was seen, else as the forms predict.

    Forms are near up to `MAX_EXTRAPOLATION` times the epochs that were seen. Where no near form reaches the target, the
    trend of the last half decides, the metric as a line in ln k, and then the forms up to the end of the run. The range
    is that of the forms, a factor of `CURVE_FACTOR` wider, and a later drop of the learning rate (`drops`) may end it
    earlier. Where nothing reaches the target, the answer is a refusal: a curve does not show that it never will.
    """
    count = len(values)
    seen = next((k for k, value in enumerate(values, start=1) if _reaches(value, target, higher)), None)
    if seen is not None:
        why = f"epoch {seen} was the first to reach {target:g}"
        return EpochsAnswer(rule="target", value=seen, low=seen, high=seen, why=why)
    reason = unusable_reason(values, higher=higher)
    if reason:
        return EpochsAnswer(rule="target", why=reason)
    last = math.ceil(max(MAX_EXTRAPOLATION * count, run_epochs or 0))
    later = [drop for drop in drops if drop >= count]
    found = _predicted_passage(values, target, higher, last)
    if found is None:
        return EpochsAnswer(rule="target", why=_not_shown(count, last, target, later))
    value = math.exp(math.fsum(map(math.log, found.epochs)) / len(found.epochs))
    low = max(count + 1.0, min(found.epochs) / CURVE_FACTOR)
    return EpochsAnswer(
        rule="target",
        value=value,
        low=min([value, low, *(drop + 1.0 for drop in later[:1])]),
        high=max(found.latest, value),
        why=f"{found.how} {target:g} in epoch " + " and ".join(str(round(k)) for k in sorted(set(found.epochs))),
        warnings=(SCHEDULE_WARNING,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passage:
    """Epochs in which a target is expected to be reached, the latest that is plausible, and by what they are expected:
    the beginning of a sentence."""

    epochs: Sequence[float]
    latest: float
    how: str


def _predicted_passage(values: Sequence[float], target: float, higher: bool, last: int) -> _Passage | None:
    """By the forms that reach the target near the epochs seen, else the trend of the last half, else forms far ahead.

    A form that reaches it later, or not up to the `last` epoch, does not move the value but the high end.
    """
    count, fits = len(values), _fits(values, higher, last)
    firsts = [next((k for k, v in enumerate(f.values, start=1) if _reaches(v, target, higher)), None) for f in fits]
    every = [float(max(k, count + 1)) for k in firsts if k is not None]
    near = [k for k in every if k <= MAX_EXTRAPOLATION * count]
    trend = None if near else _trend_epoch(values, target, higher)
    if trend is not None and trend <= MAX_EXTRAPOLATION * count:
        epochs, how = [max(trend, count + 1.0)], "the last half of the curve, continued at its pace, reaches"
    elif every:
        epochs, how = near or every, f"{len(near or every)} of {len(fits)} forms of the curve reach"
    else:
        return None
    beyond = 0.0 if len(every) == len(fits) else float(last)
    return _Passage(epochs=epochs, latest=max(CURVE_FACTOR * max([*epochs, *every]), beyond), how=how)


def _not_shown(count: int, last: int, target: float, drops: Sequence[int]) -> str:
    drop = f"; the drop of the learning rate after epoch {drops[0]} may bring it" if drops else ""
    return (
        f"the {count} epochs seen do not show when it reaches {target:g}: at their pace not within {last} epochs, and "
        f"beyond that a curve tells nothing{drop}. Profile more epochs"
    )


def _reaches(value: float, target: float, higher: bool) -> bool:
    return value >= target if higher else value <= target


def _trend_epoch(values: Sequence[float], target: float, higher: bool) -> float | None:
    """The epoch in which the trend of the last half, a line in ln k, reaches the target; None if it gets worse."""
    half = max(MIN_POINTS, math.ceil(len(values) / 2))
    logs = [math.log(k) for k in range(len(values) - half + 1, len(values) + 1)]
    upward = [value if higher else -value for value in values[-half:]]
    middle, level = fmean(logs), fmean(upward)
    slope = math.fsum((x - middle) * (y - level) for x, y in zip(logs, upward, strict=True)) / math.fsum(
        (x - middle) ** 2 for x in logs
    )
    if not slope > 0:
        return None
    return math.exp(min(middle + ((target if higher else -target) - level) / slope, 100.0))


def form_epochs(values: Sequence[float], *, higher: bool, run_epochs: int) -> tuple[int, ...]:
    """The settled epoch of each form that fits the values; empty where the values are unusable."""
    return (
        () if unusable_reason(values, higher=higher) else tuple(fit.epoch for fit in _fits(values, higher, run_epochs))
    )


def blend_with_forms(guess: float, forms: Sequence[int], *, run_epochs: int) -> float:
    """Another estimate, moved towards the geometric mean of the forms by `CURVE_WEIGHT`; unchanged without forms."""
    if forms:
        log_mean = math.fsum(map(math.log, forms)) / len(forms)
        guess = math.exp(CURVE_WEIGHT * log_mean + (1 - CURVE_WEIGHT) * math.log(guess))
    return min(max(guess, 1.0), float(run_epochs))


def _fits(values: Sequence[float], higher: bool, run_epochs: int | None) -> list[CurveFit]:
    return [
        fit
        for fit in (fit_form(form, values, higher=higher, run_epochs=run_epochs) for form in FORMS)
        if fit is not None
    ]


def epochs_if_settled(values: Sequence[float], *, higher: bool, run_epochs: int | None = None) -> EpochsAnswer | None:
    """The epoch in which the curve settled: its last third brought less than 2% of the improvement.

    It includes curves past their best. The last third is at least six epochs and an eighth of the run; with a twelfth,
    public curves would count as settled that are not. None while the curve still improves. A later drop of the learning
    rate may improve it again, so a schedule of steps goes before this rule.
    """
    count = len(values)
    late = max(6, math.ceil(count / 3), math.ceil((run_epochs or 0) / 8))
    if count < late + MIN_POINTS or _no_curve(values) or _no_gain(values, higher):
        return None
    upward = running_median([value if higher else -value for value in values], median_window(run_epochs or count))
    best, before = max(upward), max(upward[: count - late])
    if best - before > SETTLED_WITHIN * (best - upward[0]) or still_improves(values, higher=higher):
        return None
    epoch = settled_epoch(values, higher=higher, run_epochs=run_epochs)
    return EpochsAnswer(
        rule="settled",
        value=epoch,
        low=max(1.0, epoch / SETTLED_FACTOR),
        high=max(float(epoch), min(float(run_epochs or count), epoch * SETTLED_FACTOR)),
        why=f"the curve has settled: epoch {epoch} is within 2% of the total gain, "
        f"and the last {late} epochs brought no more",
    )


def still_improves(values: Sequence[float], *, higher: bool) -> bool:
    """True if the metric clearly improves at the end: in three of four of its last epochs, to its best value, and by
    more than 2% of the total gain, or by 5% of what is left up to its bound if that is more than 0.25% of the gain.

    The last epochs are a quarter of those seen, at least four. A loss that fell from 2.3 to 0.09 and then to 0.05 has
    its last 2% of the gain before it, and nearly halves all the same.
    """
    late = max(4, math.ceil(len(values) / 4))
    if len(values) < late + 2 or not all(map(math.isfinite, values)):
        return False
    upward = [value if higher else -value for value in values]
    rises = sum(later > earlier for earlier, later in pairwise(upward[-late - 1 :]))
    gain = upward[-1] - upward[-late - 1]
    if rises < IMPROVING_SHARE * late or gain <= 0 or upward[-1] < max(upward):
        return False
    before = values[-late - 1]
    left = _bound(values) - before if higher else before if min(values) >= 0 else math.inf
    total = upward[-1] - upward[0]
    return gain > SETTLED_WITHIN * total or gain > max(CLEAR_GAIN * left, NEGLIGIBLE_GAIN * total)


def beyond_seen(answer: EpochsAnswer, values: Sequence[float], *, higher: bool, run_epochs: int | None) -> EpochsAnswer:
    """The answer; while the metric still improves, not below the epochs seen. If it lies within them, more are needed,
    and how many is a guess, up to the end of the run or `MAX_EXTRAPOLATION` times as many."""
    seen = float(len(values))
    if answer.value is None or answer.low is None or not still_improves(values, higher=higher):
        return answer
    if answer.value > seen:
        return replace(answer, low=max(answer.low, seen))
    if run_epochs is not None and run_epochs <= seen:
        return EpochsAnswer(rule=answer.rule, why=STILL_IMPROVES.format(epochs=len(values)))
    high = float(run_epochs or MAX_EXTRAPOLATION * seen)
    return replace(
        answer,
        value=math.sqrt(seen * high),
        low=seen,
        high=high,
        why=STILL_IMPROVES.format(epochs=len(values)),
        is_guess=True,
    )


def lost_share(values: Sequence[float], *, higher: bool, run_epochs: int | None = None) -> float:
    """The share of the gain up to the best epoch that was lost again since, on the running median."""
    upward = running_median([value if higher else -value for value in values], median_window(run_epochs or len(values)))
    gained = max(upward) - upward[0]
    return (max(upward) - upward[-1]) / gained if gained > 0 else 0.0


def unusable_reason(values: Sequence[float], *, higher: bool) -> str | None:
    """The reason why no form can be fitted to these values; None where one can."""
    return _no_curve(values) or _no_gain(values, higher) or _no_trend(values, higher)


def _no_curve(values: Sequence[float]) -> str | None:
    bad = next((place for place, value in enumerate(values, start=1) if not math.isfinite(value)), None)
    if bad is not None:
        return f"the value of epoch {bad} is not a number: the training diverged, and no curve can be fitted"
    if len(values) < MIN_POINTS:
        count = {0: "no epoch was seen", 1: "one epoch was seen"}.get(len(values), f"{len(values)} epochs were seen")
        return f"{count}, and a curve needs {MIN_POINTS}"
    if max(values) - min(values) <= 1e-9 * max(abs(value) for value in values):
        return "the metric does not change from epoch to epoch"
    return None


def _no_gain(values: Sequence[float], higher: bool) -> str | None:
    upward = running_median([value if higher else -value for value in values], 3)
    if max(upward) <= upward[0]:
        return "the metric gets worse from the first epoch on: the training diverges or overfits"
    return None


def _no_trend(values: Sequence[float], higher: bool) -> str | None:
    upward = [value if higher else -value for value in values]
    third = max(1, len(upward) // 3)
    trend = median(upward[-third:]) - median(upward[:third])
    if trend < 0:
        return "the metric is getting worse: the training diverges or overfits"
    if trend <= median(abs(later - earlier) for earlier, later in pairwise(upward)) / 2:
        return "the metric goes up and down as much as it improves"
    return None


def fit_form(form: Form, values: Sequence[float], *, higher: bool, run_epochs: int | None = None) -> CurveFit | None:
    """The form fitted to the values; None where it does not fit."""
    import numpy as np

    length = run_epochs if run_epochs is not None else math.ceil(MAX_EXTRAPOLATION * len(values)) * 10
    with np.errstate(over="ignore", invalid="ignore"):  # a curve that overflows is rejected below
        fitted = _FITTERS[form](values, higher, max(length, len(values)))
    if fitted is None:
        return None
    coefficients, curve = fitted
    if not all(math.isfinite(value) for value in curve):
        return None
    upward = [value if higher else -value for value in curve]
    best = max(upward)
    if best <= upward[0]:
        return None
    epoch = next(k for k, value in enumerate(upward, start=1) if best - value <= SETTLED_WITHIN * (best - upward[0]))
    return CurveFit(form=form, coefficients=coefficients, values=tuple(curve), epoch=epoch)


_FittedCurve = tuple[tuple[float, ...], list[float]]
"""Coefficients, and the metric in each epoch of the run."""


def _optimus(values: Sequence[float], higher: bool, length: int) -> _FittedCurve | None:
    """For each β2 on a grid below the smallest L: 1/(L − β2) = β0·k + β1 by non-negative least squares.

    The β2 whose curve lies nearest to L is chosen. L is divided by its largest value, so that its unit has no effect.
    """
    import numpy as np
    from scipy.optimize import nnls

    bound = _bound(values) if higher else 0.0
    sign = -1.0 if higher else 1.0
    losses = np.array([bound + sign * value for value in values])
    unit = float(np.max(np.abs(losses)))
    if unit <= 0 or losses.min() <= 0:
        return None
    losses, k = losses / unit, np.arange(1, len(values) + 1, dtype=float)
    best: tuple[float, tuple[float, ...]] = (math.inf, ())
    for part in np.linspace(0.0, 0.999, 60):
        beta2 = float(part * losses.min())
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            beta, _ = nnls(np.column_stack([k, np.ones_like(k)]), np.minimum(1 / (losses - beta2), MAX_INVERSE))
            error = float(np.sum((1 / (beta[0] * k + beta[1]) + beta2 - losses) ** 2))
        if beta.max() > 0 and error < best[0]:
            best = error, (float(beta[0]), float(beta[1]), beta2)
    if not best[1]:
        return None
    b0, b1, b2 = best[1]
    drawn = (1 / (b0 * np.arange(1, length + 1) + b1) + b2) * unit
    return (b0 / unit, b1 / unit, b2 * unit), [float(sign * (value - bound)) for value in drawn]


def _pow3(values: Sequence[float], higher: bool, length: int) -> _FittedCurve | None:
    """For each α on a grid, c and a by least squares; the curve must improve."""
    import numpy as np

    y, k = np.array(values, dtype=float), np.arange(1, len(values) + 1, dtype=float)
    unit = float(np.max(np.abs(y))) or 1.0
    best: tuple[float, tuple[float, ...]] = (math.inf, ())
    for alpha in np.exp(np.linspace(math.log(0.05), math.log(4.0), 60)):
        columns = np.column_stack([np.ones_like(k), k**-alpha])
        (c, a), *_ = np.linalg.lstsq(columns, y / unit, rcond=None)
        error = float(np.sum((columns @ np.array([c, a]) - y / unit) ** 2))
        if (a < 0) == higher and error < best[0]:
            best = error, (float(c), float(a), float(alpha))
    if not best[1]:
        return None
    c, a, alpha = best[1]
    drawn = (c + a * np.arange(1, length + 1) ** -alpha) * unit
    return (c * unit, a * unit, alpha), [float(value) for value in drawn]


def _vapour(values: Sequence[float], _higher: bool, length: int) -> _FittedCurve | None:
    """Least squares in the logarithm of the metric, which must be positive."""
    import numpy as np

    y = np.array(values, dtype=float)
    if y.min() <= 0:
        return None
    k, every = (np.arange(1, end + 1, dtype=float) for end in (len(values), length))
    columns = np.column_stack([np.ones_like(k), 1 / k, np.log(k)])
    coefficients, *_ = np.linalg.lstsq(columns, np.log(y), rcond=None)
    exponent = np.column_stack([np.ones_like(every), 1 / every, np.log(every)]) @ coefficients
    if np.max(np.abs(exponent)) > 700:
        return None
    return tuple(float(c) for c in coefficients), [float(value) for value in np.exp(exponent)]


_FITTERS = {"optimus": _optimus, "pow3": _pow3, "vapour": _vapour}


def _bound(values: Sequence[float]) -> float:
    """The upper bound of a rising metric: 1 for a share, 100 for a percentage, else as far above as it has risen."""
    low, high = min(values), max(values)
    if low >= 0 and high <= 1:
        return 1.0 + 1e-9
    if low >= 0 and high <= 100:
        return 100.0 + 1e-9
    return high + (high - low)


def _of_unknown_length(fits: Sequence[CurveFit], seen: int) -> EpochsAnswer:
    near = [fit.epoch for fit in fits if fit.epoch <= MAX_EXTRAPOLATION * seen]
    if len(near) < len(FORMS) - 1:
        return EpochsAnswer(
            rule="curve",
            why=f"neither you nor the program states how long it trains, and {seen} epochs do not show an end "
            f"within {MAX_EXTRAPOLATION:g} times as many. State the number of epochs, or profile until it is stable",
        )
    guess = math.exp(math.fsum(math.log(epoch) for epoch in near) / len(near))
    return EpochsAnswer(
        rule="curve",
        value=guess,
        low=max(1.0, guess / CURVE_FACTOR),
        high=guess * CURVE_FACTOR,
        why=f"from the first {seen} epochs alone, the forms of the curve predict {_spread(fits)}",
        warnings=(SCHEDULE_WARNING,),
    )


def _spread(fits: Sequence[CurveFit]) -> str:
    if not fits:
        return "nothing"
    epochs = sorted(fit.epoch for fit in fits)
    return f"{epochs[0]}" if epochs[0] == epochs[-1] else f"{epochs[0]} to {epochs[-1]}"
