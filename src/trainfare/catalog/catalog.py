"""What can be rented, and at what price: the one face of this room."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from trainfare.catalog.bundled import load_history, load_offers
from trainfare.catalog.commitments import read_commitments
from trainfare.catalog.gpu_boards import gpu_from_device_name, plain
from trainfare.catalog.gpus import load_gpus
from trainfare.catalog.own import SLICES, read_machines
from trainfare.catalog.prices import read_prices
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.machine import Gpu
from trainfare.model.offer import Offer

LISTED_BY = "trainfare catalog list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every offer that is known, those of the past included, and every GPU."""

    offers: tuple[Offer, ...]
    gpus: Mapping[str, Gpu]
    commitments: tuple[Offer, ...] = ()
    """On the market "reserved", as the user has entered them. They stand apart because who asks for the price of a
    machine means what anybody can rent."""

    def rentable_on(self, day: date) -> tuple[Offer, ...]:
        """Without machines that are retired by then, and without the prices of documents."""
        return tuple(offer for offer in self.offers if offer.rentable_on(day))

    def find(self, name: str) -> tuple[Offer, ...]:
        """All offers, past ones too, of `aws/p3.2xlarge`, or of `p3.2xlarge` where only one provider has it."""
        wanted = name.strip().lower()
        by_key: dict[str, list[Offer]] = {}
        for offer in self.offers:
            key = offer.vm_type.key if "/" in wanted else offer.vm_type.name
            if key.lower() == wanted:
                by_key.setdefault(offer.vm_type.key, []).append(offer)
        if len(by_key) > 1:
            raise UsageError(f"{name} is a machine of more than one provider: say {' or '.join(by_key)}")
        if not by_key:
            known = {o.vm_type.key if "/" in wanted else o.vm_type.name for o in self.offers}
            raise NotFoundError("machine", name, sorted(known), listed_by=LISTED_BY)
        return tuple(*by_key.values())

    def committed(self, machine: str) -> tuple[Offer, ...]:
        """The commitments to `aws/p4d.24xlarge`."""
        return tuple(offer for offer in self.commitments if offer.vm_type.key == machine)

    def slice_cores(self, machine: str) -> float | None:
        """How many cores `local/half` has; None of what is no slice of this machine."""
        slices = (offer.vm_type for offer in self.offers if offer.vm_type.provider == SLICES)
        return next((vm_type.vcpus for vm_type in slices if vm_type.key == machine), None)

    def gpu_called(self, name: str) -> Gpu | None:
        """By its name here, in any spelling, or by what a driver calls it."""
        by_name = {plain(known): gpu for known, gpu in self.gpus.items()}
        return by_name.get(plain(name)) or self.gpus.get(gpu_from_device_name(name) or "")


def load_catalog(machines: Path, prices: Path) -> Catalog:
    """The bundled tables, the imported ones kept in `prices`, and the user's own `machines`."""
    own, own_gpus = read_machines(machines, load_gpus())
    imported = read_prices(prices, load_gpus())
    rented = newest(load_offers(), imported)
    return Catalog(
        offers=(*own, *rented, *load_history()),
        gpus={**load_gpus(), **own_gpus},
        commitments=read_commitments(machines, rented),
    )


def newest(bundled: Iterable[Offer], imported: Iterable[Offer]) -> tuple[Offer, ...]:
    """Of each machine in each region, what was seen last; on the same day the imported table decides.

    It decides for all markets there: a table that has no spot price for a machine says that none is offered.
    A retired machine stays retired: price tables go on listing what can no longer be rented.
    """
    bundled = tuple(bundled)
    retired = {offer.vm_type.key: offer.retired_on for offer in bundled if offer.retired_on}
    groups: dict[tuple[str, str], list[Offer]] = {}
    for offer in (*bundled, *(replace(o, retired_on=retired.get(o.vm_type.key)) for o in imported)):
        groups.setdefault((offer.vm_type.key, offer.region), []).append(offer)
    return tuple(offer for group in groups.values() for offer in _last_seen(group))


def _last_seen(group: list[Offer]) -> list[Offer]:
    """The offers of the table that saw this machine last: a table has one day and one source."""
    last = max(reversed(group), key=lambda offer: offer.seen_on)
    return [offer for offer in group if (offer.seen_on, offer.source) == (last.seen_on, last.source)]
