"""The catalog: what can be rented, what a machine or a GPU is, and new price tables."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from trainfare.catalog.bundled import load_offers
from trainfare.catalog.catalog import LISTED_BY, Catalog, load_catalog, newest
from trainfare.catalog.collector import Reading
from trainfare.catalog.gpus import Figure, load_figures
from trainfare.catalog.imports import Format, read_table
from trainfare.catalog.prices import save_prices, price_file, read_prices
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Market, Offer
from trainfare.settings import Settings, read_settings

Sort = Literal["price", "gpu-price", "gpu-memory", "age", "name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A machine in a region: its price, its spot price, or both, as one source saw them on one day."""

    vm_type: VmType
    region: str
    usd_per_hour: float | None
    """On demand; of the user's own machine, what it costs the user."""
    spot_usd_per_hour: float | None
    seen_on: date
    source: str
    retired_on: date | None

    @property
    def leading_usd_per_hour(self) -> float:
        """What a list is ordered by: the price on demand, or that of spot where there is no other."""
        return self.usd_per_hour or self.spot_usd_per_hour or 0.0

    def is_past(self, today: date) -> bool:
        return self.retired_on is not None and self.retired_on <= today


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    today: date
    lines: tuple[Line, ...]
    machines: int
    regions_hidden: int
    """Lines that are left out because the machine is cheaper elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDetails:
    today: date
    vm_type: VmType
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDetails:
    gpu: Gpu
    figures: tuple[Figure, ...]
    """Empty for a GPU that the user has described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One price before and after an import; None where it was not, or is no longer, listed."""

    machine: str
    region: str
    market: Market
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float:
        """Of the price now to that before; less than a thousandth of difference is rounding, not news."""
        if self.after is None or self.before is None:
            return 1.0
        ratio = self.after / self.before
        return ratio if abs(ratio - 1) >= 1e-3 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a price table brought."""

    format: Format
    seen_on: date
    reading: Reading
    providers: tuple[str, ...]
    new: tuple[Change, ...]
    cheaper: tuple[Change, ...]
    dearer: tuple[Change, ...]
    gone: tuple[Change, ...]
    """Offers that the table does not list. Of a machine and region that it lists, a market that it lacks is
    dropped; other machines and regions stay, at the price they were last seen at."""
    same: int
    kept: tuple[Path, ...]
    """Empty for a dry run."""


def open_catalog(settings: Settings | None) -> Catalog:
    settings = settings or read_settings()
    return load_catalog(Path(settings.machines), Path(settings.prices))


def list_offers(
    *,
    provider: str | None = None,
    gpu: str | None = None,
    region: str | None = None,
    spot: bool | None = None,
    past: bool = False,
    sort: Sort = "price",
    every_region: bool = False,
    today: date | None = None,
    settings: Settings | None = None,
) -> Listing:
    """What can be rented, or with `past` what no longer can; the cheapest region of a machine, or every one.

    `spot` True leaves only spot prices, False only the others, None both.
    """
    today = today or _today()
    catalog = open_catalog(settings)
    offers = [offer for offer in catalog.offers if offer.rentable_on(today) != past]
    offers = _filtered(offers, provider, "provider", lambda o: o.vm_type.provider)
    offers = _filtered(offers, region, "region", lambda o: o.region)
    offers = _of_gpu(offers, gpu, catalog)
    if spot is not None:
        offers = [offer for offer in offers if (offer.market == "spot") == spot]
    lines = sorted(_lines(offers), key=_ORDERS[sort])
    shown = lines if every_region else _cheapest_region(lines)
    return Listing(
        today=today,
        lines=tuple(shown),
        machines=len({line.vm_type.key for line in shown}),
        regions_hidden=len(lines) - len(shown),
    )


def show_machine(name: str, *, today: date | None = None, settings: Settings | None = None) -> MachineDetails:
    """Every price that is known of a machine, those of the past last."""
    today = today or _today()
    offers = open_catalog(settings).find(name)
    lines = sorted(_lines(offers), key=lambda line: (line.is_past(today), line.leading_usd_per_hour))
    return MachineDetails(today=today, vm_type=offers[0].vm_type, lines=tuple(lines))


def list_gpus(*, settings: Settings | None = None) -> tuple[Gpu, ...]:
    return tuple(open_catalog(settings).gpus.values())


