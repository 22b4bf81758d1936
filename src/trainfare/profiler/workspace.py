"""The folder in which the program runs: a copy of its own folder, which is deleted after the run.

The copy has the same path below a temporary root: /tmp/trainfare-x/home/ada/project. At every level of the path there
are links to the neighbours of the original, so that `../data` is found. Entries of the folder are

    copied    files of up to 20 MB, and larger ones with a suffix of files that training writes (checkpoints)
    linked    other large files, which are data; and folders that a program only reads: .git, environments
    ignored   caches of tools, which are rebuilt; sockets and pipes

A program that overwrites a linked file, or writes to an absolute path, changes the original; the former is detected
afterwards and reported. If there is too much to copy, the program runs in its own folder.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainfare.units import plural

MAX_COPIED_BYTES = 200_000_000
MAX_COPIED_FILES = 5_000
"""Copying this much takes a second or two."""
MAX_COPIED_FILE_BYTES = 20_000_000
_MAX_NEIGHBOURS = 2_000
"""A parent folder with more entries than this is not mirrored, such as /tmp on a shared machine."""

LINKED = {".git", ".hg", ".svn", ".venv", "venv", "node_modules", ".tox", ".nox", ".conda"}
IGNORED = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
WRITTEN_BY_TRAINING = {
    ".pt", ".pth", ".ckpt", ".h5", ".hdf5", ".keras", ".safetensors", ".pkl", ".pickle", ".joblib", ".onnx", ".msgpack",
    ".db", ".sqlite", ".log",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes that the program made to the files of its folder."""

    written: tuple[str, ...] = ()
    """Files created or changed in the copy, without caches."""
    written_bytes: int = 0
    linked_changed: tuple[str, ...] = ()
    """Large files of the user that the program overwrote through their links."""


@dataclass(slots=True, kw_only=True)
class Workspace:
    """The folder in which the program runs and, after the run, the changes that it made there."""

    directory: Path
    is_copy: bool
    reason_in_place: str | None = None
    """The reason why it is not a copy, if one was requested."""
    saved: bool = False
    """The copy is not deleted after the run."""
    changes: Changes = field(default_factory=Changes)


@dataclass(slots=True)
class _CopyPlan:
    """The entries of a folder by what is done with them, as paths in the folder."""

    folders: list[str] = field(default_factory=list)
    copied: dict[str, os.stat_result] = field(default_factory=dict)
    linked: dict[str, os.stat_result] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    copied_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Copy:
    original: Path
    root: Path
    directory: Path
    plan: _CopyPlan


class _TooLargeError(Exception):
    """The folder is too large to copy; the message gives the reason."""


@contextmanager
def workspace(directory: Path, *, in_place: bool = False, keep: bool = False) -> Iterator[Workspace]:
    """A copy of the folder if it is not too large and `in_place` is False, else the folder itself.

    `keep` leaves the copy after the run.
    """
    copy = None
    reason = None
    if not in_place and directory.is_dir():  # starting the program reports a missing folder
        try:
            copy = _copy_folder(directory.resolve())
        except _TooLargeError as error:
            reason = str(error)
        except OSError as error:
            reason = f"it cannot be copied: {error.strerror or error}"
    if copy is None:
        yield Workspace(directory=directory, is_copy=False, reason_in_place=reason)
        return
    try:
        place = Workspace(directory=copy.directory, is_copy=True, saved=keep)
        yield place
        place.changes = _changes(copy)
    finally:
        if not keep:
            shutil.rmtree(copy.root, ignore_errors=True)


def _plan_copy(directory: Path) -> _CopyPlan:
    plan = _CopyPlan()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(directory / folder) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                with suppress(FileNotFoundError):  # deleted since it was listed
                    if _classify(plan, entry, path):
                        waiting.append(f"{path}/")
        if len(plan.copied) + len(plan.folders) + len(plan.links) > MAX_COPIED_FILES:
            raise _TooLargeError(f"it contains more than {plural(MAX_COPIED_FILES, 'file')}")
        if plan.copied_bytes > MAX_COPIED_BYTES:
            raise _TooLargeError(
                f"it contains more than {MAX_COPIED_BYTES // 10**6} MB of files that it might overwrite"
            )
    if plan.copied_bytes > shutil.disk_usage(tempfile.gettempdir()).free / 2:
        raise _TooLargeError(f"{tempfile.gettempdir()} has no space for a copy")
    return plan


