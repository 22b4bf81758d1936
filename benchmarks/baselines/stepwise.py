"""The end-to-end regression of Gianniti, Zhang and Ardagna (CLOSER 2019): a baseline for complete programs.

    seconds = β0 + Σ_t β_t · term_t

A term is a column (iterations, batch size, GFLOP/s, GPUs, threads, …), its inverse, or the product of two of those
from different columns, so that batch/GFLOP/s is one. Terms are selected stepwise (Draper and Smith, Applied Regression
Analysis): the term with the largest partial F enters if that F is significant at `enter`; then any term whose F has
become insignificant at `remove` leaves; until neither happens.

    F = (RSS without the term − RSS with it) / (RSS with it / (n − terms − 1))

Limits: ordinary least squares on seconds, so long rows dominate and short ones may be predicted negative (they are
raised to a tenth of the shortest measured one). The documents fit each network and framework separately; a constant
column is dropped. Nothing keeps it physical outside the rows it was fitted to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri

from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration

Array = NDArray[np.float64]
Columns = Mapping[str, Sequence[float]]
Powers = tuple[tuple[str, int], ...]

# A term with a smaller share of variance that the chosen terms do not explain adds only rounding errors.
TOLERANCE = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """β · Π column^power."""

    powers: Powers
    coefficient: float

    def values(self, columns: Columns) -> Array:
        return np.asarray(self.coefficient * _product(self.powers, columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepwiseFit:
    """β0, the selected terms, and the lower bound of every answer."""

    intercept: float
    terms: tuple[Term, ...]
    min_seconds: float

    def predict(self, columns: Columns) -> Array:
        """Seconds of every row; `columns` must contain those of the terms."""
        rows = len(next(iter(columns.values())))
        seconds = np.full(rows, self.intercept)
        for term in self.terms:
            seconds += term.values(columns)
        return np.asarray(np.maximum(seconds, self.min_seconds))


def fit_stepwise(
    columns: Columns,
    seconds: Sequence[float],
    *,
    enter: float = 0.05,
    remove: float = 0.10,
    inverse: bool = True,
    cross: bool = True,
) -> StepwiseFit:
    """Terms and coefficients for `seconds`; `enter` and `remove` are levels of significance, enter ≤ remove.

    With two rows or fewer the answer is their mean.
    """
    if not 0 < enter <= remove < 1:
        raise ValueError(f"need 0 < enter ≤ remove < 1, got {enter} and {remove}")
    y = np.asarray(seconds, dtype=np.float64)
    if not y.size or any(len(values) != y.size for values in columns.values()):
        raise ValueError("every column needs one value per row, and there must be rows")
    powers = _candidates(columns, inverse=inverse, cross=cross)
    raw = np.array([_product(each, columns) for each in powers]).reshape(len(powers), y.size)
    mean, scale = raw.mean(axis=1), raw.std(axis=1)
    varies = scale > 1e-12 * np.maximum(np.abs(mean), 1e-300)
    powers = [each for each, each_varies in zip(powers, varies, strict=True) if each_varies]
    mean, scale = mean[varies], scale[varies]
    x = (raw[varies] - mean[:, None]) / scale[:, None]
    chosen = _select(x @ x.T, x @ (y - y.mean()), float(np.sum((y - y.mean()) ** 2)), y.size, enter, remove)
    beta = np.linalg.lstsq(x[chosen].T, y - y.mean(), rcond=None)[0] / scale[chosen] if chosen else np.zeros(0)
    return StepwiseFit(
        intercept=float(y.mean() - beta @ mean[chosen]) if chosen else float(y.mean()),
        terms=tuple(Term(powers=powers[t], coefficient=float(b)) for t, b in zip(chosen, beta, strict=True)),
        min_seconds=float(y.min()) / 10,
    )


def _candidates(columns: Columns, *, inverse: bool, cross: bool) -> list[Powers]:
    single: list[tuple[str, int]] = []
    for name, values in columns.items():
        single.append((name, 1))
        if inverse and all(value > 0 for value in values):
            single.append((name, -1))
    candidates: list[Powers] = [(each,) for each in single]
    if cross:
        candidates += [(a, b) for a, b in combinations(single, 2) if a[0] != b[0]]
    return candidates


def _product(powers: Powers, columns: Columns) -> Array:
    product = np.ones(1)
    for name, power in powers:
        product = product * np.asarray(columns[name], dtype=np.float64) ** power
    return product


def _select(gram: Array, moments: Array, total: float, rows: int, enter: float, remove: float) -> list[int]:
    """Indices of the selected terms, from XᵀX, Xᵀy and yᵀy of standardised columns."""
    chosen: list[int] = []
    for _ in range(4 * len(moments)):
        free = rows - len(chosen) - 2
        if free < 1:
            break
        gains = _gains(gram, moments, chosen)
        best = int(np.argmax(gains))
        left = _rss(gram, moments, total, chosen) - gains[best]
        if gains[best] <= 1e-12 * total or gains[best] < _critical(free, enter) * left / free:
            break
        chosen.append(best)
        chosen = _without_insignificant(gram, moments, total, chosen, rows, remove)
    return chosen


def _gains(gram: Array, moments: Array, chosen: list[int]) -> Array:
    """The reduction of the residual sum of squares by each term; zero for selected and for collinear terms."""
    if not len(moments):
        return np.zeros(1)
    if not chosen:
        return np.asarray(moments**2 / np.diag(gram))
    within = np.linalg.solve(gram[np.ix_(chosen, chosen)], np.column_stack([gram[chosen], moments[chosen]]))
    own = np.diag(gram) - np.einsum("ij,ij->j", gram[chosen], within[:, :-1])
    with_y = moments - gram[:, chosen] @ within[:, -1]
    usable = own > TOLERANCE * np.diag(gram)
    usable[chosen] = False
    return np.where(usable, with_y**2 / np.where(usable, own, 1.0), 0.0)


def _rss(gram: Array, moments: Array, total: float, chosen: list[int]) -> float:
    if not chosen:
        return total
    beta = np.linalg.solve(gram[np.ix_(chosen, chosen)], moments[chosen])
    return max(total - float(moments[chosen] @ beta), 0.0)


def _without_insignificant(
    gram: Array, moments: Array, total: float, chosen: list[int], rows: int, remove: float
) -> list[int]:
    """The selected terms without those whose F is insignificant."""
    while len(chosen) > 1:
        with_all = _rss(gram, moments, total, chosen)
        free = rows - len(chosen) - 1
        losses = [_rss(gram, moments, total, [c for c in chosen if c != each]) - with_all for each in chosen]
        weakest = int(np.argmin(losses))
        if losses[weakest] >= _critical(free, remove) * with_all / free:
            break
        chosen = chosen[:weakest] + chosen[weakest + 1 :]
    return chosen


def _critical(free: int, level: float) -> float:
    """The critical value of F of one term at a level of significance."""
    return float(fdtri(1, free, 1 - level))


def end_to_end_columns(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> dict[str, list[float]]:
    """The columns of the documents that the tables have: batch size, GFLOP/s in the row's dtype, GPUs, nodes.

    `gpus` maps the names in the rows. Where every row has its operations, their work is added (`gflop`, `gbyte`), so
    that several programs can share a regression; without them fit one program at a time, as the documents do.
    """
    columns = {
        "batch_size": [row.batch_size for row in rows],
        "gflops_per_second": [gpus[row.gpu].peak_flops_per_second(row.dtype) / 1e9 for row in rows],
        "gpus": [float(row.gpus) for row in rows],
        "nodes": [float(row.nodes) for row in rows],
    }
    if rows and all(row.operations for row in rows):
        columns["gflop"] = [sum(o.count * o.flops for o in row.operations) / 1e9 for row in rows]
        columns["gbyte"] = [sum(o.count * o.bytes for o in row.operations) / 1e9 for row in rows]
    return columns


def end_to_end_seconds(
    known: Sequence[MeasuredIteration], asked: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]
) -> Array:
    """The baseline fitted to `known` and evaluated for `asked`, whose times are not used.

    There is one regression per program (per network in the documents). A program that is not in `known` is predicted by
    one regression over all programs if every row has its operations, and has NaN otherwise.
    """
    seconds = np.full(len(asked), np.nan)
    if known and all(row.operations for row in [*known, *asked]):
        pooled = fit_stepwise(end_to_end_columns(known, gpus), [row.seconds for row in known])
        seconds = pooled.predict(end_to_end_columns(asked, gpus)) if asked else seconds
    for program in {row.program for row in asked}:
        own = [row for row in known if row.program == program]
        if len(own) < 3:
            continue
        these = [n for n, row in enumerate(asked) if row.program == program]
        fit = fit_stepwise(end_to_end_columns(own, gpus), [row.seconds for row in own])
        columns = end_to_end_columns([asked[n] for n in these], gpus)
        seconds[these] = fit.predict(columns)
    return seconds
