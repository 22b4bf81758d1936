"""What is written at a point and shown when somebody points at it."""

from collections.abc import Callable, Sequence

from trainfare.figures.look import Spec
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Offer
from trainfare.units import format_duration, format_usd

Named = Callable[[Offer], str]
"""What a machine is called: `aws g4dn.xlarge spot`."""


def gpu_words(offer: Offer) -> str:
    """`T4`, `8 × V100`, `no GPU`."""
    vm_type = offer.vm_type
    if vm_type.gpu is None:
        return "no GPU"
    return vm_type.gpu.name if vm_type.gpus == 1 else f"{vm_type.gpus} × {vm_type.gpu.name}"


def labels_of(estimates: Sequence[Estimate], named: Named) -> list[str]:
    """The machine; also its number where one has several, and its batch size where they differ."""
    batches = len({estimate.candidate.batch_size for estimate in estimates}) > 1
    return [_label(estimate, named, batches=batches) for estimate in estimates]


def shortened(words: str, letters: int) -> str:
    """Without what all machines of a provider have in their names; else without the middle: a name begins with its
    provider and family and ends with its size."""
    if len(words) > letters:
        words = words.replace("Standard_", "")
    if len(words) <= letters:
        return words
    tail = (letters - 1) // 2
    return f"{words[: letters - 1 - tail]}…{words[-tail:]}"


def tooltip_of(estimate: Estimate, named: Named, confidence: float) -> Spec:
    """By the titles that are shown, in this order."""
    candidate = estimate.candidate
    shown = {
        "machine": _label(estimate, named, batches=False),
        "GPU": gpu_words(candidate.offer),
        "time": _with_interval(estimate.seconds.at_confidence(confidence), format_duration),
        "cost": _with_interval(estimate.usd.at_confidence(confidence), format_usd),
        "basis": estimate.basis,
    }
    if candidate.batch_size is not None:
        shown["batch size"] = str(candidate.batch_size)
    if estimate.memory is not None:
        memory = estimate.memory
        shown["memory"] = f"{memory.needed_gib.value:.2g} of {memory.available_gib:.3g} GiB, {memory.verdict}"
    shown["price"] = f"{candidate.usd_per_hour:.4g} $/h in {candidate.offer.region}"
    return shown


TOOLTIP = [
    {"field": title, "type": "nominal"}
    for title in ("machine", "GPU", "time", "cost", "basis", "batch size", "memory", "price")
]


def _label(estimate: Estimate, named: Named, *, batches: bool) -> str:
    candidate = estimate.candidate
    words = named(candidate.offer)
    if candidate.nodes > 1:
        words = f"{candidate.nodes} × {words}"
    return f"{words}, batch {candidate.batch_size}" if batches and candidate.batch_size else words


def _with_interval(interval: Interval, words: Callable[[float], str]) -> str:
    value, low, high = (words(number) for number in (interval.value, interval.low, interval.high))
    return value if low == high else f"{value} ({100 * interval.confidence:.4g} %: {low} – {high})"
