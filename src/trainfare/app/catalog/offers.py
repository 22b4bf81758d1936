"""The catalog: list offers, show a machine or a GPU, and import price tables."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from trainfare.catalog.bundled import load_offers
from trainfare.catalog.catalog import LIST_COMMAND, Catalog, load_catalog, merge_newest
from trainfare.catalog.gpu_facts import load_gpu_facts
from trainfare.catalog.imports import read_price_table
from trainfare.catalog.prices import price_file, read_prices, save_prices
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.catalog import (
    GpuDetails,
    MachineDetails,
    OfferListing,
    OfferRow,
    PriceChange,
    PriceImport,
    TableFormat,
)
from trainfare.model.machine import Gpu
from trainfare.model.offer import Offer
from trainfare.settings import Settings, read_settings
from trainfare.units import plural

Sort = Literal["price", "gpu-price", "gpu-memory", "age", "name"]


def open_catalog(settings: Settings | None) -> Catalog:
    """The catalog with the user's own machines and imported prices."""
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
) -> OfferListing:
    """The machines that can be rented, or with `past` those that no longer can, each in its cheapest region or in every
    region.

    `spot` True leaves only spot prices, False only the others, None both.
    """
    today = today or _today()
    catalog = open_catalog(settings)
    offers = [offer for offer in catalog.offers if offer.rentable_on(today) != past]
    offers = _filter_by(offers, "provider", provider, lambda o: o.vm_type.provider)
    offers = _filter_by(offers, "region", region, lambda o: o.region)
    offers = _filter_by_gpu(offers, gpu, catalog)
    if spot is not None:
        offers = [offer for offer in offers if (offer.market == "spot") == spot]
    rows = sorted(_rows(offers), key=_SORT_KEYS[sort])
    shown = rows if every_region else _cheapest_region(rows)
    return OfferListing(
        today=today,
        rows=tuple(shown),
        machines=len({row.vm_type.key for row in shown}),
        regions_hidden=len(rows) - len(shown),
    )


def show_machine(name: str, *, today: date | None = None, settings: Settings | None = None) -> MachineDetails:
    """Every known price of a machine, past ones last."""
    today = today or _today()
    offers = open_catalog(settings).find(name)
    rows = sorted(_rows(offers), key=lambda row: (row.is_past(today), row.leading_usd_per_hour))
    return MachineDetails(today=today, vm_type=offers[0].vm_type, rows=tuple(rows))


def list_gpus(*, settings: Settings | None = None) -> tuple[Gpu, ...]:
    """Every known GPU, those that the user has described last."""
    return tuple(open_catalog(settings).gpus.values())


def show_gpu(name: str, *, settings: Settings | None = None) -> GpuDetails:
    """A GPU with the source of each of its facts."""
    catalog = open_catalog(settings)
    gpu = catalog.find_gpu(name)
    if gpu is None:
        raise NotFoundError("GPU", name, catalog.gpus, listed_by="trainfare catalog gpus")
    return GpuDetails(gpu=gpu, facts=load_gpu_facts().get(gpu.name, ()))


def import_prices(
    path: Path,
    *,
    provider: str | None = None,
    format_: TableFormat | None = None,
    seen_on: date | None = None,
    dry_run: bool = False,
    today: date | None = None,
    settings: Settings | None = None,
) -> PriceImport:
    """Read a price table of SkyPilot or gpuhunt, and save it unless this is a dry run."""
    settings = settings or read_settings()
    today = today or _today()
    directory = Path(settings.prices)
    if provider is not None:
        price_file(directory, provider)
    seen_on = seen_on or _changed_on(path, today)
    if seen_on > today:
        raise UsageError(f"{path} cannot have been seen on {seen_on}: that day is in the future", field="seen_on")
    catalog = open_catalog(settings)
    table_format, table = read_price_table(
        path,
        gpus=catalog.gpus,
        known_providers={offer.vm_type.provider for offer in catalog.offers},
        seen_on=seen_on,
        provider=provider,
        format_=format_,
    )
    if not table.offers:
        raise UsageError(f"{path} has no GPU machine with a price in {plural(table.rows, 'row')}: nothing was saved")
    by_provider: dict[str, list[Offer]] = {}
    for offer in table.offers:
        by_provider.setdefault(offer.vm_type.provider, []).append(offer)
    for name in by_provider:
        _require_newest(directory, name, catalog.gpus, seen_on)
    changes = _changes(catalog, table.offers, today)
    saved = () if dry_run else tuple(str(save_prices(directory, name, some)) for name, some in by_provider.items())
    return PriceImport(
        format=table_format,
        seen_on=seen_on,
        table=table,
        providers=tuple(by_provider),
        new=tuple(c for c in changes if c.before is None),
        cheaper=tuple(c for c in changes if c.ratio < 1),
        more_expensive=tuple(c for c in changes if c.ratio > 1),
        gone=tuple(c for c in changes if c.after is None),
        unchanged=sum(1 for c in changes if c.before and c.after and c.ratio == 1),
        saved=saved,
    )


