"""Use case: time and cost on one machine, the same estimate that `recommend` makes of every machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import Unpack

from trainfare.app.catalog.starts import observed_starts
from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.predict import (
    find_machine_or_gpu,
    no_prediction_error,
    require_batch_size,
    resolve_gpus,
)
from trainfare.app.recommending.workload import (
    Workload,
    build_workload,
    interruptions_on,
    select_profiles,
)
from trainfare.app.stated import LengthKeywords, StatedLength
from trainfare.catalog.catalog import Catalog
from trainfare.errors import NotFoundError, Remedy, UsageError
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.machine import Gpu
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.recommender.explain.codes import reason
from trainfare.recommender.explain.remarks import remarks
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimation:
    """The estimate of one machine, the profiles it is based on, and what should be known about it."""

    estimate: Estimate
    profiles: tuple[Profile, ...]
    remarks: tuple[Reason, ...]


def estimate(
    profile_id: str | None = None,
    *,
    on: str,
    region: str | None = None,
    spot: bool = False,
    reserved: bool | None = None,
    nodes: int = 1,
    gpus: int | None = None,
    batch_size: int | None = None,
    overheads: Overheads | None = None,
    settings: Settings | None = None,
    **length: Unpack[LengthKeywords],
) -> Estimation:
    """Time and cost of the whole training on the machine `on`, in its cheapest region unless `region` names one.

    The name of a GPU, such as H100, stands for the cheapest machine with one of them, or with `gpus` of them.

    It is based on the named profile, or on the newest, and on others of the same program on that machine. `gpus` of
    each of `nodes` machines share the work; by default one on a single machine, and all on several. `batch_size` is
    the effective batch size, by default the profiled one. `reserved` True asks for a commitment, held or to be bought;
    None uses one that is held, False none.
    """
    settings = settings or read_settings()
    today = datetime.now(UTC).date()
    stated = StatedLength(**length)
    if spot and reserved:
        raise UsageError("An offer is either on the spot market or reserved. Pass only one of them.", field="reserved")
    with open_existing_history(settings.store) as history:
        profiles = stated.apply(select_profiles(history, [profile_id] if profile_id else []))
        starts = observed_starts(history)
    profiled_size = profiles[0].effective_batch_size
    require_batch_size(profiles[0], batch_size)
    workload = build_workload(
        profiles[:1] + tuple(p for p in profiles[1:] if p.effective_batch_size == profiled_size),
        decide=partial(decide_epochs, stated, leading=profiles[0]),
        iterations_per_epoch=stated.iterations_per_epoch,
        overheads=overheads,
        settings=settings,
        starts=starts,
    )
    named = _named_offers(workload.catalog, on, gpus=gpus or 1, today=today)
    offer = _offer(named, region=region, spot=spot, reserved=reserved, today=today)
    size = profiled_size if batch_size is None else batch_size
    candidate = Candidate(
        offer=offer,
        nodes=nodes,
        batch_size=size,
        gpus_used=resolve_gpus(offer.vm_type, gpus, nodes, size) or None,
    )
    found = workload.estimate([candidate])
    if not found:
        raise no_prediction_error(profiles[0], offer.vm_type)
    return Estimation(
        estimate=found[0],
        profiles=profiles,
        remarks=(*_choice_remark(named, offer), *_remarks(found[0], profiles, workload, today)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedOffers:
    """The offers of the machine that the user named, or of all machines with the GPU that the user named."""

    name: str
    gpu: Gpu | None
    """The GPU, if it was named instead of a machine."""
    offers: tuple[Offer, ...]


def _named_offers(catalog: Catalog, on: str, *, gpus: int, today: date) -> _NamedOffers:
    """The offers of a machine; or of the machines with `gpus` GPUs of a name, or with the next larger number. Expired
    prices count only if there are no others."""
    machine_or_gpu = find_machine_or_gpu(catalog, on)
    if not isinstance(machine_or_gpu, Gpu):
        key = machine_or_gpu[0].vm_type.key
        return _NamedOffers(name=key, gpu=None, offers=(*machine_or_gpu, *catalog.commitments_to(key)))
    gpu = machine_or_gpu
    every = (*catalog.offers, *catalog.commitments)
    having = [o for o in every if o.vm_type.gpu is not None and o.vm_type.gpu.name == gpu.name]
    counts = {offer.vm_type.gpus for offer in having if offer.vm_type.gpus >= gpus}
    if not counts:
        most = max((offer.vm_type.gpus for offer in having), default=0)
        largest = f"; the largest has {most}. Use more nodes for more GPUs" if most else ""
        raise UsageError(f"No machine of the catalog has {gpus} {gpu.name}{largest}.", field="on")
    offers = tuple(offer for offer in having if offer.vm_type.gpus == min(counts))
    offers = tuple(offer for offer in offers if not offer.has_expired_price(today)) or offers
    return _NamedOffers(name=f"a machine with {min(counts)} {gpu.name}", gpu=gpu, offers=offers)


def _choice_remark(named: _NamedOffers, chosen: Offer) -> Iterator[Reason]:
    """The machine that was taken for the name of a GPU."""
    if named.gpu is not None:
        machines = len({offer.vm_type.key for offer in named.offers})
        vm_type = chosen.vm_type
        described = {"provider": vm_type.provider, "machine": vm_type.name, "gpu": named.gpu.name}
        yield reason("assumptions", "cheapest_with_gpu", gpus=vm_type.gpus, machines=machines, **described)


def _offer(named: _NamedOffers, *, region: str | None, spot: bool, reserved: bool | None, today: date) -> Offer:
    """The cheapest offer that can be rented; if none can be rented any more, the last that was seen."""
    name, offers = named.name, named.offers
    there = [o for o in offers if region is None or o.region.lower() == region.strip().lower()]
    if not there:
        regions = sorted({offer.region for offer in offers})
        listed_by = f"trainfare catalog show {name}" if named.gpu is None else "trainfare catalog list"
        raise NotFoundError(f"price of {name} in", region or "", regions, listed_by=listed_by, field="region")
    on_market = [offer for offer in there if _is_on_market(offer, spot=spot, reserved=reserved)]
    if not on_market:
        raise _no_offer(name, there[0], region=region, spot=spot, reserved=reserved)
    rentable = [offer for offer in on_market if offer.rentable_on(today)]
    if rentable:
        return min(rentable, key=lambda o: o.usd_per_hour)
    return max(on_market, key=lambda o: (o.seen_on, -o.usd_per_hour))


def _no_offer(name: str, other: Offer, *, region: str | None, spot: bool, reserved: bool | None) -> UsageError:
    where = f" in {region}" if region else ""
    if reserved:
        return UsageError(
            f"You have entered no commitment to {name}{where}. Add a [[commitment]] to machines.toml, or leave "
            "this out.",
            field="reserved",
        )
    if spot:
        return UsageError(f"{name} has no spot price{where}. Leave this out.", field="spot")
    return UsageError(f"{name} has only a {other.market} price{where}.", remedies=[Remedy({other.market: True})])


def _is_on_market(offer: Offer, *, spot: bool, reserved: bool | None) -> bool:
    if spot or reserved:
        return offer.market == ("spot" if spot else "reserved")
    return offer.market != "spot" and (offer.market != "reserved" or (reserved is None and offer.held))


def _remarks(estimate: Estimate, profiles: Sequence[Profile], workload: Workload, today: date) -> tuple[Reason, ...]:
    offer, leading = estimate.candidate.offer, workload.leading
    return tuple(
        remarks(
            estimate,
            next(profile for profile in profiles if profile.id == estimate.profile_id),
            interruptions=interruptions_on(offer),
            epochs=leading.length.reason,
            planned_iterations=leading.length.iterations,
            iterations_per_epoch=leading.iterations_per_epoch,
            profiled_batch_size=leading.profiles[0].effective_batch_size,
            billing_assumed=workload.charges.terms(offer).assumed,
            today=today,
        )
    )
