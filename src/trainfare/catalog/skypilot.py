"""Reads SkyPilot's `catalogs/v8/<provider>/vms.csv`: one row a machine and zone; for GCP also one a GPU and zone."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trainfare.catalog.collector import OfferCollector, Row, cell_number, cell_text
from trainfare.catalog.gpu_boards import find_board
from trainfare.errors import UsageError

COLUMNS = frozenset({"InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region"})
SOURCE = "SkyPilot catalog"

_GCP_HOSTS: Mapping[tuple[str, int], tuple[str, ...]] = {
    **{("A100", n): (f"a2-highgpu-{n}g",) for n in (1, 2, 4, 8)},
    ("A100", 16): ("a2-megagpu-16g",),
    **{("A100-80GB", n): (f"a2-ultragpu-{n}g",) for n in (1, 2, 4, 8)},
    ("L4", 1): tuple(f"g2-standard-{n}" for n in (4, 8, 12, 16, 32)),
    **{("L4", n): (f"g2-standard-{12 * n}",) for n in (2, 4, 8)},
    **{("H100", n): (f"a3-highgpu-{n}g",) for n in (1, 2, 4, 8)},
    ("H100-MEGA", 8): ("a3-megagpu-8g",),
    ("H200", 8): ("a3-ultragpu-8g",),
    ("B200", 8): ("a4-highgpu-8g",),
}
"""The machines of GCP that are sold only with a GPU; their own rows have the price without it."""
_GCP_ATTACHED = ("K80", "P4", "P100", "T4", "V100")
"""GPUs of GCP that are attached to an n1 machine of the user's choice: we choose eight vCPUs a GPU."""


def provider_from_path(path: Path, known: frozenset[str]) -> str:
    """The provider in the path, such as `catalogs/v8/aws/vms.csv`; the table itself does not name it."""
    folder = path.absolute().parent
    if folder.name in known or re.fullmatch(r"v\d+", folder.parent.name):
        return folder.name
    raise UsageError(
        f"SkyPilot's tables name their provider only in their path, as in catalogs/v8/aws/vms.csv, and {path} does "
        "not: state whose prices they are",
        field="provider",
    )


def read_skypilot(rows: Iterable[Row], collector: OfferCollector, provider: str) -> None:
    """Add every row to the collector. A row is a machine with its GPU, a machine alone, or a GPU alone, which GCP
    charges separately."""
    hosts: dict[tuple[str, str], Row] = {}
    gpus: list[Row] = []
    for row in rows:
        if not cell_text(row, "AcceleratorName"):
            hosts[cell_text(row, "InstanceType"), _zone(row)] = row
            _read_host(row, collector, provider)
        elif cell_text(row, "InstanceType"):
            _read_machine(row, collector, provider)
        else:
            gpus.append(row)
    for row in gpus:
        _read_gpu(row, hosts, collector, provider)


def _read_host(row: Row, collector: OfferCollector, provider: str) -> None:
    """Add a machine without a GPU, if its price is of interest."""
    region = cell_text(row, "Region")
    vm_type = collector.cpu_machine(provider=provider, name=cell_text(row, "InstanceType"), region=region)
    if vm_type:
        collector.add(vm_type, region, "on_demand", cell_number(row, "Price"))
        collector.add(vm_type, region, "spot", cell_number(row, "SpotPrice"))


def _read_machine(row: Row, collector: OfferCollector, provider: str) -> None:
    price, spot = cell_number(row, "Price"), cell_number(row, "SpotPrice")
    if not cell_text(row, "Region") or (price is None and spot is None):
        collector.without_price += 1
    else:
        _add(collector, provider, cell_text(row, "InstanceType"), host=row, gpu=row, price=price, spot=spot)


def _read_gpu(gpu: Row, hosts: Mapping[tuple[str, str], Row], collector: OfferCollector, provider: str) -> None:
    """Add a GPU with each machine that can host it, zone by zone; their prices are summed."""
    accelerator, count = cell_text(gpu, "AcceleratorName"), cell_number(gpu, "AcceleratorCount") or 0.0
    if find_board(provider=provider, machine="", accelerator=accelerator) is None:
        collector.count_unknown(accelerator)
        return
    in_zone = [
        (name, hosts[host, _zone(gpu)])
        for host, name in _possible_hosts(accelerator, int(count))
        if (host, _zone(gpu)) in hosts
    ]
    if not in_zone:
        collector.without_host += 1
    for name, host in in_zone:
        price, spot = _sum(host, gpu, key="Price"), _sum(host, gpu, key="SpotPrice")
        if price is None and spot is None:
            collector.without_price += 1
        else:
            _add(collector, provider, name, host=host, gpu=gpu, price=price, spot=spot)


def _possible_hosts(accelerator: str, count: int) -> Iterator[tuple[str, str]]:
    """(host, name of the machine in the catalog) for every machine that can host the GPUs."""
    if accelerator in _GCP_ATTACHED and count:
        host = f"n1-standard-{8 * count}"
        yield host, f"{host}+{count}x{accelerator}"
    for host in _GCP_HOSTS.get((accelerator, count), ()):
        yield host, host


def _add(
    collector: OfferCollector,
    provider: str,
    name: str,
    *,
    host: Row,
    gpu: Row,
    price: float | None,
    spot: float | None,
) -> None:
    vm_type = collector.vm_type(
        provider=provider,
        name=name,
        accelerator=cell_text(gpu, "AcceleratorName"),
        count=cell_number(gpu, "AcceleratorCount"),
        vcpus=cell_number(host, "vCPUs"),
        memory_gib=cell_number(host, "MemoryGiB"),
    )
    if vm_type:
        collector.add(vm_type, cell_text(gpu, "Region"), "on_demand", price)
        collector.add(vm_type, cell_text(gpu, "Region"), "spot", spot)


def _sum(*rows: Row, key: str) -> float | None:
    prices = [price for row in rows if (price := cell_number(row, key)) is not None]
    # Rounded, so that the sum that is written down is the sum that is read again.
    return round(sum(prices), 6) if len(prices) == len(rows) else None


def _zone(row: Row) -> str:
    return cell_text(row, "AvailabilityZone") or cell_text(row, "Region")
