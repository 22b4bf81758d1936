"""Files on their way to a machine, in parts of a few seconds, so that whoever sends them can look around in between.

Small files go together, by the copy of the `Shell`, which leaves out those that are there already. A file that would
take longer than a part goes in pieces into a file with another name, which gets its name and its time when it is whole:
so a second process continues where a first was killed.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainfare.clouds.door import Shell
from trainfare.errors import ExternalError, UsageError

FIRST_PART, LEAST_PART, LARGEST_PART = 1 << 20, 1 << 16, 1 << 26
SHORT_SECONDS, LONG_SECONDS = 0.5, 2.0
"""The bytes of a call are doubled if it took less, and halved if it took more."""
_FILES = 2000
"""The number of files of a call."""

_PIECE = """
import os, sys
target, offset, size, mtime, mode = sys.argv[1], *map(int, sys.argv[2:6])
part = target + ".trainfare-part"
if offset < 0:
    try:
        found = os.stat(target)
        if found.st_size == size and found.st_mtime_ns // 10**9 == mtime // 10**9:
            sys.exit(print(size))
    except OSError:
        pass
    arrived = os.path.getsize(part) if os.path.exists(part) else 0
    sys.exit(print(arrived if arrived <= size else 0))
os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
    file.seek(offset)
    for piece in iter(lambda: sys.stdin.buffer.read(1 << 20), b""):
        file.write(piece)
        offset += len(piece)
    if offset == size:
        file.truncate()
        os.chmod(part, mode)
        file.flush()
        os.utime(part, ns=(mtime, mtime))
        os.replace(part, target)
print(offset)
"""
"""Prints how much of a file is there, with a negative offset; otherwise writes a piece of it first."""
_PYTHON = 'exec "$(command -v python3 || command -v python)" -I -c "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Files of a folder at home, and the folder on the machine below which they are copied."""

    folder: Path
    path: str
    files: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Sending:
    """Parcels on their way to one machine."""

    parcels: tuple[Parcel, ...]
    clock: Callable[[], float] = time.monotonic
    bytes: int = 0
    """Bytes that this process has sent."""
    seconds: float = 0.0
    """The time that they took."""
    _parcel: int = 0
    _file: int = 0
    _offset: int | None = None
    """The place in the file that goes in pieces; None if it must be asked for."""
    _part: int = FIRST_PART

    def advance(self, shell: Shell, *, seconds: float) -> bool:
        """Work for about so long; True once everything is there. After an `ExternalError` the next call continues."""
        until = self.clock() + seconds
        while self._parcel < len(self.parcels):
            parcel = self.parcels[self._parcel]
            if self._file >= len(parcel.files):
                self._parcel, self._file = self._parcel + 1, 0
                continue
            began = self.clock()
            sent = self._send_some(shell, parcel)
            took = self.clock() - began
            if sent:
                self.bytes, self.seconds = self.bytes + sent, self.seconds + took
            self._adapt(took)
            if self.clock() >= until:
                break
        return self._parcel >= len(self.parcels)

    def _send_some(self, shell: Shell, parcel: Parcel) -> int:
        """Send the next files that are small enough together, or the next piece of one that is not."""
        batch: list[str] = []
        size = 0
        for name in parcel.files[self._file : self._file + _FILES]:
            size += _status(parcel.folder / name).st_size
            if size > self._part:
                break
            batch.append(name)
        if not batch:
            return self._send_piece(shell, parcel)
        sent = shell.send(parcel.folder, parcel.path, files=batch)
        self._file += len(batch)
        return sent

    def _send_piece(self, shell: Shell, parcel: Parcel) -> int:
        name = parcel.files[self._file]
        status, target = _status(parcel.folder / name), f"{parcel.path}/{name}"
        facts = (str(status.st_size), str(status.st_mtime_ns), str(status.st_mode & 0o777))
        sent = 0
        if self._offset is None:
            self._offset = _piece(shell, target, -1, facts)
        if self._offset < status.st_size:
            with (parcel.folder / name).open("rb") as file:
                file.seek(self._offset)
                content = file.read(self._part)
            before, self._offset = self._offset, None  # unknown until the machine has answered
            self._offset = _piece(shell, target, before, facts, content)
            sent = self._offset - before
        if self._offset >= status.st_size:
            self._file, self._offset = self._file + 1, None
        return sent

    def _adapt(self, seconds: float) -> None:
        if seconds < SHORT_SECONDS:
            self._part = min(LARGEST_PART, 2 * self._part)
        elif seconds > LONG_SECONDS:
            self._part = max(LEAST_PART, self._part // 2)


def _piece(shell: Shell, target: str, offset: int, facts: tuple[str, ...], content: bytes = b"") -> int:
    done = shell.run(["sh", "-c", _PYTHON, "sh", _PIECE, target, str(offset), *facts], given=content)
    if done.exit_code or not done.output.strip().isdigit():
        lines = done.error.decode(errors="replace").strip().splitlines()
        raise ExternalError(f"{target} could not be written on the machine: {lines[-1] if lines else 'no message'}.")
    return int(done.output)


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
