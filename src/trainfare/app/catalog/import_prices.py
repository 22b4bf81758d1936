"""Import a price table, and show what changes: the use case of `catalog import`, and the part of it that `catalog
update` shares."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from trainfare.app.catalog.offers import open_catalog
from trainfare.catalog.bundled import load_offers
from trainfare.catalog.catalog import Catalog, merge_newest
from trainfare.catalog.imports import read_price_table
from trainfare.catalog.prices import price_file, read_prices, save_prices
from trainfare.errors import UsageError
from trainfare.model.catalog import ImportedTable, PriceChange, PriceImport, TableFormat
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Offer
from trainfare.settings import Settings, read_settings
from trainfare.units import plural


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
    today = today or datetime.now(UTC).date()
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
        cpu_machines=cpu_machines(catalog),
    )
    if not table.offers:
        raise UsageError(f"{path} has no machine with a price in {plural(table.rows, 'row')}: nothing was saved")
    by_provider = offers_by_provider(table.offers)
    for name in by_provider:
        _require_newest(directory, name, catalog.gpus, seen_on)
    saved = () if dry_run else tuple(str(save_prices(directory, name, some)) for name, some in by_provider.items())
    return price_import(catalog, table, table_format, seen_on=seen_on, today=today, saved=saved)


def cpu_machines(catalog: Catalog) -> Mapping[tuple[str, str], VmType]:
    """The machines without a GPU whose prices an import renews, by machine and region."""
    rented = (offer for offer in catalog.offers if offer.vm_type.gpu is None and offer.market != "own")
    return {(offer.vm_type.key, offer.region): offer.vm_type for offer in rented if offer.retired_on is None}


def offers_by_provider(offers: Iterable[Offer]) -> dict[str, list[Offer]]:
    """The offers of each provider."""
    found: dict[str, list[Offer]] = {}
    for offer in offers:
        found.setdefault(offer.vm_type.provider, []).append(offer)
    return found


def price_import(
    catalog: Catalog,
    table: ImportedTable,
    table_format: TableFormat,
    *,
    seen_on: date,
    today: date,
    saved: tuple[str, ...],
) -> PriceImport:
    """The changes that a table makes to the catalog."""
    changes = _changes(catalog, table.offers, today)
    return PriceImport(
        format=table_format,
        seen_on=seen_on,
        table=table,
        providers=tuple(offers_by_provider(table.offers)),
        new=tuple(c for c in changes if c.before is None),
        cheaper=tuple(c for c in changes if c.ratio < 1),
        more_expensive=tuple(c for c in changes if c.ratio > 1),
        gone=tuple(c for c in changes if c.after is None),
        unchanged=sum(1 for c in changes if c.before and c.after and c.ratio == 1),
        saved=saved,
    )


def last_seen(directory: Path, provider: str, gpus: Mapping[str, Gpu]) -> date | None:
    """The day of the newest price that is saved for a provider; None if there is none."""
    saved = read_prices(directory, gpus) if price_file(directory, provider).exists() else ()
    return max((offer.seen_on for offer in saved if offer.vm_type.provider == provider), default=None)


def _changed_on(path: Path, today: date) -> date:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, tz=UTC).date()
    except OSError:
        return today


def _require_newest(directory: Path, provider: str, gpus: Mapping[str, Gpu], seen_on: date) -> None:
    """Refuse a table that is older than the one that was imported before."""
    last = last_seen(directory, provider, gpus)
    if last is not None and last > seen_on:
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