def _today() -> date:
    return datetime.now(UTC).date()


def _rows(offers: Iterable[Offer]) -> list[OfferRow]:
    groups: dict[tuple[str, str, date, str], list[Offer]] = {}
    for offer in offers:
        groups.setdefault((offer.vm_type.key, offer.region, offer.seen_on, offer.source), []).append(offer)
    return [_row(group) for group in groups.values()]


def _row(offers: list[Offer]) -> OfferRow:
    prices = {offer.market == "spot": offer.usd_per_hour for offer in offers}
    return OfferRow(
        vm_type=offers[0].vm_type,
        region=offers[0].region,
        usd_per_hour=prices.get(False),
        spot_usd_per_hour=prices.get(True),
        seen_on=offers[0].seen_on,
        source=offers[0].source,
        retired_on=offers[0].retired_on,
    )


def _cheapest_region(rows: Iterable[OfferRow]) -> list[OfferRow]:
    """One row a machine; for past prices one a machine and source, because each source has its own day."""
    cheapest: dict[tuple[str, ...], OfferRow] = {}
    for row in rows:
        key = (row.vm_type.key, row.source) if row.retired_on else (row.vm_type.key,)
        known = cheapest.get(key)
        if known is None or row.leading_usd_per_hour < known.leading_usd_per_hour:
            cheapest[key] = row
    return list(cheapest.values())


def _gpu_memory_gib(row: OfferRow) -> float:
    return row.vm_type.gpus * row.vm_type.gpu.memory_gib if row.vm_type.gpu else 0.0


_SORT_KEYS: Mapping[Sort, Callable[[OfferRow], Any]] = {
    "price": lambda row: (row.leading_usd_per_hour, row.vm_type.key, row.region),
    "gpu-price": lambda row: (row.leading_usd_per_hour / max(1, row.vm_type.gpus), row.vm_type.key),
    "gpu-memory": lambda row: (-_gpu_memory_gib(row), row.leading_usd_per_hour),
    "age": lambda row: (-row.seen_on.toordinal(), row.leading_usd_per_hour),
    "name": lambda row: (row.vm_type.key, row.leading_usd_per_hour),
}


def _filter_by(offers: list[Offer], kind: str, name: str | None, value: Callable[[Offer], str]) -> list[Offer]:
    if name is None:
        return offers
    found = [offer for offer in offers if value(offer).lower() == name.strip().lower()]
    if not found:
        known = sorted({value(offer) for offer in offers})
        raise NotFoundError(kind, name, known, listed_by=LIST_COMMAND, field=kind)
    return found


def _filter_by_gpu(offers: list[Offer], name: str | None, catalog: Catalog) -> list[Offer]:
    """`A100` means every A100, `A100-80GB` only those; `A10` is another GPU than `A100`."""
    if name is None:
        return offers
    exact = catalog.find_gpu(name)
    start = _words(exact.name if exact else name)
    names = {known for known in catalog.gpus if _words(known)[: len(start)] == start}
    if not names:
        raise NotFoundError("GPU", name, catalog.gpus, listed_by="trainfare catalog gpus", field="gpu")
    return [offer for offer in offers if offer.vm_type.gpu and offer.vm_type.gpu.name in names]


def _words(name: str) -> list[str]:
    return name.lower().replace("-", " ").replace("/", " ").split()


def _changed_on(path: Path, today: date) -> date:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, tz=UTC).date()
    except OSError:
        return today


def _require_newest(directory: Path, provider: str, gpus: Mapping[str, Gpu], seen_on: date) -> None:
    """Refuse a table that is older than the one that was imported before."""
    path = price_file(directory, provider)
    saved = read_prices(directory, gpus) if path.exists() else ()
    last = max((offer.seen_on for offer in saved if offer.vm_type.provider == provider), default=seen_on)
    if last > seen_on:
        raise UsageError(
            f"this table was seen on {seen_on}, but the saved one of {provider} on {last}: nothing was saved."
            " If it is newer than the date of its file, state the day on which it was seen.",
            field="seen_on",
        )


def _changes(catalog: Catalog, table: Iterable[Offer], today: date) -> list[PriceChange]:
    """The prices of these providers before and after the import."""
    table = tuple(table)
    providers = {offer.vm_type.provider for offer in table}
    before = {o.key: o.usd_per_hour for o in catalog.rentable_on(today) if o.vm_type.provider in providers}
    merged = {o.key: o for o in merge_newest(load_offers(), table) if o.rentable_on(today)}
    after = {o.key: merged[o.key].usd_per_hour for o in table if o.key in merged}
    return [
        PriceChange(machine=key[0], region=key[1], market=key[2], before=before.get(key), after=after.get(key))
        for key in sorted(before.keys() | after.keys())
    ]
