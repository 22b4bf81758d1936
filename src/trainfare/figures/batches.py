"""Time and cost against the batch size, a line a machine; and what does not fit in its memory."""

import math
from collections.abc import Callable, Iterator, Sequence

from trainfare.figures.axis import Quantity, needs_log_scale
from trainfare.figures.chart import Chart, Series, Symbol, chart_views
from trainfare.figures.look import WIDE, Spec, page
from trainfare.figures.labels import Named, tooltip
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval

MOST_LINES = 6
"""More would not be told apart; the first in order are kept."""

_SYMBOLS: dict[str | None, Symbol] = {"fits": "circle", "tight": "ring", "does not fit": "x", None: "circle"}


def batches_figure(
    estimates: Sequence[Estimate],
    *,
    chosen: Estimate,
    named: Named,
    confidence: float = 0.9,
    width: int = WIDE,
) -> Spec:
    """Of the chosen machine and others at several batch sizes, in any order; those without one are left out."""
    machines = _by_machine(estimates, chosen)
    if not machines:
        raise ValueError("no estimate has a batch size")
    quantities: tuple[tuple[str, Quantity, Callable[[Estimate], Interval]], ...] = (
        ("time", "seconds", lambda estimate: estimate.seconds),
        ("cost", "usd", lambda estimate: estimate.usd),
    )
    logarithmic = any(
        needs_log_scale(read(e).value for mine in machines for e in mine if e.fits is not False)
        for _, _, read in quantities
    )
    charts = [
        _panel(machines, title, quantity, read, chosen, named, confidence, logarithmic=logarithmic)
        for title, quantity, read in quantities
    ]
    height = round((0.4 if width >= 480 else 0.62) * width)
    views = chart_views(charts, width=width, height=height)
    told = f"{named(chosen.candidate.offer)} at batch size {chosen.candidate.batch_size} is chosen"
    return page(views, description=f"Time and cost against the batch size. {told}.", width=width)


def _by_machine(estimates: Sequence[Estimate], chosen: Estimate) -> list[list[Estimate]]:
    """The chosen machine first; of each, one estimate a batch size, the smaller first."""
    groups: dict[object, dict[int, Estimate]] = {_machine(chosen): {}}
    for estimate in (chosen, *estimates):
        size = estimate.candidate.batch_size
        if size is not None:
            groups.setdefault(_machine(estimate), {}).setdefault(size, estimate)
    ordered = [[mine[size] for size in sorted(mine)] for mine in groups.values() if mine]
    return ordered[:MOST_LINES]


def _machine(estimate: Estimate) -> tuple[object, ...]:
    return estimate.candidate.offer.key, estimate.candidate.nodes, estimate.candidate.gpus_used


def _panel(
    machines: Sequence[Sequence[Estimate]],
    title: str,
    quantity: Quantity,
    read: Callable[[Estimate], Interval],
    chosen: Estimate,
    named: Named,
    confidence: float,
    *,
    logarithmic: bool,
) -> Chart:
    sizes = sorted({_size(estimate) for mine in machines for estimate in mine})
    return Chart(
        name=f"batches-{title}",
        title=f"{title.capitalize()} against batch size",
        subtitle=_subtitle(machines, chosen, named, confidence) if quantity == "seconds" else "",
        x="batch size",
        y=title,
        y_quantity=quantity,
        log_x=True,
        log_y=logarithmic,
        x_ticks=tuple(sizes),
        series=tuple(series for mine in machines for series in _series(mine, read, chosen, named, confidence)),
        marks=((_size(chosen), "chosen"),),
        ranges=_too_large(machines[0], sizes) if _machine(machines[0][0]) == _machine(chosen) else (),
    )


def _series(
    mine: Sequence[Estimate], read: Callable[[Estimate], Interval], chosen: Estimate, named: Named, confidence: float
) -> Iterator[Series]:
    """A line through what fits, and what does not as points beside it."""
    ours = _machine(mine[0]) == _machine(chosen)
    nodes, words = mine[0].candidate.nodes, named(mine[0].candidate.offer)
    label = f"{nodes} × {words}" if nodes > 1 else words
    for fits in (True, False):
        some = [estimate for estimate in mine if (estimate.fits is not False) == fits]
        values = [read(estimate).at_confidence(confidence) for estimate in some]
        if some:
            yield Series(
                label=label if fits or len(some) == len(mine) else "",
                points=tuple((_size(estimate), value.value) for estimate, value in zip(some, values, strict=True)),
                bars=tuple((value.low, value.high) for value in values) if ours and fits else (),
                chosen=ours,
                joined=fits,
                symbols=tuple(_SYMBOLS[None if e.memory is None else e.memory.verdict] for e in some),
                told=tuple(tooltip(estimate, named, confidence) for estimate in some),
            )


def _size(estimate: Estimate) -> float:
    return float(estimate.candidate.batch_size or 0)


def _too_large(mine: Sequence[Estimate], sizes: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """From half a step before the first size that does not fit, to the end."""
    first = next((_size(estimate) for estimate in mine if estimate.fits is False), None)
    if first is None:
        return ()
    before = [size for size in sizes if size < first]
    start = math.sqrt(first * before[-1]) if before else first / math.sqrt(2)
    return ((start, math.inf),)


def _subtitle(machines: Sequence[Sequence[Estimate]], chosen: Estimate, named: Named, confidence: float) -> str:
    size = chosen.candidate.batch_size
    parts = [
        f"{chosen.epochs} epoch{'s' if chosen.epochs != 1 else ''} at {size}",
        f"bars hold {100 * confidence:.4g} %",
    ]
    every = [estimate for mine in machines for estimate in mine]
    if chosen.memory is not None and any(e.fits is False for e in machines[0]):
        parts.append(
            f"shaded: does not fit in the {chosen.memory.available_gib:.3g} GiB of {named(chosen.candidate.offer)}"
        )
    if any(e.memory is not None and e.memory.verdict == "tight" for e in every):
        parts.append("a ring: it may not fit")
    if any(e.fits is False for e in every):
        parts.append("×: it does not")
    return " · ".join(parts)
