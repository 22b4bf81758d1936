"""Result files on their way home, in parts of a few seconds, so that whoever receives them can look around in between.

    <folder>/.trainfare-arriving-<key>/    what has arrived, each file below its path

Small files come together, by the copy of the `Shell`; a file that would take longer than a part comes in pieces, and a
second process continues where a first was killed. Files are verified when they are whole. `settle` then moves them to
their places, so that no file is ever incomplete under its name.
"""

import hashlib
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from itertools import islice
from pathlib import Path

from trainfare.clouds.code_files import ARRIVING
from trainfare.clouds.door import MachineUnreachableError, Shell
from trainfare.clouds.driver import ResultFile
from trainfare.clouds.local_shell import target_in
from trainfare.errors import ExternalError

FIRST_PART, LEAST_PART, LARGEST_PART = 1 << 18, 1 << 16, 1 << 25
SHORT_SECONDS, LONG_SECONDS = 0.5, 2.0
"""The bytes of a call are doubled if it took less, and halved if it took more."""
_FILES = 2000
"""The number of files of a call."""
_HASHED = 1 << 24
"""The bytes that are read at home between two looks at the clock."""
_STATUS = 'exec "$(command -v python3 || command -v python)" -I -c "$@"'
_ASK_STATUS = "import os, sys; s = os.stat(sys.argv[1]); print(s.st_mode & 0o777, s.st_mtime_ns)"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file, and the node that has it."""

    node: int
    file: ResultFile


@dataclass(slots=True, kw_only=True)
class Receiving:
    """Files of the nodes of one launch on their way to a folder."""

    folder: Path
    key: str
    """The key of the launch."""
    files: Mapping[str, Wanted]
    clock: Callable[[], float] = time.monotonic
    bytes: int = 0
    """Bytes that this process has received."""
    seconds: float = 0.0
    """The time that they took."""
    _part: int = FIRST_PART
    _left: "deque[str]" = field(default_factory=deque)
    _arrived: set[str] = field(default_factory=set)
    """Files that are whole in the folder of arrivals."""
    _in_place: set[str] = field(default_factory=set)
    """Files that are whole under their names."""
    _digests: dict[str, tuple[int, "hashlib._Hash"]] = field(default_factory=dict)
    """For a file that comes in pieces, the bytes that have arrived and their digest."""
    _current: tuple[str, Iterator[None]] | None = None

    def __post_init__(self) -> None:
        self._left.extend(self.files)

    @property
    def arriving(self) -> Path:
        return self.folder / f"{ARRIVING}{self.key}"

    @property
    def whole(self) -> tuple[str, ...]:
        """The files that are at home and verified."""
        return tuple(name for name in self.files if name in self._arrived or name in self._in_place)

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in self.files if name not in self._arrived and name not in self._in_place)

    @property
    def whole_bytes(self) -> int:
        """The size of the files that are whole, and of the pieces of others."""
        pieces = sum(self._digests[name][0] for name in self.missing if name in self._digests)
        return pieces + sum(self.files[name].file.bytes for name in self.whole)

    @property
    def steps(self) -> tuple[int, int]:
        """A pair that changes whenever something was achieved."""
        return self.bytes, len(self._arrived) + len(self._in_place)

    def advance(self, shells: Mapping[int, Shell], *, seconds: float) -> bool:
        """Work for about so long; True once every file is at home and verified. After an `ExternalError` the next call
        continues, with a file that was damaged or cannot be had behind the others."""
        until = self.clock() + seconds
        try:
            while self._left:
                self._receive_some(shells)
                if self.clock() >= until:
                    break
        except OSError as error:
            self._current = None
            raise ExternalError(f"{self.folder} cannot be written: {error.strerror}.") from error
        except ExternalError:
            self._current = None
            self._part = max(LEAST_PART, self._part // 4)
            raise
        return not self._left

    def settle(self) -> None:
        """Move the files that are whole to their places, and remove what else has arrived."""
        try:
            for name in self.whole:
                if name in self._arrived:
                    target = target_in(self.folder, name)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    (self.arriving / name).replace(target)
                    self._arrived.discard(name)
                    self._in_place.add(name)
            shutil.rmtree(self.arriving, ignore_errors=True)
        except OSError as error:
            raise ExternalError(f"{self.folder} cannot be written: {error.strerror}.") from error

    def _receive_some(self, shells: Mapping[int, Shell]) -> None:
        """Receive the next files that are small enough together, or go on with one that is not."""
        node, batch, size = self.files[self._left[0]].node, list[str](), 0
        for name in islice(self._left, _FILES):
            size += self.files[name].file.bytes
            if self.files[name].node != node or size > self._part or name in self._digests:
                break
            batch.append(name)
        if batch:
            self._receive_batch(shells[node], batch)
            return
        name = self._left[0]
        if self._current is None or self._current[0] != name:
            self._current = (name, self._receive_large(shells[node], name))
        if next(self._current[1], self) is self:  # it has come to its end
            self._left.popleft()
            self._current = None

    def _receive_batch(self, shell: Shell, batch: list[str]) -> None:
        lacking = [name for name in batch if not self._find(name)]
        began = self.clock()
        try:
            if lacking:
                self.arriving.mkdir(parents=True, exist_ok=True)
                shell.fetch("work", self.arriving, files={name: self.files[name].file.sha256 for name in lacking})
        except MachineUnreachableError:
            self._note_batch(lacking)
            raise
        except ExternalError:
            self._note_batch(lacking)
            for _ in batch:
                self._left.rotate(-1)
            self._left = deque(name for name in self._left if name not in self._arrived and name not in self._in_place)
            raise
        self._note_batch(lacking, are_right=True)
        for _ in batch:
            self._left.popleft()
        self._note_call(self.clock() - began)

    def _note_batch(self, names: list[str], *, are_right: bool = False) -> None:
        """Note which files have arrived, after a call that may have ended early."""
        for name in names:
            file = self.files[name].file
            if are_right or _is(target_in(self.arriving, name), file):
                self._arrived.add(name)
                self.bytes += file.bytes

    def _find(self, name: str) -> bool:
        """A small file is at home, in its place or among the arrivals."""
        file = self.files[name].file
        if _is(target_in(self.folder, name), file):
            self._in_place.add(name)
        elif _is(target_in(self.arriving, name), file):
            self._arrived.add(name)
        return name in self._in_place or name in self._arrived

    def _receive_large(self, shell: Shell, name: str) -> Iterator[None]:
        """A file in pieces: it stops after each, and ends when the file is whole."""
        file, place, path = self.files[name].file, target_in(self.folder, name), target_in(self.arriving, name)
        if name not in self._digests and _size(place) == file.bytes:
            digest = hashlib.sha256()
            yield from _hashing(place, digest)
            if digest.hexdigest() == file.sha256:
                self._in_place.add(name)
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        yield from self._digest_arrived(name, path, file)
        with path.open("ab", buffering=0) as target:
            while self._digests[name][0] < file.bytes:
                self._receive_piece(shell, name, target)
                yield
        if self._digests.pop(name)[1].hexdigest() != file.sha256:
            path.unlink()
            self._left.rotate(-1)
            raise ExternalError(
                f"{name} is not what the machine reported: it changed there, or was damaged on the way."
            )
        _copy_status(shell, f"work/{name}", path)
        self._arrived.add(name)

    def _digest_arrived(self, name: str, path: Path, file: ResultFile) -> Iterator[None]:
        """Digest what another process has received of a file, or cut off what did not arrive in one piece."""
        size = _size(path) or 0
        position, digest = self._digests.get(name, (0, hashlib.sha256()))
        if size < position or (name not in self._digests and size > file.bytes):
            position, digest = 0, hashlib.sha256()
            path.unlink(missing_ok=True)
        elif name in self._digests and size > position:
            os.truncate(path, position)
        elif size > position:
            yield from _hashing(path, digest)
            position = size
        self._digests[name] = (position, digest)

    def _receive_piece(self, shell: Shell, name: str, target: FileIO) -> None:
        position, digest = self._digests[name]
        began = self.clock()
        limit = min(self._part, self.files[name].file.bytes - position)
        piece = shell.read(f"work/{name}", offset=position, limit=limit)
        if not piece:
            self._left.rotate(-1)
            raise ExternalError(f"{name} is shorter on the machine than it reported.")
        written = 0
        while written < len(piece):  # a disk that is almost full takes a part of it
            written += target.write(piece[written:]) or 0
        digest.update(piece)
        self._digests[name] = (position + len(piece), digest)
        self.bytes += len(piece)
        self._note_call(self.clock() - began)

    def _note_call(self, seconds: float) -> None:
        self.seconds += seconds
        if seconds < SHORT_SECONDS:
            self._part = min(LARGEST_PART, 2 * self._part)
        elif seconds > LONG_SECONDS:
            self._part = max(LEAST_PART, self._part // 2)


def _hashing(path: Path, digest: "hashlib._Hash") -> Iterator[None]:
    """Digest a file, stopping now and then."""
    with path.open("rb") as file:
        while piece := file.read(_HASHED):
            digest.update(piece)
            yield


def _size(path: Path) -> int | None:
    """The size of a plain file; None if there is none."""
    return path.stat().st_size if path.is_file() and not path.is_symlink() else None


def _is(path: Path, file: ResultFile) -> bool:
    """There is a plain file with the right content."""
    if _size(path) != file.bytes:
        return False
    with path.open("rb") as found:
        return hashlib.file_digest(found, "sha256").hexdigest() == file.sha256


def _copy_status(shell: Shell, source: str, path: Path) -> None:
    """Give a file the permissions and the time that it has on the machine, if they can be asked for."""
    with suppress(ExternalError, OSError, ValueError):
        mode, moment = map(int, shell.run(["sh", "-c", _STATUS, "sh", _ASK_STATUS, source]).output.split())
        path.chmod(mode)
        os.utime(path, ns=(moment, moment))
