"""The one interface to HiGHS: linear models with or without integer columns.

    minimise   usd · x + constant      row_low ≤ A x ≤ row_high,   low ≤ x ≤ high,   x_i integer where integer_i

A is given by its entries: `coefficients[e]` is in row `rows[e]` and column `columns[e]`; no position is given
twice. Infinity is no bound. One thread, one seed and no output: the same model has the same answer, except where a time
limit cuts the search short, which depends on the machine.

    solution = solve(model)                              once
    solver = Solver(model); solver.solve()               again after columns change: an LP starts from its last basis
    solver.fix(columns, values); solver.solve()

An infeasible or unbounded model is a SolverError. A time limit returns the best solution found, with its bound.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import highspy
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 0

_INTERRUPTED = (highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kInterrupt)
_FINISHED = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kModelEmpty)


class SolverError(ValueError):
    """The model has no solution, or HiGHS finds none because its numbers differ by too many orders of magnitude."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearModel:
    """A linear model to minimise. The order of columns is that of `usd`, the order of rows that of `row_low`."""

    usd: "NDArray[np.float64]"
    """The cost of one unit of each column."""
    low: "NDArray[np.float64]"
    high: "NDArray[np.float64]"
    row_low: "NDArray[np.float64]"
    row_high: "NDArray[np.float64]"
    rows: "NDArray[np.int64]"
    columns: "NDArray[np.int64]"
    coefficients: "NDArray[np.float64]"
    integer: "NDArray[np.bool_] | None" = None
    """The columns that must be integers; None: no column, the model is an LP."""
    constant_usd: float = 0.0

    def __post_init__(self) -> None:
        for name, arrays in (
            ("column", (self.usd, self.low, self.high) + (() if self.integer is None else (self.integer,))),
            ("row", (self.row_low, self.row_high)),
            ("entry", (self.rows, self.columns, self.coefficients)),
        ):
            if len({len(each) for each in arrays}) > 1:
                raise ValueError(f"the {name} arrays must have equal lengths, got {[len(each) for each in arrays]}")
        for indices, count in ((self.rows, len(self.row_low)), (self.columns, len(self.usd))):
            if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < count:
                raise ValueError(f"an entry lies outside the {len(self.row_low)} rows × {len(self.usd)} columns")
        for numbers in (self.usd, self.low, self.high, self.row_low, self.row_high, self.coefficients):
            if np.isnan(numbers).any():
                raise ValueError("a cost, bound or coefficient is not a number")

    @property
    def has_integers(self) -> bool:
        return self.integer is not None and bool(self.integer.any())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """The best solution found, and a bound on the optimum."""

    values: "NDArray[np.float64]"
    usd: float
    bound_usd: float
    """No solution costs less."""
    proven: bool
    """The solution is the optimum, up to the gap; otherwise the time limit was reached."""
    duals: "NDArray[np.float64] | None"
    """d usd / d right-hand side of each row: not positive where more capacity lowers the cost. None with integers."""
    reduced_usd: "NDArray[np.float64] | None"
    """The reduced cost of each column. None with integers."""


def solve(
    model: LinearModel,
    *,
    gap: float = 1e-6,
    seconds: float | None = None,
    start: "NDArray[np.float64] | None" = None,
) -> Solution:
    """The optimum up to a relative `gap`; `start` gives a value to every column, from which a search over integers
    begins.

    HiGHS ignores a start that violates a row.
    """
    return Solver(model, gap=gap, seconds=seconds).solve(start=start)


