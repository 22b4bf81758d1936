"""`machines.toml` as sections of checked fields: every error names the file, the section and the field."""

import difflib
import math
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from trainfare.errors import UsageError

GPUS = "gpus"
COMMITMENTS = "commitment"
"""Names that no machine can have: they are sections of other things."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesFile:
    """The parsed file."""

    path: Path
    sections: dict[str, Any]
    changed_on: date


def read_machines_file(path: Path) -> MachinesFile | None:
    """The parsed file; None if it does not exist."""
    if not path.exists():
        return None
    try:
        sections = tomllib.loads(path.read_text(encoding="utf-8"))
        changed_on = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC).date()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the machines in {path} cannot be read: {error}. Fix the file.") from error
    return MachinesFile(path=path, sections=sections, changed_on=changed_on)


class FileSection:
    """One section of the file; `title` is how the file writes it, if that is not [name]."""

    def __init__(self, path: Path, name: str, fields: object, *, title: str | None = None) -> None:
        self.name = name
        self._where = f"{path}, {title or f'[{name}]'}"
        if not isinstance(fields, dict):
            raise UsageError(f"{path}: {name} must be a section: write [{name}] and its fields below")
        self.fields: dict[str, Any] = fields

    def error(self, problem: str) -> UsageError:
        """An error that names the file and the section."""
        return UsageError(f"{self._where}: {problem}")

    def require_known(self, allowed: Iterable[str]) -> None:
        """Refuse a field that is not allowed."""
        for key in self.fields:
            if key not in allowed:
                raise self.error(f"there is no field {key}.{suggest(key, allowed)}")

    def positive_number(self, key: str) -> float | None:
        """A positive finite number; None if it is absent."""
        value = self.number(key)
        if value == 0:
            raise self.error(f"{key} must be positive, got {self.fields[key]}")
        return value

    def number(self, key: str) -> float | None:
        """A finite number that is zero or positive; None if it is absent."""
        value = self.fields.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{key} must be a number, got {value!r}")
        if not (value >= 0 and math.isfinite(value)):
            raise self.error(f"{key} must be positive, got {value}")
        return float(value)

    def positive_integer(self, key: str) -> int | None:
        value = self.positive_number(key)
        if value is not None and not value.is_integer():
            raise self.error(f"{key} must be a whole number, got {value:g}")
        return None if value is None else int(value)

    def text(self, key: str) -> str | None:
        value = self.fields.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(f"{key} must be text in quotes, got {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; none if it is absent."""
        value = self.fields.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each.strip() for each in value):
            raise self.error(f"{key} must be a list of texts in quotes, got {value!r}")
        return tuple(value)

    def flag(self, key: str) -> bool:
        """True or false; false if it is absent."""
        value = self.fields.get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"{key} must be true or false, got {value!r}")
        return value

    def day(self, key: str) -> date | None:
        value = self.fields.get(key)
        if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
            raise self.error(f"{key} must be a day without quotes, as in 2026-11-01, got {value!r}")
        return value


def suggest(name: str, known: Iterable[str]) -> str:
    """A sentence with the nearest known name; empty if none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""
