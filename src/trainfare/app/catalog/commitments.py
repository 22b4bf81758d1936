"""The commitments that the user has entered."""

from datetime import UTC, datetime

from trainfare.app.catalog.offers import open_catalog
from trainfare.model.offer import Offer
from trainfare.settings import Settings


def list_commitments(machine: str | None = None, *, settings: Settings | None = None) -> tuple[Offer, ...]:
    """The commitments that have not ended, held ones first, then by price; only those to `machine` if it is named."""
    catalog = open_catalog(settings)
    today = datetime.now(UTC).date()
    offers = catalog.commitments if machine is None else catalog.commitments_to(catalog.find(machine)[0].vm_type.key)
    return tuple(sorted((o for o in offers if o.rentable_on(today)), key=lambda o: (not o.held, o.usd_per_hour)))
