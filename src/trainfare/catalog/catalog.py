"""The catalog: everything that can be rented with its price, and every GPU."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from trainfare.catalog.bundled import load_historical_offers, load_offers
from trainfare.catalog.gpu_boards import gpu_from_device_name, normalise_name
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.catalog.own_commitments import read_commitments
from trainfare.catalog.own_machines import read_machines
from trainfare.catalog.prices import read_prices
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.machine import HERE_NAME, Gpu
from trainfare.model.offer import Offer

LIST_COMMAND = "trainfare catalog list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every known offer, past ones included, and every known GPU."""

    offers: tuple[Offer, ...]
    gpus: Mapping[str, Gpu]
    commitments: tuple[Offer, ...] = ()
    """The commitments that the user has entered, on the market "reserved". They are not in `offers`, because the price
    of a machine is the one at which everyone can rent it."""
    here: Offer | None = None
    """The machine at hand; None if the catalog was loaded without it."""
    slices: tuple[Offer, ...] = ()
    """The slices of the machine at hand that exist without a file."""
    hosts: tuple[Offer, ...] = ()
    """The hosts that were reached by ssh once and are in no file."""

    @property
    def at_hand(self) -> tuple[Offer, ...]:
        """The machine at hand and its slices."""
        return self.slices if self.here is None else (self.here, *self.slices)

    def rentable_on(self, day: date) -> tuple[Offer, ...]:
        """The offers without machines that are retired by then, and without the prices of papers."""
        return tuple(offer for offer in self.offers if offer.rentable_on(day))

    def find(self, name: str, *, field: str | None = None) -> tuple[Offer, ...]:
        """All offers, past ones too, of `aws/p3.2xlarge`, or of `p3.2xlarge` if only one provider has it.

        `field` is the argument that an error names.
        """
        lowered = name.strip().lower()
        by_key: dict[str, list[Offer]] = {}
        if lowered == HERE_NAME and self.here is not None:
            return (self.here,)
        every = (*self.at_hand, *self.hosts, *self.offers)
        for offer in every:
            key = offer.vm_type.key if "/" in lowered else offer.vm_type.name
            if key.lower() == lowered:
                by_key.setdefault(offer.vm_type.key, []).append(offer)
        if len(by_key) > 1:
            raise UsageError(
                f"{name} is a machine of more than one provider. Write {' or '.join(by_key)}.", field=field
            )
        if not by_key:
            known = {o.vm_type.key if "/" in lowered else o.vm_type.name for o in every}
            raise NotFoundError("machine", name, sorted(known), listed_by=LIST_COMMAND, field=field)
        return tuple(*by_key.values())

    def commitments_to(self, machine: str) -> tuple[Offer, ...]:
        """The commitments to a machine such as `aws/p4d.24xlarge`."""
        return tuple(offer for offer in self.commitments if offer.vm_type.key == machine)

    def find_gpu(self, name: str) -> Gpu | None:
        """The GPU of a name in the catalog, in any spelling, or of a name that a driver uses."""
        by_name = {normalise_name(known): gpu for known, gpu in self.gpus.items()}
        return by_name.get(normalise_name(name)) or self.gpus.get(gpu_from_device_name(name) or "")


def load_catalog(machines: Path, prices: Path) -> Catalog:
    """The bundled tables, the imported ones in the folder `prices`, and the user's own `machines`."""
    own, own_gpus = read_machines(machines, load_gpus())
    imported = read_prices(prices, load_gpus())
    rented = merge_newest(load_offers(), imported)
    return Catalog(
        offers=(*own, *rented, *load_historical_offers()),
        gpus={**load_gpus(), **own_gpus},
        commitments=read_commitments(machines, rented),
    )


def merge_newest(bundled: Iterable[Offer], imported: Iterable[Offer]) -> tuple[Offer, ...]:
    """The offers of the newest table for each machine in each region; on the same day the imported table decides.

    It decides for all markets there: a table that has no spot price for a machine says that none is offered.
    A retired machine stays retired, because price tables go on listing machines that can no longer be rented.
    """
    bundled, imported = tuple(bundled), tuple(imported)
    if not imported:
        return bundled
    retired = {offer.vm_type.key: offer.retired_on for offer in bundled if offer.retired_on}
    groups: dict[tuple[str, str], list[Offer]] = {}
    for offer in (*bundled, *(replace(o, retired_on=retired.get(o.vm_type.key)) for o in imported)):
        groups.setdefault((offer.vm_type.key, offer.region), []).append(offer)
    return tuple(offer for group in groups.values() for offer in _last_seen(group))


def _last_seen(group: list[Offer]) -> list[Offer]:
    """The offers of the table that listed this machine last: a table has one day and one source."""
    last = max(reversed(group), key=lambda offer: offer.seen_on)
    return [offer for offer in group if (offer.seen_on, offer.source) == (last.seen_on, last.source)]
