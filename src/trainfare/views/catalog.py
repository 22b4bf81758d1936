"""JSON records of the catalog: rows of the price list, commitments, GPUs and imports."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import date
from typing import Any

from trainfare.model.catalog import GpuFact, OfferRow, PriceImport
from trainfare.model.machine import Gpu
from trainfare.model.offer import Offer


def offer_row_record(row: OfferRow, today: date) -> dict[str, Any]:
    """One flat record of a machine in a region."""
    vm_type, gpu = row.vm_type, row.vm_type.gpu
    return {
        "machine": vm_type.key,
        "provider": vm_type.provider,
        "name": vm_type.name,
        "gpu": gpu.name if gpu else None,
        "gpus": vm_type.gpus,
        "gpu_memory_gib": gpu.memory_gib if gpu else None,
        "vcpus": vm_type.vcpus,
        "memory_gib": vm_type.memory_gib,
        "region": row.region,
        "usd_per_hour": row.usd_per_hour,
        "spot_usd_per_hour": row.spot_usd_per_hour,
        "seen_on": row.seen_on.isoformat(),
        "age_days": (today - row.seen_on).days,
        "retired_on": row.retired_on.isoformat() if row.retired_on else None,
        "source": row.source,
    }


def commitment_record(offer: Offer) -> dict[str, Any]:
    """One flat record of a commitment."""
    commitment = offer.commitment
    if commitment is None:
        raise ValueError(f"{offer.vm_type.key} is not a commitment")
    return {
        "machine": offer.vm_type.key,
        "region": offer.region,
        "months": commitment.months,
        "upfront_usd": commitment.upfront_usd,
        "usd_per_hour": commitment.usd_per_hour,
        "effective_usd_per_hour": commitment.effective_usd_per_hour,
        "on_demand_usd_per_hour": commitment.on_demand_usd_per_hour,
        "break_even_hours_a_month": commitment.break_even_hours,
        "already_paid": commitment.held,
        "until": offer.retired_on.isoformat() if offer.retired_on else None,
        "seen_on": offer.seen_on.isoformat(),
    }


def gpu_record(gpu: Gpu, facts: Iterable[GpuFact] = ()) -> dict[str, Any]:
    """The fields of a GPU, with the source of each if `facts` are given."""
    record: dict[str, Any] = {field.name: getattr(gpu, field.name) for field in fields(Gpu)}
    sources = {fact.fact: asdict(fact.source) for fact in facts}
    return record | {"sources": sources} if sources else record


def price_import_record(imported: PriceImport) -> dict[str, Any]:
    """The result of an import: counts, and every price that changed."""
    table = imported.table
    return {
        "format": imported.format,
        "seen_on": imported.seen_on.isoformat(),
        "providers": list(imported.providers),
        "offers": len(table.offers),
        "machines": len({offer.vm_type.key for offer in table.offers}),
        "rows": table.rows,
        "without_gpu": table.without_gpu,
        "without_price": table.without_price,
        "without_host": table.without_host,
        "unknown_gpus": dict(table.unknown_gpus),
        "new": [asdict(change) for change in imported.new],
        "cheaper": [asdict(change) for change in imported.cheaper],
        "dearer": [asdict(change) for change in imported.more_expensive],
        "gone": [asdict(change) for change in imported.gone],
        "same": imported.unchanged,
        "kept": list(imported.saved),
    }
