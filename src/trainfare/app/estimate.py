"""How long and how much on one machine: the same estimate that `recommend` makes of every machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial

from trainfare.app.fare import Fare, gather, profiles_asked, require_epochs
from trainfare.app.recommend import decide_epochs
from trainfare.catalog.terms import interruptions_of
from trainfare.errors import AskedWrongly, Infeasible, NotFound
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.recommender.explain import basis_words, charged, machine_words
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
    nodes: int = 1,
    epochs: int | None = None,
    iterations_per_epoch: int | None = None,
    overheads: Overheads | None = None,
    settings: Settings | None = None,
) -> Estimation:
    """Time and cost of the whole training on the machine `on`, in its cheapest region unless one is named.

    Of the named profile, or of the newest; where others were taken of the same program on that machine, they count.
    """
    settings = settings or read_settings()
    today = datetime.now(UTC).date()
    require_epochs(epochs)
    if nodes < 1:
        raise AskedWrongly(f"nodes must be at least 1, got {nodes}.")
    with open_history(settings.store) as history:
        profiles = profiles_asked(history, [profile_id] if profile_id else [])
    fare = gather(
        profiles[:1] + tuple(p for p in profiles[1:] if p.batch_size == profiles[0].batch_size),
        decide=partial(decide_epochs, epochs),
        iterations_per_epoch=iterations_per_epoch,
        overheads=overheads,
        settings=settings,
    )
    offer = _offer(fare.catalog.find(on), region=region, spot=spot, today=today)
    candidate = Candidate(offer=offer, nodes=nodes, batch_size=profiles[0].batch_size)
    found = fare.estimate([candidate])
    if not found:
        raise _nothing_known(profiles[0], offer)
    profile = next(p for p in profiles if p.id == found[0].profile_id)
    return Estimation(
        estimate=found[0],
        profiles=profiles,
        remarks=tuple(_remarks(found[0], profile, fare, today)),
    )


def _offer(offers: Sequence[Offer], *, region: str | None, spot: bool, today: date) -> Offer:
    """The cheapest that can be rented; of a machine that no longer can, the last that was seen."""
    name = offers[0].vm_type.key
    there = [o for o in offers if region is None or o.region.lower() == region.strip().lower()]
    if not there:
        regions = sorted({offer.region for offer in offers})
        raise NotFound(f"price of {name} in", region or "", regions, listed_by=f"trainfare catalog show {name}")
    wanted = [offer for offer in there if (offer.market == "spot") == spot]
    if not wanted:
        where = f" in {region}" if region else ""
        raise AskedWrongly(
            f"{name} has no spot price{where}. Leave --spot out."
            if spot
            else f"{name} has only a spot price{where}. Give --spot."
        )
    rentable = [offer for offer in wanted if offer.rentable_on(today)]
    if rentable:
        return min(rentable, key=lambda o: o.usd_per_hour)
    return max(wanted, key=lambda o: (o.seen_on, -o.usd_per_hour))


def _nothing_known(profile: Profile, offer: Offer) -> Infeasible:
    name = offer.vm_type.key
    if offer.vm_type.gpu is None:
        why = f"{name} has no GPU, and a machine without one is estimated only where a profile was taken on it"
    elif len(profile.iteration_seconds) < 2:
        why = "it has fewer than two iterations"
    else:
        why = "it has no operations, so it speaks only of the machine type that it was taken on"
    return Infeasible(
        f"profile {profile.id} says nothing of {name}: {why}. Take one there: trainfare profile --on {name} -- …"
    )


def _remarks(estimate: Estimate, profile: Profile, fare: Fare, today: date) -> list[str]:
    offer, length = estimate.candidate.offer, fare.leading.length
    remarks = [basis_words(estimate, profile), *charged(estimate, profile, interruptions_of(offer.vm_type), today)]
    if estimate.fits is False and estimate.memory is not None:
        remarks.insert(
            0,
            f"it does not fit: an iteration needs about {estimate.memory.needed_gib.value:.3g} GiB, "
            f"and there are {estimate.memory.available_gib:.3g} GiB",
        )
    if length.guessed is not None:
        remarks.append(length.guessed)
    if length.iterations is not None:
        per_epoch = fare.leading.iterations_per_epoch
        epochs = f"{length.iterations / per_epoch:.3g} epochs"
        remarks.append(f"the program counts in iterations: {length.iterations} of them are {epochs}")
    if not profile.validation_seconds:
        remarks.append("validation is not in the estimate: none was seen in the profiled iterations")
    if estimate.candidate.nodes > 1:
        remarks.append(
            f"{estimate.candidate.nodes} nodes are charged, and an iteration takes what it takes on one: "
            "what more nodes gain is not in the estimate"
        )
    if fare.charges.terms(offer).assumed:
        remarks.append(f"how {offer.vm_type.provider} charges is not known: by the minute is assumed")
    if not offer.rentable_on(today):
        remarks.append(f"{machine_words(offer)} can no longer be rented, since {offer.retired_on}")
    rule = f", charged {estimate.bill.billing.words}" if estimate.bill else ""
    remarks.append(f"its price was seen on {offer.seen_on.isoformat()} ({format_age(offer.seen_on, today)}){rule}")
    return remarks
