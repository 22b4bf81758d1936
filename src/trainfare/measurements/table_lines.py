"""Tables with a header, read line by line; an error names the file, the line, the column and what to do."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category

from trainfare.errors import UsageError

INVISIBLE_CATEGORIES = ("Cc", "Zl", "Zp")
"""Unicode categories of control characters and of line and paragraph separators, which garble a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLine:
    """One line of a table: its cells by column, and its position."""

    path: Path
    number: int
    cells: dict[str, str]

    def text(self, column: str, default: str | None = None) -> str:
        """The text in the column; `default` if the cell is empty. An empty cell without a default is an error."""
        found = self.cells.get(column) or default
        if found is None:
            raise self.error(column, "the cell is empty", "Fill it in")
        if any(category(letter) in INVISIBLE_CATEGORIES for letter in found):
            raise self.error(column, f"{found!r} contains control characters", "Write one line of plain text")
        return found

    def real(self, column: str, default: float | None = None) -> float:
        """A number; infinity is allowed, NaN is not."""
        cell = self.text(column, None if default is None else str(default))
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise self.error(column, f"{cell!r} is not a number", "Write it with a point and without a unit: 1234.5")
        return value

    def positive(self, column: str, default: float | None = None) -> float:
        """A number above zero; infinity is allowed."""
        value = self.real(column, default)
        if value <= 0:
            raise self.error(column, f"{value:g} is not above zero", "Write a positive number")
        return value

    def finite(self, column: str) -> float:
        """A number above zero and below infinity."""
        value = self.positive(column)
        if math.isinf(value):
            raise self.error(column, "infinity is not a price", "Write a finite number")
        return value

    def not_negative(self, column: str, default: float | None = None) -> float:
        """A finite number that is zero or more."""
        value = self.real(column, default)
        if not 0 <= value < math.inf:
            raise self.error(column, f"{value:g} is negative or infinite", "Write a finite number of at least 0")
        return value

    def count(self, column: str, default: int | None = None, *, minimum: int = 1) -> int:
        """A whole number of at least `minimum`."""
        value = self.real(column, default)
        if value < minimum or not value.is_integer():
            raise self.error(column, f"{value:g} is not a whole number of at least {minimum}", "Write a count")
        return int(value)

    def error(self, column: str, problem: str, remedy: str) -> UsageError:
        """The error that a cell is wrong, with its position."""
        return UsageError(f"{self.path}, line {self.number}, column {column}: {problem}. {remedy}.")


def read_table(path: Path, columns: tuple[str, ...]) -> tuple[TableLine, ...]:
    """The lines of a table that has at least these columns; empty lines are skipped."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Put a table with the columns {','.join(columns)} there.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            return tuple(_read_lines(path, ((reader.line_num, row) for row in reader), columns))
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist. Create it as a table with the columns {','.join(columns)}.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Repair it, or name another folder.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is not a text table: {error}. Write it as CSV in UTF-8.") from error


def _read_lines(path: Path, rows: Iterator[tuple[int, list[str]]], columns: tuple[str, ...]) -> list[TableLine]:
    header = [cell.strip() for cell in next(rows, (1, []))[1]]
    for column in columns:
        if column not in header:
            raise UsageError(f"{path}, line 1: column {column} is missing. Add it: {','.join(columns)}.")
    repeated = sorted({column for column in header if column and header.count(column) > 1})
    if repeated:
        raise UsageError(f"{path}, line 1, column {repeated[0]}: it occurs twice. Remove one.")
    lines = []
    for number, row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) > len(header):
            where = f"{path}, line {number}, column {len(header) + 1}"
            raise UsageError(
                f"{where}: there are more cells than columns. Write decimals with a point and quote text with a comma."
            )
        lines.append(TableLine(path=path, number=number, cells=dict(zip(header, cells, strict=False))))
    return lines
