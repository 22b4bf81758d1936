"""The catalog that gpuhunt publishes every day: one table a provider, each with its own version.

    <base>/<provider>/version                   `20261116-3`: the day, and the run of that day
    <base>/<provider>/20261116-3/catalog.zip    holds <provider>.csv

A provider that could not be collected keeps its last version. A source can also be a single table (`.csv`), an archive
of tables (`.zip`, named by provider), or a folder of them.
"""

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from trainfare.catalog.download import download
from trainfare.errors import ExternalError, UsageError

PUBLISHED_AT = "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com/v3"
PUBLISHED: Mapping[str, str] = {
    "aws": "aws",
    "azure": "azure",
    "gcp": "gcp",
    "lambda": "lambdalabs",
    "nebius": "nebius",
    "oci": "oci",
    "runpod": "runpod",
    "verda": "verda",
}
"""The providers whose tables are published, by our names, and their names there."""

_VERSION = re.compile(r"(\d{4})(\d{2})(\d{2})-\w+")
_MOST_BYTES = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A price table as its source has it."""

    name: str
    """The name of the file; it tells the provider if the table does not."""
    content: bytes
    seen_on: date | None
    """The day of the prices; None if the source does not tell."""
    version: str | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def is_url(source: str) -> bool:
    """True for an address on the network."""
    return urlsplit(source).scheme in ("http", "https")


def is_base(source: str) -> bool:
    """True for the address of a whole catalog, false for that of one file."""
    return is_url(source) and PurePosixPath(urlsplit(source).path).suffix not in (".csv", ".zip")


def fetch_published(base: str, provider: str, *, timeout_seconds: float) -> SourceTable:
    """The newest table of a provider."""
    theirs, base = PUBLISHED[provider], base.rstrip("/")
    url = f"{base}/{theirs}/version"
    version = download(url, timeout_seconds=timeout_seconds).content.decode("utf-8", "replace").strip()
    day = _day_of(version)
    if day is None or not _VERSION.fullmatch(version):
        raise ExternalError(f"{url} is not the version of a catalog: {version[:40]!r}.")
    url = f"{base}/{theirs}/{version}/catalog.zip"
    archive = download(url, timeout_seconds=timeout_seconds).content
    for name, content in _unpack(url, archive):
        if name == f"{theirs}.csv":
            return SourceTable(name=name, content=content, seen_on=day, version=version)
    raise ExternalError(f"{url} has no {theirs}.csv.")


def open_source(source: str, *, timeout_seconds: float) -> tuple[SourceTable, ...]:
    """The tables of a file, an archive or a folder, here or on a server."""
    if is_url(source):
        found = download(source, timeout_seconds=timeout_seconds)
        name = PurePosixPath(urlsplit(source).path).name
        return tuple(_tables(source, name, found.content, _day_of(source) or found.changed_on))
    path = Path(source)
    try:
        paths = sorted(path.glob("*.csv")) if path.is_dir() else [path]
        if not paths:
            raise UsageError(f"{path} has no price table: no file in it ends in .csv", field="source")
        return tuple(
            table for each in paths for table in _tables(str(each), str(each), each.read_bytes(), _changed(each))
        )
    except OSError as error:
        raise UsageError(f"the price table {source} cannot be read: {error.strerror}", field="source") from error


def _tables(source: str, name: str, content: bytes, seen_on: date | None) -> Iterator[SourceTable]:
    if not zipfile.is_zipfile(io.BytesIO(content)):
        yield SourceTable(name=name, content=content, seen_on=seen_on)
        return
    for member, unpacked in _unpack(source, content):
        if member.endswith(".csv"):
            yield SourceTable(name=member, content=unpacked, seen_on=seen_on)


def _unpack(source: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of an archive. Reading one checks its checksum."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MOST_BYTES:
                raise ExternalError(
                    f"{source} unpacks to more than {_MOST_BYTES // 1024**2} MiB: that is no price table."
                )
            for member in archive.infolist():
                yield member.filename, archive.read(member)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise ExternalError(f"{source} is not an archive that can be read: {error}.") from error


def _day_of(text: str) -> date | None:
    """The day of a version, or of an address that contains one."""
    found = _VERSION.search(text)
    try:
        return date(*(int(part) for part in found.groups())) if found else None
    except ValueError:
        return None


def _changed(path: Path) -> date:
    return datetime.fromtimestamp(path.stat().st_mtime, tz=UTC).date()
