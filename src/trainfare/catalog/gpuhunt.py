"""Reads the catalog of gpuhunt: one row a machine, region and market, with the memory of its GPU.

Its names are those of the providers' interfaces. Where the bundled table names a machine or a region otherwise, the row
takes the bundled name, so that a newer price replaces the older one:

    lambdalabs, vastai      the providers lambda and vast
    nebius                  `gpu-h100-sxm 8gpu-128vcpu-1600gb`: a blank becomes an underscore
    gcp                     zones become regions; a GPU that is attached to an n1 machine becomes `n1-standard-8+1xT4`
    runpod                  machines are named by the driver's name of their GPU, in every data centre at one price
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from trainfare.catalog.collector import OfferCollector, Row, cell_number, cell_text
from trainfare.catalog.gpu_boards import gpu_from_device_name
from trainfare.errors import UsageError
from trainfare.model.machine import VmType

COLUMNS = frozenset({"instance_name", "location", "price", "gpu_count", "gpu_name", "spot"})
SOURCE = "gpuhunt catalog"

OUR_NAMES: Mapping[str, str] = {"lambdalabs": "lambda", "vastai": "vast", "datacrunch": "verda"}
"""The providers that gpuhunt names otherwise."""

_VCPUS_PER_ATTACHED_GPU = 8
_NOT_ON_DEMAND = ("is_dws_calendar_mode", "runpod-cluster")
"""Marks of rows whose price is that of a reservation or of a cluster, not of one machine."""


class _Place(NamedTuple):
    """The name and region of a row, as the bundled table has them."""

    name: str
    region: str
    gpu: str
    """The name of its GPU, which for RunPod is in the name of the machine."""


def provider_from_path(path: Path, columns: frozenset[str], known: frozenset[str]) -> str | None:
    """The provider in the name of the file, as in `aws.csv`; None if every row names its own."""
    if "provider" in columns:
        return None
    name = OUR_NAMES.get(path.stem, path.stem)
    if name in known:
        return name
    raise UsageError(
        f"{path} has no column provider, and its name is not that of a provider: state whose prices they are",
        field="provider",
    )


def read_gpuhunt(rows: Iterable[Row], collector: OfferCollector, provider: str | None) -> None:
    """Add every row to the collector; `provider` replaces the one that a row names."""
    for row in rows:
        named = provider or cell_text(row, "provider").lower()
        owner, price = OUR_NAMES.get(named, named), cell_number(row, "price")
        place = _place(owner, row)
        if place is None:
            collector.without_host += 1
            continue
        if place.gpu and (price is None or not (owner and place.name and place.region)):
            collector.without_price += 1
            continue
        vm_type = _vm_type(owner, place, row, collector)
        if vm_type:
            is_spot = cell_text(row, "spot").lower() == "true"
            collector.add(vm_type, place.region, "spot" if is_spot else "on_demand", price)


def _vm_type(owner: str, place: _Place, row: Row, collector: OfferCollector) -> VmType | None:
    if not place.gpu:
        return collector.cpu_machine(provider=owner, name=place.name, region=place.region)
    return collector.vm_type(
        provider=owner,
        name=place.name,
        accelerator=place.gpu,
        count=cell_number(row, "gpu_count"),
        gpu_memory_gib=cell_number(row, "gpu_memory"),
        vcpus=cell_number(row, "cpu"),
        memory_gib=cell_number(row, "memory"),
    )


def _place(owner: str, row: Row) -> _Place | None:
    """The names of a row; None if it is not one machine to be rented by the hour, or if the bundled table lacks it."""
    name, region, gpu = (cell_text(row, key) for key in ("instance_name", "location", "gpu_name"))
    count = int(cell_number(row, "gpu_count") or 0)
    if any(mark in _marks(row) for mark in _NOT_ON_DEMAND):
        return None
    if owner == "nebius":
        return _Place(name.replace(" ", "_"), region, gpu)
    if owner == "gcp":
        region = re.sub(r"-[a-z]$", "", region)
        if gpu and name.startswith("n1-"):
            fits = name == f"n1-standard-{_VCPUS_PER_ATTACHED_GPU * count}"
            return _Place(f"{name}+{count}x{gpu}", region, gpu) if fits else None
    if owner == "runpod" and gpu:
        is_secure = any(letter.isdigit() for letter in region)  # data centres have numbers, hosts only their country
        gpu = gpu_from_device_name(name) or gpu
        name = f"{count}x_{_RUNPOD_NAMES.get(gpu) or gpu.replace(' ', '')}_SECURE"
        return _Place(name, "any", gpu) if is_secure and count in (1, 2, 4, 8) else None
    return _Place(name, region, gpu)


def _marks(row: Row) -> str:
    """The flags of a row, and the facts about it that are true."""
    facts = cell_text(row, "provider_data").lower()
    return cell_text(row, "flags") + " ".join(re.findall(r'"(\w+)": true', facts))


_RUNPOD_NAMES: Mapping[str, str] = {
    "A100-80GB": "A100-80GB-SXM",
    "A100-80GB-PCIe": "A100-80GB",
    "H100": "H100-SXM",
    "H100-PCIe": "H100",
    "H200": "H200-SXM",
    "RTX 2000 Ada": "RTX2000-Ada",
    "RTX 4000 Ada": "RTX4000-Ada",
    "RTX 6000 Ada": "RTX6000-Ada",
    "RTX PRO 6000 WS": "RTXPRO6000-WK",
}
"""The names of the bundled table that are not those of our GPUs without blanks."""
