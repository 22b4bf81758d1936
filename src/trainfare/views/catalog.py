"""JSON records and sentences of the catalog: rows of the price list, commitments, GPUs, imports and updates."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import date
from typing import Any

from trainfare.model.catalog import GpuFact, OfferRow, PriceImport, PriceUpdate, UpdatedTable, UpdateFailure
from trainfare.model.machine import Gpu
from trainfare.model.offer import OLD_PRICE_DAYS, Offer
from trainfare.units import format_count, plural

_YEAR_DAYS = 365


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
        "cpu": vm_type.cpu.name if vm_type.cpu else None,
        "vcpus": vm_type.vcpus,
        "memory_gib": vm_type.memory_gib,
        "region": row.region,
        "usd_per_hour": row.usd_per_hour,
        "spot_usd_per_hour": row.spot_usd_per_hour,
        "seen_on": row.seen_on.isoformat(),
        "age_days": row.age_days(today),
        "is_old": row.age_days(today) > OLD_PRICE_DAYS,
        "is_marketplace": row.is_marketplace,
        "retired_on": row.retired_on.isoformat() if row.retired_on else None,
        "source": row.source,
    }


def age_mark(row: OfferRow, today: date) -> str:
    """One mark for a price that is older than 30 days, two for one that is older than a year."""
    days = row.age_days(today)
    return "**" if days > _YEAR_DAYS else "*" if days > OLD_PRICE_DAYS else ""


def age_sentence(rows: Iterable[OfferRow], today: date) -> str | None:
    """The meaning of the marks in a list; None if there are none."""
    marks = {age_mark(row, today) for row in rows}
    meanings = {"*": f"* seen more than {OLD_PRICE_DAYS} days ago", "**": "** more than a year ago"}
    found = [meaning for mark, meaning in meanings.items() if mark in marks]
    return f"{', '.join(found)}: `trainfare catalog update` renews prices" if found else None


def marketplace_sentence(rows: Iterable[OfferRow]) -> str | None:
    """The prices in a list that change by the hour; None if none do."""
    providers = sorted({row.vm_type.provider for row in rows if row.is_marketplace})
    return f"{', '.join(providers)}: prices of a marketplace, which change by the hour" if providers else None


def updated_sentence(done: UpdatedTable) -> str:
    """One line about a provider whose prices were renewed."""
    imported = done.imported
    machines = len({offer.vm_type.key for offer in imported.table.offers})
    counts = [
        f"{format_count(len(changes))} {name}"
        for name, changes in (
            ("new", imported.new),
            ("cheaper", imported.cheaper),
            ("more expensive", imported.more_expensive),
        )
        if changes
    ]
    changed = ", ".join(counts) or "nothing changed"
    prices = plural(len(imported.table.offers), "price")
    return f"{done.name}: {prices} of {plural(machines, 'machine')}, seen on {imported.seen_on}: {changed}"


def failed_sentence(failure: UpdateFailure) -> str:
    """One line about a provider whose prices stay as they were."""
    return f"{failure.name}: not renewed: {failure.problem.removeprefix(f'{failure.name}: ')}"


def price_update_record(update: PriceUpdate) -> dict[str, Any]:
    """The result of an update: for each table its checksum and counts, and what failed."""
    return {
        "source": update.source,
        "dry_run": update.dry_run,
        "updated": [
            {"name": done.name, "version": done.version, "sha256": done.sha256} | price_import_record(done.imported)
            for done in update.updated
        ],
        "failed": [asdict(failure) for failure in update.failed],
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
