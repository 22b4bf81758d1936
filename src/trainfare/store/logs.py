"""The output of programs while they were profiled: one file a profile, in a folder of the user.

Logs are not part of history: a log is rarely read, may hold secrets, and is removed with its profile, while the facts
of a profile stay because estimates refer to them.
"""

import os
from contextlib import suppress
from pathlib import Path


def save_log(folder: Path, profile_id: str, text: str) -> bool:
    """Write the log. False if that fails: a profile without its log is still worth having."""
    path = _path(folder, profile_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A program may print a password.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        with suppress(OSError):
            path.unlink()
        return False
    return True


def read_log(folder: Path, profile_id: str) -> str | None:
    """The log of a profile; None if there is none."""
    try:
        return _path(folder, profile_id).read_text(encoding="utf-8")
    except OSError:
        return None


def remove_log(folder: Path, profile_id: str) -> None:
    _path(folder, profile_id).unlink(missing_ok=True)


def _path(folder: Path, profile_id: str) -> Path:
    return folder / f"{profile_id}.log"
