"""The format of our own price tables: one row a machine and region, with its prices on demand and on spot."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cache
from operator import itemgetter

from trainfare.catalog.cpu_facts import cpu_of_machine
from trainfare.catalog.networks import network_gb_per_second
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Market, Offer

COLUMNS = (
    "provider",
    "machine",
    "gpu",
    "gpus",
    "vcpus",
    "memory_gib",
    "region",
    "usd_per_hour",
    "spot_usd_per_hour",
    "seen_on",
    "retired_on",
    "source",
)

_MACHINE = itemgetter(*COLUMNS[:6])
"""The cells that describe the machine: most machines have several rows."""

IN_HOUSE = "in-house"
"""The provider of servers that the author of a paper owned: their price is the cost to their owner."""


def parse_offers(rows: Iterable[Mapping[str, str]], gpus: Mapping[str, Gpu]) -> Iterator[Offer]:
    """One Offer for each price; an invalid row is a `ValueError` that names its line."""
    vm_types: dict[tuple[str, ...], VmType] = {}
    for line, row in enumerate(rows, start=2):
        try:
            key = _MACHINE(row)
            vm_type = vm_types.get(key) or vm_types.setdefault(key, _vm_type(row, gpus))
            yield from _row_offers(row, vm_type)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {line}: {error}") from error


def format_price_table(offers: Iterable[Offer]) -> str:
    """The text of a table from which `parse_offers` reads the same offers."""
    rows: dict[tuple[str, str, date, str], dict[str, str]] = {}
    for offer in offers:
        key = (offer.vm_type.key, offer.region, offer.seen_on, offer.source)
        row = rows.setdefault(key, _row_without_price(offer))
        row["spot_usd_per_hour" if offer.market == "spot" else "usd_per_hour"] = f"{offer.usd_per_hour:.10g}"
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[key] for key in sorted(rows))
    return text.getvalue()


def _vm_type(row: Mapping[str, str], gpus: Mapping[str, Gpu]) -> VmType:
    return VmType(
        provider=row["provider"],
        name=row["machine"],
        gpu=gpus[row["gpu"]] if row["gpu"] else None,
        gpus=int(row["gpus"]),
        vcpus=float(row["vcpus"]) if row["vcpus"] else None,
        memory_gib=float(row["memory_gib"]) if row["memory_gib"] else None,
        network_gb_per_second=network_gb_per_second(row["provider"], row["machine"]),
        cpu=cpu_of_machine(row["provider"], row["machine"]),
    )


def _row_offers(row: Mapping[str, str], vm_type: VmType) -> Iterator[Offer]:
    base: Market = "own" if vm_type.provider == IN_HOUSE else "on_demand"
    prices: tuple[tuple[Market, str], ...] = (
        (base, row["usd_per_hour"]),
        ("spot", row["spot_usd_per_hour"]),
    )
    for market, price in prices:
        if price:
            yield Offer(
                vm_type=vm_type,
                region=row["region"],
                market=market,
                usd_per_hour=float(price),
                seen_on=_day(row["seen_on"]),
                source=row["source"],
                retired_on=_day(row["retired_on"]) if row["retired_on"] else None,
            )


@cache
def _day(text: str) -> date:
    return date.fromisoformat(text)


def _row_without_price(offer: Offer) -> dict[str, str]:
    vm_type = offer.vm_type
    return {
        "provider": vm_type.provider,
        "machine": vm_type.name,
        "gpu": vm_type.gpu.name if vm_type.gpu else "",
        "gpus": str(vm_type.gpus),
        "vcpus": "" if vm_type.vcpus is None else f"{vm_type.vcpus:g}",
        "memory_gib": "" if vm_type.memory_gib is None else f"{vm_type.memory_gib:g}",
        "region": offer.region,
        "seen_on": offer.seen_on.isoformat(),
        "retired_on": offer.retired_on.isoformat() if offer.retired_on else "",
        "source": offer.source,
    }
