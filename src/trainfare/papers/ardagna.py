"""Ardagna's prototype on Azure: the predicted and the real cost of eleven slots."""

from functools import reduce
from operator import add

from trainfare.estimator.cost.delta import relative_excess
from trainfare.papers.judge import judged, not_recomputable
from trainfare.papers.printed import Printed, across
from trainfare.papers.published import Cell, tables
from trainfare.papers.row import Row

NAME = "ardagna-prototype"

NOT_PRINTED = {
    "predicted ($)": "which machines the slot had and for how long is not printed",
    "real ($)": "measured",
}


def rows() -> tuple[Row, ...]:
    """Every number, in the order of the page."""
    return tuple(_row(cell) for cell in tables("ardagna")[NAME].cells.values())


def _row(cell: Cell) -> Row:
    where, page = f"{cell.row}: {cell.column}", tables("ardagna")[NAME]
    if cell.row != "sum":
        return not_recomputable(NAME, where, cell.printed, NOT_PRINTED[cell.column])
    if cell.column == "difference (%)":
        predicted, real = (page.number("sum", column) for column in NOT_PRINTED)
        ours: Printed = abs(across(relative_excess, predicted, real)) * 100
        how = "what the prediction is short of the real cost, relative to the real cost"
    else:
        ours = reduce(add, [page.number(row, cell.column) for row in page.rows if row != "sum"])
        how = "the eleven slots added up"
    return judged(NAME, where, cell.printed, ours, how=how, misprints={})
