"""Charts of lines and points with labels at their ends.

Each line has its label at its end instead of in a legend. The chosen series has the one colour and the thick line; the
others are grey and differ by dashes and symbols.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trainfare.figures.axis import Axis, Quantity, build_axis, build_axis_with_ticks
from trainfare.figures.labels import shorten
from trainfare.figures.look import (
    ACCENT,
    EDGE,
    LABEL_SIZE,
    LINE_HEIGHT,
    PAPER,
    STRONG,
    WIDE,
    Spec,
    page,
    text_width,
    title_spec,
)
from trainfare.figures.marks import label_layers, leader_layers, range_layers, text_layers
from trainfare.figures.place import (
    Box,
    LabelRequest,
    LineSegment,
    PlacedLabel,
    box_around,
    crosses,
    overlap,
    place_labels,
    spread_apart,
)
from trainfare.units import format_duration, format_usd

Symbol = Literal["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "ring", "x"]

SYMBOLS: tuple[Symbol, ...] = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
"""The symbols of the series, in this order."""

MAX_MARKED_POINTS = 60
"""A line with more points has no symbols."""

SMALL_POINTS_FROM = 16
"""A line with more points has small symbols."""

_POINT_RADIUS = 4.0
"""The approximate radius of a point in pixels."""

_LABEL_DISTANCE = 18
"""Pixels from the end of a line to its label; a leader line fits in between."""

_X_PATH = "M-1,-1L1,1M-1,1L1,-1"
"""The SVG path of a diagonal cross."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points that belong together, with one label at their end."""

    label: str
    points: tuple[tuple[float, float], ...]
    deviations: tuple[float, ...] = ()
    """The deviation of y for each point, or empty."""
    bars: tuple[tuple[float, float], ...] = ()
    """The ends of the interval of y for each point, or empty."""
    chosen: bool = False
    """True for the series that the figure is about; the others are grey."""
    dashed: bool = False
    joined: bool = True
    names: tuple[str, ...] = ()
    """A name for each point, or empty."""
    symbols: tuple[Symbol, ...] = ()
    """A symbol for each point, or empty: then all have the same."""
    inside: bool = False
    """True if the label is inside the field at the end of the line, not in the margin."""
    marked: bool = True
    """False if the points are invisible."""
    winning: tuple[tuple[float, float], ...] = ()
    """The ranges of x in which this series is the best of all."""
    tooltips: tuple[Spec, ...] = ()
    """A tooltip for each point, by title, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart with a `name` such as `malta-4.3`. Without series it cannot be drawn, and `note` says why."""

    name: str
    title: str
    subtitle: str = ""
    x: str = ""
    y: str = ""
    x_quantity: Quantity = "number"
    y_quantity: Quantity = "number"
    series: tuple[Series, ...] = ()
    log_x: bool = False
    log_y: bool = False
    y_from_zero: bool = True
    x_ticks: tuple[float, ...] = ()
    x_end: float | None = None
    """The end of x, if not the last point."""
    marks: tuple[tuple[float, str], ...] = ()
    """Values of x with a vertical line and a label each."""
    ranges: tuple[tuple[float, float], ...] = ()
    """Shaded ranges of x."""
    front: tuple[tuple[float, float], ...] = ()
    """The points of the Pareto front, from the fastest to the cheapest."""
    note: str = ""
    """The source of the numbers, or why the chart cannot be drawn."""

    @property
    def drawable(self) -> bool:
        return bool(self.series)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChartField:
    x: Axis
    y: Axis
    left: int
    """Pixels for the axis, on the left."""
    labels: float
    """Pixels for the labels at the ends of lines, on the right."""

    def at(self, point: tuple[float, float]) -> tuple[float, float]:
        """The pixels of a point, from the upper left."""
        return self.x.pixel(point[0]), self.y.length - self.y.pixel(point[1])


def chart_figure(chart: Chart, *, width: int = WIDE) -> Spec:
    """The specification of one chart, `width` pixels wide."""
    shown = ", ".join(series.label for series in chart.series if series.label)
    return page(chart_views([chart], width=width), description=f"{chart.title}. {shown}", width=width)


