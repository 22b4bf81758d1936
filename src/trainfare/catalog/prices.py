"""Imported price tables, saved in our own format: one file a provider, such as `aws.csv`."""

import csv
import errno
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainfare.catalog.price_table import format_price_table, parse_offers
from trainfare.errors import ExternalError, UsageError
from trainfare.model.machine import Gpu
from trainfare.model.offer import Offer

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk or a quota that is full."""


def read_prices(directory: Path, gpus: Mapping[str, Gpu]) -> tuple[Offer, ...]:
    """The offers of every saved table; none if the directory does not exist."""
    if not directory.is_dir():
        return ()
    return tuple(offer for path in sorted(directory.glob("*.csv")) for offer in _read(path, gpus))


def price_file(directory: Path, provider: str) -> Path:
    """The file for the prices of a provider."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", provider):
        raise UsageError(
            f"{provider!r} is not the name of a provider: write it in lower case, as in aws", field="provider"
        )
    return directory / f"{provider}.csv"


def save_prices(directory: Path, provider: str, offers: Iterable[Offer]) -> Path:
    """Replace the saved table of that provider, completely or not at all."""
    path = price_file(directory, provider)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=directory, prefix=f".{provider}-", suffix=".tmp")
        unfinished = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(format_price_table(offers))
                file.flush()
                os.fsync(file.fileno())  # a table that replaces another is on the disk, even if the power fails
            unfinished.replace(path)
        except BaseException:  # Ctrl-C too: no partial table stays
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        remedy = "Free some space, or set" if error.errno in _FULL else "Set"
        raise ExternalError(
            f"the prices cannot be saved in {directory}: {error.strerror}. {remedy} TRAINFARE_PRICES to "
            f"{'another' if error.errno in _FULL else 'a writable'} directory."
        ) from error
    return path


def _read(path: Path, gpus: Mapping[str, Gpu]) -> tuple[Offer, ...]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return tuple(parse_offers(csv.DictReader(lines), gpus))
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(
            f"the price table saved in {path} cannot be read: {error}. Import it again, or remove the file."
        ) from error
