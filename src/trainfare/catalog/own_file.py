"""`machines.toml` as tables of checked fields: every complaint names the file, the table and the field."""

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
"""Names that no machine can have: they hold other things."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesFile:
    path: Path
    tables: dict[str, Any]
    changed_on: date


def read_machines_file(path: Path) -> MachinesFile | None:
    """None where there is no such file."""
    if not path.exists():
        return None
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        changed_on = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC).date()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the machines in {path} cannot be read: {error}. Mend the file.") from error
    return MachinesFile(path=path, tables=tables, changed_on=changed_on)


class FileSection:
    """One table of the file; `title` is how it stands there, where that is not [name]."""

    def __init__(self, path: Path, name: str, fields: object, *, title: str | None = None) -> None:
        self.name = name
        self._where = f"{path}, {title or f'[{name}]'}"
        if not isinstance(fields, dict):
            raise UsageError(f"{path}: {name} must be a table: write [{name}] and its fields below")
        self.fields: dict[str, Any] = fields

    def wrong(self, complaint: str) -> UsageError:
        return UsageError(f"{self._where}: {complaint}")

    def require_known(self, allowed: Iterable[str]) -> None:
        for key in self.fields:
            if key not in allowed:
                raise self.wrong(f"there is no field {key}.{guess(key, allowed)}")

    def number(self, key: str) -> float | None:
        """None where it is absent; positive and finite otherwise."""
        value = self.amount(key)
        if value == 0:
            raise self.wrong(f"{key} must be positive, got {self.fields[key]}")
        return value

    def amount(self, key: str) -> float | None:
        """Like `number`, and may be nothing."""
        value = self.fields.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(f"{key} must be a number, got {value!r}")
        if not (value >= 0 and math.isfinite(value)):
            raise self.wrong(f"{key} must be positive, got {value}")
        return float(value)

    def whole(self, key: str) -> int | None:
        value = self.number(key)
        if value is not None and not value.is_integer():
            raise self.wrong(f"{key} must be a whole number, got {value:g}")
        return None if value is None else int(value)

    def text(self, key: str) -> str | None:
        value = self.fields.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(f"{key} must be text in quotes, got {value!r}")
        return value

    def flag(self, key: str) -> bool:
        value = self.fields.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(f"{key} must be true or false, got {value!r}")
        return value

    def day(self, key: str) -> date | None:
        value = self.fields.get(key)
        if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
            raise self.wrong(f"{key} must be a day without quotes, as in 2026-11-01, got {value!r}")
        return value


def guess(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""
