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

`commitments.py` reads [[commitment]], machines of others that are reserved for months.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import date
from pathlib import Path

import msgspec

from trainfare.catalog.gpu_boards import plain
from trainfare.catalog.own_file import COMMITMENTS, GPUS, FileSection, guess, read_machines_file
from trainfare.errors import UsageError
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Offer

PROVIDER = "own"
SLICES = "local"
"""The provider of slices of this machine."""
REGION = "here"
SOURCE = "your machines.toml"

_MACHINE_KEYS = ("usd_per_hour", "gpu", "gpus", "vcpus", "memory_gib", "seen_on", "slice")
_GPU_KEYS = tuple(field.name for field in fields(Gpu) if field.name != "name")
_GPU_NEEDS = tuple(f.name for f in fields(Gpu) if f.default is MISSING and f.name != "name")


def read_machines(path: Path, known: Mapping[str, Gpu]) -> tuple[tuple[Offer, ...], Mapping[str, Gpu]]:
    """The offers of the file, and the GPUs that it describes. A file that is not there holds none."""
    file = read_machines_file(path)
    if file is None:
        return (), {}
    described = file.tables.get(GPUS, {})
    if not isinstance(described, dict):
        raise UsageError(f'{path}: gpus must hold tables, as in [gpus."My GPU"]')
    own_gpus = {name: _gpu(FileSection(path, f"gpus.{name}", fields)) for name, fields in described.items()}
    for name, value in file.tables.items():
        if isinstance(value, list) and name != COMMITMENTS:
            raise UsageError(f"{path}: only [[commitment]] stands in double brackets, not [[{name}]]")
    gpus = {**known, **own_gpus}
    offers = tuple(
        _offer(name, FileSection(path, name, fields), gpus, file.changed_on)
        for name, fields in file.tables.items()
        if name not in (GPUS, COMMITMENTS)
    )
    return offers, own_gpus


def _offer(name: str, table: FileSection, gpus: Mapping[str, Gpu], changed_on: date) -> Offer:
    table.require_known(_MACHINE_KEYS)
    usd_per_hour = table.number("usd_per_hour")
    if usd_per_hour is None:
        raise table.wrong("usd_per_hour is missing: what does an hour of it cost you?")
    gpu = _named_gpu(table, gpus)
    count = table.whole("gpus")
    if gpu is None and count is not None:
        raise table.wrong("gpus is given, but not which: add gpu, or leave gpus out")
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
            gpus=(count or 1) if gpu else 0,
            vcpus=table.number("vcpus"),
            memory_gib=table.number("memory_gib"),
        )
        return Offer(
            vm_type=vm_type,
            region=REGION,
            market="own",
            usd_per_hour=usd_per_hour,
            seen_on=table.day("seen_on") or changed_on,
            source=SOURCE,
        )
    except ValueError as error:
        raise table.wrong(str(error)) from error


def _named_gpu(table: FileSection, gpus: Mapping[str, Gpu]) -> Gpu | None:
    name = table.text("gpu")
    if name is None:
        return None
    found = {plain(known): gpu for known, gpu in gpus.items()}.get(plain(name))
    if found is None:
        raise table.wrong(
            f"gpu = {name!r} is not in the catalog.{guess(name, gpus)} `trainfare catalog gpus` shows all;"
            f' or describe it in a table [gpus."{name}"].'
        )
    return found


def _gpu(table: FileSection) -> Gpu:
    table.require_known(_GPU_KEYS)
    missing = [key for key in _GPU_NEEDS if key not in table.fields]
    if missing:
        raise table.wrong(f"{', '.join(missing)} must be given")
    try:
        return msgspec.convert({"name": table.name.removeprefix("gpus."), **table.fields}, Gpu)
    except (msgspec.ValidationError, ValueError) as error:
        raise table.wrong(str(error)) from error
