"""Malta's dissertation of 2021 and the paper of 2019 that came before it, chapter by chapter.

Everything goes through the estimators that users get: `estimator/epochs/two_epochs.py` (chapter 4), `iterations.py` (chapter 5),
`relative.py` and `cost_benefit.py`. Only where the page has no equation is there arithmetic here.
"""

from trainfare.papers.judge import Misprints
from trainfare.papers.malta import cost_benefit, epochs, iterations, prices, simulations
from trainfare.papers.malta.page import where
from trainfare.papers.published import tables
from trainfare.papers.row import Row


def rows() -> tuple[Row, ...]:
    """Every number of every table, in the order of the pages."""
    found = (*prices.rows(), *epochs.rows(), *iterations.rows(), *simulations.rows(), *cost_benefit.rows())
    cells = [cell for each in tables("malta").values() for cell in each.cells.values()]
    place = {(cell.table, where(cell.row, cell.column)): number for number, cell in enumerate(cells)}
    return tuple(sorted(found, key=lambda row: place[row.table, row.row]))


def misprints() -> Misprints:
    return {**epochs.misprints(), **iterations.misprints(), **simulations.misprints()}
