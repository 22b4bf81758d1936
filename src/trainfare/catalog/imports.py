"""Reads price tables of other projects. Rows that cannot be used are counted, never guessed."""

import csv
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

from trainfare.catalog import gpuhunt, skypilot
from trainfare.catalog.collector import OfferCollector, Row
from trainfare.errors import UsageError
from trainfare.model.catalog import ImportedTable, TableFormat
from trainfare.model.machine import Gpu, VmType

_COLUMNS: Mapping[TableFormat, frozenset[str]] = {"skypilot": skypilot.COLUMNS, "gpuhunt": gpuhunt.COLUMNS}


def read_price_table(
    path: Path,
    *,
    content: bytes | None = None,
    gpus: Mapping[str, Gpu],
    known_providers: Iterable[str],
    seen_on: date,
    provider: str | None = None,
    format_: TableFormat | None = None,
    cpu_machines: Mapping[tuple[str, str], VmType] | None = None,
) -> tuple[TableFormat, ImportedTable]:
    """The format and the contents of a price table; a file that is not one is a `UsageError`.

    With `content`, the bytes of a table that came from elsewhere, no file is read; `path` is its name, which errors
    mention and from which the provider may be known. `cpu_machines` are the machines without a GPU, by machine and
    region, whose prices are of interest.
    """
    columns, rows = _parse_rows(path, _read_bytes(path) if content is None else content)
    known = frozenset(known_providers)
    table_format = _detect_format(path, columns, format_)
    source = skypilot.SOURCE if table_format == "skypilot" else gpuhunt.SOURCE
    collector = OfferCollector(gpus=gpus, seen_on=seen_on, source=source, cpu_machines=cpu_machines)
    if table_format == "skypilot":
        skypilot.read_skypilot(rows, collector, provider or skypilot.provider_from_path(path, known))
    else:
        gpuhunt.read_gpuhunt(rows, collector, provider or gpuhunt.provider_from_path(path, columns, known))
    return table_format, collector.table(len(rows))


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise UsageError(f"{path} is a directory: name the price table in it, a CSV file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"the price table {path} cannot be read: {error.strerror}") from error


def _parse_rows(path: Path, content: bytes) -> tuple[frozenset[str], list[Row]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a price table: it is not text") from error
    if not text.strip():
        raise UsageError(f"{path} is not a price table: it is empty")
    if "\0" in text:
        raise UsageError(f"{path} is not a price table: it is not text")
    try:
        reader = csv.DictReader(text.splitlines(keepends=True))
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
