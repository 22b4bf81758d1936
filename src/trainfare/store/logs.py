"""What programs printed while they were measured: one file a profile, in a folder of the user's own.

Beside history and not in it: a log is looked at now and then, may hold what is nobody else's business, and is removed
with its profile, while the facts of a profile stay because estimates lean on them.
"""

import os
from contextlib import suppress
from pathlib import Path


def keep_log(folder: Path, profile_id: str, text: str) -> bool:
    """False where it could not be written: the profile is worth more than its log."""
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
    try:
        return _path(folder, profile_id).read_text(encoding="utf-8")
    except OSError:
        return None


def remove_log(folder: Path, profile_id: str) -> None:
    _path(folder, profile_id).unlink(missing_ok=True)


def _path(folder: Path, profile_id: str) -> Path:
    return folder / f"{profile_id}.log"
