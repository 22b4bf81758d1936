"""What should be known about one estimate."""

from collections.abc import Iterator
from datetime import date

from trainfare.model.bill import Interruptions
from trainfare.model.estimate import Estimate
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.recommender.explain.assumptions import iterations_planned, validation_not_measured
from trainfare.recommender.explain.certainty import basis, profiled_host
from trainfare.recommender.explain.charges import charges, price_seen
from trainfare.recommender.explain.codes import describe, reason


def remarks(
    estimate: Estimate,
    profile: Profile,
    *,
    interruptions: Interruptions,
    epochs: Reason | None,
    planned_iterations: int | None,
    iterations_per_epoch: int,
    profiled_batch_size: int | None,
    billing_assumed: bool,
    today: date,
) -> Iterator[Reason]:
    """The basis, the charges and the assumptions of an estimate; first of all if it does not fit in memory.

    `epochs` is why that many epochs are trained, if neither the user nor the program says it.
    """
    offer = estimate.candidate.offer
    if estimate.fits is False and estimate.memory is not None:
        yield reason(
            "certainty",
            "does_not_fit",
            needed_gib=estimate.memory.needed_gib.value,
            available_gib=estimate.memory.available_gib,
        )
    yield basis(estimate, profile)
    yield from profiled_host(estimate, profile)
    yield from charges(estimate, profile, interruptions, today)
    if epochs is not None:
        yield epochs
    if planned_iterations is not None:
        yield iterations_planned(planned_iterations, iterations_per_epoch)
    yield from validation_not_measured(profile)
    yield from _batch(estimate, profiled_batch_size)
    if billing_assumed:
        yield reason("charges", "billing_assumed", provider=offer.vm_type.provider)
    if not offer.rentable_on(today):
        retired = offer.retired_on.isoformat() if offer.retired_on else None
        yield reason(
            "charges", "no_longer_rentable", machine=describe(estimate.candidate) | {"nodes": 1}, since=retired
        )
    if offer.is_here and not offer.usd_per_hour:
        yield reason("assumptions", "here_is_free")
    else:
        yield price_seen(estimate, today)


def _batch(estimate: Estimate, profiled: int | None) -> Iterator[Reason]:
    candidate = estimate.candidate
    workers = candidate.nodes * candidate.working_gpus_per_node
    if workers > 1 and candidate.batch_size:
        yield reason(
            "assumptions",
            "batch_shared_by_gpus",
            batch_size=candidate.batch_size,
            gpus=workers,
            iteration_seconds=estimate.iteration_seconds.value,
        )
    if candidate.batch_size != profiled and estimate.epochs_interval is None:
        yield reason("assumptions", "same_epochs_as_profiled")
