"""Time and cost against the number of epochs, a line a machine, and who wins from when on (Malta 2021, figures 5.4
and 5.5).

Both are straight lines a + b·N, given by what one epoch and two take. A machine that starts slowly and runs fast wins
only when there is enough to run: where its line is the lowest, it is heavy.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trainfare.figures.axis import Quantity, needs_log_scale
from trainfare.figures.chart import Chart, Series, chart_views
from trainfare.figures.look import WIDE, Spec, page
from trainfare.figures.labels import Named, machine_labels
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.units import format_duration, format_usd

MOST_LINES = 6
"""More would not be told apart; the chosen machine and the winners come first."""

SAMPLES = 48
"""Points of a line, at most."""

AHEAD = 1.25
"""So many times the epochs that are asked for are drawn, and the last change of winner with as much behind it."""
FARTHEST = 6.0
"""A change of winner after so many times the epochs that are asked for is not drawn."""
NEAREST = 0.06
"""A change of winner before this part of the axis asks for a logarithmic one."""


class Won(Protocol):
    """From `first` to `last` epochs this candidate is the best; `last` is None where it stays so."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int | None: ...
    @property
    def estimate(self) -> Estimate: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    candidate: Candidate
    label: str
    seconds: tuple[float, float]
    """a and b."""
    usd: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    title: str
    quantity: Quantity
    best: str
    better: str
    won: Sequence[Won]
    read: Callable[[_Line], tuple[float, float]]


def epochs_figure(
    once: Sequence[Estimate],
    twice: Sequence[Estimate],
    *,
    chosen: Candidate,
    epochs: int,
    fastest: Sequence[Won],
    cheapest: Sequence[Won],
    named: Named,
    width: int = WIDE,
) -> Spec:
    """Of the same candidates, best first, for one epoch and for two, without rounding; `epochs` are asked for."""
    lines = _lines(once, twice, chosen, [*fastest, *cheapest], named)
    drawn = {line.candidate for line in lines}
    end, logarithmic = _reach(epochs, [won for won in (*fastest, *cheapest) if won.estimate.candidate in drawn])
    for read in (_seconds, _usd):
        logarithmic |= needs_log_scale(a + b * epochs for a, b in map(read, lines))
    panels = (
        _Panel(title="time", quantity="seconds", best="fastest", better="faster", won=fastest, read=_seconds),
        _Panel(title="cost", quantity="usd", best="cheapest", better="cheaper", won=cheapest, read=_usd),
    )
    charts = [_chart(panel, lines, chosen=chosen, epochs=epochs, end=end, logarithmic=logarithmic) for panel in panels]
    height = round((0.4 if width >= 480 else 0.62) * width)
    views = chart_views(charts, width=width, height=height)
    told = ". ".join(chart.title for chart in charts)
    return page(views, description=f"Time and cost against the number of epochs. {told}.", width=width)


def _lines(
    once: Sequence[Estimate], twice: Sequence[Estimate], chosen: Candidate, won: Sequence[Won], named: Named
) -> list[_Line]:
    """The chosen machine, those that win at some number of epochs, then the others."""
    found = {one.candidate: (one, two) for one, two in zip(once, twice, strict=True)}
    first = [candidate for candidate in (chosen, *(each.estimate.candidate for each in won)) if candidate in found]
    kept = list(dict.fromkeys(first))
    gpus = {_gpu(candidate) for candidate in kept}
    for candidate in found:  # of those with the same GPU, the best: their lines would lie on each other
        if _gpu(candidate) not in gpus:
            gpus.add(_gpu(candidate))
            kept.append(candidate)
    pairs = [found[candidate] for candidate in kept[:MOST_LINES]]
    return [
        _Line(
            candidate=one.candidate,
            label=label,
            seconds=_straight(one.seconds.value, two.seconds.value),
            usd=_straight(one.usd.value, two.usd.value),
        )
        for (one, two), label in zip(pairs, machine_labels([one for one, _ in pairs], named), strict=True)
    ]


