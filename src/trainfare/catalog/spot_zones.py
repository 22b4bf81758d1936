"""The availability of spot machines, by zone, as counted in public traces."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

from trainfare.catalog.gpu_facts import bundled_rows
from trainfare.model.machine import VmType
from trainfare.model.spot import AGE_BINS, SpotMarket, ZoneHistory, pool_histories
from trainfare.units import plural

MAX_ZONES = 4
"""The most zones in a SpotMarket: zones with similar rates are pooled, so that there are no more to compute with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneTrace:
    """The trace of one zone in one measurement campaign."""

    key: tuple[str, str, int]
    """Provider, GPU, number of GPUs."""
    first_day: date
    last_day: date
    history: ZoneHistory

    @property
    def region(self) -> str:
        """The region of the zone: `us-west-2` for `us-west-2a`."""
        return self.history.zone[:-1]


@cache
def load_zone_traces() -> tuple[ZoneTrace, ...]:
    return tuple(_zone_trace(row) for row in bundled_rows("spot_zones.csv"))


def find_spot_market(vm_type: VmType, region: str | None = None) -> SpotMarket:
    """The spot market of a machine.

    It is that of the region's traced zones if there are any; otherwise of all traced zones of this machine; otherwise
    an assumption, whose source says so: all traced zones of machines with a similar number of GPUs.
    """
    return _market(vm_type.provider, vm_type.gpu.name if vm_type.gpu else "", vm_type.gpus, region)


def describe_traces(traces: Sequence[ZoneTrace], region: str | None) -> str:
    """`traces of 3 zones of us-west-2, 2022-10-26 to 2023-02-15`."""
    zones = {trace.history.zone for trace in traces}
    where = f" of {region}" if region else ""
    first, last = min(trace.first_day for trace in traces), max(trace.last_day for trace in traces)
    return f"traces of {plural(len(zones), 'zone')}{where}, {first} to {last}"


@cache
def _market(provider: str, gpu: str, gpus: int, region: str | None) -> SpotMarket:
    of_machine = [trace for trace in load_zone_traces() if trace.key == (provider, gpu, gpus)]
    in_region = [trace for trace in of_machine if trace.region == region]
    if in_region:
        return _pool(in_region, describe_traces(in_region, region))
    if of_machine:
        return _pool(of_machine, describe_traces(of_machine, None))
    sizes = sorted({trace.key[2] for trace in load_zone_traces()})
    size = min(sizes, key=lambda known: abs(math.log(known / max(1, gpus))))
    similar = [trace for trace in load_zone_traces() if trace.key[2] == size]
    years = " and ".join(sorted({str(trace.first_day.year) for trace in similar}))
    machines = f"machines with {plural(size, 'GPU')} (V100, K80) on AWS in {years}"
    return _pool(similar, f"an assumption: there is no trace of this GPU, so those of {machines} are used")


def _pool(traces: Sequence[ZoneTrace], source: str) -> SpotMarket:
    """The market of at most `MAX_ZONES` groups of zones with similar rates of loss."""
    pooled = pool_histories([trace.history for trace in traces], source).availability()
    keys = sorted({(trace.history.zone, *trace.key) for trace in traces})  # one zone in several campaigns is one
    zones = [
        pool_histories([trace.history for trace in traces if (trace.history.zone, *trace.key) == key], key[0])
        for key in keys
    ]
    zones.sort(key=lambda zone: zone.lost_per_hour)
    size = -(-len(zones) // MAX_ZONES)
    groups = [zones[start : start + size] for start in range(0, len(zones), size)]
    return SpotMarket(
        zones=tuple(
            pool_histories(group, ", ".join(zone.zone for zone in group)).availability(prior=pooled) for group in groups
        ),
        pooled=pooled,
        source=source,
    )


def _zone_trace(row: dict[str, str]) -> ZoneTrace:
    def counts(name: str) -> tuple[float, ...]:
        return tuple(float(row[f"{name}_{number}"]) for number in range(AGE_BINS))

    return ZoneTrace(
        key=(row["provider"], row["gpu"], int(row["gpus"])),
        first_day=date.fromisoformat(row["first_day"]),
        last_day=date.fromisoformat(row["last_day"]),
        history=ZoneHistory(
            zone=row["zone"],
            losses=tuple(round(n) for n in counts("lost")),
            up_hours=counts("up_hours"),
            returns=tuple(round(n) for n in counts("back")),
            down_hours=counts("down_hours"),
        ),
    )
