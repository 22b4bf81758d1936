"""Brings checkpoints of a run home while it trains, and puts one back on the machine of the next attempt.

    checkpoints/2-41/            at home: a complete checkpoint of attempt 2, whose last entry has the number 41
    checkpoints/.arriving-2-41/  what has arrived of one

A fetch does a few seconds of work at a time, so that the lease of the supervisor is renewed and limits are seen in
between. It copies from a snapshot on the machine, which does not change; whatever has arrived stays, also if this
process is killed, and the next one continues. All files are verified before the checkpoint gets its name.
"""

import hashlib
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainfare.clouds.door import Shell
from trainfare.clouds.driver import ResultFile
from trainfare.clouds.local_shell import target_in
from trainfare.clouds.snapshots import Snapshot, read_snapshot, remove_snapshot, take_snapshot
from trainfare.errors import ExternalError
from trainfare.model.run import Checkpoint
from trainfare.runner.checkpoints import SavedCheckpoint

KEPT = 2
"""Checkpoints at home, the newest ones: if the last is damaged, there is another."""
OUTSIDE = ".trainfare-checkpoint"
"""The folder of checkpoints that the program saved outside of its own, as in `agent/snapshot.py`."""
_FIRST_CHUNK, _LEAST_CHUNK, _LARGEST_CHUNK = 1 << 20, 1 << 16, 1 << 25
_SHORT_SECONDS, _LONG_SECONDS = 0.5, 2.0
"""The bytes of a call are doubled if it took less, and halved if it took more."""


def checkpoints_folder(run_folder: Path) -> Path:
    return run_folder / "checkpoints"


@dataclass(slots=True, kw_only=True)
class CheckpointFetch:
    """A checkpoint on its way home."""

    folder: Path
    """The folder of checkpoints of the run."""
    attempt: int
    saved: SavedCheckpoint
    was_killed: bool = False
    """The program was killed, so that a file that it wrote to later may be incomplete."""
    clock: Callable[[], float] = time.monotonic
    seconds: float = 0.0
    """The time that the transfer has taken in this process."""
    _chunk: int = _FIRST_CHUNK
    _snapshot: Snapshot | None = None
    _complete: set[str] = field(default_factory=set)
    _digests: dict[str, "hashlib._Hash"] = field(default_factory=dict)
    """Digests of what has arrived in this process, so that a large file need not be read again in one go."""

    @property
    def name(self) -> str:
        return f"{self.attempt}-{self.saved.number}"

    def advance(self, shell: Shell, *, seconds: float) -> Checkpoint | None:
        """Work for about so long; returns the checkpoint once it is at home. `NoSnapshotError` if it cannot be had any
        more; after another `ExternalError` the next call continues."""
        until = self.clock() + seconds
        if self._snapshot is None:
            saved = self.saved
            self._snapshot = take_snapshot(
                shell,
                saved.number,
                paths=saved.paths,
                saved=saved.saved_at.timestamp(),
                save_seconds=None if self.was_killed else saved.save_seconds,
            )
        if self._snapshot is None:
            return None
        return self._checkpoint(self._snapshot) if self._has_arrived(shell, self._snapshot, until) else None

    def forget(self, shell: Shell) -> None:
        """Free the disk of the machine; the next snapshot would do so too."""
        with suppress(ExternalError):
            remove_snapshot(shell, self.saved.number)

    def _has_arrived(self, shell: Shell, snapshot: Snapshot, until: float) -> bool:
        """Continue with the files; True once all are there and the checkpoint has its name."""
        final, arriving = self.folder / self.name, self.folder / f".arriving-{self.name}"
        if final.exists():  # the process that fetched it was killed before it could say so
            return True
        self._remove_others()
        for name, file in snapshot.files.items():
            if name not in self._complete and not self._fetch(shell, name, file, arriving, until):
                return False
            self._complete.add(name)
        arriving.rename(final)
        return True

    def _fetch(self, shell: Shell, name: str, file: ResultFile, arriving: Path, until: float) -> bool:
        """Continue one file; True when it is complete and right."""
        path = target_in(arriving, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as target:
            if not target.tell():
                self._digests[name] = hashlib.sha256()
            while target.tell() < file.bytes:
                began = self.clock()
                limit = min(self._chunk, file.bytes - target.tell())
                part = read_snapshot(shell, self.saved.number, name, offset=target.tell(), limit=limit)
                if not part:
                    self._snapshot = None  # it was removed: it is made again
                    raise ExternalError(f"the copy of {name} on the machine has ended early.")
                target.write(part)
                if name in self._digests:
                    self._digests[name].update(part)
                self._note_call(self.clock() - began)
                if self.clock() >= until and target.tell() < file.bytes:
                    return False
        if self._digest(name, path) == file.sha256:
            return True
        path.unlink()
        raise ExternalError(f"{name} was damaged on the way; it is fetched again.")

    def _digest(self, name: str, path: Path) -> str:
        if name in self._digests:
            return self._digests[name].hexdigest()
        with path.open("rb") as arrived:  # another process has begun with it
            return hashlib.file_digest(arrived, "sha256").hexdigest()

    def _note_call(self, seconds: float) -> None:
        self.seconds += seconds
        if seconds < _SHORT_SECONDS:
            self._chunk = min(_LARGEST_CHUNK, 2 * self._chunk)
        elif seconds > _LONG_SECONDS:
            self._chunk = max(_LEAST_CHUNK, self._chunk // 2)

    def _remove_others(self) -> None:
        for each in self.folder.glob(".arriving-*"):
            if each.name != f".arriving-{self.name}":
                shutil.rmtree(each, ignore_errors=True)

    def _checkpoint(self, snapshot: Snapshot) -> Checkpoint:
        saved = self.saved
        path = saved.path
        if path.startswith("/"):
            path = f"{OUTSIDE}/{path.rpartition('/')[2]}" if len(saved.paths) == 1 else OUTSIDE
        return Checkpoint(
            name=self.name,
            path=path,
            files=tuple(snapshot.files),
            bytes=snapshot.bytes,
            saved_at=saved.saved_at,
            iteration=saved.iteration,
            save_seconds=saved.save_seconds,
            fetch_seconds=self.seconds,
            resumes=saved.resumes,
        )


def keep_newest(folder: Path, newest: Checkpoint, before: Checkpoint | None) -> None:
    """Remove all checkpoints at home but the last two."""
    kept = {newest.name, before.name if before else newest.name}
    for each in folder.iterdir() if folder.is_dir() else ():
        if each.is_dir() and not each.name.startswith(".") and each.name not in kept:
            shutil.rmtree(each, ignore_errors=True)


def put_back(shell: Shell, folder: Path, checkpoint: Checkpoint) -> int:
    """Copy a checkpoint to its place in the program's folder on a machine; returns the bytes. `ExternalError` if it is
    not at home any more."""
    source = folder / checkpoint.name
    missing = [name for name in checkpoint.files if not (source / name).is_file()]
    if missing:
        raise ExternalError(f"The checkpoint {checkpoint.name} in {folder} is not complete: {missing[0]} is missing.")
    return shell.send(source, "work", files=checkpoint.files)


def copy_to_results(folder: Path, checkpoint: Checkpoint, results: Path) -> None:
    """Copy a checkpoint to the folder of results, each file in one step."""
    for name in checkpoint.files:
        target = target_in(results, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        shutil.copy2(folder / checkpoint.name / name, part)
        part.replace(target)
