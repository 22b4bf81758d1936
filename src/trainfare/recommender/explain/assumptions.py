"""What is assumed, and what is left out."""

from collections.abc import Iterator

from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.recommender.explain.charges import price_is_old, price_seen
from trainfare.recommender.explain.codes import describe, reason
from trainfare.recommender.explain.context import ChoiceContext


def assumptions(context: ChoiceContext) -> Iterator[Reason]:
    if context.planned_iterations is not None and context.iterations_per_epoch is not None:
        yield iterations_planned(context.planned_iterations, context.iterations_per_epoch)
    yield from _large_batch(context.profile)
    yield from context.epochs
    if not any(each.code == "epochs_at_batch_size" for each in context.epochs):
        yield from _epochs_by_batch_size(context)
    yield from validation_not_measured(context.profile)
    if context.chosen.memory is None:
        yield reason("assumptions", "memory_unknown")
    yield from _gpus(context)
    if context.incompatible_offers:
        yield reason("assumptions", "incompatible_offers", offers=context.incompatible_offers)
    yield from _gpus_unknown(context)
    if context.old_marketplace_offers:
        yield reason("assumptions", "old_marketplace_offers", offers=context.old_marketplace_offers)
    yield from _refused(context)
    if context.chosen.candidate.offer.is_here:
        if not context.chosen.usd.value:
            yield reason("assumptions", "here_is_free")
        return
    yield from price_is_old(context.chosen, context.ordered, context.today, renewable=context.renewable_prices)
    yield price_seen(context.chosen, context.today)


def iterations_planned(iterations: int, per_epoch: int) -> Reason:
    """The number of epochs of a program that counts in iterations."""
    return reason("assumptions", "iterations_planned", iterations=iterations, epochs=iterations / per_epoch)


def validation_not_measured(profile: Profile) -> Iterator[Reason]:
    if not profile.validation_seconds:
        yield reason("assumptions", "validation_not_measured")


def _large_batch(profile: Profile) -> Iterator[Reason]:
    size = profile.effective_batch_size
    if profile.samples and size is not None and size > profile.samples:
        yield reason("assumptions", "batch_larger_than_data_set", batch_size=size, samples=profile.samples)


def _epochs_by_batch_size(context: ChoiceContext) -> Iterator[Reason]:
    """The number of epochs at each batch size, if several were compared."""
    compared, firsts = context.at_known_sizes, dict[int, int]()
    for place, candidate in enumerate(compared.candidates):
        if candidate.batch_size is not None:
            firsts.setdefault(candidate.batch_size, place)
    epochs = {size: compared[place].epochs for size, place in firsts.items()}
    if len(epochs) < 2:
        return
    size, sizes = context.chosen.candidate.batch_size, sorted(epochs)
    if len(set(epochs.values())) == 1:
        yield reason("assumptions", "same_epochs_at_batch_sizes", batch_size=size, batch_sizes=tuple(sizes))
        return
    yield reason(
        "assumptions",
        "epochs_by_batch_size",
        batch_size=size,
        batch_sizes=tuple(sizes),
        epochs=tuple(epochs[each] for each in sizes),
    )


def _gpus(context: ChoiceContext) -> Iterator[Reason]:
    chosen = context.chosen.candidate
    workers, available = chosen.nodes * chosen.working_gpus_per_node, chosen.offer.vm_type.gpus
    if workers > 1 and context.profile.world_size == 1:
        yield reason("assumptions", "several_gpus_assumed", gpus=workers)
    if chosen.working_gpus_per_node < available:
        yield reason("assumptions", "idle_gpus", used=chosen.working_gpus_per_node, available=available)


def _gpus_unknown(context: ChoiceContext) -> Iterator[Reason]:
    """A profile on a CPU without operations says nothing about any GPU, so that none was compared."""
    profile = context.profile
    compared = any(candidate.offer.vm_type.gpu for candidate in context.compared.candidates)
    if profile.device == "cpu" and not profile.operations and not compared:
        yield reason("assumptions", "gpus_unknown", profile=profile.id)


def _refused(context: ChoiceContext) -> Iterator[Reason]:
    """Offers that were left out because a door has refused them: the last one by name."""
    if not context.refusals or context.now is None:
        return
    last = context.refusals[0]
    if last.candidate is None:
        return
    yield reason(
        "assumptions",
        "refused_offers",
        **describe(last.candidate),
        region=last.candidate.offer.region,
        cause=last.refusal,
        seconds=(context.now - last.seen_at).total_seconds(),
        others=len(context.refusals) - 1,
    )
