"""The catalog: list offers, show a machine or a GPU."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from trainfare.app.catalog.own_clusters import with_own_clusters
from trainfare.app.catalog.own_hosts import with_own_hosts
from trainfare.app.catalog.this_machine import with_this_machine
from trainfare.catalog.catalog import LIST_COMMAND, Catalog, load_catalog
from trainfare.catalog.gpu_facts import load_gpu_facts
from trainfare.errors import NotFoundError
from trainfare.model.catalog import GpuDetails, MachineDetails, OfferListing, OfferRow
from trainfare.model.machine import Gpu
from trainfare.model.offer import Offer
from trainfare.settings import Settings, read_settings

Sort = Literal["price", "gpu-price", "gpu-memory", "age", "name"]
Kind = Literal["gpu", "cpu"]
"""Machines with and without a GPU."""


def open_catalog(settings: Settings | None) -> Catalog:
    """The catalog with the user's own machines, imported prices and the machine at hand."""
    settings = settings or read_settings()
    catalog = load_catalog(Path(settings.machines), Path(settings.prices))
    return with_own_clusters(with_own_hosts(with_this_machine(catalog), settings), settings)


def list_offers(
    *,
    provider: str | None = None,
    gpu: str | None = None,
    kind: Kind | None = None,
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
    if kind is not None:
        offers = [offer for offer in offers if (offer.vm_type.gpu is None) == (kind == "cpu")]
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