def show_gpu(name: str, *, settings: Settings | None = None) -> GpuDetails:
    catalog = open_catalog(settings)
    gpu = catalog.find_gpu(name)
    if gpu is None:
        raise NotFoundError("GPU", name, catalog.gpus, listed_by="trainfare catalog gpus")
    return GpuDetails(gpu=gpu, figures=load_figures().get(gpu.name, ()))


def import_prices(
    path: Path,
    *,
    provider: str | None = None,
    format_: Format | None = None,
    seen_on: date | None = None,
    dry_run: bool = False,
    today: date | None = None,
    settings: Settings | None = None,
) -> Imported:
    """Reads a price table of SkyPilot or gpuhunt, and keeps it unless this is a dry run."""
    settings = settings or read_settings()
    today = today or _today()
    directory = Path(settings.prices)
    if provider is not None:
        price_file(directory, provider)
    seen_on = seen_on or _changed_on(path, today)
    if seen_on > today:
        raise UsageError(f"{path} cannot have been seen on {seen_on}: that day is still to come")
    catalog = open_catalog(settings)
    format_, reading = read_table(
        path,
        gpus=catalog.gpus,
        known_providers={offer.vm_type.provider for offer in catalog.offers},
        seen_on=seen_on,
        provider=provider,
        format_=format_,
    )
    if not reading.offers:
        raise UsageError(f"{path} has no GPU machine with a price in its {reading.rows} rows: nothing kept")
    by_provider: dict[str, list[Offer]] = {}
    for offer in reading.offers:
        by_provider.setdefault(offer.vm_type.provider, []).append(offer)
    for name in by_provider:
        _require_newest(directory, name, catalog.gpus, seen_on)
    changes = _changes(catalog, reading.offers, today)
    kept = () if dry_run else tuple(save_prices(directory, name, found) for name, found in by_provider.items())
    return Imported(
        format=format_,
        seen_on=seen_on,
        reading=reading,
        providers=tuple(by_provider),
        new=tuple(c for c in changes if c.before is None),
        cheaper=tuple(c for c in changes if c.ratio < 1),
        dearer=tuple(c for c in changes if c.ratio > 1),
        gone=tuple(c for c in changes if c.after is None),
        same=sum(1 for c in changes if c.before and c.after and c.ratio == 1),
        kept=kept,
    )


def line_record(line: Line, today: date) -> dict[str, Any]:
    """One flat row for `--json`."""
    vm_type, gpu = line.vm_type, line.vm_type.gpu
    return {
        "machine": vm_type.key,
        "provider": vm_type.provider,
        "name": vm_type.name,
        "gpu": gpu.name if gpu else None,
        "gpus": vm_type.gpus,
        "gpu_memory_gib": gpu.memory_gib if gpu else None,
        "vcpus": vm_type.vcpus,
        "memory_gib": vm_type.memory_gib,
        "region": line.region,
        "usd_per_hour": line.usd_per_hour,
        "spot_usd_per_hour": line.spot_usd_per_hour,
        "seen_on": line.seen_on.isoformat(),
        "age_days": (today - line.seen_on).days,
        "retired_on": line.retired_on.isoformat() if line.retired_on else None,
        "source": line.source,
    }


def gpu_record(gpu: Gpu, figures: Iterable[Figure] = ()) -> dict[str, Any]:
    record: dict[str, Any] = {field.name: getattr(gpu, field.name) for field in fields(Gpu)}
    sources = {figure.fact: asdict(figure.source) for figure in figures}
    return record | {"sources": sources} if sources else record


def imported_record(imported: Imported) -> dict[str, Any]:
    reading = imported.reading
    return {
        "format": imported.format,
        "seen_on": imported.seen_on.isoformat(),
        "providers": list(imported.providers),
        "offers": len(reading.offers),
        "machines": len({offer.vm_type.key for offer in reading.offers}),
        "rows": reading.rows,
        "without_gpu": reading.without_gpu,
        "without_price": reading.without_price,
        "without_host": reading.without_host,
        "unknown_gpus": dict(reading.unknown_gpus),
        **{name: [asdict(c) for c in getattr(imported, name)] for name in ("new", "cheaper", "dearer", "gone")},
        "same": imported.same,
        "kept": [str(path) for path in imported.kept],
    }


def _today() -> date:
    return datetime.now(UTC).date()


