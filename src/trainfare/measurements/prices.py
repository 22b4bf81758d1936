"""Daily prices of EC2 machines with GPUs from 2022 to 2024 (skypilot-org/skypilot-catalog, Apache-2.0)."""

import gzip
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

PATH = Path("prices") / "aws_gpu_daily_to_2024.csv.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class DayPrice:
    """Dollars per hour of one machine type on one day: the median over the zones that had it."""

    on_demand: float | None
    spot: float | None


@dataclass(frozen=True, slots=True)
class ZonePrice:
    """One row of the table, day as `2024-03-01`."""

    day: str
    instance_type: str
    zone: str
    on_demand: float | None
    spot: float | None


def prices_on(folder: Path, day: str) -> Mapping[str, DayPrice]:
    """Prices by machine type on the newest day of the table that is not after `day`; empty if all days are after it."""
    days = prices_by_day(folder, until=day)
    return days[max(days)] if days else {}


def prices_by_day(folder: Path, *, until: str = "9999-12-31") -> Mapping[str, Mapping[str, DayPrice]]:
    """Prices by day and machine type, for every day up to and including `until`, oldest first."""
    days: dict[str, dict[str, list[ZonePrice]]] = defaultdict(lambda: defaultdict(list))
    for price in read_prices(folder):
        if price.day <= until:
            days[price.day][price.instance_type].append(price)
    return {day: {name: _median_price(zones) for name, zones in sorted(days[day].items())} for day in sorted(days)}


def read_prices(folder: Path) -> Iterator[ZonePrice]:
    """The rows of the table, in order of days. Lines are split directly: a csv reader takes three times as long."""
    path = folder / PATH
    if not path.is_file():
        raise FileNotFoundError(str(path))
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            day, instance_type, zone, on_demand, spot = line.rstrip("\n").split(",")
            yield ZonePrice(day, instance_type, zone, _dollars(on_demand), _dollars(spot))


def _median_price(zones: list[ZonePrice]) -> DayPrice:
    on_demand = [price.on_demand for price in zones if price.on_demand is not None]
    spot = [price.spot for price in zones if price.spot is not None]
    return DayPrice(on_demand=median(on_demand) if on_demand else None, spot=median(spot) if spot else None)


def _dollars(cell: str) -> float | None:
    """The price, or None for an empty cell and for zero: both mean that it was not for rent."""
    return (float(cell) or None) if cell else None
