"""Reads a CSV file row by row: finds the separator, checks that it is text, and converts numbers."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from trainfare.errors import UsageError
from trainfare.profiler.past_runs.files import readable_file, translate_read_errors
from trainfare.profiler.past_runs.series import UNKNOWN

_SEPARATORS = ",;\t"
_MAX_LINE_LENGTH = 1 << 20
"""Characters in a line; a longer one is not a row of a log."""

Row = dict[str, str]


def columns(path: Path) -> list[str]:
    """The names in the first line."""
    return list(next(_lines(path), []))


def rows(path: Path) -> Iterator[Row]:
    """The rows, one at a time. A short row lacks its last columns, as in a file that is being written."""
    lines = _lines(path)
    names = next(lines, [])
    for line in lines:
        if line and line != names:  # a program that appends may write the header again
            yield dict(zip(names, line, strict=False))


def _lines(path: Path) -> Iterator[list[str]]:
    readable_file(path, "a CSV file")
    try:
        with translate_read_errors(path), path.open(encoding="utf-8-sig", newline="") as file:
            first = _checked(file.readline(_MAX_LINE_LENGTH), path)
            separator = max(_SEPARATORS, key=first.count)
            file.seek(0)
            for line in csv.reader(_checked_lines(file, path), delimiter=separator):
                yield [word.strip() for word in line]
    except UnicodeDecodeError as error:
        raise _not_a_table(path, f"byte {error.start} is not text") from error
    except csv.Error as error:
        raise _not_a_table(path, str(error)) from error


def _checked_lines(file: TextIO, path: Path) -> Iterator[str]:
    while line := file.readline(_MAX_LINE_LENGTH):
        yield _checked(line, path)


def _checked(line: str, path: Path) -> str:
    if "\0" in line:
        raise _not_a_table(path, "it contains binary zeros")
    if len(line) == _MAX_LINE_LENGTH:
        raise _not_a_table(path, f"it has a line of more than {_MAX_LINE_LENGTH} characters")
    return line


def _not_a_table(path: Path, reason: str) -> UsageError:
    return UsageError(f"{path} is not a CSV file: {reason}.", field="path")


def number(word: str | None) -> float | None:
    """The number; None if the word is not a number, NaN if it is not finite."""
    try:
        value = float(word or "")
    except ValueError:
        return None
    return value if abs(value) < float("inf") else UNKNOWN
