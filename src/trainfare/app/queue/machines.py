"""The machines that a queue is planned on: the named ones, or a few that suit its jobs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date

from trainfare.app.recommending.workload import Workload, interruptions_on
from trainfare.catalog.catalog import Catalog
from trainfare.errors import Remedy, UsageError
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Market, Offer
from trainfare.model.scope import Scope
from trainfare.recommender.candidates import candidates
from trainfare.recommender.pareto import front, knee
from trainfare.scheduler.job_table import gpu_candidates

MAX_TYPES = 8
"""The most machine types that are chosen if none are named: each adds slots to every decision, and people read the
list."""
MAX_EXCLUSIVE_TYPES = 4
"""The most of these for jobs that have a node to themselves, if the others are for shared nodes."""
NON_SPOT: tuple[Market, ...] = ("on_demand", "own")


def named_offers(catalog: Catalog, names: Sequence[str], *, spot: bool, today: date) -> tuple[Offer, ...]:
    """Each machine in its cheapest region, and with `spot` on the spot market too."""
    found: dict[tuple[str, Market], Offer] = {}
    for name in names:
        offers = catalog.find(name, field="machines")
        key = offers[0].vm_type.key
        rentable = [offer for offer in offers if offer.rentable_on(today)]
        if not rentable:
            retired_on = max(offer.retired_on for offer in offers if offer.retired_on)
            raise UsageError(
                f"{key} can no longer be rented, since {retired_on}. Name another machine.", field="machines"
            )
        usable = [offer for offer in rentable if offer.market in NON_SPOT or (spot and offer.market == "spot")]
        if not usable:
            raise UsageError(
                f"{key} has only a spot price. Allow spot, or name another machine.",
                field="machines",
                remedies=[Remedy({"spot": True})],
            )
        for offer in sorted(usable, key=lambda o: (o.market == "spot", o.usd_per_hour)):
            found.setdefault((offer.vm_type.key, offer.market), offer)
    return tuple(found.values())


def suitable_offers(
    trainings: Sequence[tuple[Workload, int | None]], *, shared_nodes: bool, spot: bool, today: date
) -> tuple[Offer, ...]:
    """At most eight machine types that suit these trainings, each given with the most GPUs that it can use.

    They are the cheapest machine, the knee and the fastest machine of each training's front of time and cost, as in
    `recommend`; then those that are on most fronts. If jobs must share nodes (`shared_nodes`), they also come from the
    front of machines with several GPUs, on which a job pays for its own GPUs: c·g/G.
    """
    estimates = [_estimates(workload, max_gpus, today) for workload, max_gpus in trainings]
    ranked = _rank_offers([front(each) for each in estimates])
    if shared_nodes:
        shared = _rank_offers([front(_gpu_shares(each)) for each in estimates])
        exclusive = {offer.vm_type.key for offer in ranked[:MAX_EXCLUSIVE_TYPES]}
        ranked = ranked[:MAX_EXCLUSIVE_TYPES] + [offer for offer in shared if offer.vm_type.key not in exclusive]
    chosen = ranked[:MAX_TYPES]
    if spot and trainings:
        keys = {offer.vm_type.key for offer in chosen}
        rentable = trainings[0][0].catalog.rentable_on(today)
        on_spot = sorted((o for o in rentable if o.market == "spot"), key=lambda o: o.usd_per_hour)
        cheapest = {o.vm_type.key: o for o in reversed(on_spot) if o.vm_type.key in keys}
        chosen += cheapest.values()
    return tuple(chosen)


def _estimates(workload: Workload, max_gpus: int | None, today: date) -> list[Estimate]:
    """The estimates on every non-spot machine with enough memory, with one GPU and with as many as it can use."""
    profiles = workload.predictor.profiles
    size = workload.leading.profiles[0].effective_batch_size
    found = candidates(
        (offer for offer in workload.catalog.offers if offer.market in NON_SPOT),
        profiles,
        today=today,
        scope=Scope(),
        batch_sizes=(size,),
        interruptions_per_hour=lambda offer: interruptions_on(offer).per_hour.value,
    )
    offers = {id(candidate.offer): candidate.offer for candidate in found.candidates}.values()
    to_estimate = [each for offer in offers for each in gpu_candidates(offer, size, _one_and_all(offer, max_gpus))]
    return [estimate for estimate in workload.unbilled(to_estimate) if estimate.fits is not False]


def _gpu_shares(estimates: Iterable[Estimate]) -> Iterator[Estimate]:
    """The estimates on machines with several GPUs, at the price of the GPUs in use: other jobs pay for the rest."""
    for estimate in estimates:
        gpus = estimate.candidate.offer.vm_type.gpus
        if gpus > 1:
            yield replace(estimate, usd=estimate.usd * (estimate.candidate.working_gpus_per_node / gpus))


def _one_and_all(offer: Offer, max_gpus: int | None) -> tuple[int, ...]:
    usable = offer.vm_type.gpus if max_gpus is None else min(max_gpus, offer.vm_type.gpus)
    return tuple(dict.fromkeys((1, max(1, usable))))


def _rank_offers(fronts: Sequence[Sequence[Estimate]]) -> list[Offer]:
    """The offers of the ends and the knee of every front first, then those that are on most fronts."""
    leading: list[Estimate] = []
    for pick in (lambda f: f[-1], knee, lambda f: f[0]):
        leading += [found for each in fronts if each and (found := pick(each)) is not None]
    count = Counter(estimate.candidate.offer.vm_type.key for each in fronts for estimate in each)
    others = sorted((e for each in fronts for e in each), key=lambda e: -count[e.candidate.offer.vm_type.key])
    offers: dict[str, Offer] = {}
    for estimate in (*leading, *others):
        offers.setdefault(estimate.candidate.offer.vm_type.key, estimate.candidate.offer)
    return list(offers.values())[:MAX_TYPES]
