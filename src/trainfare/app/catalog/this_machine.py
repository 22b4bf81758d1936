"""The machine at hand as an offer: `here`, and the slices of it that exist without a file.

    local/here    all of it                            always a candidate
    local/half    half of its CPUs and its memory      only if it is named
    local/one     one CPU                              only if it is named

Its price is that of the section [here] of machines.toml, else of the section with the name of this host; on a rented
machine whose firmware names its type, the price of that type on demand; otherwise nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from trainfare.catalog.catalog import Catalog
from trainfare.catalog.cpu_facts import cpu_for
from trainfare.catalog.own_machines import REGION
from trainfare.model.machine import HERE, HERE_NAME, HERE_PROVIDER, Host, VmType
from trainfare.model.offer import Offer
from trainfare.model.profile import Profile
from trainfare.profiler.host import this_gpus, this_host

SOURCE = "this machine"
HALF, ONE = f"{HERE_PROVIDER}/half", f"{HERE_PROVIDER}/one"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Price:
    usd_per_hour: float
    seen_on: date
    source: str


def with_this_machine(catalog: Catalog) -> Catalog:
    """The catalog with the machine at hand and its slices; a section of machines.toml of the same name decides."""
    gpu, gpus = this_gpus()
    host = this_host(vm_type=None, gpu=gpu, gpus=gpus)
    stated = next((offer for offer in catalog.offers if offer.vm_type.key == HERE), None)
    price = _price(catalog, host, stated)
    vm_type = _vm_type(catalog, host, stated.vm_type if stated else None)
    taken = {offer.vm_type.key for offer in catalog.offers}
    slices = [part for part in _slices(vm_type) if part.key not in taken]
    here, *others = (
        Offer(
            vm_type=each,
            region=REGION,
            market="own",
            usd_per_hour=price.usd_per_hour if each.key == HERE else 0.0,
            seen_on=price.seen_on,
            source=price.source,
            most_nodes=1,
        )
        for each in (vm_type, *slices)
    )
    rented = tuple(offer for offer in catalog.offers if offer.vm_type.key != HERE)
    return replace(catalog, offers=rented, here=here, slices=tuple(others))


def other_names() -> frozenset[str | None]:
    """The machine types by which profiles of this machine call it: none, its own name, and the type of its firmware."""
    host = this_host(vm_type=None, gpu=None, gpus=0)
    return frozenset({None, f"own/{host.name}", host.vm_type})


def taken_here(profiles: Sequence[Profile]) -> frozenset[str]:
    """The ids of the profiles that were taken on this whole machine, not on a slice of it."""
    host, names = this_host(vm_type=None, gpu=None, gpus=0), other_names()
    return frozenset(p.id for p in profiles if p.host.name == host.name and p.host.vm_type in names)


def _price(catalog: Catalog, host: Host, stated: Offer | None) -> _Price:
    by_host_name = next((o for o in catalog.offers if o.vm_type.key == f"own/{host.name}"), None)
    rented = [o for o in catalog.offers if o.vm_type.key == host.vm_type and o.market == "on_demand"]
    known = stated or by_host_name or min(rented, key=lambda o: o.usd_per_hour, default=None)
    if known is None:
        return _Price(usd_per_hour=0.0, seen_on=datetime.now(UTC).date(), source=SOURCE)
    return _Price(usd_per_hour=known.usd_per_hour, seen_on=known.seen_on, source=known.source)


def _vm_type(catalog: Catalog, host: Host, stated: VmType | None) -> VmType:
    """The machine by what it says of itself, and by what the user states of it."""
    gpu = stated.gpu if stated and stated.gpu else catalog.find_gpu(host.gpu) if host.gpu else None
    gpus = stated.gpus if stated and stated.gpu else host.gpus
    return VmType(
        provider=HERE_PROVIDER,
        name=HERE_NAME,
        gpu=gpu,
        gpus=max(1, gpus) if gpu else 0,
        vcpus=(stated and stated.vcpus) or (float(host.cores) if host.cores else None),
        memory_gib=(stated and stated.memory_gib) or host.memory_gib,
        cpu=cpu_for(host.cpu) if host.cpu else None,
    )


def _slices(here: VmType) -> tuple[VmType, ...]:
    """Half of the CPUs and the memory, and one CPU; a slice has no GPU of its own."""
    if not here.vcpus:
        return ()
    half = replace(here, name="half", gpu=None, gpus=0, vcpus=here.vcpus / 2)
    memory = here.memory_gib / 2 if here.memory_gib else None
    one = replace(here, name="one", gpu=None, gpus=0, vcpus=min(1.0, here.vcpus))
    return replace(half, memory_gib=memory), one