def chart_views(charts: Sequence[Chart], *, width: int = WIDE, height: int | None = None) -> list[Spec]:
    """Views of charts that are stacked, with aligned vertical axes."""
    height = height or round((0.56 if width >= 480 else 0.8) * width)
    fields = [_field(chart, width, height, left=0) for chart in charts]
    left = max(field.y.label_space for field in fields)
    return [_view(chart, _field(chart, width, height, left=left), width) for chart in charts]


def _view(chart: Chart, field: _ChartField, width: int) -> Spec:
    occupied: list[Box] = []
    ends = [*_end_labels(chart, field, occupied)]
    marks = [*_marks(chart, field, occupied)]
    return {
        "title": title_spec(chart.title, chart.subtitle, width),
        "width": field.x.length,
        "height": field.y.length,
        "layer": [
            *(layer for low, high in chart.ranges for layer in range_layers(low, min(high, field.x.high))),
            *marks,
            *_front(chart),
            *(layer for series in chart.series for layer in _bars(series)),
            *(layer for series in sorted(chart.series, key=lambda s: s.chosen) for layer in _lines(series)),
            _points(chart, field),
            *ends,
            *_point_labels(chart, field, occupied),
        ],
    }


def _field(chart: Chart, width: int, height: int, *, left: int) -> _ChartField:
    if not chart.drawable:
        raise ValueError(f"{chart.name} cannot be drawn: {chart.note}")
    xs = [x for series in chart.series for x, _ in series.points] + [
        x for pair in chart.ranges for x in pair if x < math.inf
    ]
    xs += [] if chart.x_end is None else [chart.x_end]
    ys = [y for series in chart.series for _, y in series.points]
    ys += [end for series in chart.series for bar in (*series.bars, *_deviation_bars(series)) for end in bar]
    if chart.log_y:
        ys = [y for y in ys if y > 0]
    y = build_axis(
        chart.y_quantity, ys, length=height, logarithmic=chart.log_y, from_zero=chart.y_from_zero, vertical=True
    )
    labels = max(
        (text_width(_shorten(s.label, width), bold=s.chosen) for s in chart.series if _is_labelled_at_end(s)),
        default=0.0,
    )
    labels = math.ceil(labels) + _LABEL_DISTANCE if labels else EDGE
    left = max(left, y.label_space)
    length = width - left - labels - 2 * EDGE
    if chart.x_ticks:
        x = build_axis_with_ticks(chart.x_ticks, xs, length=length, logarithmic=chart.log_x)
    else:
        margin = 0.02 if any(series.joined for series in chart.series) else 0.05
        x = build_axis(chart.x_quantity, xs, length=length, logarithmic=chart.log_x, margin=margin)
    return _ChartField(x=x, y=y, left=left, labels=labels)


def _is_labelled_at_end(series: Series) -> bool:
    """True if the label is in the margin."""
    return series.joined and not series.inside and bool(series.label)


def _shorten(label: str, width: float) -> str:
    return shorten(label, 26 if width >= 480 else 17)


def _deviation_bars(series: Series) -> Iterator[tuple[float, float]]:
    for (_, y), deviation in zip(series.points, series.deviations, strict=False):
        yield y - deviation, y + deviation


def _colour(series: Series) -> str:
    return ACCENT if series.chosen else STRONG


def _bars(series: Series) -> list[Spec]:
    bars = series.bars or tuple(_deviation_bars(series))
    rows = [{"x": x, "low": low, "high": high} for (x, _), (low, high) in zip(series.points, bars, strict=False)]
    if not rows:
        return []
    mark = {"type": "rule", "color": _colour(series), "strokeWidth": 0.9, "clip": True, "aria": False}
    where = {"x": _quantitative("x"), "y": _quantitative("low"), "y2": {"field": "high"}}
    return [{"data": {"values": rows}, "mark": mark, "encoding": where}]


def _lines(series: Series) -> list[Spec]:
    """The line, and on top of it the thick parts where it is the best."""
    if not series.joined or len(series.points) < 2:
        return []
    mark: Spec = {"type": "line", "color": _colour(series), "clip": True, "aria": False}
    dash = {"strokeDash": [5, 3]} if series.dashed else {}
    width = 2.2 if series.chosen and not series.winning else 1.1
    layers = [_line(series.points, mark | dash | {"strokeWidth": width})]
    for low, high in series.winning:
        within = [point for point in series.points if low <= point[0] <= high]
        layers.append(_line(within, mark | {"strokeWidth": 3.4, "strokeCap": "butt"}))
    return layers


