"""The page of machines and prices: the catalog, filters, and how old each price is."""

from datetime import date
from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from trainfare.app.catalog.offers import Kind, Sort, list_offers
from trainfare.errors import NotFoundError
from trainfare.model.catalog import OfferRow
from trainfare.model.offer import OLD_PRICE_DAYS
from trainfare.units import format_age, format_number, format_usd_per_hour
from trainfare.views.offers_page import provider_name
from trainfare.web.context import ServerSettings
from trainfare.web.rendering import page
from trainfare.web.visitors import Viewer

router = APIRouter()
Word = Annotated[str, Query(max_length=100)]
SHOWN = 40
SORTS: tuple[tuple[Sort, str], ...] = (
    ("price", "Cheapest first"),
    ("gpu-price", "Cheapest per GPU"),
    ("gpu-memory", "Most GPU memory"),
    ("age", "Newest price"),
    ("name", "By name"),
)


@router.get("/machines")
def machines(
    request: Request,
    visitor: Viewer,
    settings: ServerSettings,
    provider: Word = "",
    gpu: Word = "",
    kind: Word = "gpu",
    sort: Word = "price",
    every: bool = False,
) -> HTMLResponse:
    """The machines that can be rented."""
    problem, listing = "", None
    chosen: Kind | None = kind if kind in get_args(Kind) else None  # type: ignore[assignment] # it is one of them
    order: Sort = sort if sort in get_args(Sort) else "price"  # type: ignore[assignment] # it is one of them
    everything = list_offers(sort=order, kind=chosen, settings=settings)
    try:
        listing = list_offers(provider=provider or None, gpu=gpu or None, kind=chosen, sort=order, settings=settings)
    except NotFoundError as error:
        near = f" The nearest is {error.near}." if error.near else ""
        problem = f"No {error.kind} is called {error.name}.{near}"
    rows = listing.rows if listing else ()
    ages = sorted(row.age_days(everything.today) for row in everything.rows)
    return page(
        request,
        "machines.html",
        visitor=visitor,
        section="machines",
        rows=[_row(row, everything.today) for row in (rows if every else rows[:SHOWN])],
        hidden=0 if every else max(0, len(rows) - SHOWN),
        count=listing.machines if listing else 0,
        problem=problem,
        given={"provider": provider, "gpu": gpu, "kind": chosen or "all", "sort": order},
        providers=[
            ("", "Every provider"),
            *sorted((each, provider_name(each)) for each in {row.vm_type.provider for row in everything.rows}),
        ],
        sorts=SORTS,
        median_age=ages[len(ages) // 2] if ages else None,
        old=sum(age > OLD_PRICE_DAYS for age in ages),
        total=len(ages),
    )


def _row(row: OfferRow, today: date) -> dict[str, object]:
    vm_type, gpu = row.vm_type, row.vm_type.gpu

    count = f"{vm_type.gpus} × " if vm_type.gpus > 1 else ""
    return {
        "name": f"{count}{gpu.name}" if gpu else vm_type.name,
        "code": vm_type.name,
        "at": provider_name(vm_type.provider),
        "memory": f"{format_number(vm_type.gpus * gpu.memory_gib)} GiB" if gpu else "–",
        "vcpus": "–" if vm_type.vcpus is None else f"{vm_type.vcpus:g}",
        "ram": "–" if vm_type.memory_gib is None else f"{format_number(vm_type.memory_gib)} GiB",
        "price": None if row.usd_per_hour is None else format_usd_per_hour(row.usd_per_hour),
        "spot": None if row.spot_usd_per_hour is None else format_usd_per_hour(row.spot_usd_per_hour),
        "region": row.region,
        "age": format_age(row.seen_on, today),
        "is_old": row.age_days(today) > OLD_PRICE_DAYS,
    }
