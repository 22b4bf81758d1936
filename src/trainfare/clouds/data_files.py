"""Data at home that is sent to machines: a file, or a folder with all that is in it."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from trainfare.agent.supply import content_digest
from trainfare.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFiles:
    """The files of a path, by their names in its folder."""

    path: Path
    files: tuple[str, ...]
    bytes: int
    stamp: str
    """Changes with the name, the size or the time of any file."""

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    def digest(self) -> str:
        """The SHA-256 of a file; of a folder, that of its list of names and hashes."""
        try:
            return content_digest(self.path)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error}.", field="data") from error


def list_data_files(path: Path) -> DataFiles:
    """The files to send. `UsageError` for links to folders, whose content would be missing."""
    names, total, stamp = [], 0, hashlib.sha256()
    try:
        for name in _names(path):
            status = (path / name if path.is_dir() else path).stat()
            names.append(name)
            total += status.st_size
            stamp.update(f"{name!a} {status.st_size} {status.st_mtime_ns}\n".encode())
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}.", field="data") from error
    if not names:
        raise UsageError(f"{path} has no files.", field="data")
    return DataFiles(path=path, files=tuple(names), bytes=total, stamp=stamp.hexdigest())


def _names(path: Path) -> list[str]:
    if not path.is_dir():
        return [path.name]
    found = []
    for parent, folders, names in os.walk(path):
        for name in folders:
            if Path(parent, name).is_symlink():
                raise UsageError(
                    f"{Path(parent, name)} is a link to a folder, which is not sent: name that folder too.",
                    field="data",
                )
        found += [str(Path(parent, name).relative_to(path)) for name in names]
    return sorted(found)