def _line(points: Sequence[tuple[float, float]], mark: Spec) -> Spec:
    rows = [{"x": x, "y": y} for x, y in points]
    where = {"x": _quantitative("x"), "y": _quantitative("y"), "order": _quantitative("x")}
    return {"data": {"values": rows}, "mark": mark, "encoding": where}


def _front(chart: Chart) -> list[Spec]:
    mark = {"type": "line", "color": ACCENT, "strokeWidth": 1.2, "aria": False}
    return [_line(chart.front, mark)] if chart.front else []


def _points(chart: Chart, field: _ChartField) -> Spec:
    """All points; those of a long line are invisible but have tooltips."""
    rows = []
    for series, symbol in _with_symbols(chart):
        unseen = not series.marked or (series.joined and len(series.points) > MAX_MARKED_POINTS)
        symbols = series.symbols or (symbol,) * len(series.points)
        names = series.names or (series.label,) * len(series.points)
        for place, ((x, y), shape) in enumerate(zip(series.points, symbols, strict=True)):
            hollow = shape == "ring" or not (series.chosen or series.symbols)
            rows.append(
                {
                    "x": x,
                    "y": y,
                    "symbol": {"ring": "circle", "x": _X_PATH}.get(shape, shape),
                    "stroke": _colour(series),
                    "fill": PAPER if hollow else _colour(series),
                    "size": _size(series, shape),
                    "seen": 0 if unseen else 1,
                    **(series.tooltips[place] if series.tooltips else _tooltip(names[place], chart, x, y)),
                }
            )
    shown = list(dict.fromkeys(key for row in rows for key in row if key not in _DRAWING_FIELDS))
    as_is = {"type": "nominal", "scale": None, "legend": None}
    return {
        "data": {"values": rows},
        "mark": {"type": "point", "strokeWidth": 1.3, "clip": False},
        "encoding": {
            "x": field.x.encoding("x", _axis_title(chart.x, field.x, numbered=bool(chart.x_ticks))),
            "y": field.y.encoding("y", _axis_title(chart.y, field.y), label_space=field.left),
            "shape": {"field": "symbol", **as_is},
            "stroke": {"field": "stroke", **as_is},
            "fill": {"field": "fill", **as_is},
            "size": {"field": "size", "type": "quantitative", "scale": None, "legend": None},
            "opacity": {"field": "seen", "type": "quantitative", "scale": None, "legend": None},
            "tooltip": [{"field": key, "type": "nominal"} for key in shown],
        },
    }


def _size(series: Series, symbol: Symbol) -> int:
    """The area of a point in square pixels; many points are small."""
    if len(series.points) > SMALL_POINTS_FROM:
        return 16
    return 60 if series.chosen or symbol == "x" else 34


_DRAWING_FIELDS = ("x", "y", "symbol", "stroke", "fill", "size", "seen")


def _tooltip(name: str, chart: Chart, x: float, y: float) -> Spec:
    """The default tooltip of a point: its name and its two values."""
    values = {
        chart.x or "x value": _format_value(chart.x_quantity, x),
        chart.y or "y value": _format_value(chart.y_quantity, y),
    }
    return {"label": name, **values} if name else values


def _format_value(quantity: Quantity, value: float) -> str:
    if quantity == "usd":
        return format_usd(value)
    return format_duration(value) if quantity == "seconds" else f"{value:,.6g}"


def _axis_title(title: str, axis: Axis, *, numbered: bool = False) -> str:
    return f"{title}, logarithmic" if axis.logarithmic and not numbered else title


def _with_symbols(chart: Chart) -> Iterator[tuple[Series, Symbol]]:
    for place, series in enumerate(chart.series):
        yield series, SYMBOLS[place % len(SYMBOLS)]


def _end_labels(chart: Chart, field: _ChartField, occupied: list[Box]) -> Iterator[Spec]:
    """The labels in the margin at the last points of the lines, moved up or down so that none overlaps another."""
    every = [series for series in chart.series if _is_labelled_at_end(series)]
    ends = [field.at(max(series.points)) for series in every]
    heights = spread_apart([y for _, y in ends], lowest=0.0, highest=field.y.length)
    margin = max(field.x.pixel(x) for series in chart.series for x, _ in series.points) + _LABEL_DISTANCE - 2
    rows, leaders = [], []
    for series, (x, y), height in zip(every, ends, heights, strict=True):
        label = _shorten(series.label, field.x.length + field.labels)
        rows.append({"label": label, "x": margin, "y": height + LABEL_SIZE / 3, "strong": series.chosen})
        occupied.append((margin, height - 7, margin + text_width(label, bold=series.chosen), height + 7))
        if abs(height - y) > 4 or margin - x > 2 * _LABEL_DISTANCE:
            leaders.append({"x": x + _POINT_RADIUS, "y": y, "x2": margin - 3, "y2": height})
    yield from leader_layers(leaders)
    yield from text_layers(rows)


