"""The files of a program that are sent to a machine: its folder, without what .gitignore and .trainfareignore name.

Folders of tools and environments are never sent. A link that leads out of the folder is not sent either: it is data,
or another project, and is reported. So is a folder that is too large, before anything is sent.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

from trainfare.errors import UsageError
from trainfare.units import format_large

IGNORE_FILES = (".gitignore", ".trainfareignore")
NEVER_SENT = frozenset(
    {
        ".git", ".hg", ".svn", ".venv", "venv", "node_modules", ".tox", ".nox", ".conda", "__pycache__", ".mypy_cache",
        ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", ".trainfare",
    }
)  # fmt: skip
ARRIVING = ".trainfare-arriving-"
"""The first letters of the folder of results that are on their way home."""
MAX_BYTES = 2_000_000_000
MAX_FILES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFiles:
    """Files below a folder, by their paths in it."""

    folder: Path
    files: tuple[str, ...]
    bytes: int
    outside_links: tuple[str, ...] = ()
    """Links that lead out of the folder, which are left out."""


def list_code_files(folder: Path, *, max_bytes: int = MAX_BYTES, leave_out: frozenset[str] = frozenset()) -> CodeFiles:
    """The files to send, without the paths in `leave_out`. `UsageError` if they are too many or too large, with the
    largest folders in it."""
    files: list[str] = []
    outside: list[str] = []
    sizes: dict[str, int] = {}
    try:
        for entry, is_outside in _walk(folder, PurePosixPath(), {}, leave_out):
            name = str(PurePosixPath(Path(entry.path).relative_to(folder)))
            if is_outside:
                outside.append(name)
                continue
            files.append(name)
            top = name.partition("/")[0]
            sizes[top] = sizes.get(top, 0) + entry.stat(follow_symlinks=False).st_size
            if len(files) > MAX_FILES or sum(sizes.values()) > max_bytes:
                raise _too_large(folder, sizes, len(files), max_bytes)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be read: {error.strerror}.") from error
    return CodeFiles(
        folder=folder, files=tuple(sorted(files)), bytes=sum(sizes.values()), outside_links=tuple(sorted(outside))
    )


def _walk(
    folder: Path, path: PurePosixPath, rules: Mapping[PurePosixPath, GitIgnoreSpec], leave_out: frozenset[str]
) -> Iterator[tuple["os.DirEntry[str]", bool]]:
    """Every file that is not ignored, and whether it is a link that leads out of the folder."""
    spec = _read_rules(folder / path)
    rules = {**rules, path: spec} if spec else rules
    with os.scandir(folder / path) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            at = path / entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if _is_never_sent(entry.name) or str(at) in leave_out or _is_ignored(at, is_folder, rules):
                continue
            if is_folder:
                yield from _walk(folder, at, rules, leave_out)
            elif entry.is_symlink():
                yield entry, not Path(entry.path).resolve().is_relative_to(folder.resolve())
            elif entry.is_file():
                yield entry, False


def _read_rules(folder: Path) -> GitIgnoreSpec | None:
    lines = [
        line
        for name in IGNORE_FILES
        if (folder / name).is_file()
        for line in (folder / name).read_text(errors="replace").splitlines()
    ]
    return GitIgnoreSpec.from_lines(lines) if lines else None


def _is_never_sent(name: str) -> bool:
    """True also for results that are on their way home."""
    return name in NEVER_SENT or name.startswith(ARRIVING)


def _is_ignored(path: PurePosixPath, is_folder: bool, rules: Mapping[PurePosixPath, GitIgnoreSpec]) -> bool:
    """True if the nearest rule that says something about the path excludes it."""
    for owner, spec in reversed(list(rules.items())):
        result = spec.check_file(f"{path.relative_to(owner)}{'/' if is_folder else ''}")
        if result.include is not None:
            return bool(result.include)
    return False


def _too_large(folder: Path, sizes: Mapping[str, int], files: int, max_bytes: int) -> UsageError:
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    total = min(max_bytes, sum(sizes.values()))
    named = ", ".join(f"{name} ({format_large(sizes[name])}B)" for name in largest)
    return UsageError(
        f"{folder} is too large to send: {files:,} files and more than {format_large(total)}B; "
        f"the largest so far are {named}. Name data in .trainfareignore, and place it on the machine."
    )
