"""Reads price tables of other projects. Rows that cannot be used are counted, never guessed."""

import csv
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

from trainfare.catalog import gpuhunt, skypilot
from trainfare.catalog.collector import OfferCollector, Row
from trainfare.errors import UsageError
from trainfare.model.catalog import ImportedTable, TableFormat
from trainfare.model.machine import Gpu

_COLUMNS: Mapping[TableFormat, frozenset[str]] = {"skypilot": skypilot.COLUMNS, "gpuhunt": gpuhunt.COLUMNS}


def read_price_table(
    path: Path,
    *,
    gpus: Mapping[str, Gpu],
    known_providers: Iterable[str],
    seen_on: date,
    provider: str | None = None,
    format_: TableFormat | None = None,
) -> tuple[TableFormat, ImportedTable]:
    """The format and the contents of a price table; a file that is not one is a `UsageError`."""
    columns, rows = _read_rows(path)
    known = frozenset(known_providers)
    table_format = _detect_format(path, columns, format_)
    if table_format == "skypilot":
        collector = OfferCollector(gpus=gpus, seen_on=seen_on, source=skypilot.SOURCE)
        skypilot.read_skypilot(rows, collector, provider or skypilot.provider_from_path(path, known))
    else:
        collector = OfferCollector(gpus=gpus, seen_on=seen_on, source=gpuhunt.SOURCE)
        gpuhunt.read_gpuhunt(rows, collector, provider or gpuhunt.provider_from_path(path, columns, known))
    return table_format, collector.table(len(rows))


def _read_rows(path: Path) -> tuple[frozenset[str], list[Row]]:
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


def _detect_format(path: Path, columns: frozenset[str], requested: TableFormat | None) -> TableFormat:
    for name, needed in _COLUMNS.items():
        if requested in (None, name) and needed <= columns:
            return name
    if requested is not None:
        missing = ", ".join(sorted(_COLUMNS[requested] - columns))
        raise UsageError(f"{path} is not a table of {requested}: it has no column {missing}", field="format")
    raise UsageError(
        f"{path} is neither a table of SkyPilot (columns InstanceType, AcceleratorName, Price, …) nor of gpuhunt"
        " (instance_name, gpu_name, price, …)"
    )
