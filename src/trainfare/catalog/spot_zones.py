"""For how long spot machines could be had, and how long one waited for the next: counted in public traces, by zone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

from trainfare.catalog.gpus import bundled_rows
from trainfare.model.machine import VmType
from trainfare.model.spot import AGE_BINS, SpotMarket, ZoneHistory, pool_histories

MOST_ZONES = 4
"""Zones that are much alike are taken together, so that there are no more than these to reckon with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One zone in one campaign of probing."""

    key: tuple[str, str, int]
    """Provider, GPU, number of GPUs."""
    first_day: date
    last_day: date
    history: ZoneHistory

    @property
    def region(self) -> str:
        """`us-west-2` of `us-west-2a`."""
        return self.history.where[:-1]


@cache
def load_zones() -> tuple[Zone, ...]:
    return tuple(_zone(row) for row in bundled_rows("spot_zones.csv"))


def market_of(vm_type: VmType, region: str | None = None) -> SpotMarket:
    """Of the region's own zones where some were traced; else of all zones of this machine; else an assumption that says
    so: all zones of machines with about as many GPUs."""
    return _market(vm_type.provider, vm_type.gpu.name if vm_type.gpu else "", vm_type.gpus, region)


def describe_traces(zones: Sequence[Zone], region: str | None) -> str:
    names = sorted({zone.history.where for zone in zones})
    where = f" of {region}" if region else ""
    first, last = min(zone.first_day for zone in zones), max(zone.last_day for zone in zones)
    return f"traces of {len(names)} zone{'s' if len(names) > 1 else ''}{where}, {first} to {last}"


@cache
def _market(provider: str, gpu: str, gpus: int, region: str | None) -> SpotMarket:
    traced = [zone for zone in load_zones() if zone.key == (provider, gpu, gpus)]
    near = [zone for zone in traced if zone.region == region]
    if near or traced:
        return _of_zones(near or traced, describe_traces(near or traced, region if near else None))
    sizes = sorted({zone.key[2] for zone in load_zones()})
    size = min(sizes, key=lambda known: abs(math.log(known / max(1, gpus))))
    alike = [zone for zone in load_zones() if zone.key[2] == size]
    machines = "machines with one GPU" if size == 1 else f"machines with {size} GPUs"
    years = " and ".join(sorted({str(zone.first_day.year) for zone in alike}))
    return _of_zones(
        alike, f"an assumption: nobody has traced this GPU, so {machines} (V100, K80) of AWS in {years} stand in"
    )


def _of_zones(zones: Sequence[Zone], source: str) -> SpotMarket:
    pooled = pool_histories([zone.history for zone in zones], source).availability()
    names = sorted({(zone.history.where, *zone.key) for zone in zones})  # one zone in several campaigns is one
    each = [pool_histories([z.history for z in zones if (z.history.where, *z.key) == name], name[0]) for name in names]
    each.sort(key=lambda history: history.lost_per_hour)
    size = -(-len(each) // MOST_ZONES)
    groups = [each[at : at + size] for at in range(0, len(each), size)]
    return SpotMarket(
        zones=tuple(
            pool_histories(group, ", ".join(h.where for h in group)).availability(usual=pooled) for group in groups
        ),
        pooled=pooled,
        source=source,
    )


def _zone(row: dict[str, str]) -> Zone:
    def counted(name: str) -> tuple[float, ...]:
        return tuple(float(row[f"{name}_{rung}"]) for rung in range(AGE_BINS))

    return Zone(
        key=(row["provider"], row["gpu"], int(row["gpus"])),
        first_day=date.fromisoformat(row["first_day"]),
        last_day=date.fromisoformat(row["last_day"]),
        history=ZoneHistory(
            where=row["zone"],
            lost=tuple(round(n) for n in counted("lost")),
            up_hours=counted("up_hours"),
            back=tuple(round(n) for n in counted("back")),
            down_hours=counted("down_hours"),
        ),
    )
