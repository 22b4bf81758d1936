"""`/offers`, `/machines` and `/gpus`: what can be rented, and at what price."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from trainfare.app.catalog.offers import Kind, Sort, list_gpus, list_offers, show_machine
from trainfare.model.catalog import OfferRow
from trainfare.views.catalog import gpu_record, offer_row_record
from trainfare.web.api.paging import DEFAULT_LIMIT, Cursor, Limit, Page, page_of
from trainfare.web.api.records import CatalogRow, GpuRecord, MachineRecord
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Viewer

router = APIRouter(tags=["catalog"])
Name = Annotated[str | None, Query(max_length=200)]


@router.get("/offers", response_model=Page[CatalogRow])
def list_all(
    _visitor: Viewer,
    settings: ServerSettings,
    provider: Name = None,
    gpu: Name = None,
    kind: Kind | None = None,
    region: Name = None,
    spot: bool | None = None,
    sort: Sort = "price",
    every_region: bool = False,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """List machines that can be rented, each in its cheapest region or in every region."""
    listing = list_offers(
        provider=provider,
        gpu=gpu,
        kind=kind,
        region=region,
        spot=spot,
        sort=sort,
        every_region=every_region,
        settings=settings,
    )
    return page_of(
        listing.rows, lambda row: offer_row_record(row, listing.today), _row_name, limit=limit, cursor=cursor
    )


@router.get("/machines/{machine:path}", response_model=MachineRecord)
def show(_visitor: Viewer, settings: ServerSettings, machine: Annotated[str, Path(max_length=200)]) -> dict[str, Any]:
    """Show every known price of a machine, past ones last."""
    found = show_machine(machine, settings=settings)
    return {"machine": found.vm_type.key, "rows": [offer_row_record(row, found.today) for row in found.rows]}


@router.get("/gpus", response_model=Page[GpuRecord])
def list_gpu_models(
    _visitor: Viewer, settings: ServerSettings, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, Any]:
    """List every known GPU."""
    gpus = list_gpus(settings=settings)
    return page_of(gpus, gpu_record, lambda gpu: gpu.name, limit=limit, cursor=cursor)


def _row_name(row: OfferRow) -> str:
    return f"{row.vm_type.key}@{row.region}@{row.source}"
