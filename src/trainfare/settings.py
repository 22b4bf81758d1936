"""Every setting, read in one place. The first of these sources that has a setting decides it:

flag            an argument of the call, or an option of the command      this call
environment     TRAINFARE_STORE=…                                         this shell
project file    trainfare.toml in this directory or above                 this project
user file       ~/.config/trainfare/settings.toml                         this person
"""

import math
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
    """All settings with their defaults; `origins` has the source of each value that is not a default."""

    store: str = field(default_factory=lambda: _user_data("history.db"))
    """The history: the path of a SQLite file, or the URL of a PostgreSQL database."""
    server: str | None = None
    """The URL of a server whose store and use cases are used instead of those at home."""
    machines: str = field(default_factory=lambda: _user_config("machines.toml"))
    """The file with the user's own machines and their prices."""
    prices: str = field(default_factory=lambda: _user_data("prices"))
    """The folder of imported price tables."""
    calibrations: str = field(default_factory=lambda: _user_data("calibrations"))
    """The folder of coefficients that `trainfare calibrate` has fitted."""
    logs: str = field(default_factory=lambda: _user_data("logs"))
    """The folder with the output of profiled programs."""
    runs: str = field(default_factory=lambda: _user_data("runs"))
    """The folder with the output of runs, and with the machines that are slices of this one."""
    skypilot: str = field(default_factory=lambda: _user_data("skypilot"))
    """The folder in which SkyPilot is installed, which rents machines from clouds."""
    iterations: int | None = None
    """The number of iterations that a profile measures; None: until their time is known to within 2%."""
    stall_seconds: float = 600.0
    """The time without an iteration after which a program is stopped."""
    lease_seconds: float = 30.0
    """The time after which a run whose supervisor was killed may be taken over by another process."""
    goal: Literal["cheapest", "fastest"] = "cheapest"
    boot_seconds: float | None = None
    """The boot time of a rented machine; None: the usual time of its provider."""
    setup_seconds: float | None = None
    """The time to set up a machine before the program starts; None: the usual time."""
    max_usd_per_run: float | None = None
    """The most that a run may cost, in dollars. A run that would break this cap or one of the next is not started."""
    max_usd_per_day: float | None = None
    """The most that all runs of the store may cost in a day."""
    max_usd_per_month: float | None = None
    max_usd_per_user_month: float | None = None
    """The most that the runs of one user may cost in a month."""
    max_usd_per_user_day: float | None = None
    max_usd_per_user: float | None = None
    """The most that all runs of one user may ever cost."""
    webhook: str | None = None
    """the URL that learns when a run has ended or a budget is nearly spent; signed by TRAINFARE_WEBHOOK_SECRET."""
    webhook_private: bool = False
    """The webhook may be at an address that is not public."""
    mail_server: str | None = None
    """The mail server by which the same is sent as e-mail, such as smtp://localhost:25."""
    mail_from: str | None = None
    mail_to: str | None = None
    """Addresses, separated by commas. A user whose name is an address gets their own messages too."""
    origins: Mapping[str, str] = field(default_factory=dict)


NAMES = tuple(f.name for f in fields(Settings) if f.name != "origins")


def read_settings(flags: Mapping[str, object] | None = None) -> Settings:
    """The settings of all sources. An argument that was not given is None in `flags`."""
    sources: list[tuple[str, Mapping[str, object]]] = [
        ("flag", {name: value for name, value in (flags or {}).items() if value is not None}),
        ("environment", _read_environment(os.environ)),
    ]
    project_file = _find_project_file(_current_directory())
    if project_file is not None:
        sources.append((str(project_file), _read_file(project_file)))
    user_file = Path(_user_config("settings.toml"))
    if user_file.is_file():
        sources.append((str(user_file), _read_file(user_file)))

    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for source, found in sources:
        for name, value in found.items():
            if name not in values:
                values[name] = _parse(name, value, source)
                origins[name] = source
    if (server := values.get("server")) is not None and origins.get("store") != "flag":
        values["store"], origins["store"] = server, f"server, by {origins['server']}"
    return Settings(**values, origins=origins)  # type: ignore[arg-type] # _parse gave each its type


def _read_environment(environ: Mapping[str, str]) -> dict[str, object]:
    return {name: environ[key] for name in NAMES if environ.get(key := f"TRAINFARE_{name.upper()}")}


def _current_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the current directory does not exist any more. Change to another one: cd ~") from error


def _find_project_file(directory: Path) -> Path | None:
    return next((p for d in (directory, *directory.parents) if (p := d / PROJECT_FILE).is_file()), None)


def _read_file(path: Path) -> dict[str, object]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the settings in {path} cannot be read: {error}. Fix or remove the file.") from error
    for name in found:
        if name not in NAMES:
            raise NotFoundError(f"setting (named in {path})", name, NAMES, listed_by="trainfare settings")
    for name in ("store", "machines", "prices", "calibrations", "logs", "skypilot"):
        if isinstance(value := found.get(name), str) and "://" not in value and value != "memory:":
            found[name] = str(path.parent / Path(value).expanduser())
    return found


def _parse(name: str, value: object, source: str) -> object:
    """The value in the type of its setting; a file may have 600 or "10min", the environment has only text."""
    try:
        match name:
            case "iterations":
                return _parse_iterations(value)
            case "stall_seconds":
                return parse_duration(str(value))
            case "boot_seconds" | "setup_seconds":
                return 0.0 if str(value).strip() in ("0", "0.0", "0s") else parse_duration(str(value))
            case _ if name.startswith("max_usd_per_"):
                return _parse_usd(value)
            case "server":
                return _parse_server(value)
            case "webhook_private":
                return _parse_switch(value)
            case "goal":
                return _parse_goal(value)
            case _:
                if not isinstance(value, str):
                    raise ValueError(f"must be text, not {value!r}")
                return value
    except ValueError as error:
        if source == "flag":
            raise UsageError(f"{error}.", field=name) from error
        raise UsageError(f"the setting {name} from {source} is invalid: {error}.") from error


def _parse_iterations(value: object) -> int:
    text = "" if isinstance(value, bool | float) else str(value).strip()
    if not text.isdecimal() or int(text) < 2:
        raise ValueError(f"must be a whole number of at least 2, not {value!r}")
    return int(text)


def _parse_server(value: object) -> str:
    if not str(value).startswith(("http://", "https://")):
        raise ValueError(f"must be a URL such as http://localhost:8765, not {value!r}")
    return str(value).rstrip("/")


def _parse_switch(value: object) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {value!r}")
    return str(value).lower() == "true"


def _parse_goal(value: object) -> object:
    if value not in ("cheapest", "fastest"):
        raise ValueError(f"must be cheapest or fastest, not {value!r}")
    return value


def _parse_usd(value: object) -> float:
    text = str(value).strip().removeprefix("$").replace(",", "")
    try:
        usd = float(text) if not isinstance(value, bool) else math.nan
    except ValueError:
        usd = math.nan
    if not 0 < usd < math.inf:
        raise ValueError(f"must be an amount of dollars above 0, not {value!r}")
    return usd
