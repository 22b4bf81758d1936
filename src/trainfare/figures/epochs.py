"""The figure of time and cost by number of epochs: one line per machine, and the winner in each range (Malta 2021,
figures 5.4 and 5.5).

Both are straight lines a + b·N, given by the values for one epoch and for two. A machine that starts slowly and runs
fast wins only from some number of epochs on: where a line is the lowest, it is bold.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainfare.figures.axis import Quantity, needs_log_scale
from trainfare.figures.chart import Chart, Series, chart_views
from trainfare.figures.labels import machine_labels
from trainfare.figures.look import WIDE, Spec, page
from trainfare.model.offer import Candidate
from trainfare.recommender.crossovers import WinningRange
from trainfare.recommender.options import Rankable
from trainfare.units import format_count, format_duration, format_usd, plural

MAX_LINES = 6
"""More lines could not be distinguished; the chosen machine and the winners come first."""

SAMPLES = 48
"""The largest number of points of a line."""

EXTRA_EPOCHS = 1.25
"""The drawn epochs relative to the planned epochs, or to the last change of the winner."""
MAX_CHANGE = 6.0
"""A change of the winner at more than this many times the planned epochs is not drawn."""
MIN_CHANGE_SHARE = 0.06
"""A change of the winner in this first share of the axis requires a logarithmic axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpochsLine:
    candidate: Candidate
    label: str
    seconds: tuple[float, float]
    """a and b of a + b·N."""
    usd: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpochsPanel:
    title: str
    quantity: Quantity
    best: str
    better: str
    won: Sequence[WinningRange]
    read: Callable[[_EpochsLine], tuple[float, float]]


def epochs_figure(
    once: Sequence[Rankable],
    twice: Sequence[Rankable],
    *,
    chosen: Candidate,
    epochs: int,
    fastest: Sequence[WinningRange],
    cheapest: Sequence[WinningRange],
    width: int = WIDE,
) -> Spec:
    """The figure of the same candidates, best first, for one epoch and for two, without rounding.

    `epochs` is the planned number of epochs.
    """
    lines = _lines(once, twice, chosen, [*fastest, *cheapest])
    drawn = {line.candidate for line in lines}
    end, logarithmic = _drawn_epochs(epochs, [won for won in (*fastest, *cheapest) if won.estimate.candidate in drawn])
    for read in (_seconds, _usd):
        logarithmic |= needs_log_scale(a + b * epochs for a, b in map(read, lines))
    panels = (
        _EpochsPanel(title="time", quantity="seconds", best="fastest", better="faster", won=fastest, read=_seconds),
        _EpochsPanel(title="cost", quantity="usd", best="cheapest", better="cheaper", won=cheapest, read=_usd),
    )
    charts = [_chart(panel, lines, chosen=chosen, epochs=epochs, end=end, logarithmic=logarithmic) for panel in panels]
    height = round((0.4 if width >= 480 else 0.62) * width)
    views = chart_views(charts, width=width, height=height)
    titles = ". ".join(chart.title for chart in charts)
    return page(views, description=f"Time and cost by number of epochs. {titles}.", width=width)


def _lines(
    once: Sequence[Rankable], twice: Sequence[Rankable], chosen: Candidate, won: Sequence[WinningRange]
) -> list[_EpochsLine]:
    """The lines of the chosen machine, of the winners, then of the others."""
    found = {one.candidate: (one, two) for one, two in zip(once, twice, strict=True)}
    first = [candidate for candidate in (chosen, *(each.estimate.candidate for each in won)) if candidate in found]
    drawn = list(dict.fromkeys(first))
    gpus = {_gpu(candidate) for candidate in drawn}
    for candidate in found:  # only the best machine of each GPU: the lines of the others would overlap
        if _gpu(candidate) not in gpus:
            gpus.add(_gpu(candidate))
            drawn.append(candidate)
    pairs = [found[candidate] for candidate in drawn[:MAX_LINES]]
    return [
        _EpochsLine(
            candidate=one.candidate,
            label=label,
            seconds=_line_through(one.seconds.value, two.seconds.value),
            usd=_line_through(one.usd.value, two.usd.value),
        )
        for (one, two), label in zip(pairs, machine_labels([one for one, _ in pairs]), strict=True)
    ]


def _gpu(candidate: Candidate) -> tuple[str | None, int]:
    gpu = candidate.offer.vm_type.gpu
    return gpu.name if gpu else None, candidate.working_gpus_per_node * candidate.nodes


