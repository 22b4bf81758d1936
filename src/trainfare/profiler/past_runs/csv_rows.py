"""A CSV file, row by row: which character separates, what is a number, what is not a table at all."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from trainfare.errors import UsageError
from trainfare.profiler.past_runs.files import readable_file, reading
from trainfare.profiler.past_runs.series import UNKNOWN

_SEPARATORS = ",;\t"
_LONGEST = 1 << 20
"""Characters of a line; a longer one is no row of a log."""

Row = dict[str, str]


def columns(path: Path) -> list[str]:
    """The names in the first line."""
    return list(next(_lines(path), []))


def rows(path: Path) -> Iterator[Row]:
    """One at a time. A row that is too short lacks its last columns, as in a file that is being written."""
    lines = _lines(path)
    names = next(lines, [])
    for line in lines:
        if line and line != names:  # a program that appends may write its names again
            yield dict(zip(names, line, strict=False))


def _lines(path: Path) -> Iterator[list[str]]:
    readable_file(path, "a CSV file")
    try:
        with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
            first = _checked(file.readline(_LONGEST), path)
            separator = max(_SEPARATORS, key=first.count)
            file.seek(0)
            for line in csv.reader(_checked_lines(file, path), delimiter=separator):
                yield [word.strip() for word in line]
    except UnicodeDecodeError as error:
        raise _no_table(path, f"byte {error.start} is not text") from error
    except csv.Error as error:
        raise _no_table(path, str(error)) from error


def _checked_lines(file: TextIO, path: Path) -> Iterator[str]:
    while line := file.readline(_LONGEST):
        yield _checked(line, path)


def _checked(line: str, path: Path) -> str:
    if "\0" in line:
        raise _no_table(path, "it has binary zeros")
    if len(line) == _LONGEST:
        raise _no_table(path, f"it has a line of more than {_LONGEST} characters")
    return line


def _no_table(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is not a CSV file: {why}.")


def number(word: str | None) -> float | None:
    """None for what is no number; NaN for one that is not finite."""
    try:
        value = float(word or "")
    except ValueError:
        return None
    return value if abs(value) < float("inf") else UNKNOWN
