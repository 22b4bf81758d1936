"""The one door to HiGHS: linear models, with whole columns or without.

    minimise   usd · x + constant      row_low ≤ A x ≤ row_high,   low ≤ x ≤ high,   x_i whole where whole_i

A is given by its entries: `coefficients[e]` stands in row `rows[e]` and column `columns[e]`; no place stands twice.
Infinity is no bound. One thread, one seed, no output: the same model has the same answer, except where a limit of
seconds cuts the search short, which depends on the machine.

    solution = solve(model)                              once
    solver = Solver(model); solver.solve()               as often as columns change: an LP goes on from its last basis
    solver.fix(columns, values); solver.solve()

InfeasibleError and unbounded models are a ValueError. A limit of seconds gives the best that was found, with its bound.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import highspy
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 0

_CUT_SHORT = (highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kInterrupt)
_DONE = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kModelEmpty)


class NoOptimum(ValueError):
    """The model has no solution, or HiGHS finds none: numbers that lie too far apart."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A linear model to minimise. The order of columns is that of `usd`, the order of rows that of `row_low`."""

    usd: "NDArray[np.float64]"
    """What a unit of each column costs."""
    low: "NDArray[np.float64]"
    high: "NDArray[np.float64]"
    row_low: "NDArray[np.float64]"
    row_high: "NDArray[np.float64]"
    rows: "NDArray[np.int64]"
    columns: "NDArray[np.int64]"
    coefficients: "NDArray[np.float64]"
    whole: "NDArray[np.bool_] | None" = None
    """Which columns take whole numbers only; None: none, it is an LP."""
    constant_usd: float = 0.0

    def __post_init__(self) -> None:
        for name, arrays in (
            ("column", (self.usd, self.low, self.high) + (() if self.whole is None else (self.whole,))),
            ("row", (self.row_low, self.row_high)),
            ("entry", (self.rows, self.columns, self.coefficients)),
        ):
            if len({len(each) for each in arrays}) > 1:
                raise ValueError(f"every {name} has one of each, got {[len(each) for each in arrays]}")
        for places, most in ((self.rows, len(self.row_low)), (self.columns, len(self.usd))):
            if len(places) and not 0 <= int(places.min()) <= int(places.max()) < most:
                raise ValueError(f"an entry stands outside of the {len(self.row_low)} rows × {len(self.usd)} columns")
        for numbers in (self.usd, self.low, self.high, self.row_low, self.row_high, self.coefficients):
            if np.isnan(numbers).any():
                raise ValueError("a cost, bound or coefficient is not a number")

    @property
    def is_whole(self) -> bool:
        return self.whole is not None and bool(self.whole.any())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """The best that was found, and how good it can get."""

    values: "NDArray[np.float64]"
    usd: float
    bound_usd: float
    """No solution costs less."""
    proven: bool
    """It is the optimum, up to the gap; otherwise the seconds ran out."""
    duals: "NDArray[np.float64] | None"
    """d usd / d right-hand side of each row: not positive where more room lowers the cost. None with whole columns."""
    reduced_usd: "NDArray[np.float64] | None"
    """What a unit of each column would cost beyond the rows that it uses. None with whole columns."""


def solve(
    model: Model,
    *,
    gap: float = 1e-6,
    seconds: float | None = None,
    start: "NDArray[np.float64] | None" = None,
) -> Solution:
    """The optimum up to a relative `gap`; `start` is a solution to begin with (every column), where columns are whole.

    A start that breaks a row is silently no start.
    """
    return Solver(model, gap=gap, seconds=seconds).solve(start=start)


