"""Brings checkpoints of a run home while it trains, and puts one back on the machine of the next attempt.

    checkpoints/2-41/            at home: a complete checkpoint of attempt 2, whose last entry has the number 41
    checkpoints/2-41/.node-1/    the part of it that node 1 saved, if several nodes save
    checkpoints/.arriving-2-41/  what has arrived of one

A fetch does a few seconds of work at a time, so that the lease of the supervisor is renewed and limits are seen in
between. It copies from a snapshot on the machine, which does not change; whatever has arrived stays, also if this
process is killed, and the next one continues. All files are verified before the checkpoint gets its name.
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainfare.clouds.door import Shell
from trainfare.clouds.driver import ResultFile
from trainfare.clouds.local_shell import target_in
from trainfare.clouds.sending import Parcel
from trainfare.clouds.snapshots import Snapshot, read_snapshot, remove_snapshot, take_snapshot
from trainfare.errors import ExternalError
from trainfare.model.run import Checkpoint, NodeFiles
from trainfare.runner.checkpoints import SavedCheckpoint, SavedPart

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
    _snapshots: dict[int, Snapshot] = field(default_factory=dict)
    _complete: set[Path] = field(default_factory=set)
    _digests: dict[Path, "hashlib._Hash"] = field(default_factory=dict)
    """Digests of what has arrived in this process, so that a large file need not be read again in one go."""

    @property
    def name(self) -> str:
        return f"{self.attempt}-{self.saved.number}"

    @property
    def parts(self) -> tuple[SavedPart, ...]:
        """The parts of all nodes, that of the first one that saves before the others."""
        saved = self.saved
        first = SavedPart(
            node=saved.node,
            number=saved.number,
            paths=saved.paths,
            saved_at=saved.saved_at,
            save_seconds=saved.save_seconds,
        )
        return (first, *saved.others)

    def advance(self, shells: Mapping[int, Shell], *, seconds: float) -> Checkpoint | None:
        """Work for about so long; returns the checkpoint once all parts of it are at home. `NoSnapshotError` if it
        cannot be had any more; after another `ExternalError` the next call continues."""
        until = self.clock() + seconds
        if any(part.node not in shells for part in self.parts):
            return None  # a node does not answer
        strict = self.was_killed or bool(self.saved.others)  # parts of two checkpoints must not be mixed
        for part in self.parts:
            if part.node not in self._snapshots:
                found = take_snapshot(
                    shells[part.node],
                    part.number,
                    paths=part.paths,
                    saved=part.saved_at.timestamp(),
                    save_seconds=None if strict else part.save_seconds,
                )
                if found is not None:
                    self._snapshots[part.node] = found
        if len(self._snapshots) < len(self.parts):
            return None
        return self._checkpoint() if self._has_arrived(shells, until) else None

    def forget(self, shells: Mapping[int, Shell]) -> None:
        """Free the disks of the machines; the next snapshot would do so too."""
        for part in self.parts:
            with suppress(ExternalError):
                remove_snapshot(shells[part.node], part.number)

    def _has_arrived(self, shells: Mapping[int, Shell], until: float) -> bool:
        """Continue with the files; True once all are there and the checkpoint has its name."""
        final, arriving = self.folder / self.name, self.folder / f".arriving-{self.name}"
        if final.exists():  # the process that fetched it was killed before it could say so
            return True
        self._remove_others()
        for part in self.parts:
            place = part_folder(arriving, self.saved.node, part.node)
            for name, file in self._snapshots[part.node].files.items():
                path = target_in(place, name)
                if path not in self._complete and not self._fetch(shells[part.node], part, name, file, path, until):
                    return False
                self._complete.add(path)
        arriving.rename(final)
        return True

    def _fetch(self, shell: Shell, part: SavedPart, name: str, file: ResultFile, path: Path, until: float) -> bool:
        """Continue one file; True when it is complete and right."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as target:
            if not target.tell():
                self._digests[path] = hashlib.sha256()
            while target.tell() < file.bytes:
                began = self.clock()
                limit = min(self._chunk, file.bytes - target.tell())
                piece = read_snapshot(shell, part.number, name, offset=target.tell(), limit=limit)
                if not piece:
                    del self._snapshots[part.node]  # it was removed: it is made again
                    raise ExternalError(f"the copy of {name} on the machine has ended early.")
                target.write(piece)
                if path in self._digests:
                    self._digests[path].update(piece)
                self._note_call(self.clock() - began)
                if self.clock() >= until and target.tell() < file.bytes:
                    return False
        if self._digest(path) == file.sha256:
            return True
        path.unlink()
        raise ExternalError(f"{name} was damaged on the way; it is fetched again.")

    def _digest(self, path: Path) -> str:
        if path in self._digests:
            return self._digests[path].hexdigest()
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

    def _checkpoint(self) -> Checkpoint:
        saved, snapshots = self.saved, self._snapshots
        path = saved.path
        if path.startswith("/"):
            path = f"{OUTSIDE}/{path.rpartition('/')[2]}" if len(saved.paths) == 1 else OUTSIDE
        return Checkpoint(
            name=self.name,
            path=path,
            files=tuple(snapshots[saved.node].files),
            bytes=sum(snapshot.bytes for snapshot in snapshots.values()),
            saved_at=saved.saved_at,
            iteration=saved.iteration,
            save_seconds=max(part.save_seconds for part in self.parts),
            fetch_seconds=self.seconds,
            resumes=saved.resumes,
            node=saved.node,
            others=tuple(NodeFiles(node=part.node, files=tuple(snapshots[part.node].files)) for part in saved.others),
        )


def part_folder(folder: Path, first: int, node: int) -> Path:
    """The folder of the part of a node in that of a checkpoint, whose other files are those of the `first` node."""
    return folder if node == first else folder / f".node-{node}"


def keep_newest(folder: Path, newest: Checkpoint, before: Checkpoint | None) -> None:
    """Remove all checkpoints at home but the last two."""
    kept = {newest.name, before.name if before else newest.name}
    for each in folder.iterdir() if folder.is_dir() else ():
        if each.is_dir() and not each.name.startswith(".") and each.name not in kept:
            shutil.rmtree(each, ignore_errors=True)


class CheckpointGoneError(ExternalError):
    """A checkpoint is not at home any more, or not whole."""


def parcels_back(folder: Path, checkpoint: Checkpoint, node: int) -> tuple[Parcel, ...]:
    """The files of a checkpoint that a node gets back, to their places in the program's folder: its own, and those of
    the first node. `CheckpointGoneError` if they are not at home any more."""
    home, parcels, left = folder / checkpoint.name, [], list(checkpoint.files_of(node))
    for each in dict.fromkeys((node, checkpoint.node)):
        place = part_folder(home, checkpoint.node, each)
        files = tuple(name for name in left if (place / name).is_file())
        left = [name for name in left if name not in files]
        if files:
            parcels.append(Parcel(folder=place, path="work", files=files))
    if left:
        raise CheckpointGoneError(f"The checkpoint {home} is not complete: {left[0]} is missing.")
    return tuple(parcels)


def copy_to_results(folder: Path, checkpoint: Checkpoint, results: Path) -> None:
    """Copy a checkpoint to the folder of results, each file in one step."""
    home = folder / checkpoint.name
    parts = [(part_folder(home, checkpoint.node, each.node), each.files) for each in checkpoint.others]
    for place, files in (*parts, (home, checkpoint.files)):
        for name in files:
            target = target_in(results, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.part")
            shutil.copy2(place / name, part)
            part.replace(target)
