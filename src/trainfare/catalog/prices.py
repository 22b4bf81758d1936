"""Imported price tables, kept in our own form: one file a provider, `aws.csv`."""

import csv
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainfare.catalog.table import offers_of, written
from trainfare.errors import ExternalError, UsageError
from trainfare.model.machine import Gpu
from trainfare.model.offer import Offer


def read_prices(directory: Path, gpus: Mapping[str, Gpu]) -> tuple[Offer, ...]:
    """The offers of every kept table; a directory that is not there holds none."""
    if not directory.is_dir():
        return ()
    return tuple(offer for path in sorted(directory.glob("*.csv")) for offer in _read(path, gpus))


def price_file(directory: Path, provider: str) -> Path:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", provider):
        raise UsageError(f"{provider!r} is not the name of a provider: write it in small letters, as in aws")
    return directory / f"{provider}.csv"


def save_prices(directory: Path, provider: str, offers: Iterable[Offer]) -> Path:
    """Replaces what was kept of that provider, whole or not at all."""
    path = price_file(directory, provider)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=directory, prefix=f".{provider}-", suffix=".tmp")
        unfinished = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(written(offers))
            unfinished.replace(path)
        except BaseException:  # Ctrl-C too: no half a table stays
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ExternalError(
            f"the prices cannot be kept in {directory}: {error.strerror}. Set TRAINFARE_PRICES to a directory"
            " that can be written."
        ) from error
    return path


def _read(path: Path, gpus: Mapping[str, Gpu]) -> tuple[Offer, ...]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return tuple(offers_of(csv.DictReader(lines), gpus))
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(
            f"the price table kept in {path} cannot be read: {error}. Import it again, or remove the file."
        ) from error