def _classify(plan: _CopyPlan, entry: "os.DirEntry[str]", path: str) -> bool:
    """Add one entry to the plan; True for a folder whose entries are to be added too."""
    if entry.is_symlink():
        plan.links.append(path)
    elif entry.is_dir():
        if entry.name in LINKED or Path(entry.path, "pyvenv.cfg").exists():
            plan.linked[path] = entry.stat()
        elif entry.name not in IGNORED and os.access(entry.path, os.R_OK | os.X_OK):
            plan.folders.append(path)
            return True
    elif entry.is_file() and os.access(entry.path, os.R_OK):
        status = entry.stat()
        if status.st_size > MAX_COPIED_FILE_BYTES and Path(entry.name).suffix.lower() not in WRITTEN_BY_TRAINING:
            plan.linked[path] = status
        else:
            plan.copied[path] = status
            plan.copied_bytes += status.st_size
    return False


def _copy_folder(directory: Path) -> _Copy:
    plan = _plan_copy(directory)
    root = Path(tempfile.mkdtemp(prefix="trainfare-files-"))
    try:
        copy = root.joinpath(*directory.parts[1:])
        copy.mkdir(parents=True, exist_ok=True)
        _link_neighbours(directory, root)
        for path in plan.folders:
            (copy / path).mkdir()
        for path in plan.copied:
            with suppress(FileNotFoundError):
                shutil.copy2(directory / path, copy / path)
        for path in plan.linked:
            (copy / path).symlink_to(directory / path)
        for path in plan.links:
            (copy / path).symlink_to(_link_target(directory / path, directory))
    except BaseException:  # also Ctrl-C: no partial copy stays
        shutil.rmtree(root, ignore_errors=True)
        raise
    return _Copy(directory, root, copy, plan)


def _link_target(link: Path, directory: Path) -> str:
    """The target of the copied link: unchanged if it is relative and inside the folder, else the absolute path."""
    written = os.readlink(link)  # noqa: PTH115 # the text of the link, which a Path would normalise
    target = Path(os.path.normpath(link.parent / written))
    inside = not Path(written).is_absolute() and target.is_relative_to(directory)
    return written if inside else str(target)


def _link_neighbours(directory: Path, root: Path) -> None:
    """Link to the neighbours of the folder and of each of its parents."""
    for below in (directory, *directory.parents[:-1]):
        above = root.joinpath(*below.parent.parts[1:])
        try:
            neighbours = os.listdir(below.parent)  # noqa: PTH208 # only the names are needed, and pathlib would make paths
        except OSError:
            continue
        if len(neighbours) > _MAX_NEIGHBOURS:
            continue
        for name in neighbours:
            if name not in (below.name, root.name):
                with suppress(FileExistsError):
                    (above / name).symlink_to(below.parent / name)


def _changes(copy: _Copy) -> Changes:
    written, written_bytes = [], 0
    for folder, folders, files in os.walk(copy.directory):
        folders[:] = [name for name in folders if name not in IGNORED]
        for name in files:
            path = str(Path(folder, name).relative_to(copy.directory))
            status = os.lstat(Path(folder, name))
            before = copy.plan.copied.get(path)
            if stat.S_ISLNK(status.st_mode) or (before is not None and _is_unchanged(before, status)):
                continue
            written.append(path)
            written_bytes += status.st_size
    changed = [path for path, before in copy.plan.linked.items() if _has_changed(copy.original / path, before)]
    return Changes(written=tuple(sorted(written)), written_bytes=written_bytes, linked_changed=tuple(sorted(changed)))


def _has_changed(path: Path, before: os.stat_result) -> bool:
    try:
        return not stat.S_ISDIR(before.st_mode) and not _is_unchanged(before, path.stat())
    except OSError:
        return True


def _is_unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
