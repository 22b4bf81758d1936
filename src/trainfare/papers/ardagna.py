"""Ardagna's prototype on Azure: the predicted and the real cost of eleven slots."""

from functools import reduce
from operator import add

from trainfare.estimator.cost.delta import relative_excess
from trainfare.papers.judge import judge_number, not_recomputable
from trainfare.papers.printed import PrintedNumber, apply_to_ranges
from trainfare.papers.published import PublishedCell, tables
from trainfare.papers.row import Row

NAME = "ardagna-prototype"

NOT_PRINTED = {
    "predicted ($)": "the machines of the slot and their times are not printed",
    "real ($)": "measured",
}


def rows() -> tuple[Row, ...]:
    """Every number, in the order of the page."""
    return tuple(_row(cell) for cell in tables("ardagna")[NAME].cells.values())


def _row(cell: PublishedCell) -> Row:
    cell_name, page = f"{cell.row}: {cell.column}", tables("ardagna")[NAME]
    if cell.row != "sum":
        return not_recomputable(NAME, cell_name, cell.printed, NOT_PRINTED[cell.column])
    if cell.column == "difference (%)":
        predicted, real = (page.number("sum", column) for column in NOT_PRINTED)
        ours: PrintedNumber = abs(apply_to_ranges(relative_excess, predicted, real)) * 100
        method = "|predicted − real| / real"
    else:
        ours = reduce(add, [page.number(row, cell.column) for row in page.rows if row != "sum"])
        method = "sum of the eleven slots"
    return judge_number(NAME, cell_name, cell.printed, ours, method=method, misprints={})
