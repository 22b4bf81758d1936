"""Labels and tooltips of machines."""

from collections.abc import Callable, Sequence

from trainfare.figures.look import Spec
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Offer
from trainfare.recommender.names import machine_name
from trainfare.recommender.options import Rankable
from trainfare.units import format_duration, format_number, format_percent, format_usd, format_usd_per_hour

TOOLTIP_FIELDS = [
    {"field": title, "type": "nominal"}
    for title in ("machine", "GPU", "time", "cost", "basis", "batch size", "memory", "price")
]

BATCH_SEPARATOR = ", batch "
"""Between the name of a machine and its batch size in a label."""


def gpu_name(offer: Offer) -> str:
    """`T4`, `8 × V100`, `no GPU`."""
    vm_type = offer.vm_type
    if vm_type.gpu is None:
        return "no GPU"
    return vm_type.gpu.name if vm_type.gpus == 1 else f"{vm_type.gpus} × {vm_type.gpu.name}"


def machine_labels(estimates: Sequence[Rankable]) -> list[str]:
    """The name of each machine, with the number of nodes if above one, and with the batch size if sizes differ."""
    batches = len({estimate.candidate.batch_size for estimate in estimates}) > 1
    return [_label(estimate, batches=batches) for estimate in estimates]


def shorten(label: str, letters: int) -> str:
    """The label without the common prefix of a provider's machines, and if it is still too long without the middle of
    the machine's name: its start has the provider and the family, its end has the size."""
    if len(label) > letters:
        label = label.replace("Standard_", "")
    if len(label) <= letters:
        return label
    name, separator, size = label.partition(BATCH_SEPARATOR)
    left = letters - 1 - len(separator + size)
    tail = left // 2
    return f"{name[: left - tail]}…{name[-tail:]}{separator}{size}"


def tooltip(estimate: Estimate, confidence: float) -> Spec:
    """The values of a tooltip by title, in the order in which they are shown."""
    candidate = estimate.candidate
    shown = {
        "machine": _label(estimate, batches=False),
        "GPU": gpu_name(candidate.offer),
        "time": _with_interval(estimate.seconds.at_confidence(confidence), format_duration),
        "cost": _with_interval(estimate.usd.at_confidence(confidence), format_usd),
        "basis": estimate.basis,
    }
    if candidate.batch_size is not None:
        shown["batch size"] = str(candidate.batch_size)
    if estimate.memory is not None:
        needed, available = estimate.memory.needed_gib.value, estimate.memory.available_gib
        shown["memory"] = f"{needed:.2g} of {format_number(available)} GiB, {estimate.memory.verdict}"
    shown["price"] = f"{format_usd_per_hour(candidate.usd_per_hour)} in {candidate.offer.region}"
    return shown


def _label(estimate: Rankable, *, batches: bool) -> str:
    candidate = estimate.candidate
    name = machine_name(candidate.offer)
    if candidate.nodes > 1:
        name = f"{candidate.nodes} × {name}"
    return f"{name}{BATCH_SEPARATOR}{candidate.batch_size}" if batches and candidate.batch_size else name


def _with_interval(interval: Interval, spell: Callable[[float], str]) -> str:
    value, low, high = (spell(number) for number in (interval.value, interval.low, interval.high))
    return value if low == high else f"{value} ({format_percent(interval.confidence)} interval: {low} – {high})"
