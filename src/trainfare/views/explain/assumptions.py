"""Sentences about what is assumed and what is left out."""

from collections.abc import Mapping

from trainfare.model.reason import Reason
from trainfare.units import format_count, format_duration, format_number, plural
from trainfare.views.names import described_machine
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, flag, integer, listed, number, optional_number, text, texts


def _iterations_planned(values: Values) -> str:
    """`the length is counted in iterations: 100,000 iterations are 128 epochs`."""
    iterations, epochs = integer(values, "iterations"), number(values, "epochs")
    if epochs == 1:  # an epoch of unknown length, or all of it
        return f"the length is counted in iterations: {format_count(iterations)} in all"
    many = plural(round(epochs), "epoch") if epochs >= 100 else f"{format_number(epochs)} epochs"
    are = "is" if iterations == 1 else "are"
    return f"the length is counted in iterations: {plural(iterations, 'iteration')} {are} {many}"


def _batch_larger_than_data_set(values: Values) -> str:
    size, samples = format_count(integer(values, "batch_size")), format_count(integer(values, "samples"))
    return f"a batch of {size} is larger than the data set of {samples} samples: an epoch is one iteration"


def _epochs_assumed(reason: Reason, spell: SpellArguments) -> str:
    epochs = integer(reason.values, "epochs")
    return (
        f"{plural(epochs, 'epoch')} {'is' if epochs == 1 else 'are'} assumed, because the program does not say how "
        f"many it trains; to set the number, pass {spell(reason.arguments)}"
    )


def _epochs_expected(reason: Reason, spell: SpellArguments) -> str:
    values = reason.values
    low, high = optional_number(values, "low"), optional_number(values, "high")
    interval = ""
    if low is not None and high is not None:
        limits = f"{format_count(round(low))} – {format_count(round(high))}"
        interval = f"; time and cost include the 90% interval of {limits} epochs"
    expected = _expected(integer(values, "epochs"))
    return f"{expected}: {text(values, 'why')}{interval}; to set another number, pass {spell(reason.arguments)}"


def _expected(epochs: int, otherwise: int | None = None) -> str:
    """`94 epochs instead of 90 are expected`."""
    instead = "" if otherwise is None or otherwise == epochs else f" instead of {format_count(otherwise)}"
    return f"{plural(epochs, 'epoch')}{instead} {'is' if epochs == 1 else 'are'} expected"


def _epochs_at_batch_size(reason: Reason, spell: SpellArguments) -> str:
    values = reason.values
    size, profiled = integer(values, "batch_size"), optional_number(values, "profiled_batch_size")
    limits = f"{format_count(integer(values, 'low'))} – {format_count(integer(values, 'high'))}"
    instead = "" if profiled is None else f" instead of {profiled:.0f}"
    guess = ", which is a guess: epochs were measured at no other batch size" if flag(values, "guess") else ""
    accuracy = "; larger batches can lose accuracy" if flag(values, "larger") else ""
    keep = f"; to keep the profiled batch size, pass {spell(reason.arguments)}" if reason.arguments else ""
    expected = _expected(integer(values, "epochs"), integer(values, "otherwise"))
    return (
        f"at batch size {size}{instead}, {expected} (90%: {limits}) with a learning rate adapted to it{guess}{accuracy}"
        f"{keep}"
    )


def _same_epochs_at_batch_sizes(values: Values) -> str:
    return (
        f"batch size {integer(values, 'batch_size')} is the best of {listed(texts(values, 'batch_sizes'))}; the same "
        "number of epochs is assumed for each, though large batches often need more"
    )


def _epochs_by_batch_size(values: Values) -> str:
    sizes, epochs = listed(texts(values, "batch_sizes")), listed(texts(values, "epochs"))
    return f"batch size {integer(values, 'batch_size')} is the best of {sizes}, for which {epochs} epochs are expected"


