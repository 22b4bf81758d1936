"""gpuhunt's catalog: a row a machine, region and market, with the memory of its GPU."""

from collections.abc import Iterable
from pathlib import Path

from trainfare.catalog.collector import Collector, Row, number, text
from trainfare.errors import UsageError

COLUMNS = frozenset({"instance_name", "location", "price", "gpu_count", "gpu_name", "spot"})
SOURCE = "gpuhunt catalog"

_OUR_NAMES = {"lambdalabs": "lambda"}


def provider_of(path: Path, columns: frozenset[str], known: frozenset[str]) -> str | None:
    """None where every row says it; else the file is called by its provider, as in `aws.csv`."""
    if "provider" in columns:
        return None
    name = _OUR_NAMES.get(path.stem, path.stem)
    if name in known:
        return name
    raise UsageError(f"whose prices are in {path}? It has no column provider: add --provider")


def read_gpuhunt(rows: Iterable[Row], into: Collector, provider: str | None) -> None:
    for row in rows:
        named = provider or text(row, "provider").lower()
        at, name, region = _OUR_NAMES.get(named, named), text(row, "instance_name"), text(row, "location")
        price = number(row, "price")
        if not text(row, "gpu_name"):
            into.reading.without_gpu += 1
            continue
        if price is None or not (at and name and region):
            into.reading.without_price += 1
            continue
        vm_type = into.vm_type(
            provider=at,
            name=name,
            accelerator=text(row, "gpu_name"),
            count=number(row, "gpu_count"),
            gpu_memory_gib=number(row, "gpu_memory"),
            vcpus=number(row, "cpu"),
            memory_gib=number(row, "memory"),
        )
        if vm_type:
            into.add(vm_type, region, "spot" if text(row, "spot").lower() == "true" else "on_demand", price)