class Solver:
    """A model that is solved again and again while bounds and costs of its columns change.

    LPs go on from the basis of the last time: after a few columns are fixed that is a handful of dual simplex steps.
    """

    def __init__(self, model: Model, *, gap: float = 1e-6, seconds: float | None = None) -> None:
        self._highs = _quiet(gap=gap, seconds=seconds)
        self._has_whole = model.is_whole
        if not self._has_whole:  # vertices, and a basis to go on from
            self._highs.setOptionValue("solver", "simplex")
        if _pass(model, self._highs) == highspy.HighsStatus.kError:
            raise ValueError("HiGHS takes no such model: does an entry stand in one place twice?")

    def fix(self, columns: "NDArray[np.int64]", values: "NDArray[np.float64]") -> None:
        """From now on these columns have these values."""
        self.bound(columns, values, values)

    def bound(self, columns: "NDArray[np.int64]", low: "NDArray[np.float64]", high: "NDArray[np.float64]") -> None:
        """From now on these columns lie between these bounds."""
        places, low, high = _places(columns), _numbers(low), _numbers(high)
        self._done(self._highs.changeColsBounds(len(places), places, low, high), "bounds")

    def cost(self, columns: "NDArray[np.int64]", usd: "NDArray[np.float64]") -> None:
        """From now on a unit of these columns costs this."""
        places = _places(columns)
        self._done(self._highs.changeColsCost(len(places), places, _numbers(usd)), "costs")

    def solve(self, *, start: "NDArray[np.float64] | None" = None) -> Solution:
        if start is not None and self._has_whole:
            places = np.arange(len(start), dtype=np.int32)
            self._done(self._highs.setSolution(len(places), places, _numbers(start)), "start")
        self._highs.run()
        status = self._highs.getModelStatus()
        if status not in _DONE + _CUT_SHORT:
            raise NoOptimum(f"the model has no optimum: HiGHS says {self._highs.modelStatusToString(status)}")
        info = self._highs.getInfo()
        if status in _CUT_SHORT and info.primal_solution_status != highspy.kSolutionStatusFeasible:
            raise NoOptimum("no solution was found in the seconds allowed; give more, or a start")
        return self._solution(info, proven=status in _DONE)

    def _solution(self, info: highspy.HighsInfo, *, proven: bool) -> Solution:
        found = self._highs.getSolution()
        usd = float(info.objective_function_value)
        proved_usd = usd if proven else -math.inf  # a simplex that is cut short proves nothing
        bound = float(info.mip_dual_bound) if self._has_whole else proved_usd
        return Solution(
            values=np.array(found.col_value, dtype=np.float64),
            usd=usd,
            bound_usd=min(bound, usd),
            proven=proven,
            duals=None if self._has_whole else np.array(found.row_dual, dtype=np.float64),
            reduced_usd=None if self._has_whole else np.array(found.col_dual, dtype=np.float64),
        )

    @staticmethod
    def _done(status: highspy.HighsStatus, what: str) -> None:
        if status == highspy.HighsStatus.kError:
            raise ValueError(f"HiGHS does not take these {what}")


def _quiet(*, gap: float, seconds: float | None) -> highspy.Highs:
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


def _pass(model: Model, highs: highspy.Highs) -> highspy.HighsStatus:
    columns, rows = len(model.usd), len(model.row_low)
    order = np.argsort(model.columns, kind="stable")
    status: highspy.HighsStatus = highs.passModel(
        columns,
        rows,
        len(order),
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        model.constant_usd,
        _numbers(model.usd),
        _numbers(model.low),
        _numbers(model.high),
        _numbers(model.row_low),
        _numbers(model.row_high),
        _places(np.concatenate([[0], np.cumsum(np.bincount(model.columns, minlength=columns))])),
        _places(model.rows[order]),
        _numbers(model.coefficients[order]),
        _places(np.zeros(columns, dtype=bool) if model.whole is None else model.whole),
    )
    return status


def _numbers(values: "NDArray[np.float64]") -> "NDArray[np.float64]":
    return np.ascontiguousarray(values, dtype=np.float64)


def _places(values: "NDArray[np.int64] | NDArray[np.bool_]") -> "NDArray[np.int32]":
    return np.ascontiguousarray(values, dtype=np.int32)
