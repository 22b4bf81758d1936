"""How many epochs, by the beginning of a curve. It tells little, and says so: hi/lo is about 4.

Three forms, k the epoch from 1 on, L a loss or bound − metric where higher is better:

    Optimus    L = 1/(β0·k + β1) + β2, all β ≥ 0        (Peng 2018, as Sanghvi used it: non-negative least squares)
    pow3       L = c + a·k^(−α)
    vapour     metric = exp(a + b/k + c·ln k)

Each form says when it will have settled within 2 % of the improvement that it foresees over the whole run. The
ensemble is their geometric mean with `TYPICAL_SHARE` of the declared run, which alone errs less than any form.
No form sees what a later change of the learning rate does: `learning_rates.py` goes first.

What cannot be told is refused, with the reason, as an answer: too few points, not a number, no improvement,
getting worse. Multiplying all values by a number changes no epoch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from trainfare.estimator.epochs.learning_rates import TYPICAL_SHARE
from trainfare.estimator.epochs.stabilisation import WITHIN, running_median, settled_epoch, median_window
from trainfare.model.epochs import EpochsAnswer

Form = Literal["optimus", "pow3", "vapour"]
FORMS: tuple[Form, ...] = ("optimus", "pow3", "vapour")

FEWEST = 4
"""Points: each form has three numbers to find."""

CURVE_WEIGHT = 0.3
"""Of the forms, in the logarithm; the rest is the schedule's, or `TYPICAL_SHARE`."""

CURVE_FACTOR = 2.0
"""90 % of held-out programs lie within it; see `docs/epochs.md`."""

REST_FACTOR = 1.5
"""Likewise, around the epoch since which a curve has been at rest."""

LARGEST = 1e12
"""What 1/(L − β2) may be, L divided by its largest value: beyond, least squares have no digits left."""

