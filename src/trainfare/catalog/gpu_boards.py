"""The GPU board that a name means: price tables call four different boards "A100", and so do people.

`boards.csv` is read from the top and the first row that matches decides, so the rows of one provider's machines stand
before the rows for every provider. Its machines are shell patterns; a blank memory matches any.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from trainfare.catalog.gpu_facts import bundled_rows

_DEVICE = "device"
"""The provider of rows with the names that drivers use."""


class _BoardRow(NamedTuple):
    provider: str
    machine: str
    memory_gib: float | None
    gpu: str


def find_board(*, provider: str, machine: str, accelerator: str, memory_gib: float | None = None) -> str | None:
    """The name of the GPU in the catalog; None if it is unknown."""
    for row in _board_rows().get(normalise_name(accelerator), ()):
        if (
            row.provider in ("*", provider)
            and fnmatchcase(machine, row.machine)
            and row.memory_gib in (None, memory_gib)
        ):
            return row.gpu
    return None


def gpu_from_device_name(device: str) -> str | None:
    """The name in the catalog of a GPU that a driver calls `Tesla V100-SXM2-16GB` or `NVIDIA A10G`."""
    names = (device, device.removeprefix("NVIDIA "), f"NVIDIA {device}")
    return next((gpu for n in names if (gpu := find_board(provider=_DEVICE, machine="", accelerator=n))), None)


@cache
def normalise_name(name: str) -> str:
    """The name without case and punctuation: `A100-80GB` and `a100 80gb` are the same."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _board_rows() -> Mapping[str, tuple[_BoardRow, ...]]:
    rows: dict[str, list[_BoardRow]] = {}
    for row in bundled_rows("boards.csv"):
        memory_gib = float(row["memory_gib"]) if row["memory_gib"] else None
        rows.setdefault(normalise_name(row["accelerator"]), []).append(
            _BoardRow(row["provider"], row["machine"], memory_gib, row["gpu"])
        )
    return {name: tuple(found) for name, found in rows.items()}
