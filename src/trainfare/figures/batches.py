"""The figure of time and cost by batch size: one line per machine, and the sizes that exceed its memory."""

import math
from collections.abc import Callable, Iterator, Sequence

from trainfare.figures.axis import Quantity, needs_log_scale
from trainfare.figures.chart import Chart, Series, Symbol, chart_views
from trainfare.figures.labels import tooltip
from trainfare.figures.look import WIDE, Spec, page
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.recommender.names import candidate_name, machine_name
from trainfare.units import format_number, format_percent, plural

MAX_LINES = 6
"""More lines could not be distinguished; the first machines in order are drawn."""

_SYMBOLS: dict[str | None, Symbol] = {"fits": "circle", "tight": "ring", "does not fit": "x", None: "circle"}


def batches_figure(
    estimates: Sequence[Estimate],
    *,
    chosen: Estimate,
    confidence: float = 0.9,
    width: int = WIDE,
) -> Spec:
    """The figure of estimates at several batch sizes, in any order; estimates without a batch size are left out."""
    machines = _by_machine(estimates, chosen)
    if not machines:
        raise ValueError("no estimate has a batch size")
    quantities: tuple[tuple[str, Quantity, Callable[[Estimate], Interval]], ...] = (
        ("time", "seconds", lambda estimate: estimate.seconds),
        ("cost", "usd", lambda estimate: estimate.usd),
    )
    logarithmic = any(
        needs_log_scale(read(e).value for group in machines for e in group if e.fits is not False)
        for _, _, read in quantities
    )
    charts = [
        _panel(machines, title, quantity, read, chosen, confidence, logarithmic=logarithmic)
        for title, quantity, read in quantities
    ]
    height = round((0.4 if width >= 480 else 0.62) * width)
    views = chart_views(charts, width=width, height=height)
    name = machine_name(chosen.candidate.offer)
    description = f"Time and cost by batch size. Chosen: {name} at batch size {chosen.candidate.batch_size}."
    return page(views, description=description, width=width)


def _by_machine(estimates: Sequence[Estimate], chosen: Estimate) -> list[list[Estimate]]:
    """The estimates of each machine by ascending batch size, the chosen machine first."""
    groups: dict[object, dict[int, Estimate]] = {_machine(chosen): {}}
    for estimate in (chosen, *estimates):
        size = estimate.candidate.batch_size
        if size is not None:
            groups.setdefault(_machine(estimate), {}).setdefault(size, estimate)
    ordered = [[group[size] for size in sorted(group)] for group in groups.values() if group]
    return ordered[:MAX_LINES]


def _machine(estimate: Estimate) -> tuple[object, ...]:
    return estimate.candidate.offer.key, estimate.candidate.nodes, estimate.candidate.gpus_used


def _panel(
    machines: Sequence[Sequence[Estimate]],
    title: str,
    quantity: Quantity,
    read: Callable[[Estimate], Interval],
    chosen: Estimate,
    confidence: float,
    *,
    logarithmic: bool,
) -> Chart:
    sizes = sorted({_size(estimate) for group in machines for estimate in group})
    paid = [group for group in machines if any(read(estimate).value for estimate in group)]
    logarithmic = logarithmic and bool(paid)  # a logarithmic axis has no place for what is free
    return Chart(
        name=f"batches-{title}",
        title=f"{title.capitalize()} by batch size",
        subtitle=_subtitle(machines, chosen, confidence) if quantity == "seconds" else "",
        x="batch size",
        y=title,
        y_quantity=quantity,
        log_x=True,
        log_y=logarithmic,
        x_ticks=tuple(sizes),
        series=tuple(
            series
            for group in (paid if logarithmic else machines)
            for series in _series(group, read, chosen, confidence)
        ),
        marks=((_size(chosen), "chosen"),),
        ranges=_ranges_too_large(machines[0], sizes) if _machine(machines[0][0]) == _machine(chosen) else (),
    )


def _series(
    group: Sequence[Estimate], read: Callable[[Estimate], Interval], chosen: Estimate, confidence: float
) -> Iterator[Series]:
    """A line through the sizes that fit in memory, and single points for those that do not."""
    is_chosen = _machine(group[0]) == _machine(chosen)
    label = candidate_name(group[0].candidate)
    for fits in (True, False):
        some = [estimate for estimate in group if (estimate.fits is not False) == fits]
        values = [read(estimate).at_confidence(confidence) for estimate in some]
        if some:
            yield Series(
                label=label if fits or len(some) == len(group) else "",
                points=tuple((_size(estimate), value.value) for estimate, value in zip(some, values, strict=True)),
                bars=tuple((value.low, value.high) for value in values) if is_chosen and fits else (),
                chosen=is_chosen,
                joined=fits,
                symbols=tuple(_SYMBOLS[None if e.memory is None else e.memory.verdict] for e in some),
                tooltips=tuple(tooltip(estimate, confidence) for estimate in some),
            )


def _size(estimate: Estimate) -> float:
    return float(estimate.candidate.batch_size or 0)


def _ranges_too_large(group: Sequence[Estimate], sizes: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """The range from half a step before the first size that does not fit to the end."""
    first = next((_size(estimate) for estimate in group if estimate.fits is False), None)
    if first is None:
        return ()
    before = [size for size in sizes if size < first]
    start = math.sqrt(first * before[-1]) if before else first / math.sqrt(2)
    return ((start, math.inf),)


def _subtitle(machines: Sequence[Sequence[Estimate]], chosen: Estimate, confidence: float) -> str:
    size = chosen.candidate.batch_size
    parts = [
        f"{plural(chosen.epochs, 'epoch')} at batch size {size}",
        f"bars are {format_percent(confidence)} intervals",
    ]
    every = [estimate for group in machines for estimate in group]
    if chosen.memory is not None and any(e.fits is False for e in machines[0]):
        parts.append(
            f"shaded: exceeds the {format_number(chosen.memory.available_gib)} GiB of "
            f"{machine_name(chosen.candidate.offer)}"
        )
    if any(e.memory is not None and e.memory.verdict == "tight" for e in every):
        parts.append("ring: may exceed the memory")
    if any(e.fits is False for e in every):
        parts.append("×: exceeds the memory")
    return " · ".join(parts)
