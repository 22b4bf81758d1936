"""The plot of time against cost on a page: every machine a point that can be chosen, the front, the limits.

Colours are names of the page's style sheet, so that one specification serves light and dark. The page sets the width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainfare.figures.look import Spec
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.units import format_duration, format_usd

BEYOND = 2.5
"""The axes end at this many times the limits or the front: drawn to the end, the front would sit in a corner."""
HEIGHT = 430
_SECONDS_TICKS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 57600, 86400)
_TIME_LABEL = (
    "datum.value < 60 ? format(datum.value, '~g') + ' s' : datum.value < 3600 ? format(datum.value / 60, '~g') + ' min'"
    " : datum.value < 172800 ? format(datum.value / 3600, '~g') + ' h' : format(datum.value / 86400, '~g') + ' d'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotPoint:
    """A machine in the plot."""

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
class OffersPlot:
    """The specification, and how many machines are beyond its axes."""

    spec: Spec
    not_drawn: int
    drawn: int


def offers_plot(points: Sequence[PlotPoint], goal: Goal) -> OffersPlot:
    """The plot of machines and limits, both axes logarithmic. A machine that costs nothing stands at the foot."""
    paid = [point.usd.value for point in points if point.usd.value]
    foot = min(paid, default=1.0) / 2
    marked = [point for point in points if point.on_front or point.chosen] or list(points)
    x = _domain([p.seconds for p in marked], goal.deadline_seconds, 0.0)
    y = _domain([p.usd for p in marked], goal.budget_usd, foot if any(not p.usd.value for p in points) else 0.0)
    rows = [_row(point, foot) for point in points]
    drawn = [row for row in rows if x[0] <= row["seconds"] <= x[1] and y[0] <= row["usd"] <= y[1]]
    return OffersPlot(spec=_spec(drawn, goal, x, y), not_drawn=len(rows) - len(drawn), drawn=len(drawn))


def _domain(values: Sequence[Interval], limit: float | None, foot: float) -> tuple[float, float]:
    high = max([each.value for each in values] + ([limit] if limit else []))
    low = min([each.value for each in values if each.value], default=high)
    return (foot or low) / 1.5, max(high * BEYOND, low * 4)


def _row(point: PlotPoint, foot: float) -> dict[str, Any]:
    usd = point.usd.value or foot
    row: dict[str, Any] = {
        "key": point.key,
        "title": f"{point.title}: {format_duration(point.seconds.value)}, {format_usd(point.usd.value)}",
        "short": point.short,
        "seconds": _digits(point.seconds.value),
        "usd": _digits(usd),
        "role": "chosen" if point.chosen else "front" if point.on_front else "other",
    }
    if point.chosen:
        row |= {"s1": _digits(point.seconds.low), "s2": _digits(point.seconds.high)}
        row |= {"u1": _digits(point.usd.low or usd), "u2": _digits(point.usd.high or usd)}
    return row


def _digits(number: float) -> float:
    """Four digits are more than a pixel, and make the page smaller."""
    return float(f"{number:.4g}")


def _spec(rows: Sequence[dict[str, Any]], goal: Goal, x: tuple[float, float], y: tuple[float, float]) -> Spec:
    xs: Spec = {
        "field": "seconds",
        "type": "quantitative",
        "scale": {"type": "log", "domain": list(x), "nice": False},
        "axis": {"title": "time, logarithmic", "values": _ticks(_SECONDS_TICKS, x), "labelExpr": _TIME_LABEL},
    }
    ys: Spec = {
        "field": "usd",
        "type": "quantitative",
        "scale": {"type": "log", "domain": list(y), "nice": False},
        "axis": {"title": None, "values": _money_ticks(y), "labelExpr": "'$' + format(datum.value, '~g')"},
    }
    at = {"x": xs, "y": ys}
    front = sorted((row for row in rows if row["role"] != "other"), key=lambda row: row["seconds"])
    on_line = [row for row in front if row.get("role") == "front" or row["role"] == "chosen"]
    others = [row for row in rows if row["role"] == "other"]
    chosen = [row for row in rows if row["role"] == "chosen"]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "height": HEIGHT,
        "autosize": {"type": "none", "contains": "content"},
        "padding": {"left": 52, "right": 12, "top": 8, "bottom": 46},
        "background": None,
        "params": [{"name": "picked", "value": ""}],
        "layer": [
            *_limit_layers(goal, x, y, at),
            _layer(others, at, {"type": "circle", "size": 30, "fill": "var(--dot)", "opacity": 0.75, **_POINT}),
            _layer(on_line, at, {"type": "line", "stroke": "var(--ink)", "strokeWidth": 1.4}),
            *_bar_layers(chosen, at),
            _layer(
                [row for row in front if row["role"] == "front"],
                at,
                {
                    "type": "point",
                    "size": 60,
                    "fill": "var(--ground)",
                    "stroke": "var(--ink)",
                    "strokeWidth": 1.6,
                    **_POINT,
                },
            ),
            _layer(
                _labelled(front, x, y),
                at,
                {"type": "text", "align": "right", "dx": -9, "dy": 9, "fill": "var(--ink-2)"},
                text="short",
            ),
            _layer(chosen, at, {"type": "circle", "size": 150, "fill": "var(--accent)", "opacity": 1, **_POINT}),
            _layer(
                chosen,
                at,
                {"type": "text", "align": "left", "dx": 10, "dy": 16, "fontWeight": 600, "fill": "var(--accent)"},
                text="short",
            ),
            {
                **_layer(
                    rows,
                    at,
                    {"type": "point", "size": 230, "filled": False, "stroke": "var(--accent)", "strokeWidth": 2.5},
                ),
                "transform": [{"filter": "datum.key == picked"}],
            },
        ],
        "config": {
            "font": "Inter Variable, Inter, sans-serif",
            "view": {"stroke": None, "fill": None},
            "text": {"fontSize": 13},
            "axis": {
                "labelColor": "var(--ink-2)",
                "titleColor": "var(--ink-2)",
                "gridColor": "var(--line)",
                "domain": False,
                "ticks": False,
                "labelFontSize": 13,
                "titleFontSize": 13,
                "titleFontWeight": 400,
                "labelPadding": 8,
                "titlePadding": 10,
            },
        },
    }


_POINT: Spec = {"cursor": "pointer", "tooltip": {"expr": "datum.title"}}


def _layer(rows: Sequence[Spec], at: Spec, mark: Spec, text: str | None = None) -> Spec:
    encoding = {**at, "text": {"field": text}} if text else dict(at)
    return {"data": {"values": list(rows)}, "mark": {"clip": mark["type"] != "text", **mark}, "encoding": encoding}


def _bar_layers(chosen: Sequence[Spec], at: Spec) -> list[Spec]:
    """The intervals of the chosen machine."""
    mark = {"type": "rule", "clip": True, "stroke": "var(--accent)", "strokeWidth": 2}
    across = {"x": {**at["x"], "field": "s1"}, "x2": {"field": "s2"}, "y": at["y"]}
    upward = {"y": {**at["y"], "field": "u1"}, "y2": {"field": "u2"}, "x": at["x"]}
    return [{"data": {"values": list(chosen)}, "mark": mark, "encoding": encoding} for encoding in (across, upward)]


def _limit_layers(goal: Goal, x: tuple[float, float], y: tuple[float, float], at: Spec) -> list[Spec]:
    """Grey ground beyond the limits, with its name."""
    layers: list[Spec] = []
    ground = {"type": "rect", "fill": "var(--raised)", "clip": True}
    name = {"type": "text", "fill": "var(--ink-2)", "fontSize": 13}
    if goal.budget_usd is not None and y[0] < goal.budget_usd < y[1]:
        row = {"seconds": x[0], "s2": x[1], "usd": goal.budget_usd, "u2": y[1], "name": "over budget"}
        layers.append(_area(row, ground, at))
        at_end = {**row, "seconds": min(goal.deadline_seconds or x[1], x[1])}
        layers.append(
            _layer([at_end], at, {**name, "align": "right", "baseline": "bottom", "dx": -6, "dy": -5}, "name")
        )
    if goal.deadline_seconds is not None and x[0] < goal.deadline_seconds < x[1]:
        row = {"seconds": goal.deadline_seconds, "s2": x[1], "usd": y[0], "u2": y[1], "name": "too late"}
        layers.append(_area(row, ground, at))
        layers.append(_layer([row], at, {**name, "align": "left", "baseline": "bottom", "dx": 6, "dy": -6}, "name"))
    return layers


def _area(row: Spec, mark: Spec, at: Spec) -> Spec:
    encoding = {"x": at["x"], "x2": {"field": "s2"}, "y": at["y"], "y2": {"field": "u2"}}
    return {"data": {"values": [row]}, "mark": mark, "encoding": encoding}


def _labelled(front: Sequence[Spec], x: tuple[float, float], y: tuple[float, float]) -> list[Spec]:
    """The points of the front that have room for a name to the left and below, where no machine can be."""
    found: list[Spec] = []
    last = -math.inf
    for row in front:
        height = HEIGHT * math.log(y[1] / row["usd"]) / math.log(y[1] / y[0])
        left = math.log(row["seconds"] / x[0]) / math.log(x[1] / x[0])
        if row["role"] == "front" and height - last >= 17 and left > 0.03 + 0.012 * len(row["short"]):
            found.append(row)
            last = height
        elif row["role"] == "chosen":
            last = height
    return found


def _ticks(known: Sequence[float], domain: tuple[float, float]) -> list[float]:
    ticks = [*known, *(86400.0 * days for days in (2, 5, 10, 20, 50, 100, 200, 500, 1000))]
    inside = [tick for tick in ticks if domain[0] <= tick <= domain[1]]
    return inside[:: math.ceil(len(inside) / 6)] if inside else []


def _money_ticks(domain: tuple[float, float]) -> list[float]:
    decades = range(math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1])) + 1)
    ticks = [digit * 10.0**power for power in decades for digit in (1, 3)]
    return [float(f"{tick:.1g}") for tick in ticks if domain[0] <= tick <= domain[1]]
