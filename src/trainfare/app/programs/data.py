"""Reads what data a program needs: `NAME=SOURCE`, or the source alone.

cifar=./cifar-10                     a file or folder at home: sent once to each host
cifar=https://host/cifar.tar         fetched on the machine, once on each host; `#sha256=…` verifies it
cifar=machine:/mnt/cifar             on the machine already: only looked for
"""

import ipaddress
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from trainfare.clouds.data_files import DataFiles, list_data_files
from trainfare.errors import Remedy, UsageError
from trainfare.model.supplies import DataSource
from trainfare.settings import Settings

_ON_THE_MACHINE = "machine:"
_NAMED = re.compile(r"([\w.-]+(?:/[\w.-]+)*)=(.+)", re.DOTALL)


def read_data(texts: Sequence[str], folder: Path, *, allow_private: bool, settings: Settings) -> tuple[DataSource, ...]:
    """The data that texts name. `folder` is that of the program: data in it keeps its place."""
    found = tuple(_read(text, folder, allow_private, Path(settings.runs) / "data") for text in texts)
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1 or any(other.startswith(f"{name}/") for other in names):
            raise UsageError(f"two sources of data have the name {name}: write NAME=SOURCE.", field="data")
    return found


def _read(text: str, folder: Path, allow_private: bool, known: Path) -> DataSource:
    match = None if Path(text).exists() else _NAMED.fullmatch(text)
    name, source = (match[1], match[2]) if match else (None, text)
    try:
        if source.startswith(_ON_THE_MACHINE):
            return _on_the_machine(name, source.removeprefix(_ON_THE_MACHINE))
        if "://" in source:
            return _fetched(name, source, allow_private)
        return _sent(name, Path(source).expanduser(), folder, known)
    except ValueError as error:
        raise UsageError(f"{text}: {error}.", field="data") from error


def _on_the_machine(name: str | None, path: str) -> DataSource:
    if not path.startswith(("/", "~/")):
        raise ValueError("a path on the machine begins with / or ~/")
    return DataSource(name=name or PurePosixPath(path).name, kind="there", source=path)


def _fetched(name: str | None, url: str, allow_private: bool) -> DataSource:
    address, _, fragment = url.partition("#")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{parts.scheme} is not fetched, only http and https are")
    if not parts.hostname:
        raise ValueError("the URL has no host")
    if parts.username or parts.password:
        raise ValueError("the URL has a password, which would be stored; use a setup command and a secret")
    if not allow_private and _is_private(parts.hostname):
        raise UsageError(
            f"{url}: {parts.hostname} is not a public address.",
            field="data",
            remedies=[Remedy({"allow_private": True})],
        )
    digest = fragment.removeprefix("sha256=") if fragment else None
    if fragment and not fragment.startswith("sha256="):
        raise ValueError("after # only sha256=… is known")
    usual = PurePosixPath(parts.path).name
    if not (name or usual):
        raise ValueError("the URL names no file: write NAME=URL")
    return DataSource(
        name=name or usual,
        kind="fetched",
        source=address,
        sha256=digest.lower() if digest else None,
        allow_private=allow_private,
    )


def _is_private(host: str) -> bool:
    """True for addresses that are not public as they are written; names are looked up on the machine."""
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False


def _sent(name: str | None, path: Path, folder: Path, known: Path) -> DataSource:
    if not path.exists():
        raise ValueError("there is no such file or folder here")
    place = path.resolve()
    if place == folder.resolve() or folder.resolve().is_relative_to(place):
        raise ValueError("the folder of the program is sent with its code")
    inside = place.relative_to(folder.resolve()) if place.is_relative_to(folder.resolve()) else None
    files = list_data_files(place)
    return DataSource(
        name=name or (str(PurePosixPath(inside)) if inside else place.name),
        kind="sent",
        source=str(place),
        sha256=_remembered_digest(files, known),
        bytes=files.bytes,
    )


def _remembered_digest(files: DataFiles, known: Path) -> str:
    """The digest of the content, which is computed again only when a size or a time has changed."""
    remembered = known / f"{sha256(str(files.path).encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # it is unknown, or the note is damaged
        record = json.loads(remembered.read_text())
        if record["stamp"] == files.stamp:
            return str(record["sha256"])
    digest = files.digest()
    known.mkdir(parents=True, exist_ok=True)
    remembered.write_text(json.dumps({"stamp": files.stamp, "sha256": digest}))
    return digest
