"""The printed tables of the documents, from `published/<document>.csv`: table, row, column, printed.

`printed` has the digits of the page, because they show how far a number was rounded; an empty one is a cell that is
missing from the text of the document.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from trainfare.papers.printed import PrintedNumber


@dataclass(frozen=True, slots=True)
class PublishedCell:
    """One printed number or text of a table."""

    table: str
    row: str
    column: str
    printed: str

    @property
    def number(self) -> PrintedNumber:
        return PrintedNumber.read(self.printed)


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The cells of one printed table, by row and column."""

    name: str
    cells: dict[tuple[str, str], PublishedCell]

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row for row, _ in self.cells))

    def number(self, row: str, column: str) -> PrintedNumber:
        return self.cells[row, column].number

    def text(self, row: str, column: str) -> str:
        return self.cells[row, column].printed


@cache
def tables(document: str) -> dict[str, PublishedTable]:
    """All tables of one document, by their names."""
    found: dict[str, PublishedTable] = {}
    text = (files("trainfare.papers") / "published" / f"{document}.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        cell = PublishedCell(line["table"], line["row"], line["column"], line["printed"])
        found.setdefault(cell.table, PublishedTable(cell.table, {})).cells[cell.row, cell.column] = cell
    return found