def _seconds(line: _EpochsLine) -> tuple[float, float]:
    return line.seconds


def _usd(line: _EpochsLine) -> tuple[float, float]:
    return line.usd


def _line_through(at_one: float, at_two: float) -> tuple[float, float]:
    return 2 * at_one - at_two, at_two - at_one


def _drawn_epochs(epochs: int, won: Sequence[WinningRange]) -> tuple[float, bool]:
    """The number of epochs that are drawn, and True if the axes are logarithmic."""
    changes = [each.first for each in won if 1 < each.first <= MAX_CHANGE * epochs]
    end = float(max(5, math.ceil(EXTRA_EPOCHS * max([epochs, *changes]))))
    return end, any(change < MIN_CHANGE_SHARE * end for change in changes)


def _chart(
    panel: _EpochsPanel, lines: Sequence[_EpochsLine], *, chosen: Candidate, epochs: int, end: float, logarithmic: bool
) -> Chart:
    names = {line.candidate: line.label for line in lines}
    samples = _sampled_epochs(end, logarithmic=logarithmic)
    drawn = [line for line in lines if any(panel.read(line))]  # a logarithmic axis has no place for what is free
    changes = [each for each in panel.won[1:] if each.first <= end and each.estimate.candidate in names]
    return Chart(
        name=f"epochs-{panel.title}",
        title=_title(panel, names, end),
        subtitle=f"bold where no other machine is {panel.better}",
        x="epochs",
        x_quantity="count",
        y=panel.title,
        y_quantity=panel.quantity,
        log_x=logarithmic,
        log_y=logarithmic and bool(drawn),
        series=tuple(
            _series(line, panel, samples, end, chosen=line.candidate == chosen)
            for line in (drawn if logarithmic and drawn else lines)
        ),
        marks=(
            (float(epochs), plural(epochs, "epoch")),
            *(
                (float(each.first), f"from {format_count(each.first)}\n{names[each.estimate.candidate]}")
                for each in changes
            ),
        ),
    )


def _series(line: _EpochsLine, panel: _EpochsPanel, samples: Sequence[float], end: float, *, chosen: bool) -> Series:
    won = [each for each in panel.won if each.estimate.candidate == line.candidate]
    winning = tuple(_winning_ranges_drawn(won, end))
    a, b = panel.read(line)
    epochs = sorted({*samples, *(n for ends in winning for n in ends)})
    return Series(
        label=line.label,
        points=tuple((n, a + b * n) for n in epochs),
        chosen=chosen,
        marked=False,
        winning=winning,
        tooltips=tuple(_tooltip(line, n) for n in epochs),
    )


def _sampled_epochs(end: float, *, logarithmic: bool) -> list[float]:
    """The numbers of epochs at which a line is sampled; a straight line on logarithmic axes is a curve."""
    if logarithmic:
        return [math.exp(math.log(end) * step / (SAMPLES - 1)) for step in range(SAMPLES)]
    step = max(1, math.ceil(end / SAMPLES))
    return [*(float(n) for n in range(0, math.ceil(end), step)), end]


def _winning_ranges_drawn(won: Sequence[WinningRange], end: float) -> Iterator[tuple[float, float]]:
    """The ranges in which a machine wins, as far as they are drawn."""
    for each in won:
        if each.first <= end:
            yield float(each.first), min(end, each.last + 1.0) if each.last is not None else end


def _tooltip(line: _EpochsLine, epochs: float) -> Spec:
    return {
        "machine": line.label,
        "epochs": f"{epochs:.3g}",
        "time": format_duration(line.seconds[0] + line.seconds[1] * epochs),
        "cost": format_usd(line.usd[0] + line.usd[1] * epochs),
    }


def _title(panel: _EpochsPanel, names: Mapping[Candidate, str], end: float) -> str:
    """`Fastest: aws p3.2xlarge; from 23 epochs on, aws p3.8xlarge`."""
    seen = [
        (each.first, names.get(each.estimate.candidate, "another machine")) for each in panel.won if each.first <= end
    ]
    if len(seen) > 3:
        return f"{panel.best.capitalize()}: {len(seen)} machines, depending on the number of epochs"
    parts = [name if first == 1 else f"from {plural(first, 'epoch')} on, {name}" for first, name in seen]
    return f"{panel.best.capitalize()}: {'; '.join(parts)}"