FARTHEST = 4.0
"""Times what was seen: where nobody says how long the run is, no form is trusted beyond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFit:
    """One form through the values that were seen, drawn over the whole run."""

    form: Form
    coefficients: tuple[float, ...]
    values: tuple[float, ...]
    """The metric in epochs 1, 2, … of the run."""
    epoch: int
    """In which it settles."""


def epochs_by_curve(
    values: Sequence[float], *, higher: bool, run: int | None = None, typical_share: float = TYPICAL_SHARE
) -> EpochsAnswer:
    """The epoch in which the training settles, from the metric of its first epochs; `run` is how many are declared."""
    rest = epochs_if_settled(values, higher=higher, run=run)
    if rest is not None:
        return rest
    reason = unusable_reason(values, higher=higher)
    if reason:
        return EpochsAnswer(rule="curve", why=reason)
    fits = _fits(values, higher, run)
    if run is None:
        return _without_end(fits, len(values))
    guess = blend_with_forms(max(typical_share * run, 1.0), [fit.epoch for fit in fits], run=run)
    return EpochsAnswer(
        rule="curve",
        value=guess,
        low=max(1.0, guess / CURVE_FACTOR),
        high=max(guess, min(float(run), guess * CURVE_FACTOR)),
        why=f"the first {len(values)} epochs tell little: most programs settle after {100 * typical_share:.0f} % of what "
        f"they train, here {run} epochs, and the forms of the curve say {_spread(fits)}",
        warnings=("a change of the learning rate later on is not foreseen by a curve",),
    )


def epochs_to_reach(values: Sequence[float], target: float, *, higher: bool, run: int | None = None) -> EpochsAnswer:
    """The first epoch in which the metric is at the target: as it was seen, else as the forms go on.

    The range is that of the forms, a factor of `CURVE_FACTOR` wider; it was not checked on held-out programs.
    """

    def there(value: float) -> bool:
        return value >= target if higher else value <= target

    seen = next((k for k, value in enumerate(values, start=1) if there(value)), None)
    if seen is not None:
        why = f"epoch {seen} was the first at {target:g}"
        return EpochsAnswer(rule="target", value=seen, low=seen, high=seen, why=why)
    reason = unusable_reason(values, higher=higher)
    if reason:
        return EpochsAnswer(rule="target", why=reason)
    fits = _fits(values, higher, run)
    reached = [k for fit in fits for k in [next((k for k, v in enumerate(fit.values, start=1) if there(v)), None)] if k]
    if not reached:
        ends = [max(fit.values) if higher else min(fit.values) for fit in fits]
        best = f": the best that one foresees is {max(ends) if higher else min(ends):.4g}" if ends else ""
        return EpochsAnswer(rule="target", why=f"no form of the curve comes to {target:g}{best}")
    value = math.exp(math.fsum(map(math.log, reached)) / len(reached))
    return EpochsAnswer(
        rule="target",
        value=value,
        low=min(value, max(len(values) + 1.0, min(reached) / CURVE_FACTOR)),
        high=max(reached) * CURVE_FACTOR,
        why=f"{len(reached)} of {len(fits)} forms of the curve come to {target:g}, in epoch "
        + " and ".join(map(str, sorted(set(reached)))),
        warnings=("how far a curve can be trusted towards a target was not checked on other programs",),
    )


def form_epochs(values: Sequence[float], *, higher: bool, run: int) -> tuple[int, ...]:
    """What each form says that goes through the values; nothing where they are unusable_reason."""
    return () if unusable_reason(values, higher=higher) else tuple(fit.epoch for fit in _fits(values, higher, run))


def blend_with_forms(guess: float, forms: Sequence[int], *, run: int) -> float:
    """A guess from elsewhere, moved a little towards what the forms say; as it is where none says anything."""
    if forms:
        said = math.fsum(map(math.log, forms)) / len(forms)
        guess = math.exp(CURVE_WEIGHT * said + (1 - CURVE_WEIGHT) * math.log(guess))
    return min(max(guess, 1.0), float(run))


def _fits(values: Sequence[float], higher: bool, run: int | None) -> list[CurveFit]:
    return [fit for fit in (fit_form(form, values, higher=higher, run=run) for form in FORMS) if fit is not None]


def epochs_if_settled(values: Sequence[float], *, higher: bool, run: int | None = None) -> EpochsAnswer | None:
    """Where the curve has come to rest, or lies past its best: its last third brought no 2 % of the improvement.

    The last third is at least six epochs and an eighth of the run; with a twelfth, public curves are taken for at rest
    that are not. None while the curve still moves. A later drop of the learning rate may move it again, so that a
    schedule of steps goes before this.
    """
    count = len(values)
    late = max(6, math.ceil(count / 3), math.ceil((run or 0) / 8))
    if count < late + FEWEST or _no_curve(values) or _no_gain(values, higher):
        return None
    upward = running_median([value if higher else -value for value in values], median_window(run or count))
    best, before = max(upward), max(upward[: count - late])
    if best - before > WITHIN * (best - upward[0]):
        return None
    epoch = settled_epoch(values, higher=higher, run=run)
    return EpochsAnswer(
        rule="settled",
        value=epoch,
        low=max(1.0, epoch / REST_FACTOR),
        high=max(float(epoch), min(float(run or count), epoch * REST_FACTOR)),
        why=f"the curve has come to rest: epoch {epoch} is within 2 % of all that was gained, "
        f"and the last {late} epochs brought no more",
    )


def lost_share(values: Sequence[float], *, higher: bool, run: int | None = None) -> float:
    """Of what was gained up to the best epoch, how much was lost again since; on the running median."""
    upward = running_median([value if higher else -value for value in values], median_window(run or len(values)))
    gained = max(upward) - upward[0]
    return (max(upward) - upward[-1]) / gained if gained > 0 else 0.0


def unusable_reason(values: Sequence[float], *, higher: bool) -> str | None:
    """Why nothing can be told from these values; None where something can."""
    return _no_curve(values) or _no_gain(values, higher) or _no_trend(values, higher)


def _no_curve(values: Sequence[float]) -> str | None:
    bad = next((place for place, value in enumerate(values, start=1) if not math.isfinite(value)), None)
    if bad is not None:
        return f"the value of epoch {bad} is not a number: training diverged, and no curve goes through that"
    if len(values) < FEWEST:
        seen = {0: "no epoch was seen", 1: "one epoch was seen"}.get(len(values), f"{len(values)} epochs were seen")
        return f"{seen}, and a curve needs {FEWEST}"
    if max(values) - min(values) <= 1e-9 * max(abs(value) for value in values):
        return "the metric does not change from epoch to epoch"
    return None


def _no_gain(values: Sequence[float], higher: bool) -> str | None:
    upward = running_median([value if higher else -value for value in values], 3)
    if max(upward) <= upward[0]:
        return "the metric gets worse from the first epoch on: training diverges, or fits only what it has seen"
    return None


def _no_trend(values: Sequence[float], higher: bool) -> str | None:
    upward = [value if higher else -value for value in values]
    third = max(1, len(upward) // 3)
    trend = median(upward[-third:]) - median(upward[:third])
    if trend < 0:
        return "the metric is getting worse: training diverges, or fits only what it has seen"
    if trend <= median(abs(later - earlier) for earlier, later in pairwise(upward)) / 2:
        return "the metric goes up and down as much as it improves"
    return None


def fit_form(form: Form, values: Sequence[float], *, higher: bool, run: int | None = None) -> CurveFit | None:
    """The form through the values; None where it does not go through them, or where its end is too far to be told."""
    import numpy as np

    length = run if run is not None else math.ceil(FARTHEST * len(values)) * 10
    with np.errstate(over="ignore", invalid="ignore"):  # a curve that leaves the numbers is no fit, below
        drawn = _DRAWN[form](values, higher, max(length, len(values)))
    if drawn is None:
        return None
    coefficients, curve = drawn
    if not all(math.isfinite(value) for value in curve):
        return None
    upward = [value if higher else -value for value in curve]
    best = max(upward)
    if best <= upward[0]:
        return None
    epoch = next(k for k, value in enumerate(upward, start=1) if best - value <= WITHIN * (best - upward[0]))
    return CurveFit(form=form, coefficients=coefficients, values=tuple(curve), epoch=epoch)


_Drawn = tuple[tuple[float, ...], list[float]]


def _optimus(values: Sequence[float], higher: bool, length: int) -> _Drawn | None:
    """For each β2 on a grid below the smallest L: 1/(L − β2) = β0·k + β1 by non-negative least squares.

    The β2 whose curve lies nearest to L is taken. L is divided by its first value: NNLS knows no unit.
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
            beta, _ = nnls(np.column_stack([k, np.ones_like(k)]), np.minimum(1 / (losses - beta2), LARGEST))
            error = float(np.sum((1 / (beta[0] * k + beta[1]) + beta2 - losses) ** 2))
        if beta.max() > 0 and error < best[0]:
            best = error, (float(beta[0]), float(beta[1]), beta2)
    if not best[1]:
        return None
    b0, b1, b2 = best[1]
    drawn = (1 / (b0 * np.arange(1, length + 1) + b1) + b2) * unit
    return (b0 / unit, b1 / unit, b2 * unit), [float(sign * (value - bound)) for value in drawn]


