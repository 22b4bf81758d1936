"""The commitments that the user has entered: what they cost, and from how many hours a month on they pay off."""

from datetime import UTC, datetime
from typing import Any

from trainfare.app.catalog.offers import open_catalog
from trainfare.model.offer import Offer
from trainfare.settings import Settings


def list_commitments(machine: str | None = None, *, settings: Settings | None = None) -> tuple[Offer, ...]:
    """Those that are not over, held ones first, then by price; of one machine where it is named."""
    catalog = open_catalog(settings)
    today = datetime.now(UTC).date()
    offers = catalog.commitments if machine is None else catalog.committed(catalog.find(machine)[0].vm_type.key)
    return tuple(sorted((o for o in offers if o.rentable_on(today)), key=lambda o: (not o.held, o.usd_per_hour)))


def commitment_record(offer: Offer) -> dict[str, Any]:
    """One flat row for `--json`."""
    commitment = offer.commitment
    if commitment is None:
        raise ValueError(f"{offer.vm_type.key} is no commitment")
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
