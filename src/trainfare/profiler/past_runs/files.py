"""Finds and opens the files of a past run; errors of the operating system become a UsageError."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from trainfare.errors import UsageError
from trainfare.profiler.past_runs.metric_names import enumerate_names

_MAX_DEPTH = 6
"""Levels of folders searched below the given one: logs are in `logs/name/version_3/`, and a whole disk is not
searched."""
_MAX_NAMED = 3


@contextmanager
def translate_read_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a UsageError that names the file."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{error.filename or path} cannot be read: {error.strerror or error}.", field="path"
        ) from error


def existing_path(path: str | Path) -> Path:
    """The path with `~` expanded; a UsageError if it does not exist."""
    found = Path(path).expanduser()
    with translate_read_errors(found):
        found.stat()
    return found


def readable_file(path: Path, kind: str) -> Path:
    """The path if it is a file; a UsageError that names the expected kind of file if it is a folder."""
    found = existing_path(path)
    if found.is_dir():
        raise UsageError(f"{found} is a folder; give the path of {kind} in it.", field="path")
    return found


def files_under(folder: Path, matches: Callable[[str], bool]) -> list[Path]:
    """The files in a folder and below it whose name `matches`, sorted."""
    found: list[Path] = []
    with translate_read_errors(folder):
        next(folder.iterdir(), None)  # os.walk ignores a folder that cannot be read
        for root, folders, names in os.walk(folder):
            if len(Path(root).relative_to(folder).parts) >= _MAX_DEPTH:
                folders.clear()
            folders.sort()
            found += [Path(root, name) for name in sorted(names) if matches(name)]
    return found


def no_run_found(folder: Path, expected: str, advice: str) -> UsageError:
    message = f"{folder} contains no run of this kind: neither it nor its subfolders contain {expected}. {advice}"
    return UsageError(message, field="path")


def other_runs_note(chosen: str, others: list[str]) -> str | None:
    """A sentence that says which of several runs was read; None if there is only one."""
    if not others:
        return None
    names = enumerate_names(others, _MAX_NAMED)
    return f"{len(others) + 1} runs were found; the newest, {chosen}, was read. The others are {names}."


def datetime_or_modified(timestamp: float | None, source: Path) -> datetime:
    """The date of a timestamp in seconds since 1970; the date of the file if there is none or it is not valid."""
    try:
        return datetime.fromtimestamp(timestamp, UTC) if timestamp is not None else modified_at(source)
    except (ValueError, OverflowError, OSError):
        return modified_at(source)


def modified_at(path: Path) -> datetime:
    with translate_read_errors(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
