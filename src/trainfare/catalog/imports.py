"""Foreign price tables → offers. What a table holds and we cannot use is counted, never guessed."""

import csv
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Literal

from trainfare.catalog import gpuhunt, skypilot
from trainfare.catalog.collector import Collector, Reading, Row
from trainfare.errors import UsageError
from trainfare.model.machine import Gpu

Format = Literal["skypilot", "gpuhunt"]

_COLUMNS: Mapping[Format, frozenset[str]] = {"skypilot": skypilot.COLUMNS, "gpuhunt": gpuhunt.COLUMNS}


def read_table(
    path: Path,
    *,
    gpus: Mapping[str, Gpu],
    known_providers: Iterable[str],
    seen_on: date,
    provider: str | None = None,
    format_: Format | None = None,
) -> tuple[Format, Reading]:
    """The offers of a foreign table; a file that is not one is `UsageError`."""
    columns, rows = _rows_of(path)
    known = frozenset(known_providers)
    found = _format_of(path, columns, format_)
    if found == "skypilot":
        into = Collector(gpus=gpus, seen_on=seen_on, source=skypilot.SOURCE)
        skypilot.read_skypilot(rows, into, provider or skypilot.provider_of(path, known))
    else:
        into = Collector(gpus=gpus, seen_on=seen_on, source=gpuhunt.SOURCE)
        gpuhunt.read_gpuhunt(rows, into, provider or gpuhunt.provider_of(path, columns, known))
    return found, into.finished(len(rows))


def _rows_of(path: Path) -> tuple[frozenset[str], list[Row]]:
    if path.is_dir():
        raise UsageError(f"{path} is a directory: name the price table in it, a CSV file")
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"the price table {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a price table: it is not text") from error
    if not content.strip():
        raise UsageError(f"{path} is not a price table: it is empty")
    if "\0" in content:
        raise UsageError(f"{path} is not a price table: it is not text")
    try:
        reader = csv.DictReader(content.splitlines(keepends=True))
        return frozenset(reader.fieldnames or ()), list(reader)
    except csv.Error as error:
        raise UsageError(f"{path} is not a price table: {error}") from error


def _format_of(path: Path, columns: frozenset[str], asked: Format | None) -> Format:
    for name, needed in _COLUMNS.items():
        if asked in (None, name) and needed <= columns:
            return name
    if asked is not None:
        missing = ", ".join(sorted(_COLUMNS[asked] - columns))
        raise UsageError(f"{path} is not a table of {asked}: it has no column {missing}")
    raise UsageError(
        f"{path} is neither a table of SkyPilot (columns InstanceType, AcceleratorName, Price, …) nor of gpuhunt"
        " (instance_name, gpu_name, price, …)"
    )