def _gpu(candidate: Candidate) -> tuple[str | None, int]:
    gpu = candidate.offer.vm_type.gpu
    return gpu.name if gpu else None, candidate.working_gpus_per_node * candidate.nodes


def _seconds(line: _Line) -> tuple[float, float]:
    return line.seconds


def _usd(line: _Line) -> tuple[float, float]:
    return line.usd


def _straight(at_one: float, at_two: float) -> tuple[float, float]:
    return 2 * at_one - at_two, at_two - at_one


def _reach(epochs: int, won: Sequence[Won]) -> tuple[float, bool]:
    """How many epochs are drawn, and whether on logarithmic axes."""
    changes = [each.first for each in won if 1 < each.first <= FARTHEST * epochs]
    end = float(max(5, math.ceil(AHEAD * max([epochs, *changes]))))
    return end, any(change < NEAREST * end for change in changes)


def _chart(
    panel: _Panel, lines: Sequence[_Line], *, chosen: Candidate, epochs: int, end: float, logarithmic: bool
) -> Chart:
    names = {line.candidate: line.label for line in lines}
    places = _places(end, logarithmic=logarithmic)
    changes = [each for each in panel.won[1:] if each.first <= end and each.estimate.candidate in names]
    return Chart(
        name=f"epochs-{panel.title}",
        title=_who_wins(panel, names, end),
        subtitle=f"where a line is heavy, nothing is {panel.better}",
        x="epochs",
        x_quantity="count",
        y=panel.title,
        y_quantity=panel.quantity,
        log_x=logarithmic,
        log_y=logarithmic,
        series=tuple(_series(line, panel, places, end, chosen=line.candidate == chosen) for line in lines),
        marks=(
            (float(epochs), f"{epochs} epoch{'s' if epochs != 1 else ''}"),
            *((float(each.first), f"from {each.first} on\n{names[each.estimate.candidate]}") for each in changes),
        ),
    )


def _series(line: _Line, panel: _Panel, places: Sequence[float], end: float, *, chosen: bool) -> Series:
    won = [each for each in panel.won if each.estimate.candidate == line.candidate]
    heavy = tuple(_stretches(won, end))
    a, b = panel.read(line)
    epochs = sorted({*places, *(n for stretch in heavy for n in stretch)})
    return Series(
        label=line.label,
        points=tuple((n, a + b * n) for n in epochs),
        chosen=chosen,
        marked=False,
        heavy=heavy,
        told=tuple(_told(line, n) for n in epochs),
    )


def _places(end: float, *, logarithmic: bool) -> list[float]:
    """Numbers of epochs at which a line is drawn; a straight one on logarithmic axes is a curve."""
    if logarithmic:
        return [math.exp(math.log(end) * step / (SAMPLES - 1)) for step in range(SAMPLES)]
    step = max(1, math.ceil(end / SAMPLES))
    return [*(float(n) for n in range(0, math.ceil(end), step)), end]


def _stretches(won: Sequence[Won], end: float) -> Iterator[tuple[float, float]]:
    """As far as drawn; up to where the next one wins."""
    for each in won:
        if each.first <= end:
            yield float(each.first), min(end, each.last + 1.0) if each.last is not None else end


def _told(line: _Line, epochs: float) -> Spec:
    return {
        "machine": line.label,
        "epochs": f"{epochs:.3g}",
        "time": format_duration(line.seconds[0] + line.seconds[1] * epochs),
        "cost": format_usd(line.usd[0] + line.usd[1] * epochs),
    }


def _who_wins(panel: _Panel, names: Mapping[Candidate, str], end: float) -> str:
    """`Fastest: aws p3.2xlarge, from 23 epochs on aws p3.8xlarge`."""
    seen = [(each.first, names.get(each.estimate.candidate, "another")) for each in panel.won if each.first <= end]
    if len(seen) > 3:
        return f"{panel.best.capitalize()}: {len(seen)} machines in turn"
    words = [name if first == 1 else f"from {first} epochs on {name}" for first, name in seen]
    return f"{panel.best.capitalize()}: {', '.join(words)}"
