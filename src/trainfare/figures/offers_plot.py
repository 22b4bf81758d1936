"""The plot of time against cost on a page: every machine a dot that can be chosen, the front, the limits.

Places are percentages of the plot, from the left and from the top. A template draws them as SVG, so that the plot needs
no script and no drawing library, is sharp at every size, and has the colours of the page.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.units import format_duration, format_usd

BEYOND = 2.5
"""The axes end at this many times the front: drawn to the end, the front would sit in a corner."""
NEAR = 2.0
"""A limit up to this many times the end of an axis is still drawn."""
CELL = (1.0, 1.6)
"""Dots nearer to each other than this, in percent across and down, are drawn as one."""
MIN_FRONT, MANY = 3, 12
"""A shorter front does not say what the axes should show; then so many of the cheapest machines do."""
_HEIGHT = 430
_SECONDS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 14400, 28800, 57600, 86400)
_DAYS = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotPoint:
    """A machine to be drawn."""

    key: str
    title: str
    """`T4 at AWS`."""
    short: str
    """`T4`."""
    seconds: Interval
    usd: Interval
    on_front: bool = False
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A machine in the plot."""

    key: str
    text: str
    """`T4 at AWS: 61 min, $1.03`."""
    short: str
    x: float
    y: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A value on an axis, or a limit."""

    text: str
    place: float
    is_minor: bool = False
    """Left out on a phone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffersPlot:
    """The places of everything that is drawn, and how many machines are beyond the axes."""

    others: tuple[Dot, ...]
    front: tuple[Dot, ...]
    chosen: Dot | None
    labelled: tuple[Dot, ...]
    """The dots of the front that have room for a name."""
    line: str
    """The front as the points of a line in a square of 100 × 100."""
    across: tuple[float, float] | None
    upward: tuple[float, float] | None
    """The intervals of the chosen machine."""
    x_marks: tuple[Mark, ...]
    y_marks: tuple[Mark, ...]
    deadline: float | None
    budget: float | None
    """The places of the limits; None if they are not drawn."""
    not_drawn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """A logarithmic axis."""

    low: float
    high: float

    def place(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(100 * min(1.0, max(0.0, share)), 1)

    def has(self, value: float) -> bool:
        return self.low <= value <= self.high


def offers_plot(points: Sequence[PlotPoint], goal: Goal) -> OffersPlot:
    """The plot of machines and limits, both axes logarithmic. A machine that costs nothing stands at the foot."""
    marked = _marked(points)
    paid = [point.usd.value for point in points if point.usd.value > 0]
    foot = min(paid, default=1.0) / 2
    x = _axis([p.seconds.value for p in marked], goal.deadline_seconds)
    y = _axis([p.usd.value or foot for p in marked], goal.budget_usd)
    drawn = [p for p in points if x.has(p.seconds.value) and y.has(p.usd.value or foot)]
    dots = {p.key: _dot(p, x, y, foot) for p in drawn}
    front = sorted((dots[p.key] for p in drawn if p.on_front or p.chosen), key=lambda dot: dot.seconds)
    chosen = next((p for p in drawn if p.chosen), None)
    names = {p.key for p in drawn if p.on_front or p.chosen}
    return OffersPlot(
        others=_apart([dot for key, dot in dots.items() if key not in names]),
        front=tuple(dot for dot in front if chosen is None or dot.key != chosen.key),
        chosen=None if chosen is None else dots[chosen.key],
        labelled=tuple(_labelled(front, chosen.key if chosen else "")),
        line=" ".join(f"{dot.x:g},{dot.y:g}" for dot in front),
        across=None if chosen is None else (x.place(chosen.seconds.low), x.place(chosen.seconds.high)),
        upward=None
        if chosen is None or not chosen.usd.high
        else (100 - y.place(chosen.usd.high), 100 - y.place(chosen.usd.low or foot)),
        x_marks=_time_marks(x),
        y_marks=_money_marks(y),
        deadline=_limit(goal.deadline_seconds, x),
        budget=None if (place := _limit(goal.budget_usd, y)) is None else round(100 - place, 1),
        not_drawn=len(points) - len(drawn),
    )


def _marked(points: Sequence[PlotPoint]) -> list[PlotPoint]:
    """The machines that the axes have to show: the front, and if it is short the best of the others."""
    front = [point for point in points if point.on_front or point.chosen]
    if len(front) >= MIN_FRONT:
        return front
    rented = [point for point in points if point.usd.value > 0]
    cheapest = sorted(rented, key=lambda point: point.usd.value)[:MANY]
    return [*front, *cheapest, *sorted(rented, key=lambda point: point.seconds.value)[:MIN_FRONT]] or list(points)


def _axis(values: Sequence[float], limit: float | None) -> _Axis:
    low, high = min(values, default=1.0), max(values, default=1.0)
    end = max(high * BEYOND, low * 4)
    if limit is not None and high <= limit <= end * NEAR:
        end = max(end, limit * 1.4)
    return _Axis(low=low / 1.5, high=end)


def _limit(value: float | None, axis: _Axis) -> float | None:
    return axis.place(value) if value is not None and axis.low < value < axis.high else None


def _dot(point: PlotPoint, x: _Axis, y: _Axis, foot: float) -> Dot:
    return Dot(
        key=point.key,
        text=f"{point.title}: {format_duration(point.seconds.value)}, {format_usd(point.usd.value)}",
        short=point.short,
        x=x.place(point.seconds.value),
        y=round(100 - y.place(point.usd.value or foot), 1),
        seconds=point.seconds.value,
    )


def _apart(dots: Iterable[Dot]) -> tuple[Dot, ...]:
    """One dot for each place: of several, the one that is faster and cheaper."""
    found: dict[tuple[int, int], Dot] = {}
    for dot in sorted(dots, key=lambda each: each.x - each.y):
        found.setdefault((round(dot.x / CELL[0]), round(dot.y / CELL[1])), dot)
    return tuple(found.values())


def _labelled(front: Sequence[Dot], chosen: str) -> list[Dot]:
    """The dots that have room for a name to the left and below, where no machine can be."""
    found: list[Dot] = []
    last = -math.inf
    for dot in front:
        height = _HEIGHT * dot.y / 100
        if dot.key == chosen:
            last = height
        elif height - last >= 17 and dot.x > 3 + 1.3 * len(dot.short):
            found.append(dot)
            last = height
    return found


def _time_marks(axis: _Axis) -> tuple[Mark, ...]:
    ticks = [float(each) for each in _SECONDS] + [86400.0 * days for days in _DAYS]
    inside = [tick for tick in ticks if axis.has(tick)]
    return _spaced([(_time_text(tick), axis.place(tick)) for tick in inside], least=9.0)


def _money_marks(axis: _Axis) -> tuple[Mark, ...]:
    decades = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5)):
        ticks = [digit * 10.0**power for power in decades for digit in digits]
        inside = [tick for tick in ticks if axis.has(tick)]
        if len(inside) >= 3:
            break
    return tuple(
        Mark(text=f"${tick:,g}" if tick < 1e5 else f"${tick:.0e}", place=100 - axis.place(tick)) for tick in inside
    )


def _spaced(marks: Sequence[tuple[str, float]], *, least: float) -> tuple[Mark, ...]:
    """Marks at least so far apart; those that a phone has no room for are minor."""
    found: list[Mark] = []
    major = -math.inf
    for text, place in marks:
        if found and place - found[-1].place < least:
            continue
        is_minor = place - major < 2.2 * least
        if not is_minor:
            major = place
        found.append(Mark(text=text, place=place, is_minor=is_minor))
    return tuple(found)


def _time_text(seconds: float) -> str:
    for size, unit in ((86400 * 2, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / (86400 if unit == 'd' else size):g} {unit}"
    return f"{seconds:g} s"