def _marks(chart: Chart, field: _ChartField, occupied: list[Box]) -> Iterator[Spec]:
    """Vertical lines with labels next to them, at the top or at the bottom, away from lines and other labels."""
    rows = []
    for x, label in chart.marks:
        pixel = field.x.pixel(x)
        box = _mark_label_box(pixel, label, field, occupied, _segments(chart, field))
        if box is None:
            continue
        occupied.append(box)
        on_left = box[2] <= pixel
        rows += [
            {
                "label": line,
                "x": box[2] if on_left else box[0],
                "y": box[1] + LABEL_SIZE + i * LINE_HEIGHT,
                "align": "right" if on_left else "left",
            }
            for i, line in enumerate(label.split("\n"))
        ]
    if chart.marks:
        mark = {"type": "rule", "color": STRONG, "strokeWidth": 0.9, "strokeDash": [2, 3], "aria": False}
        values = [{"x": x} for x, _ in chart.marks]
        yield {"data": {"values": values}, "mark": mark, "encoding": {"x": _quantitative("x")}}
    yield from text_layers(rows)


def _mark_label_box(
    x: float, label: str, field: _ChartField, occupied: Sequence[Box], lines: Sequence[LineSegment]
) -> Box | None:
    """A box to the right or left of the line, near one of its ends; None if other labels are everywhere."""
    rows = label.split("\n")
    width, height = max(map(text_width, rows)), LINE_HEIGHT * len(rows)
    lowest = field.y.length - height - 3
    best, least = None, math.inf
    for top in (lowest * step / 16 for step in range(17)):
        for left in (x + 5, x - 5 - width):
            box = (left, top, left + width, top + height)
            if left < 0 or box[2] > field.x.length + 4 or any(overlap(box, other, 3) for other in occupied):
                continue
            cost = 40 * sum(crosses(line, box) for line in lines) + min(top, lowest - top)
            if cost < least:
                best, least = box, cost
    return best


def _segments(chart: Chart, field: _ChartField) -> list[LineSegment]:
    """The segments of all lines."""
    joined = [sorted(series.points) for series in chart.series if series.joined]
    lines = [(*one, *other) for points in (*joined, chart.front) for one, other in pairwise(map(field.at, points))]
    vertical = [field.x.pixel(x) for x, _ in chart.marks]
    return [*lines, *((x, 0.0, x, field.y.length) for x in vertical)]


def _point_labels(chart: Chart, field: _ChartField, occupied: Sequence[Box]) -> list[Spec]:
    """The labels of series without a line: one per point, or one per series at a point with space for it."""
    dots = [box_around(*field.at(point), _POINT_RADIUS) for series in chart.series for point in series.points]
    box = (2.0, 0.0, field.x.length + field.labels, field.y.length - 2)
    placed: list[PlacedLabel] = []
    for series in chart.series:
        if _is_labelled_at_end(series) or not (series.label or series.names):
            continue
        groups = [(name, [point]) for name, point in zip(series.names, series.points, strict=False)]
        last_first = sorted(series.points, reverse=True)
        for label, points in groups or [(series.label, last_first[:1] if series.joined else last_first)]:
            boxes = [*occupied, *(other.box for other in placed)]
            # At any point with space for it, or else at the first one in any case.
            for point, required in [*((point, False) for point in points), (points[0], True)]:
                x, y = field.at(point)
                request = LabelRequest(
                    lines=(label,), x=x, y=y, radius=_POINT_RADIUS, bold=series.chosen, required=required
                )
                found = place_labels([request], field=box, points=dots, lines=_segments(chart, field), occupied=boxes)
                if found:
                    placed += found
                    break
    return label_layers(placed)


def _quantitative(name: str) -> Spec:
    return {"field": name, "type": "quantitative"}
