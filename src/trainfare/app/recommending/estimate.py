"""Use case: time and cost on one machine, the same estimate that `recommend` makes of every machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial

from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.predict import no_prediction_error, resolve_gpus
from trainfare.app.recommending.workload import (
    Workload,
    build_workload,
    interruptions_on,
    require_epochs,
    select_profiles,
)
from trainfare.errors import NotFoundError, Remedy, UsageError
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.recommender.explain.remarks import remarks
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history


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
    epochs: int | None = None,
    iterations_per_epoch: int | None = None,
    overheads: Overheads | None = None,
    settings: Settings | None = None,
) -> Estimation:
    """Time and cost of the whole training on the machine `on`, in its cheapest region unless `region` names one.

    It is based on the named profile, or on the newest, and on others of the same program on that machine. `gpus` of
    each of `nodes` machines share the work; by default one on a single machine, and all on several. `batch_size` is
    the effective batch size, by default the profiled one. `reserved` True asks for a commitment, held or to be bought;
    None uses one that is held, False none.
    """
    settings = settings or read_settings()
    today = datetime.now(UTC).date()
    require_epochs(epochs)
    if spot and reserved:
        raise UsageError("An offer is either on the spot market or reserved. Pass only one of them.", field="reserved")
    with open_history(settings.store) as history:
        profiles = select_profiles(history, [profile_id] if profile_id else [])
    profiled_size = profiles[0].effective_batch_size
    workload = build_workload(
        profiles[:1] + tuple(p for p in profiles[1:] if p.effective_batch_size == profiled_size),
        decide=partial(decide_epochs, epochs),
        iterations_per_epoch=iterations_per_epoch,
        overheads=overheads,
        settings=settings,
    )
    listed = workload.catalog.find(on, field="on")
    offers = (*listed, *workload.catalog.commitments_to(listed[0].vm_type.key))
    offer = _offer(offers, region=region, spot=spot, reserved=reserved, today=today)
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
        remarks=_remarks(found[0], profiles, workload, today),
    )


def _offer(offers: Sequence[Offer], *, region: str | None, spot: bool, reserved: bool | None, today: date) -> Offer:
    """The cheapest offer that can be rented; if the machine can no longer be rented, the last that was seen."""
    name = offers[0].vm_type.key
    there = [o for o in offers if region is None or o.region.lower() == region.strip().lower()]
    if not there:
        regions = sorted({offer.region for offer in offers})
        raise NotFoundError(
            f"price of {name} in", region or "", regions, listed_by=f"trainfare catalog show {name}", field="region"
        )
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
