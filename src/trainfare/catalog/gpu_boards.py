"""Which board is meant: price tables say "A100" for four different ones, and so do people.

`boards.csv` is read from the top and the first row that fits decides, so the rows of one provider's machines
stand before the rows for everybody. Its machines are shell patterns; a blank memory fits any.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from trainfare.catalog.gpus import bundled_rows

_DEVICE = "device"
"""The provider of rows that hold the names by which drivers call a GPU."""


class _Row(NamedTuple):
    provider: str
    machine: str
    memory_gib: float | None
    gpu: str


def board_of(*, provider: str, machine: str, accelerator: str, memory_gib: float | None = None) -> str | None:
    """The name of the GPU in the catalog, or None where it is not known."""
    for row in _rows().get(plain(accelerator), ()):
        if (
            row.provider in ("*", provider)
            and fnmatchcase(machine, row.machine)
            and row.memory_gib in (None, memory_gib)
        ):
            return row.gpu
    return None


def gpu_from_device_name(device: str) -> str | None:
    """The name in the catalog of what a driver calls `Tesla V100-SXM2-16GB` or `NVIDIA A10G`."""
    names = (device, device.removeprefix("NVIDIA "), f"NVIDIA {device}")
    return next((gpu for n in names if (gpu := board_of(provider=_DEVICE, machine="", accelerator=n))), None)


@cache
def plain(name: str) -> str:
    """`A100-80GB` and `a100 80gb` are the same name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _rows() -> Mapping[str, tuple[_Row, ...]]:
    rows: dict[str, list[_Row]] = {}
    for row in bundled_rows("boards.csv"):
        memory_gib = float(row["memory_gib"]) if row["memory_gib"] else None
        rows.setdefault(plain(row["accelerator"]), []).append(
            _Row(row["provider"], row["machine"], memory_gib, row["gpu"])
        )
    return {name: tuple(found) for name, found in rows.items()}
