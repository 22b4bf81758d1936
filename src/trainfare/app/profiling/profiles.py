"""Lists, shows and removes stored profiles, shows their logs, and imports a profile from another machine."""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainfare.errors import NotFoundError, Remedy, StoreError, UsageError
from trainfare.model.document import from_json
from trainfare.model.profile import Origin, Profile
from trainfare.settings import Settings, read_settings
from trainfare.store.history import AlreadyStoredError, History
from trainfare.store.logs import read_log, remove_log
from trainfare.store.open import open_existing_history, open_history

_VALID_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
"""Ids that can be typed, printed and used as a file name without quoting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfiles:
    """The stored profiles, newest first, and a sentence for each damaged one, which is left out."""

    profiles: tuple[Profile, ...]
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedProfile:
    profile: Profile
    is_new: bool
    """False if the same profile was stored before, so that nothing changed."""


def list_profiles(*, settings: Settings | None = None) -> StoredProfiles:
    """The stored profiles, the newest first."""
    with open_existing_history((settings or read_settings()).store) as history:
        return StoredProfiles(profiles=history.profiles.all(), damaged=history.damaged)


def show_profile(profile_id: str, *, settings: Settings | None = None) -> Profile:
    """The stored profile of this id."""
    with open_existing_history((settings or read_settings()).store) as history:
        return history.profiles.get(profile_id)


def show_log(profile_id: str, *, settings: Settings | None = None) -> str:
    """The output of the program while this profile was measured; of a long output the beginning and the end."""
    settings = settings or read_settings()
    profile = show_profile(profile_id, settings=settings)
    text = read_log(Path(settings.logs), profile.id)
    if text is None:
        reason = _NO_LOG_REASON.get(profile.origin, _NO_LOG_OF_IMPORT)
        raise UsageError(f"no output of profile {profile.id} is stored: {reason}.", field="profile_id")
    return text


_NO_LOG_REASON: dict[Origin, str] = {
    "probe": "it was measured on another machine, or before output was stored",
    "run": "it is of a run, which has its own output",
    "code": "it was measured in the program's own process, which prints to its own terminal",
}
_NO_LOG_OF_IMPORT = "it was imported from the log of a past run"


def remove_profiles(profile_ids: Sequence[str], *, settings: Settings | None = None) -> tuple[str, ...]:
    """Remove profiles from the list, all or, if one does not exist, none; their logs are deleted.

    Stored estimates that are based on them keep their evidence.
    """
    settings = settings or read_settings()
    with open_existing_history(settings.store) as history:
        unique = tuple(dict.fromkeys(profile_ids))
        for profile_id in unique:
            # A damaged profile exists and may be removed.
            with suppress(StoreError):
                history.profiles.get(profile_id)
        for profile_id in unique:
            history.profiles.remove(profile_id)
            remove_log(Path(settings.logs), profile_id)
        return unique


def import_profile(path: str, *, settings: Settings | None = None) -> ImportedProfile:
    """Store a profile from a JSON document, as `to_json` writes it and the command line prints it; `-` is stdin.

    Importing the same profile again changes nothing; another one with a stored id is refused.
    """
    name = "the input from stdin" if path == "-" else path
    try:
        profile = from_json(Profile, _read(path))
    except ValueError as error:
        message = f"{name} cannot be imported: {error}. Import the JSON document of a profile."
        raise UsageError(
            message, field="path", remedies=[Remedy({"profile_id": "ID", "json": True}, command="profiles show")]
        ) from error
    if not _VALID_ID.fullmatch(profile.id):
        raise UsageError(
            f"{name} cannot be imported: {profile.id!r} is not a valid id. "
            "An id has up to 40 letters and digits, - and _.",
            field="path",
        )
    with open_history((settings or read_settings()).store) as history:
        try:
            history.profiles.add(profile)
        except AlreadyStoredError as error:
            if _is_stored(history, profile):
                return ImportedProfile(profile=profile, is_new=False)
            raise UsageError(
                f"{name} cannot be imported: the store has another profile {profile.id}, and stored profiles are "
                "never overwritten. Change the id in the file.",
                field="path",
            ) from error
    return ImportedProfile(profile=profile, is_new=True)


def _is_stored(history: History, profile: Profile) -> bool:
    try:
        return history.profiles.get(profile.id) == profile
    except NotFoundError:
        # Removed, and not the same: adding the same one would have restored it.
        return False


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", field="path") from error