def _pow3(values: Sequence[float], higher: bool, length: int) -> _Drawn | None:
    """For each α on a grid, c and a by least squares; a may only fall towards the better side."""
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


def _vapour(values: Sequence[float], _higher: bool, length: int) -> _Drawn | None:
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


_DRAWN = {"optimus": _optimus, "pow3": _pow3, "vapour": _vapour}


def _bound(values: Sequence[float]) -> float:
    """What a rising metric cannot exceed: 1 for a share, 100 for a percentage, else as far above as it has come."""
    low, high = min(values), max(values)
    if low >= 0 and high <= 1:
        return 1.0 + 1e-9
    if low >= 0 and high <= 100:
        return 100.0 + 1e-9
    return high + (high - low)


def _without_end(fits: Sequence[CurveFit], seen: int) -> EpochsAnswer:
    near = [fit.epoch for fit in fits if fit.epoch <= FARTHEST * seen]
    if len(near) < len(FORMS) - 1:
        return EpochsAnswer(
            rule="curve",
            why=f"neither you nor the program says how long it trains, and {seen} epochs do not show an end "
            f"within {FARTHEST:g} times as many. Say so with --epochs, or let it run until it is stable",
        )
    guess = math.exp(math.fsum(math.log(epoch) for epoch in near) / len(near))
    return EpochsAnswer(
        rule="curve",
        value=guess,
        low=max(1.0, guess / CURVE_FACTOR),
        high=guess * CURVE_FACTOR,
        why=f"by the first {seen} epochs alone, the forms of the curve say {_spread(fits)}",
        warnings=("a change of the learning rate later on is not foreseen by a curve",),
    )


def _spread(fits: Sequence[CurveFit]) -> str:
    if not fits:
        return "nothing"
    epochs = sorted(fit.epoch for fit in fits)
    return f"{epochs[0]}" if epochs[0] == epochs[-1] else f"{epochs[0]} to {epochs[-1]}"
