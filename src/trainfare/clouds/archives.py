"""Unpacks an archive with a program: a wheel or a zip, which may come from anywhere.

Every entry is checked before the first byte is written: no absolute path, no `..`, no link, no device, no two entries
of one name, no file where another entry needs a folder; and caps on number, size and ratio of compression. The size is
also checked while reading, because the table of an archive may lie.
"""

import hashlib
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trainfare.errors import UsageError
from trainfare.units import format_large

SUFFIXES = (".whl", ".zip")
MAX_BYTES = 2_000_000_000
MAX_ENTRIES = 100_000
MAX_RATIO = 200
"""Deflate reaches about 1,030 with zeros; text that people write stays below 20."""
SMALL_BYTES = 10_000_000
"""The ratio of a file that is not larger is no danger."""
_CHUNK_BYTES = 1 << 20
_MAX_NAME = 1024
_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError)
"""Errors of `zipfile` for content that is no archive; UnicodeDecodeError is a ValueError."""
_REGULAR = {0, stat.S_IFREG}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackLimits:
    bytes: int = MAX_BYTES
    entries: int = MAX_ENTRIES


DEFAULT_LIMITS = UnpackLimits()


def is_archive(path: Path) -> bool:
    return path.suffix in SUFFIXES and path.is_file()


def unpack(archive: Path, places: Path, limits: UnpackLimits = DEFAULT_LIMITS) -> Path:
    """Unpack an archive below the folder `places`, once for its content; returns the folder of its files. `UsageError`
    if it is damaged or malicious: then nothing is left of it."""
    try:
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        target = places / f"{archive.stem}-{digest[:16]}"
        if not target.is_dir():
            _unpack_in_one_step(archive, target, limits)
    except _DAMAGED as error:
        raise UsageError(f"{archive} cannot be unpacked: {error}.") from error
    except OSError as error:
        raise UsageError(f"{archive} cannot be unpacked: {error.strerror or error}.") from error
    return _without_single_folder(target, archive)


def _unpack_in_one_step(archive: Path, target: Path, limits: UnpackLimits) -> None:
    """A folder of that name is complete: it gets its name last."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        with zipfile.ZipFile(archive) as opened:
            names = _checked(archive, opened.infolist(), limits)
            left = limits.bytes
            for entry, name in names.items():
                left -= _write(opened, entry, fresh / name, left, archive)
        try:
            fresh.rename(target)
        except OSError:  # another process was faster
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _checked(
    archive: Path, entries: Sequence[zipfile.ZipInfo], limits: UnpackLimits
) -> dict[zipfile.ZipInfo, PurePosixPath]:
    """The files of an archive and the paths that they get."""
    if len(entries) > limits.entries:
        raise UsageError(f"{archive} has {len(entries):,} entries; at most {limits.entries:,} are unpacked.")
    size, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
    if size > limits.bytes:
        raise UsageError(
            f"{archive} has {format_large(size)}B of files; at most {format_large(limits.bytes)}B are unpacked. "
            "Data belongs elsewhere."
        )
    if size > SMALL_BYTES and size > MAX_RATIO * packed:
        raise UsageError(f"{archive} grows {size // max(1, packed)}-fold when unpacked, as only malicious archives do.")
    found: dict[zipfile.ZipInfo, PurePosixPath] = {}
    for entry in entries:
        name = _safe_name(archive, entry)
        if not entry.is_dir():
            found[entry] = _installed(name) if archive.suffix == ".whl" else name
    _require_distinct(archive, list(found.values()))
    return found


def _safe_name(archive: Path, entry: zipfile.ZipInfo) -> PurePosixPath:
    """The path of an entry, which must be a file or a folder inside."""
    name, kind = entry.orig_filename, stat.S_IFMT(entry.external_attr >> 16)
    path = PurePosixPath(name)
    reason = None
    if path.is_absolute() or ".." in path.parts or "\\" in name or (len(name) > 1 and name[1] == ":"):
        reason = "which leads out of the archive"
    elif not path.parts or "\0" in name or len(name) > _MAX_NAME or not name.isprintable():
        reason = "which is no name for a file"
    elif kind == stat.S_IFLNK:
        reason = "which is a link"
    elif kind not in (_REGULAR | ({stat.S_IFDIR} if entry.is_dir() else set())):
        reason = "which is neither a file nor a folder"
    elif entry.flag_bits & 1:
        reason = "which is encrypted"
    if reason is not None:
        raise UsageError(f"{archive} is refused: it has an entry {name[:80]!a}, {reason}. Nothing was unpacked.")
    return path


def _installed(name: PurePosixPath) -> PurePosixPath:
    """The path of a wheel's file after an installation: scripts and packages in `x.data/` go to the top."""
    parts = name.parts
    if len(parts) > 2 and parts[0].endswith(".data") and parts[1] in ("scripts", "purelib", "platlib", "data"):
        return PurePosixPath(*parts[2:])
    return name


def _require_distinct(archive: Path, names: Sequence[PurePosixPath]) -> None:
    files = set(names)
    twice = len(files) < len(names)
    if twice or any(parent in files for name in names for parent in name.parents):
        raise UsageError(f"{archive} is refused: two of its entries have one name. Nothing was unpacked.")


def _write(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, left: int, archive: Path) -> int:
    """Write one file; returns its size, which must be the one that the archive states."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with opened.open(entry) as source, path.open("xb") as file:
        while chunk := source.read(_CHUNK_BYTES):
            written += len(chunk)
            if written > min(left, entry.file_size):
                raise UsageError(f"{archive} is refused: {entry.filename!a} is larger than the archive says.")
            file.write(chunk)
    if entry.external_attr >> 16 & 0o111:
        path.chmod(0o700)
    return written


def _without_single_folder(target: Path, archive: Path) -> Path:
    """The folder in a zip that has nothing else, as `project.zip` has `project/`."""
    inside = list(target.iterdir())
    return inside[0] if archive.suffix == ".zip" and len(inside) == 1 and inside[0].is_dir() else target
