"""How often a spot machine is taken back, from availability traces; what it prints as `ship` stands in the catalog.

    python -m benchmarks.spot DIR [--prices FILE] [--zones] [--json]

DIR holds public traces, a folder a campaign (`aws-02-15-2023`), a file a zone (`us-east-1a_v100_1.json`): whether one
more spot machine could be had, every few minutes for weeks. An interruption is a step from "could be had" to "could
not", and the rate is their number over the hours in which it could. That is an upper estimate: a machine that is
already running is not always taken when no further one can be had.

Zones differ far more than chance: the ends of the interval are the 5 % and 95 % points of the zones' own rates,
weighted by hours; of fewer than five zones, their extremes and a factor of two.

`--zones` prints the table of zones that stands in the catalog (`spot_zones.csv`): how often a machine could not be had
any more, and how often it could again, with the hours in which that might have happened, by how long it had been so.

FILE holds daily spot prices by machine type and zone; from it comes how far a price moves in so many days.
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
    """In which a machine could be had."""
    share: float
    """Of the time."""

    @property
    def per_hour(self) -> float:
        return self.interruptions / self.hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Whether a machine could be had in a zone, slot by slot."""

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
        """For how many seconds it has been so, at the beginning of each slot."""
        found, age = [], 0.0
        for number, up in enumerate(self.seen):
            age = age + self.gap_seconds if number and up == self.seen[number - 1] else 0.0
            found.append(age)
        return tuple(found)

    def history(self, until: int | None = None) -> ZoneHistory:
        """Counted up to a slot. The first stretch is taken to begin with the trace."""
        return counted(self.seen[:until], self.ages[:until], gap_seconds=self.gap_seconds, where=self.zone)


def counted(seen: Sequence[int], ages: Sequence[float], *, gap_seconds: float, where: str) -> ZoneHistory:
    """Slot by slot: 0 where there is no machine, else which: from one to another is a loss and a return at once."""
    events = {True: [0] * AGE_BINS, False: [0] * AGE_BINS}
    slots = {True: [0] * AGE_BINS, False: [0] * AGE_BINS}
    rungs = [age_bin(age + gap_seconds / 2) for age in ages]
    for now, rung in zip(seen, rungs, strict=True):
        slots[now > 0][rung] += 1
    for (now, later), rung in zip(pairwise(seen), rungs, strict=False):
        if now != later:
            events[now > 0][rung] += 1
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
    """As `catalog/data/spot_zones.csv` has them."""
    counts = [f"{name}_{rung}" for name in ("lost", "up_hours", "back", "down_hours") for rung in range(AGE_BINS)]
    yield ",".join(("provider", "gpu", "gpus", "zone", "first_day", "last_day", *counts))
    for trace in read_traces(folder):
        found = trace.history()
        whole = (*found.losses, *found.up_hours, *found.returns, *found.down_hours)
        named = (trace.provider, trace.gpu, trace.gpus, trace.zone, trace.first_day, trace.last_day)
        yield ",".join((*map(str, named), *(f"{count:.5g}" for count in whole)))


def rate(zones: list[Zone]) -> dict[str, float]:
    pooled = sum(z.interruptions for z in zones) / sum(z.hours for z in zones)
    low, high = _ends(zones)
    return {"zones": len(zones), "per_hour": pooled, "low": min(low, pooled), "high": max(high, pooled)}


def _ends(zones: list[Zone]) -> tuple[float, float]:
    ordered = sorted(zones, key=lambda z: z.per_hour)
    if len(zones) < FEW_ZONES:
        return ordered[0].per_hour / 2, ordered[-1].per_hour * 2
    total, passed, ends = sum(z.hours for z in zones), 0.0, {}
    for zone in ordered:
        passed += zone.hours
        for share in (0.05, 0.95):
            if share not in ends and passed >= share * total:
                ends[share] = zone.per_hour
    return ends[0.05], ends[0.95]


def by_gpus(rates: dict[tuple[str, int], dict[str, float]]) -> float:
    """The exponent of rate ∝ gpus^x, the mean over GPUs of which both sizes were seen."""
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
    """Days → the factor within which nine in ten prices stayed."""
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
        parser.error(f"{options.folder} holds no traces")
    groups: dict[tuple[str, int], list[Zone]] = defaultdict(list)
    for zone in zones:
        groups[zone.gpu, zone.gpus].append(zone)
    rates = {key: rate(group) for key, group in groups.items()}
    single = rate([z for z in zones if z.gpus == 1])
    ship: dict[str, object] = {"of_one_gpu": single, "exponent_of_gpus": by_gpus(rates)}
    if options.prices:
        ship["drift"] = drift(options.prices)
    if options.json:
        print(
            json.dumps({"rates": {f"{n} x {gpu}": found for (gpu, n), found in rates.items()}, "ship": ship}, indent=2)
        )
        return
    print(f"{'machine':12}{'zones':>6}{'an hour':>9}{'low':>8}{'high':>8}")
    for (gpu, n), found in rates.items():
        print(f"{n} × {gpu:8}{found['zones']:6.0f}{found['per_hour']:9.3f}{found['low']:8.3f}{found['high']:8.3f}")
    print(json.dumps(ship, indent=2))


if __name__ == "__main__":
    main()
