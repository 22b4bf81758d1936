"""SkyPilot's `catalogs/v8/<provider>/vms.csv`: a row a machine and zone; for GCP also a row a GPU and zone."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trainfare.catalog.collector import Collector, Row, number, text
from trainfare.catalog.gpu_boards import board_of
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
"""The machines of GCP that carry a GPU and cannot be had without it; their rows price them without it."""
_GCP_ATTACHED = ("K80", "P4", "P100", "T4", "V100")
"""GPUs of GCP that are attached to an n1 machine of the user's choice: we choose eight vCPUs a GPU."""


def provider_of(path: Path, known: frozenset[str]) -> str:
    """`catalogs/v8/aws/vms.csv` is a table of aws; inside, the table does not say so."""
    folder = path.absolute().parent
    if folder.name in known or re.fullmatch(r"v\d+", folder.parent.name):
        return folder.name
    raise UsageError(
        f"whose prices are in {path}? SkyPilot's tables do not say it inside, only in a path like"
        " catalogs/v8/aws/vms.csv: add --provider"
    )


def read_skypilot(rows: Iterable[Row], into: Collector, provider: str) -> None:
    """A row names a machine with its GPU; a machine alone; or a GPU alone, which GCP bills apart."""
    hosts: dict[tuple[str, str], Row] = {}
    gpus: list[Row] = []
    for row in rows:
        if not text(row, "AcceleratorName"):
            hosts[text(row, "InstanceType"), _zone(row)] = row
            into.reading.without_gpu += 1
        elif text(row, "InstanceType"):
            _read_machine(row, into, provider)
        else:
            gpus.append(row)
    for row in gpus:
        _read_gpu(row, hosts, into, provider)


def _read_machine(row: Row, into: Collector, provider: str) -> None:
    price, spot = number(row, "Price"), number(row, "SpotPrice")
    if not text(row, "Region") or (price is None and spot is None):
        into.reading.without_price += 1
    else:
        _add(into, provider, text(row, "InstanceType"), host=row, gpu=row, price=price, spot=spot)


def _read_gpu(gpu: Row, hosts: Mapping[tuple[str, str], Row], into: Collector, provider: str) -> None:
    """The price of a GPU and of the machine around it are added up, zone by zone."""
    accelerator, count = text(gpu, "AcceleratorName"), number(gpu, "AcceleratorCount") or 0.0
    if board_of(provider=provider, machine="", accelerator=accelerator) is None:
        into.count_unknown(accelerator)
        return
    around = [
        (name, hosts[host, _zone(gpu)])
        for host, name in _machines_around(accelerator, int(count))
        if (host, _zone(gpu)) in hosts
    ]
    if not around:
        into.reading.without_host += 1
    for name, host in around:
        price, spot = _sum(host, gpu, key="Price"), _sum(host, gpu, key="SpotPrice")
        if price is None and spot is None:
            into.reading.without_price += 1
        else:
            _add(into, provider, name, host=host, gpu=gpu, price=price, spot=spot)


def _machines_around(accelerator: str, count: int) -> Iterator[tuple[str, str]]:
    """(host, name of the machine in the catalog)."""
    if accelerator in _GCP_ATTACHED and count:
        host = f"n1-standard-{8 * count}"
        yield host, f"{host}+{count}x{accelerator}"
    for host in _GCP_HOSTS.get((accelerator, count), ()):
        yield host, host


def _add(
    into: Collector, provider: str, name: str, *, host: Row, gpu: Row, price: float | None, spot: float | None
) -> None:
    vm_type = into.vm_type(
        provider=provider,
        name=name,
        accelerator=text(gpu, "AcceleratorName"),
        count=number(gpu, "AcceleratorCount"),
        vcpus=number(host, "vCPUs"),
        memory_gib=number(host, "MemoryGiB"),
    )
    if vm_type:
        into.add(vm_type, text(gpu, "Region"), "on_demand", price)
        into.add(vm_type, text(gpu, "Region"), "spot", spot)


def _sum(*rows: Row, key: str) -> float | None:
    prices = [price for row in rows if (price := number(row, key)) is not None]
    # Rounded, so that the sum that is written down is the sum that is read again.
    return round(sum(prices), 6) if len(prices) == len(rows) else None


def _zone(row: Row) -> str:
    return text(row, "AvailabilityZone") or text(row, "Region")
