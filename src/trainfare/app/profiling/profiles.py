"""Profiles that are kept: list them, look at one or at its log, remove some, bring one from another machine."""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainfare.errors import NotFoundError, StoreError, UsageError
from trainfare.model.document import from_json
from trainfare.model.profile import Origin, Profile
from trainfare.settings import Settings, read_settings
from trainfare.store.history import AlreadyKept, History
from trainfare.store.logs import read_log, remove_log
from trainfare.store.open import open_history

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
"""What can be typed, printed and used as the name of a file without a second thought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptProfiles:
    """The newest first; and a sentence for each that is damaged and therefore left out."""

    profiles: tuple[Profile, ...]
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedProfile:
    profile: Profile
    is_new: bool
    """False where the same profile was there before: nothing was changed."""


def list_profiles(*, settings: Settings | None = None) -> KeptProfiles:
    with open_history((settings or read_settings()).store) as history:
        return KeptProfiles(profiles=history.profiles(), damaged=history.damaged)


def show_profile(profile_id: str, *, settings: Settings | None = None) -> Profile:
    with open_history((settings or read_settings()).store) as history:
        return history.profile(profile_id)


def show_log(profile_id: str, *, settings: Settings | None = None) -> str:
    """What the program printed while this profile was measured; of a long output the beginning and the end."""
    settings = settings or read_settings()
    profile = show_profile(profile_id, settings=settings)
    text = read_log(Path(settings.logs), profile.id)
    if text is None:
        raise UsageError(f"of profile {profile.id} no output is kept: {_NO_LOG.get(profile.origin, _IMPORTED)}.")
    return text


_NO_LOG: dict[Origin, str] = {
    "probe": "it was measured on another machine, or before output was kept",
    "code": "it was measured in the program's own code, which prints to its own terminal",
}
_IMPORTED = "it was read from what a past run left behind"


def remove_profiles(profile_ids: Sequence[str], *, settings: Settings | None = None) -> tuple[str, ...]:
    """Takes them off the list, all or none where one is not there; estimates keep what they lean on. Logs go."""
    settings = settings or read_settings()
    with open_history(settings.store) as history:
        unique = tuple(dict.fromkeys(profile_ids))
        for profile_id in unique:
            # One that is damaged is there, and may be removed.
            with suppress(StoreError):
                history.profile(profile_id)
        for profile_id in unique:
            history.remove_profile(profile_id)
            remove_log(Path(settings.logs), profile_id)
        return unique


def import_profile(path: str, *, settings: Settings | None = None) -> ImportedProfile:
    """Keeps a profile from a JSON file as `trainfare profiles show ID --json` prints it; `-` is stdin.

    The same profile a second time changes nothing; another one under a taken id is refused.
    """
    name = "what came from stdin" if path == "-" else path
    try:
        profile = from_json(Profile, _read(path))
    except ValueError as error:
        raise UsageError(
            f"{name} cannot be imported: {error}. Import what `trainfare profiles show ID --json` prints."
        ) from error
    if not _ID.fullmatch(profile.id):
        raise UsageError(
            f"{name} cannot be imported: the id {profile.id!r} is not one. "
            "An id has up to 40 letters and digits, - and _."
        )
    with open_history((settings or read_settings()).store) as history:
        try:
            history.add_profile(profile)
        except AlreadyKept as error:
            if _holds(history, profile):
                return ImportedProfile(profile=profile, is_new=False)
            raise UsageError(
                f"{name} cannot be imported: the store has another profile {profile.id}, and what is kept is "
                "never overwritten. Give the one in the file another id."
            ) from error
    return ImportedProfile(profile=profile, is_new=True)


def _holds(history: History, profile: Profile) -> bool:
    try:
        return history.profile(profile.id) == profile
    except NotFoundError:
        # Removed, and not the same: the same would have been brought back.
        return False


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
