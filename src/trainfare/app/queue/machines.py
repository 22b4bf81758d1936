"""Which machines a queue is planned on: those that are named, else a handful that suit its jobs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date

from trainfare.app.recommending.workload import Workload, interruptions_on
from trainfare.catalog.catalog import Catalog
from trainfare.errors import UsageError
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate, Market, Offer
from trainfare.model.scope import Scope
from trainfare.recommender.candidates import candidates
from trainfare.recommender.pareto import front, knee

MOST_TYPES = 8
"""So many types of machines are planned with unless some are named: each adds slots to every decision, and a person
reads the list."""
MOST_ALONE = 4
"""Of these, for jobs that have a node to themselves, where the others are to be shared."""
RENTED: tuple[Market, ...] = ("on_demand", "own")


def named_offers(catalog: Catalog, names: Sequence[str], *, spot: bool, today: date) -> tuple[Offer, ...]:
    """Each machine in its cheapest region, and with `spot` on the spot market too."""
    found: dict[tuple[str, Market], Offer] = {}
    for name in names:
        offers = catalog.find(name)
        rentable = [offer for offer in offers if offer.rentable_on(today)]
        if not rentable:
            since = max(offer.retired_on for offer in offers if offer.retired_on)
            raise UsageError(f"{offers[0].vm_type.key} can no longer be rented, since {since}. Name another machine.")
        wanted = [offer for offer in rentable if offer.market in RENTED or (spot and offer.market == "spot")]
        if not wanted:
            raise UsageError(f"{offers[0].vm_type.key} has only a spot price. Give --spot, or name another machine.")
        for offer in sorted(wanted, key=lambda o: (o.market == "spot", o.usd_per_hour)):
            found.setdefault((offer.vm_type.key, offer.market), offer)
    return tuple(found.values())


def usual_offers(
    trainings: Sequence[tuple[Workload, int]], *, crowded: bool, spot: bool, today: date
) -> tuple[Offer, ...]:
    """Machines that suit these trainings, each with the GPUs that it can share its work among; at most eight types.

    Of every training the cheapest machine, the knee and the fastest of its front of time and cost, as `recommend`
    has them; then those that are on most fronts. Where there are fewer nodes than jobs (`crowded`), also of the front
    of machines with several GPUs, on which a job pays for those that it has: c·g/G.
    """
    every = [_estimates(workload, most_gpus, today) for workload, most_gpus in trainings]
    ranked = _ranked([front(estimates) for estimates in every])
    if crowded:
        shared = _ranked([front(_shares(estimates)) for estimates in every])
        alone = {offer.vm_type.key for offer in ranked[:MOST_ALONE]}
        ranked = ranked[:MOST_ALONE] + [offer for offer in shared if offer.vm_type.key not in alone]
    chosen = ranked[:MOST_TYPES]
    if spot and trainings:
        keys = {offer.vm_type.key for offer in chosen}
        rentable = trainings[0][0].catalog.rentable_on(today)
        on_spot = sorted((o for o in rentable if o.market == "spot"), key=lambda o: o.usd_per_hour)
        twins = {o.vm_type.key: o for o in reversed(on_spot) if o.vm_type.key in keys}
        chosen += twins.values()
    return tuple(chosen)


def _estimates(workload: Workload, most_gpus: int, today: date) -> list[Estimate]:
    """Of every machine that stays and that it fits on, with one of its GPUs and with as many as it can use."""
    profiles = workload.predictor.profiles
    size = workload.leading.profiles[0].effective_batch_size
    found = candidates(
        (offer for offer in workload.catalog.offers if offer.market in RENTED),
        profiles,
        today=today,
        scope=Scope(),
        batch_sizes=(size,),
        interrupted=lambda offer: interruptions_on(offer).per_hour.value,
    )
    offers = {id(candidate.offer): candidate.offer for candidate in found.candidates}.values()
    wanted = [candidate for offer in offers for candidate in on_gpus(offer, size, _ends(offer, most_gpus))]
    return [estimate for estimate in workload.totals(wanted) if estimate.fits is not False]


def _shares(estimates: Iterable[Estimate]) -> Iterator[Estimate]:
    """Others pay for the rest of a machine with several GPUs."""
    for estimate in estimates:
        gpus = estimate.candidate.offer.vm_type.gpus
        if gpus > 1:
            yield replace(estimate, usd=estimate.usd * (estimate.candidate.working_gpus_per_node / gpus))


def on_gpus(offer: Offer, batch_size: int | None, gpus: Iterable[int]) -> Iterator[Candidate]:
    """One machine with so many of its GPUs at work; a machine without any counts as one that has one."""
    for used in gpus:
        if batch_size is None or used <= batch_size:
            yield Candidate(offer=offer, nodes=1, batch_size=batch_size, gpus_used=used if offer.vm_type.gpus else None)


def _ends(offer: Offer, most_gpus: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys((1, max(1, min(most_gpus, offer.vm_type.gpus)))))


def _ranked(fronts: Sequence[Sequence[Estimate]]) -> list[Offer]:
    """The ends and the knee of every front first, then what is on most of them."""
    leading: list[Estimate] = []
    for pick in (lambda f: f[-1], knee, lambda f: f[0]):
        leading += [found for each in fronts if each and (found := pick(each)) is not None]
    on = Counter(estimate.candidate.offer.vm_type.key for each in fronts for estimate in each)
    others = sorted((e for each in fronts for e in each), key=lambda e: -on[e.candidate.offer.vm_type.key])
    offers: dict[str, Offer] = {}
    for estimate in (*leading, *others):
        offers.setdefault(estimate.candidate.offer.vm_type.key, estimate.candidate.offer)
    return list(offers.values())[:MOST_TYPES]
