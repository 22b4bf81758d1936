"""Reads the catalog of gpuhunt: one row a machine, region and market, with the memory of its GPU."""

from collections.abc import Iterable
from pathlib import Path

from trainfare.catalog.collector import OfferCollector, Row, cell_number, cell_text
from trainfare.errors import UsageError

COLUMNS = frozenset({"instance_name", "location", "price", "gpu_count", "gpu_name", "spot"})
SOURCE = "gpuhunt catalog"

_OUR_NAMES = {"lambdalabs": "lambda"}


def provider_from_path(path: Path, columns: frozenset[str], known: frozenset[str]) -> str | None:
    """The provider in the name of the file, as in `aws.csv`; None if every row names its own."""
    if "provider" in columns:
        return None
    name = _OUR_NAMES.get(path.stem, path.stem)
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
        owner, name = _OUR_NAMES.get(named, named), cell_text(row, "instance_name")
        region, price = cell_text(row, "location"), cell_number(row, "price")
        if not cell_text(row, "gpu_name"):
            collector.without_gpu += 1
            continue
        if price is None or not (owner and name and region):
            collector.without_price += 1
            continue
        vm_type = collector.vm_type(
            provider=owner,
            name=name,
            accelerator=cell_text(row, "gpu_name"),
            count=cell_number(row, "gpu_count"),
            gpu_memory_gib=cell_number(row, "gpu_memory"),
            vcpus=cell_number(row, "cpu"),
            memory_gib=cell_number(row, "memory"),
        )
        if vm_type:
            is_spot = cell_text(row, "spot").lower() == "true"
            collector.add(vm_type, region, "spot" if is_spot else "on_demand", price)
