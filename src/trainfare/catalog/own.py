"""The user's own machines: `machines.toml` → offers on the market "own", at the price the user says.

[bench]                          becomes own/bench, in the region "here"
usd_per_hour = 0.35
gpu = "RTX 3090"                 absent: a machine without a GPU
gpus = 1
vcpus = 16
memory_gib = 64
seen_on = 2026-11-01             absent: the day the file was changed

[half]                           becomes local/half: a slice of this machine, in which programs are started
slice = true
usd_per_hour = 0.02
vcpus = 0.5                      one CPU for half of the time
memory_gib = 4                   absent: no limit

[gpus."My GPU"]                  a GPU that the catalog does not know; the fields of Gpu
"""

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from trainfare.catalog.boards import plain
from trainfare.errors import AskedWrongly
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Offer

PROVIDER = "own"
SLICES = "local"
"""The provider of slices of this machine."""
REGION = "here"

_GPU_TABLES = "gpus"
_MACHINE_KEYS = ("usd_per_hour", "gpu", "gpus", "vcpus", "memory_gib", "seen_on", "slice")
_GPU_KEYS = tuple(field.name for field in fields(Gpu) if field.name != "name")
_GPU_NEEDS = tuple(f.name for f in fields(Gpu) if f.default is MISSING and f.name != "name")


def read_machines(path: Path, known: Mapping[str, Gpu]) -> tuple[tuple[Offer, ...], Mapping[str, Gpu]]:
    """The offers of the file, and the GPUs that it describes. A file that is not there holds none."""
    if not path.exists():
        return (), {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        changed_on = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC).date()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AskedWrongly(f"the machines in {path} cannot be read: {error}. Mend the file.") from error
    described = tables.pop(_GPU_TABLES, {})
    if not isinstance(described, dict):
        raise AskedWrongly(f'{path}: gpus must hold tables, as in [gpus."My GPU"]')
    own_gpus = {name: _gpu(_Table(path, f"gpus.{name}", fields)) for name, fields in described.items()}
    gpus = {**known, **own_gpus}
    offers = tuple(_offer(name, _Table(path, name, fields), gpus, changed_on) for name, fields in tables.items())
    return offers, own_gpus


class _Table:
    """One table of the file: every complaint about it names the file, the table and the field."""

    def __init__(self, path: Path, name: str, fields: object) -> None:
        self.name = name
        self._where = f"{path}, [{name}]"
        if not isinstance(fields, dict):
            raise AskedWrongly(f"{path}: {name} must be a table: write [{name}] and its fields below")
        self.fields: dict[str, Any] = fields

    def wrong(self, complaint: str) -> AskedWrongly:
        return AskedWrongly(f"{self._where}: {complaint}")

    def require_known(self, allowed: Iterable[str]) -> None:
        for key in self.fields:
            if key not in allowed:
                raise self.wrong(f"there is no field {key}.{_guess(key, allowed)}")

    def number(self, key: str) -> float | None:
        """None where it is absent; positive and finite otherwise."""
        value = self.fields.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(f"{key} must be a number, got {value!r}")
        if not (value > 0 and math.isfinite(value)):
            raise self.wrong(f"{key} must be positive, got {value}")
        return float(value)

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

    def day(self, key: str, default: date) -> date:
        value = self.fields.get(key, default)
        if isinstance(value, datetime) or not isinstance(value, date):
            raise self.wrong(f"{key} must be a day without quotes, as in 2026-11-01, got {value!r}")
        return value


def _offer(name: str, table: _Table, gpus: Mapping[str, Gpu], changed_on: date) -> Offer:
    table.require_known(_MACHINE_KEYS)
    usd_per_hour = table.number("usd_per_hour")
    if usd_per_hour is None:
        raise table.wrong("usd_per_hour is missing: what does an hour of it cost you?")
    gpu = _named_gpu(table, gpus)
    count = table.number("gpus")
    if gpu is None and count is not None:
        raise table.wrong("gpus is given, but not which: add gpu, or leave gpus out")
    if count is not None and not count.is_integer():
        raise table.wrong(f"gpus must be a whole number, got {count:g}")
    is_slice = table.flag("slice")
    if is_slice and gpu is not None:
        raise table.wrong("a slice has no GPU of its own: leave gpu out, or slice")
    if is_slice and table.number("vcpus") is None:
        raise table.wrong("a slice must say how many CPUs of this machine it has: add vcpus")
    try:
        vm_type = VmType(
            provider=SLICES if is_slice else PROVIDER,
            name=name,
            gpu=gpu,
            gpus=int(count or 1) if gpu else 0,
            vcpus=table.number("vcpus"),
            memory_gib=table.number("memory_gib"),
        )
        return Offer(
            vm_type=vm_type,
            region=REGION,
            market="own",
            usd_per_hour=usd_per_hour,
            seen_on=table.day("seen_on", changed_on),
            source="your machines.toml",
        )
    except ValueError as error:
        raise table.wrong(str(error)) from error


def _named_gpu(table: _Table, gpus: Mapping[str, Gpu]) -> Gpu | None:
    name = table.text("gpu")
    if name is None:
        return None
    found = {plain(known): gpu for known, gpu in gpus.items()}.get(plain(name))
    if found is None:
        raise table.wrong(
            f"gpu = {name!r} is not in the catalog.{_guess(name, gpus)} `trainfare catalog gpus` shows all;"
            f' or describe it in a table [gpus."{name}"].'
        )
    return found


def _gpu(table: _Table) -> Gpu:
    table.require_known(_GPU_KEYS)
    missing = [key for key in _GPU_NEEDS if key not in table.fields]
    if missing:
        raise table.wrong(f"{', '.join(missing)} must be given")
    try:
        return msgspec.convert({"name": table.name.removeprefix("gpus."), **table.fields}, Gpu)
    except (msgspec.ValidationError, ValueError) as error:
        raise table.wrong(str(error)) from error


def _guess(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""
