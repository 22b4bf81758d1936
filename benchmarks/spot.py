"""Interruption rates of spot machines from public availability traces; the values printed as `ship` are in the catalog.

    python -m benchmarks.spot DIR [--prices FILE] [--zones] [--json]

DIR has public traces, one folder per campaign (`aws-02-15-2023`) and one file per zone (`us-east-1a_v100_1.json`). They
record every few minutes for weeks if one more spot machine was available. An interruption is a change from available to
not available, and the rate is their number over the hours with availability. That is an upper estimate: a running
machine is not always taken back when no further one is available.

Zones differ far more than by chance: the bounds of the interval are the 5% and 95% quantiles of the zones' rates,
weighted by hours; with fewer than five zones, their extremes and a factor of two.

`--zones` prints the table of zones in the catalog (`spot_zones.csv`): the number of losses and of returns, with the
hours in which they could have happened, by age bin.

FILE has daily spot prices by machine type and zone; from it comes the drift of a price after a number of days.
"""

import argparse
import csv
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from trainfare.model.spot import AGE_BINS, ZoneHistory, age_bin

FEW_ZONES = 5
LAGS = (1, 7, 30, 90, 180, 365)


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    name: str
    gpu: str
    gpus: int
    interruptions: int
    hours: float
    """Hours in which a machine was available."""
    share: float
    """Share of the time in which a machine was available."""

    @property
    def per_hour(self) -> float:
        return self.interruptions / self.hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The availability of a machine in a zone, slot by slot."""

    campaign: str
    """`aws-10-26-2022`."""
    zone: str
    gpu: str
    gpus: int
    gap_seconds: float
    seen: tuple[int, ...]

    @property
    def provider(self) -> str:
        return self.campaign.split("-")[0]

    @property
    def first_day(self) -> date:
        return datetime.strptime(self.campaign.split("-", 1)[1], "%m-%d-%Y").replace(tzinfo=UTC).date()

    @property
    def last_day(self) -> date:
        return self.first_day + timedelta(seconds=len(self.seen) * self.gap_seconds)

    @property
    def ages(self) -> tuple[float, ...]:
        """The seconds since the last change of availability, at the beginning of each slot."""
        found, age = [], 0.0
        for number, up in enumerate(self.seen):
            age = age + self.gap_seconds if number and up == self.seen[number - 1] else 0.0
            found.append(age)
        return tuple(found)

    def history(self, until: int | None = None) -> ZoneHistory:
        """The counts up to a slot. The first period is taken to begin with the trace."""
        return count_events(self.seen[:until], self.ages[:until], gap_seconds=self.gap_seconds, where=self.zone)


def count_events(seen: Sequence[int], ages: Sequence[float], *, gap_seconds: float, where: str) -> ZoneHistory:
    """Events and hours by age bin. A slot is 0 without a machine, else the number of the zone that has one.

    A change from one zone to another is a loss and a return at once.
    """
    events = {True: [0] * AGE_BINS, False: [0] * AGE_BINS}
    slots = {True: [0] * AGE_BINS, False: [0] * AGE_BINS}
    ages_in_bins = [age_bin(age + gap_seconds / 2) for age in ages]
    for now, age in zip(seen, ages_in_bins, strict=True):
        slots[now > 0][age] += 1
    for (now, later), age in zip(pairwise(seen), ages_in_bins, strict=False):
        if now != later:
            events[now > 0][age] += 1
            if now and later:
                events[False][0] += 1
    return ZoneHistory(
        zone=where,
        losses=tuple(events[True]),
        up_hours=tuple(n * gap_seconds / 3600 for n in slots[True]),
        returns=tuple(events[False]),
        down_hours=tuple(n * gap_seconds / 3600 for n in slots[False]),
    )


def read_traces(folder: Path) -> Iterator[Trace]:
    for path in sorted(folder.glob("*/*.json")):
        trace = json.loads(path.read_text())
        zone, gpu, gpus = path.stem.split("_")
        yield Trace(
            campaign=path.parent.name,
            zone=zone,
            gpu=gpu.upper(),
            gpus=int(gpus),
            gap_seconds=trace["metadata"]["gap_seconds"],
            seen=tuple(trace["data"]),
        )


def read_zones(folder: Path) -> list[Zone]:
    zones = []
    for trace in read_traces(folder):
        seen = trace.seen
        zones.append(
            Zone(
                name=f"{trace.campaign}/{trace.zone}",
                gpu=trace.gpu,
                gpus=trace.gpus,
                interruptions=sum(before == 1 and after == 0 for before, after in pairwise(seen)),
                hours=sum(seen) * trace.gap_seconds / 3600,
                share=sum(seen) / len(seen),
            )
        )
    return zones


def zone_rows(folder: Path) -> Iterator[str]:
    """The lines of `catalog/data/spot_zones.csv`."""
    counts = [f"{name}_{age}" for name in ("lost", "up_hours", "back", "down_hours") for age in range(AGE_BINS)]
    yield ",".join(("provider", "gpu", "gpus", "zone", "first_day", "last_day", *counts))
    for trace in read_traces(folder):
        found = trace.history()
        values = (*found.losses, *found.up_hours, *found.returns, *found.down_hours)
        named = (trace.provider, trace.gpu, trace.gpus, trace.zone, trace.first_day, trace.last_day)
        yield ",".join((*map(str, named), *(f"{count:.5g}" for count in values)))


def rate(zones: list[Zone]) -> dict[str, float]:
    pooled = sum(z.interruptions for z in zones) / sum(z.hours for z in zones)
    low, high = _bounds(zones)
    return {"zones": len(zones), "per_hour": pooled, "low": min(low, pooled), "high": max(high, pooled)}


def _bounds(zones: list[Zone]) -> tuple[float, float]:
    ordered = sorted(zones, key=lambda z: z.per_hour)
    if len(zones) < FEW_ZONES:
        return ordered[0].per_hour / 2, ordered[-1].per_hour * 2
    total, cumulated, quantiles = sum(z.hours for z in zones), 0.0, {}
    for zone in ordered:
        cumulated += zone.hours
        for share in (0.05, 0.95):
            if share not in quantiles and cumulated >= share * total:
                quantiles[share] = zone.per_hour
    return quantiles[0.05], quantiles[0.95]


def gpu_exponent(rates: dict[tuple[str, int], dict[str, float]]) -> float:
    """The exponent x of rate ∝ gpus^x: the mean over GPUs with both sizes."""
    exponents = [
        math.log(rates[gpu, many]["per_hour"] / rates[gpu, 1]["per_hour"]) / math.log(many)
        for gpu, many in rates
        if many > 1 and (gpu, 1) in rates
    ]
    return sum(exponents) / len(exponents)


def read_day_prices(file: Path) -> Iterator[dict[str, str]]:
    with gzip.open(file, "rt") as lines:
        yield from csv.DictReader(lines)


def drift(file: Path) -> dict[int, float]:
    """By number of days, the factor within which 90% of the prices stayed."""
    import numpy as np

    prices: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in read_day_prices(file):
        if row["spot_usd_h"] and float(row["spot_usd_h"]) > 0:
            day = date.fromisoformat(row["date"]).toordinal()
            prices[row["instance_type"], row["az"]][day] = float(row["spot_usd_h"])
    return {
        lag: math.exp(
            float(
                np.quantile(
                    [
                        abs(math.log(later / price))
                        for days in prices.values()
                        for day, price in days.items()
                        if (later := days.get(day + lag))
                    ],
                    0.9,
                )
            )
        )
        for lag in LAGS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of traces")
    parser.add_argument("--prices", type=Path, metavar="FILE", help="daily spot prices")
    parser.add_argument("--zones", action="store_true", help="print the table of zones")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.zones:
        print(*zone_rows(options.folder), sep="\n")
        return
    zones = read_zones(options.folder)
    if not zones:
        parser.error(f"{options.folder} has no traces")
    groups: dict[tuple[str, int], list[Zone]] = defaultdict(list)
    for zone in zones:
        groups[zone.gpu, zone.gpus].append(zone)
    rates = {key: rate(group) for key, group in groups.items()}
    single = rate([z for z in zones if z.gpus == 1])
    ship: dict[str, object] = {"of_one_gpu": single, "exponent_of_gpus": gpu_exponent(rates)}
    if options.prices:
        ship["drift"] = drift(options.prices)
    if options.json:
        print(
            json.dumps({"rates": {f"{n} x {gpu}": found for (gpu, n), found in rates.items()}, "ship": ship}, indent=2)
        )
        return
    print(f"{'machine':12}{'zones':>6}{'per hour':>9}{'low':>8}{'high':>8}")
    for (gpu, n), found in rates.items():
        print(f"{n} x {gpu:8}{found['zones']:6.0f}{found['per_hour']:9.3f}{found['low']:8.3f}{found['high']:8.3f}")
    print(json.dumps(ship, indent=2))


if __name__ == "__main__":
    main()
