"""The figures that the documents print, as `published/<document>.csv`: table, row, column, printed.

`printed` keeps the digits of the page, because they say how far it was rounded; an empty one is a cell that the
page has and its text does not.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from trainfare.papers.printed import Printed


@dataclass(frozen=True, slots=True)
class Cell:
    table: str
    row: str
    column: str
    printed: str

    @property
    def number(self) -> Printed:
        return Printed.read(self.printed)


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The cells of one printed table, by row and column."""

    name: str
    cells: dict[tuple[str, str], Cell]

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row for row, _ in self.cells))

    def number(self, row: str, column: str) -> Printed:
        return self.cells[row, column].number

    def text(self, row: str, column: str) -> str:
        return self.cells[row, column].printed


@cache
def tables(document: str) -> dict[str, PublishedTable]:
    """All tables of one document, by their names."""
    found: dict[str, PublishedTable] = {}
    text = (files("trainfare.papers") / "published" / f"{document}.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        cell = Cell(line["table"], line["row"], line["column"], line["printed"])
        found.setdefault(cell.table, PublishedTable(cell.table, {})).cells[cell.row, cell.column] = cell
    return found
