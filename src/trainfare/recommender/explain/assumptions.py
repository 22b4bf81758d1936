"""What was assumed, and what was left out."""

from collections.abc import Iterator

from trainfare.recommender.explain.case import Case
from trainfare.units import format_age, format_count, plural


def assumed(case: Case) -> Iterator[str]:
    chosen, profile = case.chosen, case.profile
    yield from _length(case)
    yield from _batch(case)
    if not profile.validation_seconds:
        yield "validation is not in the estimate: none was seen in the profiled iterations"
    if chosen.memory is None:
        yield "whether it fits in memory is not known: the profile does not tell how much an iteration takes"
    yield from _gpus(case)
    if case.foreign:
        yield (
            f"{format_count(case.foreign)} offers of TPUs and Trainium are left out: the program would have to be changed "
            "for them"
        )
    offer = chosen.candidate.offer
    rule = f", charged {chosen.bill.billing.words}" if chosen.bill else ""
    yield f"its price was seen on {offer.seen_on.isoformat()} ({format_age(offer.seen_on, case.today)}){rule}"


def _length(case: Case) -> Iterator[str]:
    profile = case.profile
    if case.planned_iterations is not None and case.iterations_per_epoch is not None:
        yield f"the program counts in iterations: {_in_epochs(case.planned_iterations, case.iterations_per_epoch)}"
    if profile.samples and (profile.effective_batch_size or 0) > profile.samples:
        yield (
            f"a batch of {profile.effective_batch_size} is larger than the data set of {profile.samples} samples: "
            "an epoch is one iteration"
        )
    if case.guessed_epochs is not None:
        yield case.guessed_epochs


def _in_epochs(iterations: int, per_epoch: int) -> str:
    """`100 000 of them are 128 epochs`."""
    epochs = iterations / per_epoch
    told = plural(round(epochs), "epoch") if epochs >= 100 or epochs == 1 else f"{epochs:.3g} epochs"
    return f"1 iteration is {told}" if iterations == 1 else f"{format_count(iterations)} of them are {told}"


def _batch(case: Case) -> Iterator[str]:
    """Epochs at each batch size, where several were held against each other."""
    if case.batch_epochs is not None:
        yield case.batch_epochs
        return
    epochs = {e.candidate.batch_size: e.epochs for e in case.estimates if e.candidate.batch_size is not None}
    if len(epochs) < 2:
        return
    size = case.chosen.candidate.batch_size
    if len(set(epochs.values())) == 1:
        yield (
            f"batch size {size} is the best of {_listed(sorted(epochs))}; the same number of epochs is assumed at "
            "each, though large batches often need more"
        )
        return
    sizes = sorted(epochs)
    yield (
        f"batch size {size} is the best of {_listed(sizes)}, at which {_listed([epochs[each] for each in sizes])} "
        "epochs are expected"
    )


def _gpus(case: Case) -> Iterator[str]:
    chosen, profile = case.chosen.candidate, case.profile
    workers, there = chosen.nodes * chosen.gpus_working, chosen.offer.vm_type.gpus
    if workers > 1 and profile.world_size == 1:
        yield (
            f"it was profiled on one GPU: that the program can train on {workers} at once, each with its share of the "
            "batch, is assumed"
        )
    if chosen.gpus_working < there:
        yield f"it uses {chosen.gpus_working} of {there} GPUs: the machine is charged in full and the rest stands idle"


def _listed(numbers: list[int]) -> str:
    """`64, 128 and 256`."""
    *before, last = [str(number) for number in numbers]
    return f"{', '.join(before)} and {last}" if before else last
