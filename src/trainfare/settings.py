"""Every setting, read in one place. The first of these that names it decides:

flag            --store …                                     this call
environment     TRAINFARE_STORE=…                             this shell
project file    trainfare.toml here or above                  this project
user file       ~/.config/trainfare/settings.toml             this person
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import platformdirs

from trainfare.errors import NotFoundError, UsageError
from trainfare.units import parse_duration

PROJECT_FILE = "trainfare.toml"


def _user_data(name: str) -> str:
    return str(platformdirs.user_data_path("trainfare") / name)


def _user_config(name: str) -> str:
    return str(platformdirs.user_config_path("trainfare") / name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set, each with its default; `origins` says where each value that is not came from."""

    store: str = field(default_factory=lambda: _user_data("history.db"))
    """History: a file for SQLite, or the URL of a PostgreSQL database."""
    machines: str = field(default_factory=lambda: _user_config("machines.toml"))
    """The user's own machines and what they cost."""
    prices: str = field(default_factory=lambda: _user_data("prices"))
    """Where imported price tables are kept."""
    calibrations: str = field(default_factory=lambda: _user_data("calibrations"))
    """Where coefficients are kept that `trainfare calibrate` has fitted."""
    logs: str = field(default_factory=lambda: _user_data("logs"))
    """Where the output of profiled programs is kept."""
    iterations: int | None = None
    """How many iterations a profile measures; None: until their time is known to 2 %."""
    stall_seconds: float = 600.0
    """A program that shows no iteration for so long is stopped."""
    goal: Literal["cheapest", "fastest"] = "cheapest"
    boot_seconds: float | None = None
    """How long a rented machine boots; None: what is usual for its provider."""
    setup_seconds: float | None = None
    """How long it is set up before the program starts; None: what is usual."""
    origins: Mapping[str, str] = field(default_factory=dict)


NAMES = tuple(f.name for f in fields(Settings) if f.name != "origins")


def read_settings(flags: Mapping[str, object] | None = None) -> Settings:
    """The first place that names a setting decides it. A flag that was not given is None."""
    places: list[tuple[str, Mapping[str, object]]] = [
        ("flag", {name: value for name, value in (flags or {}).items() if value is not None}),
        ("environment", _environment(os.environ)),
    ]
    project_file = _project_file(_here())
    if project_file is not None:
        places.append((str(project_file), _file(project_file)))
    user_file = Path(_user_config("settings.toml"))
    if user_file.is_file():
        places.append((str(user_file), _file(user_file)))

    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for place, found in places:
        for name, value in found.items():
            if name not in values:
                values[name] = _checked(name, value, place)
                origins[name] = place
    return Settings(**values, origins=origins)  # type: ignore[arg-type]  # _checked gave each its type


def _environment(environ: Mapping[str, str]) -> dict[str, object]:
    return {name: environ[key] for name in NAMES if environ.get(key := f"TRAINFARE_{name.upper()}")}


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the folder you are in is gone. Go to one that is there: cd ~") from error


def _project_file(directory: Path) -> Path | None:
    return next((p for d in (directory, *directory.parents) if (p := d / PROJECT_FILE).is_file()), None)


def _file(path: Path) -> dict[str, object]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the settings in {path} cannot be read: {error}. Mend or remove the file.") from error
    for name in found:
        if name not in NAMES:
            raise NotFoundError(f"setting (named in {path})", name, NAMES, listed_by="trainfare settings")
    for name in ("store", "machines", "prices", "calibrations", "logs"):
        if isinstance(value := found.get(name), str) and "://" not in value:
            found[name] = str(path.parent / Path(value).expanduser())
    return found


def _checked(name: str, value: object, place: str) -> object:
    """The value in the type of its setting; a file may say 600 or "10min", the environment only text."""
    try:
        match name:
            case "iterations":
                if isinstance(value, bool | float) or (number := int(str(value))) < 2:
                    raise ValueError("must be a whole number of at least 2")
                return number
            case "stall_seconds":
                return parse_duration(str(value))
            case "boot_seconds" | "setup_seconds":
                return 0.0 if str(value).strip() in ("0", "0.0", "0s") else parse_duration(str(value))
            case "goal":
                if value not in ("cheapest", "fastest"):
                    raise ValueError("must be cheapest or fastest")
                return value
            case _:
                if not isinstance(value, str):
                    raise ValueError("must be text")
                return value
    except ValueError as error:
        raise UsageError(f"{name} = {value!r}, set by {place}, is not right: {error}") from error
