"""Functions that read the contents of a specification."""

from collections.abc import Iterator

from tests.makers import make_candidate, make_estimate, make_gpu, make_offer, make_vm_type
from trainfare.figures.look import PAPER, Spec
from trainfare.model.estimate import Estimate, MemoryFit
from trainfare.model.interval import Interval


def estimate(
    name: str,
    *,
    hours: float = 1.0,
    usd: float = 1.0,
    batch_size: int = 64,
    needs_gib: float = 4.0,
    epochs: int = 10,
    gpu: str = "T4",
) -> Estimate:
    offer = make_offer(vm_type=make_vm_type(name=name, gpu=make_gpu(name=gpu)))
    return make_estimate(
        candidate=make_candidate(offer=offer, batch_size=batch_size),
        seconds=Interval.within_factor(3600 * hours, 1.5),
        usd=Interval.within_factor(usd, 1.5),
        epochs=epochs,
        memory=MemoryFit(needed_gib=Interval.within_factor(needs_gib, 1.2), available_gib=16),
    )


def views(spec: Spec) -> list[Spec]:
    return list(spec.get("vconcat", [spec]))


def layers(spec: Spec, mark: str) -> Iterator[Spec]:
    for view in views(spec):
        yield from (layer for layer in view["layer"] if layer["mark"]["type"] == mark)


def labels(spec: Spec) -> list[str]:
    """The labels in the field, each once; the lines of a label are joined."""
    return [
        " / ".join(row["label"]) if isinstance(row["label"], list) else row["label"]
        for layer in layers(spec, "text")
        if layer["mark"].get("fill") != PAPER
        for row in layer["data"]["values"]
    ]


def dots(spec: Spec) -> list[Spec]:
    return [row for layer in layers(spec, "point") for row in layer["data"]["values"]]


def ticks(view: Spec, channel: str) -> str:
    """The expression of the tick labels of an axis."""
    found = [layer["encoding"][channel]["axis"] for layer in view["layer"] if layer["mark"]["type"] == "point"]
    return str(found[0]["labelExpr"])


def title(view: Spec) -> str:
    return " ".join(view["title"]["text"]).replace("\N{NO-BREAK SPACE}", " ")


def subtitle(view: Spec) -> str:
    return " ".join(view["title"].get("subtitle", [])).replace("\N{NO-BREAK SPACE}", " ")