def _lines(offers: Iterable[Offer]) -> list[Line]:
    groups: dict[tuple[str, str, date, str], list[Offer]] = {}
    for offer in offers:
        groups.setdefault((offer.vm_type.key, offer.region, offer.seen_on, offer.source), []).append(offer)
    return [_line(group) for group in groups.values()]


def _line(offers: list[Offer]) -> Line:
    prices = {offer.market == "spot": offer.usd_per_hour for offer in offers}
    return Line(
        vm_type=offers[0].vm_type,
        region=offers[0].region,
        usd_per_hour=prices.get(False),
        spot_usd_per_hour=prices.get(True),
        seen_on=offers[0].seen_on,
        source=offers[0].source,
        retired_on=offers[0].retired_on,
    )


def _cheapest_region(lines: Iterable[Line]) -> list[Line]:
    """One line a machine; of the past, one a machine and source, because each source had its own day."""
    cheapest: dict[tuple[str, ...], Line] = {}
    for line in lines:
        key = (line.vm_type.key, line.source) if line.retired_on else (line.vm_type.key,)
        known = cheapest.get(key)
        if known is None or line.leading_usd_per_hour < known.leading_usd_per_hour:
            cheapest[key] = line
    return list(cheapest.values())


def _gpu_memory_gib(line: Line) -> float:
    return line.vm_type.gpus * line.vm_type.gpu.memory_gib if line.vm_type.gpu else 0.0


_ORDERS: Mapping[Sort, Callable[[Line], Any]] = {
    "price": lambda line: (line.leading_usd_per_hour, line.vm_type.key, line.region),
    "gpu-price": lambda line: (line.leading_usd_per_hour / max(1, line.vm_type.gpus), line.vm_type.key),
    "gpu-memory": lambda line: (-_gpu_memory_gib(line), line.leading_usd_per_hour),
    "age": lambda line: (-line.seen_on.toordinal(), line.leading_usd_per_hour),
    "name": lambda line: (line.vm_type.key, line.leading_usd_per_hour),
}


def _filtered(offers: list[Offer], wanted: str | None, kind: str, value: Callable[[Offer], str]) -> list[Offer]:
    if wanted is None:
        return offers
    found = [offer for offer in offers if value(offer).lower() == wanted.strip().lower()]
    if not found:
        raise NotFoundError(kind, wanted, sorted({value(offer) for offer in offers}), listed_by=f"{LISTED_BY} --all")
    return found


def _of_gpu(offers: list[Offer], wanted: str | None, catalog: Catalog) -> list[Offer]:
    """`A100` means every A100, `A100-80GB` only those; `A10` is another GPU than `A100`."""
    if wanted is None:
        return offers
    exact = catalog.find_gpu(wanted)
    start = _words(exact.name if exact else wanted)
    names = {name for name in catalog.gpus if _words(name)[: len(start)] == start}
    if not names:
        raise NotFoundError("GPU", wanted, catalog.gpus, listed_by="trainfare catalog gpus")
    return [offer for offer in offers if offer.vm_type.gpu and offer.vm_type.gpu.name in names]


def _words(name: str) -> list[str]:
    return name.lower().replace("-", " ").replace("/", " ").split()


def _changed_on(path: Path, today: date) -> date:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, tz=UTC).date()
    except OSError:
        return today


def _require_newest(directory: Path, provider: str, gpus: Mapping[str, Gpu], seen_on: date) -> None:
    """A table that was imported before must not give way to an older one."""
    path = price_file(directory, provider)
    kept = read_prices(directory, gpus) if path.exists() else ()
    last = max((offer.seen_on for offer in kept if offer.vm_type.provider == provider), default=seen_on)
    if last > seen_on:
        raise UsageError(
            f"this table was seen on {seen_on}, but the one kept of {provider} on {last}: nothing kept."
            " If it is newer than the date of its file, tell with --seen-on."
        )


def _changes(catalog: Catalog, table: list[Offer], today: date) -> list[Change]:
    """What the list of these providers will say, against what it says now."""
    providers = {offer.vm_type.provider for offer in table}
    before = {o.key: o.usd_per_hour for o in catalog.rentable_on(today) if o.vm_type.provider in providers}
    merged = {o.key: o for o in newest(load_offers(), table) if o.rentable_on(today)}
    after = {o.key: merged[o.key].usd_per_hour for o in table if o.key in merged}
    return [
        Change(machine=key[0], region=key[1], market=key[2], before=before.get(key), after=after.get(key))
        for key in sorted(before.keys() | after.keys())
    ]
