"""A table with a header, line by line, whose complaints name the file, the line, the column and what to do."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category

from trainfare.errors import UsageError

UNSEEN = ("Cc", "Zl", "Zp")
"""Of Unicode: controls, and the ends of lines and paragraphs. On a terminal they write over what stands there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a table: its cells by column, and where it stands."""

    path: Path
    number: int
    cells: dict[str, str]

    def text(self, column: str, otherwise: str | None = None) -> str:
        """What stands in the column; where nothing does, `otherwise`, and without one a complaint."""
        found = self.cells.get(column) or otherwise
        if found is None:
            raise self.wrong(column, "nothing stands there", "Fill it in")
        if any(category(letter) in UNSEEN for letter in found):
            raise self.wrong(column, f"{found!r} has letters that cannot be seen", "Write it in one line of plain text")
        return found

    def real(self, column: str, otherwise: float | None = None) -> float:
        """A number, infinity too; NaN is none."""
        cell = self.text(column, None if otherwise is None else str(otherwise))
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise self.wrong(column, f"{cell!r} is not a number", "Write it with a point and no unit, as in 1234.5")
        return value

    def positive(self, column: str, otherwise: float | None = None) -> float:
        value = self.real(column, otherwise)
        if value <= 0:
            raise self.wrong(column, f"{value:g} is not above zero", "Give what it truly is")
        return value

    def finite(self, column: str) -> float:
        """Above zero and below infinity."""
        value = self.positive(column)
        if math.isinf(value):
            raise self.wrong(column, "infinity is not a price", "Give what it truly is")
        return value

    def not_negative(self, column: str, otherwise: float | None = None) -> float:
        value = self.real(column, otherwise)
        if not 0 <= value < math.inf:
            raise self.wrong(column, f"{value:g} must be zero or more, and finite", "Give what it truly is")
        return value

    def count(self, column: str, otherwise: int | None = None, *, least: int = 1) -> int:
        value = self.real(column, otherwise)
        if value < least or not value.is_integer():
            raise self.wrong(column, f"{value:g} is not a whole number from {least} on", "Give a count")
        return int(value)

    def wrong(self, column: str, what: str, to_do: str) -> UsageError:
        return UsageError(f"{self.path}, line {self.number}, column {column}: {what}. {to_do}.")


def read_lines(path: Path, columns: tuple[str, ...]) -> tuple[Line, ...]:
    """The lines of a table that has at least these columns; empty lines do not count."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: a table with the columns {','.join(columns)} belongs there.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            return tuple(_lines(path, ((reader.line_num, row) for row in reader), columns))
    except FileNotFoundError:
        raise UsageError(f"there is no {path}: make it, a table with the columns {','.join(columns)}.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Mend that, or name another folder.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is not a table of text: {error}. Write it anew as CSV in UTF-8.") from error


def _lines(path: Path, rows: Iterator[tuple[int, list[str]]], columns: tuple[str, ...]) -> list[Line]:
    header = [cell.strip() for cell in next(rows, (1, []))[1]]
    for column in columns:
        if column not in header:
            raise UsageError(f"{path}, line 1: there is no column {column}. Add it: {','.join(columns)}.")
    twice = sorted({column for column in header if column and header.count(column) > 1})
    if twice:
        raise UsageError(f"{path}, line 1, column {twice[0]}: it stands twice. Leave one.")
    lines = []
    for number, row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) > len(header):
            where = f"{path}, line {number}, column {len(header) + 1}"
            raise UsageError(
                f"{where}: there are more cells than columns. Decimals have a point, text with a comma quotes."
            )
        lines.append(Line(path=path, number=number, cells=dict(zip(header, cells, strict=False))))
    return lines
