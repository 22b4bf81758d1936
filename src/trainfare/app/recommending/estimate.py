"""How long and how much on one machine: the same estimate that `recommend` makes of every machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial

from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.predict import gpus_used, nothing_known
from trainfare.app.recommending.workload import (
    Workload,
    build_workload,
    interruptions_on,
    require_epochs,
    select_profiles,
)
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.recommender.explain.reasons import basis_words, charged, machine_name
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history
from trainfare.units import format_age


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimation:
    """The estimate of one machine, the profiles it leans on, and what should be known about it."""

    estimate: Estimate
    profiles: tuple[Profile, ...]
    remarks: tuple[str, ...]


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
    """Time and cost of the whole training on the machine `on`, in its cheapest region unless one is named.

    Of the named profile, or of the newest; where others were taken of the same program on that machine, they count.
    `gpus` of each of `nodes` machines share the work: one unless said, and all where there are several nodes.
    `batch_size` is of all of them together, as profiled unless said. `reserved` True asks for a commitment, held or to
    be bought; None takes one that is held, False none.
    """
    settings = settings or read_settings()
    today = datetime.now(UTC).date()
    require_epochs(epochs)
    if spot and reserved:
        raise UsageError("a machine is on the spot market or reserved: give --spot or --reserved, not both.")
    with open_history(settings.store) as history:
        profiles = select_profiles(history, [profile_id] if profile_id else [])
    workload = build_workload(
        profiles[:1] + tuple(p for p in profiles[1:] if p.effective_batch_size == profiles[0].effective_batch_size),
        decide=partial(decide_epochs, epochs),
        iterations_per_epoch=iterations_per_epoch,
        overheads=overheads,
        settings=settings,
    )
    listed = workload.catalog.find(on)
    offers = (*listed, *workload.catalog.committed(listed[0].vm_type.key))
    offer = _offer(offers, region=region, spot=spot, reserved=reserved, today=today)
    size = profiles[0].effective_batch_size if batch_size is None else batch_size
    candidate = Candidate(
        offer=offer,
        nodes=nodes,
        batch_size=size,
        gpus_used=gpus_used(offer.vm_type, gpus, nodes, size) or None,
    )
    found = workload.estimate([candidate])
    if not found:
        raise nothing_known(profiles[0], offer.vm_type)
    profile = next(p for p in profiles if p.id == found[0].profile_id)
    return Estimation(
        estimate=found[0],
        profiles=profiles,
        remarks=tuple(_remarks(found[0], profile, workload, today)),
    )


def _offer(offers: Sequence[Offer], *, region: str | None, spot: bool, reserved: bool | None, today: date) -> Offer:
    """The cheapest that can be rented; of a machine that no longer can, the last that was seen."""
    name = offers[0].vm_type.key
    there = [o for o in offers if region is None or o.region.lower() == region.strip().lower()]
    if not there:
        regions = sorted({offer.region for offer in offers})
        raise NotFoundError(f"price of {name} in", region or "", regions, listed_by=f"trainfare catalog show {name}")
    wanted = [offer for offer in there if _is_wanted(offer, spot=spot, reserved=reserved)]
    if not wanted:
        where = f" in {region}" if region else ""
        if reserved:
            raise UsageError(
                f"you have entered no commitment to {name}{where}. Add a [[commitment]] to machines.toml, or leave "
                "--reserved out."
            )
        raise UsageError(
            f"{name} has no spot price{where}. Leave --spot out."
            if spot
            else f"{name} has only a {there[0].market} price{where}. Give --{there[0].market}."
        )
    rentable = [offer for offer in wanted if offer.rentable_on(today)]
    if rentable:
        return min(rentable, key=lambda o: o.usd_per_hour)
    return max(wanted, key=lambda o: (o.seen_on, -o.usd_per_hour))


def _is_wanted(offer: Offer, *, spot: bool, reserved: bool | None) -> bool:
    if spot or reserved:
        return offer.market == ("spot" if spot else "reserved")
    return offer.market != "spot" and (offer.market != "reserved" or (reserved is None and offer.held))


def _shared(estimate: Estimate, workload: Workload) -> Iterator[str]:
    """What more GPUs, or another batch size, are reckoned with."""
    candidate = estimate.candidate
    workers = candidate.nodes * candidate.working_gpus_per_node
    if workers > 1 and candidate.batch_size:
        yield (
            f"the batch of {candidate.batch_size} is shared by {workers} GPUs, which add up their gradients in every "
            f"iteration: {estimate.iteration_seconds.value:.3g} s; the program must be started for that (torchrun, DDP)"
        )
    if candidate.batch_size != workload.leading.profiles[0].effective_batch_size and estimate.epochs_interval is None:
        yield (
            "as many epochs are assumed at this batch size as at the one that was profiled, and larger batches often "
            "need more: trainfare epochs says how many"
        )


def _remarks(estimate: Estimate, profile: Profile, workload: Workload, today: date) -> list[str]:
    offer, length = estimate.candidate.offer, workload.leading.length
    remarks = [basis_words(estimate, profile), *charged(estimate, profile, interruptions_on(offer), today)]
    if estimate.fits is False and estimate.memory is not None:
        remarks.insert(
            0,
            f"it does not fit: an iteration needs about {estimate.memory.needed_gib.value:.3g} GiB, "
            f"and there are {estimate.memory.available_gib:.3g} GiB",
        )
    if length.guessed is not None:
        remarks.append(length.guessed)
    if length.iterations is not None:
        per_epoch = workload.leading.iterations_per_epoch
        epochs = f"{length.iterations / per_epoch:.3g} epochs"
        remarks.append(f"the program counts in iterations: {length.iterations} of them are {epochs}")
    if not profile.validation_seconds:
        remarks.append("validation is not in the estimate: none was seen in the profiled iterations")
    remarks += _shared(estimate, workload)
    if workload.charges.terms(offer).assumed:
        remarks.append(f"how {offer.vm_type.provider} charges is not known: by the minute is assumed")
    if not offer.rentable_on(today):
        remarks.append(f"{machine_name(offer)} can no longer be rented, since {offer.retired_on}")
    rule = f", charged {estimate.bill.billing.description}" if estimate.bill else ""
    remarks.append(f"its price was seen on {offer.seen_on.isoformat()} ({format_age(offer.seen_on, today)}){rule}")
    return remarks
