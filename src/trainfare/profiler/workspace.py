"""Where the program runs, so that it leaves no trace: a copy of its folder, which goes when the run is over.

The copy stands at the end of the same path below a temporary root: /tmp/trainfare-x/home/ada/project. Beside it, at
every level, stand links to what is beside the original, so `../data` is found. In it,

    copied    files of up to 20 MB, and larger ones whose ending says that a training writes them (checkpoints)
    linked    other large files, which are data; and folders that a program only reads: .git, environments
    left out  caches of tools, which make themselves again; sockets and pipes

A program that overwrites a linked file, or writes to an absolute path, changes the original; the first is noticed
afterwards and said. Where there is too much to copy, the program runs in its own folder.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

MOST_BYTES = 200_000_000
MOST_FILES = 5_000
"""Copying so much takes a second or two."""
LARGE_BYTES = 20_000_000
_MOST_BESIDE = 2_000
"""A folder above with more entries than this is not mirrored: /tmp on a shared machine."""

LINKED = {".git", ".hg", ".svn", ".venv", "venv", "node_modules", ".tox", ".nox", ".conda"}
LEFT_OUT = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
WRITTEN_BY_TRAINING = {
    ".pt", ".pth", ".ckpt", ".h5", ".hdf5", ".keras", ".safetensors", ".pkl", ".pickle", ".joblib", ".onnx", ".msgpack",
    ".db", ".sqlite", ".log",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What the program did to the files that it was given."""

    written: tuple[str, ...] = ()
    """Made or changed in the copy; without caches."""
    written_bytes: int = 0
    linked_changed: tuple[str, ...] = ()
    """Large files of the user that it overwrote through their links."""


@dataclass(slots=True, kw_only=True)
class Workspace:
    """The folder in which the program runs, and afterwards what it did there."""

    directory: Path
    is_copy: bool
    why_in_place: str | None = None
    """Why it is not a copy, where one was wanted."""
    kept: bool = False
    changes: Changes = field(default_factory=Changes)


@dataclass(slots=True)
class _Plan:
    """What is to be done for each entry, by its path in the folder."""

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
    plan: _Plan


class _TooMuch(Exception):
    """The folder is not cheap to copy; the message says why."""


@contextmanager
def workspace(directory: Path, *, in_place: bool = False, keep: bool = False) -> Iterator[Workspace]:
    """A copy of the folder if that is cheap and wanted, else the folder itself. `keep` leaves the copy behind."""
    copy = None
    why = None
    if not in_place and directory.is_dir():  # one that is not there is for whoever starts the program to say
        try:
            copy = _copied(directory.resolve())
        except _TooMuch as error:
            why = str(error)
        except OSError as error:
            why = f"it cannot be copied: {error.strerror or error}"
    if copy is None:
        yield Workspace(directory=directory, is_copy=False, why_in_place=why)
        return
    try:
        place = Workspace(directory=copy.directory, is_copy=True, kept=keep)
        yield place
        place.changes = _changes(copy)
    finally:
        if not keep:
            shutil.rmtree(copy.root, ignore_errors=True)


def _planned(directory: Path) -> _Plan:
    plan = _Plan()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(directory / folder) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                with suppress(FileNotFoundError):  # gone since it was listed
                    if _sort(plan, entry, path):
                        waiting.append(f"{path}/")
        if len(plan.copied) + len(plan.folders) + len(plan.links) > MOST_FILES:
            raise _TooMuch(f"it holds more than {MOST_FILES} files")
        if plan.copied_bytes > MOST_BYTES:
            raise _TooMuch(f"it holds more than {MOST_BYTES // 10**6} MB of files that it might overwrite")
    if plan.copied_bytes > shutil.disk_usage(tempfile.gettempdir()).free / 2:
        raise _TooMuch(f"{tempfile.gettempdir()} has no room for a copy")
    return plan


def _sort(plan: _Plan, entry: "os.DirEntry[str]", path: str) -> bool:
    """Put one entry where it belongs; True for a folder that is to be looked into."""
    if entry.is_symlink():
        plan.links.append(path)
    elif entry.is_dir():
        if entry.name in LINKED or Path(entry.path, "pyvenv.cfg").exists():
            plan.linked[path] = entry.stat()
        elif entry.name not in LEFT_OUT and os.access(entry.path, os.R_OK | os.X_OK):
            plan.folders.append(path)
            return True
    elif entry.is_file() and os.access(entry.path, os.R_OK):
        facts = entry.stat()
        if facts.st_size > LARGE_BYTES and Path(entry.name).suffix.lower() not in WRITTEN_BY_TRAINING:
            plan.linked[path] = facts
        else:
            plan.copied[path] = facts
            plan.copied_bytes += facts.st_size
    return False


def _copied(directory: Path) -> _Copy:
    plan = _planned(directory)
    root = Path(tempfile.mkdtemp(prefix="trainfare-files-"))
    try:
        copy = root.joinpath(*directory.parts[1:])
        copy.mkdir(parents=True, exist_ok=True)
        _mirror_above(directory, root)
        for path in plan.folders:
            (copy / path).mkdir()
        for path in plan.copied:
            with suppress(FileNotFoundError):
                shutil.copy2(directory / path, copy / path)
        for path in plan.linked:
            (copy / path).symlink_to(directory / path)
        for path in plan.links:
            (copy / path).symlink_to(_target(directory / path, directory))
    except BaseException:  # Ctrl-C too: no half a copy stays
        shutil.rmtree(root, ignore_errors=True)
        raise
    return _Copy(directory, root, copy, plan)


def _target(link: Path, directory: Path) -> str:
    """A link that stays in the folder stays as it is; one that leaves it points to where it did."""
    written = os.readlink(link)  # noqa: PTH115 # the text of the link, which a Path would tidy
    pointed = Path(os.path.normpath(link.parent / written))
    inside = not Path(written).is_absolute() and pointed.is_relative_to(directory)
    return written if inside else str(pointed)


def _mirror_above(directory: Path, root: Path) -> None:
    """Links to what stands beside the folder and beside each folder above it."""
    for below in (directory, *directory.parents[:-1]):
        above = root.joinpath(*below.parent.parts[1:])
        try:
            beside = os.listdir(below.parent)  # noqa: PTH208 # names are wanted, not paths
        except OSError:
            continue
        if len(beside) > _MOST_BESIDE:
            continue
        for name in beside:
            if name not in (below.name, root.name):
                with suppress(FileExistsError):
                    (above / name).symlink_to(below.parent / name)


def _changes(copy: _Copy) -> Changes:
    written, written_bytes = [], 0
    for folder, folders, files in os.walk(copy.directory):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in files:
            path = str(Path(folder, name).relative_to(copy.directory))
            facts = os.lstat(Path(folder, name))
            before = copy.plan.copied.get(path)
            if stat.S_ISLNK(facts.st_mode) or (before is not None and _same(before, facts)):
                continue
            written.append(path)
            written_bytes += facts.st_size
    changed = [path for path, before in copy.plan.linked.items() if _was_changed(copy.original / path, before)]
    return Changes(written=tuple(sorted(written)), written_bytes=written_bytes, linked_changed=tuple(sorted(changed)))


def _was_changed(path: Path, before: os.stat_result) -> bool:
    try:
        return not stat.S_ISDIR(before.st_mode) and not _same(before, path.stat())
    except OSError:
        return True


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
