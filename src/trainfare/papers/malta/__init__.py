"""Malta's dissertation of 2021 and the preceding paper of 2019, chapter by chapter.

All numbers come from the estimators of this package: `estimator/epochs/two_epochs.py` (chapter 4),
`estimator/step/measured.py` (chapter 5), `relative.py` and `cost_benefit.py` of `estimator/cost/`. Only numbers without
an equation on the page are computed here.
"""

from trainfare.papers.judge import Misprints
from trainfare.papers.malta import cost_benefit, epochs, iterations, prices, simulations
from trainfare.papers.malta.page import cell_name
from trainfare.papers.published import tables
from trainfare.papers.row import Row


def rows() -> tuple[Row, ...]:
    """Every number of every table, in the order of the pages."""
    found = (*prices.rows(), *epochs.rows(), *iterations.rows(), *simulations.rows(), *cost_benefit.rows())
    cells = [cell for each in tables("malta").values() for cell in each.cells.values()]
    place = {(cell.table, cell_name(cell.row, cell.column)): number for number, cell in enumerate(cells)}
    return tuple(sorted(found, key=lambda row: place[row.table, row.row]))


def misprints() -> Misprints:
    """The misprints of all chapters."""
    return {**epochs.misprints(), **iterations.misprints(), **simulations.misprints()}
