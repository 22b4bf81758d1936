"""Finding what a past run left, and opening it: what goes wrong is said in one sentence."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from trainfare.errors import UsageError

_DEEPEST = 6
"""Folders below the one that was named. Logs lie in `logs/name/version_3/`; a whole disk is not searched."""
_NAMED = 3


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What the operating system refuses becomes news for the user."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{error.filename or path} cannot be read: {error.strerror or error}.") from error


def existing(path: str | Path) -> Path:
    found = Path(path).expanduser()
    with reading(found):
        found.stat()
    return found


def readable_file(path: Path, kind: str) -> Path:
    """Refuses a folder, and says what was wanted."""
    found = existing(path)
    if found.is_dir():
        raise UsageError(f"{found} is a folder; name the file in it: {kind}.")
    return found


def files_under(folder: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """Files whose name is `wanted`, also in folders below, in order."""
    found: list[Path] = []
    with reading(folder):
        next(folder.iterdir(), None)  # os.walk says nothing of a folder that may not be read
        for root, folders, names in os.walk(folder):
            if len(Path(root).relative_to(folder).parts) >= _DEEPEST:
                folders.clear()
            folders.sort()
            found += [Path(root, name) for name in sorted(names) if wanted(name)]
    return found


def nothing_there(folder: Path, looked_for: str, advice: str) -> UsageError:
    return UsageError(f"{folder} holds no run of that kind: {looked_for} was looked for, there and below. {advice}")


def others_note(chosen: str, others: list[str]) -> str | None:
    """Several runs in one folder: which was read, and which were not."""
    if not others:
        return None
    named = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
    return f"{len(others) + 1} runs were found; the newest, {chosen}, was read. Name another to read it: {named}."


def date_of(moment: float | None, source: Path) -> datetime:
    """The moment, in seconds since 1970; the date of the file where there is none, or one that no calendar has."""
    try:
        return datetime.fromtimestamp(moment, UTC) if moment is not None else changed_at(source)
    except (ValueError, OverflowError, OSError):
        return changed_at(source)


def changed_at(path: Path) -> datetime:
    with reading(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