def _cheapest_with_gpu(values: Values) -> str:
    """`aws/p5.4xlarge is the cheapest of 7 machines with 1 H100`."""
    chosen = f"{text(values, 'provider')}/{text(values, 'machine')}"
    having, machines = f"{integer(values, 'gpus')} {text(values, 'gpu')}", integer(values, "machines")
    if machines == 1:
        return f"{chosen} is the only machine with {having}"
    return f"{chosen} is the cheapest of {format_count(machines)} machines with {having}"


def _validation_not_measured(_values: Values) -> str:
    return "the estimate does not include validation, because the profile saw none"


def _memory_unknown(_values: Values) -> str:
    return "it is not known whether it fits in memory, because the profile has no memory figures"


def _several_gpus_assumed(values: Values) -> str:
    return (
        f"the profile was taken on one GPU; it is assumed that the program can train on {integer(values, 'gpus')} GPUs "
        "at once, each with its share of the batch"
    )


def _idle_gpus(values: Values) -> str:
    used, available = integer(values, "used"), integer(values, "available")
    return f"it uses {used} of {available} GPUs; the whole machine is charged"


def _incompatible_offers(values: Values) -> str:
    return (
        f"{plural(integer(values, 'offers'), 'offer')} of TPUs and Trainium are left out, because the program would "
        "have to be changed for them"
    )


def _gpus_unknown(values: Values) -> str:
    return (
        f"no machine with a GPU is compared: profile {text(values, 'profile')} was taken on a CPU and has no "
        "operations to predict a GPU from; profile the program again until an iteration has been traced"
    )


def _old_marketplace_offers(values: Values) -> str:
    return (
        f"{plural(integer(values, 'offers'), 'offer')} of marketplaces are left out, because their prices change by "
        "the hour and were seen long ago; they are considered if their provider is named"
    )


def _refused_offers(values: Values) -> str:
    others = integer(values, "others")
    more = f", like {plural(others, 'other offer')}" if others else ""
    refused = f"it was refused for {text(values, 'cause')}"
    return (
        f"{described_machine(values)} in {text(values, 'region')} is left out{more}: {refused} "
        f"{format_duration(number(values, 'seconds'))} ago; it is considered if the machine is named"
    )


def _batch_shared_by_gpus(values: Values) -> str:
    return (
        f"{integer(values, 'gpus')} GPUs share the batch of {format_count(integer(values, 'batch_size'))} and add up "
        f"their gradients in every iteration ({format_duration(number(values, 'iteration_seconds'))}); the program "
        "must be started accordingly (torchrun, DDP)"
    )


def _same_epochs_as_profiled(_values: Values) -> str:
    return (
        "the same number of epochs is assumed at this batch size as at the profiled one, though larger batches often "
        "need more; `trainfare epochs` estimates how many"
    )


SENTENCES: Mapping[str, Sentence] = {
    "epochs_assumed": _epochs_assumed,
    "epochs_expected": _epochs_expected,
    "epochs_at_batch_size": _epochs_at_batch_size,
    **from_values(
        {
            "iterations_planned": _iterations_planned,
            "batch_larger_than_data_set": _batch_larger_than_data_set,
            "same_epochs_at_batch_sizes": _same_epochs_at_batch_sizes,
            "epochs_by_batch_size": _epochs_by_batch_size,
            "cheapest_with_gpu": _cheapest_with_gpu,
            "validation_not_measured": _validation_not_measured,
            "memory_unknown": _memory_unknown,
            "several_gpus_assumed": _several_gpus_assumed,
            "idle_gpus": _idle_gpus,
            "incompatible_offers": _incompatible_offers,
            "gpus_unknown": _gpus_unknown,
            "old_marketplace_offers": _old_marketplace_offers,
            "refused_offers": _refused_offers,
            "batch_shared_by_gpus": _batch_shared_by_gpus,
            "same_epochs_as_profiled": _same_epochs_as_profiled,
        }
    ),
}