class Solver:
    """A model that is solved repeatedly while the bounds and costs of its columns change.

    An LP starts from its last basis: after a few columns are fixed, a handful of dual simplex steps suffice.
    """

    def __init__(self, model: LinearModel, *, gap: float = 1e-6, seconds: float | None = None) -> None:
        self._highs = _new_highs(gap=gap, seconds=seconds)
        self._has_integers = model.has_integers
        if not self._has_integers:  # it returns vertices, and a basis to start from
            self._highs.setOptionValue("solver", "simplex")
        if _pass_model(model, self._highs) == highspy.HighsStatus.kError:
            raise ValueError("HiGHS rejects the model: two entries may have the same row and column")

    def fix(self, columns: "NDArray[np.int64]", values: "NDArray[np.float64]") -> None:
        """Fixes these columns at these values from now on."""
        self.set_bounds(columns, values, values)

    def set_bounds(self, columns: "NDArray[np.int64]", low: "NDArray[np.float64]", high: "NDArray[np.float64]") -> None:
        """Bounds these columns from now on."""
        indices, low, high = _indices(columns), _floats(low), _floats(high)
        self._require_accepted(self._highs.changeColsBounds(len(indices), indices, low, high), "bounds")

    def set_costs(self, columns: "NDArray[np.int64]", usd: "NDArray[np.float64]") -> None:
        """Sets the cost of one unit of these columns from now on."""
        indices = _indices(columns)
        self._require_accepted(self._highs.changeColsCost(len(indices), indices, _floats(usd)), "costs")

    def solve(self, *, start: "NDArray[np.float64] | None" = None) -> Solution:
        if start is not None and self._has_integers:
            indices = np.arange(len(start), dtype=np.int32)
            self._require_accepted(self._highs.setSolution(len(indices), indices, _floats(start)), "start")
        self._highs.run()
        status = self._highs.getModelStatus()
        if status not in _FINISHED + _INTERRUPTED:
            raise SolverError(f"the model has no optimum: HiGHS says {self._highs.modelStatusToString(status)}")
        info = self._highs.getInfo()
        if status in _INTERRUPTED and info.primal_solution_status != highspy.kSolutionStatusFeasible:
            raise SolverError("no solution was found within the time limit; allow more time, or give a start")
        return self._solution(info, proven=status in _FINISHED)

    def _solution(self, info: highspy.HighsInfo, *, proven: bool) -> Solution:
        found = self._highs.getSolution()
        usd = float(info.objective_function_value)
        proven_usd = usd if proven else -math.inf  # an interrupted simplex proves no bound
        bound = float(info.mip_dual_bound) if self._has_integers else proven_usd
        return Solution(
            values=np.array(found.col_value, dtype=np.float64),
            usd=usd,
            bound_usd=min(bound, usd),
            proven=proven,
            duals=None if self._has_integers else np.array(found.row_dual, dtype=np.float64),
            reduced_usd=None if self._has_integers else np.array(found.col_dual, dtype=np.float64),
        )

    @staticmethod
    def _require_accepted(status: highspy.HighsStatus, what: str) -> None:
        if status == highspy.HighsStatus.kError:
            raise ValueError(f"HiGHS rejects these {what}")


def _new_highs(*, gap: float, seconds: float | None) -> highspy.Highs:
    highs = highspy.Highs()  # type: ignore[no-untyped-call] # highspy has no types
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("parallel", "off"),
        ("random_seed", SEED),
        ("mip_rel_gap", gap),
        ("mip_abs_gap", 0.0),
        ("time_limit", math.inf if seconds is None else seconds),
    ):
        highs.setOptionValue(name, value)
    return highs


def _pass_model(model: LinearModel, highs: highspy.Highs) -> highspy.HighsStatus:
    columns, rows = len(model.usd), len(model.row_low)
    order = np.argsort(model.columns, kind="stable")
    status: highspy.HighsStatus = highs.passModel(
        columns,
        rows,
        len(order),
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        model.constant_usd,
        _floats(model.usd),
        _floats(model.low),
        _floats(model.high),
        _floats(model.row_low),
        _floats(model.row_high),
        _indices(np.concatenate([[0], np.cumsum(np.bincount(model.columns, minlength=columns))])),
        _indices(model.rows[order]),
        _floats(model.coefficients[order]),
        _indices(np.zeros(columns, dtype=bool) if model.integer is None else model.integer),
    )
    return status


def _floats(values: "NDArray[np.float64]") -> "NDArray[np.float64]":
    return np.ascontiguousarray(values, dtype=np.float64)


def _indices(values: "NDArray[np.int64] | NDArray[np.bool_]") -> "NDArray[np.int32]":
    return np.ascontiguousarray(values, dtype=np.int32)
