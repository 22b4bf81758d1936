"""Coordinates of small charts that templates draw as SVG: no script, no style, sharp at every size.

Places are percentages of the chart, from the left and from the top, so that text keeps its size on a phone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A value on an axis and its place."""

    text: str
    place: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    """A line in a square of 100 × 100, its axes, and its last value."""

    points: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    last: tuple[float, float]


def line_chart(xs: Sequence[float], ys: Sequence[float], *, x_end: float | None = None) -> LineChart | None:
    """A line from zero, or from below its least value, to a little above its largest. None below two points."""
    if len(xs) < 2:
        return None
    x_high = max(x_end or 0.0, *xs) or 1.0
    y_low = min(0.0, *ys)
    y_step = nice_step((_robust_high(ys) - y_low) or 1.0, 4)
    y_high = y_low + y_step * math.ceil(((_robust_high(ys) - y_low) or 1.0) / y_step)
    places = [
        (_place(x, 0.0, x_high), 100 - _place(min(y, y_high), y_low, y_high)) for x, y in zip(xs, ys, strict=True)
    ]
    x_step = nice_step(x_high, 4)
    return LineChart(
        points=" ".join(f"{x:.2f},{y:.2f}" for x, y in places),
        x_ticks=tuple(Tick(text=_text(x, x_step), place=_place(x, 0.0, x_high)) for x in _steps(0.0, x_high, x_step)),
        y_ticks=tuple(
            Tick(text=_text(y, y_step), place=100 - _place(y, y_low, y_high)) for y in _steps(y_low, y_high, y_step)
        ),
        last=places[-1],
    )


def spark_points(values: Sequence[float | None], *, high: float | None = None) -> str | None:
    """A line from 0 to `high`, or to its largest value, in a square of 100 × 100. None below two values."""
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return None
    top = max(high or 0.0, *(value for _, value in known)) or 1.0
    last = max(1, len(values) - 1)
    return " ".join(f"{100 * place / last:.2f},{96 - 92 * value / top:.2f}" for place, value in known)


def log_place(value: float, low: float, high: float) -> float:
    """The place of a value on a logarithmic axis."""
    return 100 * (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))


def nice_step(width: float, most: int) -> float:
    """A step of 1, 2 or 5 times a power of ten, of which at most so many fit into the width."""
    raw = width / most
    size = 10.0 ** math.floor(math.log10(raw))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw * 0.999)


def _robust_high(ys: Sequence[float]) -> float:
    """The largest value, but for the first few of a loss that begins far above the rest."""
    ordered = sorted(ys)
    return ordered[min(len(ordered) - 1, math.floor(0.98 * len(ordered)))]


def _place(value: float, low: float, high: float) -> float:
    return 100 * (value - low) / ((high - low) or 1.0)


def _steps(low: float, high: float, step: float) -> list[float]:
    return [low + step * count for count in range(math.floor((high - low) / step + 1e-6) + 1)]


def _text(value: float, step: float) -> str:
    decimals = max(0, -math.floor(math.log10(step)))
    return f"{value:,.{decimals}f}"
