"""Lines and points of any kind, labelled where they end: the figures that are not about one choice.

A label stands at its line instead of in a legend. What is chosen has the one colour and the heavy line; the rest is
grey, told apart by dashes and symbols.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trainfare.figures.axis import Axis, Quantity, build_axis, build_axis_with_ticks
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
from trainfare.figures.place import Box, PlacedLabel, LineSegment, LabelRequest, spread_apart, box_around, crosses, overlap, place_labels
from trainfare.figures.labels import shorten

Symbol = Literal["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "ring", "x"]

SYMBOLS: tuple[Symbol, ...] = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
"""One a series, in this order."""

MARKED_UP_TO = 60
"""A line of more points has no symbols at them."""

SMALL_FROM = 16
"""The points of a longer line are small."""

_DOT = 4.0
"""Pixels of the radius of a point, about."""

_TO_LABEL = 18
"""Pixels from the end of a line to its label, where a leader has room."""

_X = "M-1,-1L1,1M-1,1L1,-1"
"""A cross that lies, as a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points that belong together, labelled once, at their end."""

    label: str
    points: tuple[tuple[float, float], ...]
    deviations: tuple[float, ...] = ()
    """Of y, one a point, or none."""
    bars: tuple[tuple[float, float], ...] = ()
    """The ends of the interval of y, one a point, or none."""
    chosen: bool = False
    """What the figure is about; the others are its ground."""
    dashed: bool = False
    joined: bool = True
    names: tuple[str, ...] = ()
    """Of single points, one a point, or none."""
    symbols: tuple[Symbol, ...] = ()
    """One a point, or none: then all have the same."""
    inside: bool = False
    """Its label stands at its end in the field, not in the margin."""
    marked: bool = True
    """Whether its points are seen."""
    heavy: tuple[tuple[float, float], ...] = ()
    """From where to where along x it is the best of all."""
    told: tuple[Spec, ...] = ()
    """What is shown of a point when somebody points at it, by title; one a point, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """`name` as in `malta-4.3`; no series is a figure whose numbers are nowhere printed, and `why` says so."""

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
    """Where x ends, if not at the last point."""
    marks: tuple[tuple[float, str], ...] = ()
    """Values of x that are to be seen, each with its words."""
    ranges: tuple[tuple[float, float], ...] = ()
    """Of x, shaded."""
    front: tuple[tuple[float, float], ...] = ()
    """Points that no other beats in both, from the fastest to the cheapest."""
    why: str = ""
    """What it was made from, or why it cannot be made."""

    @property
    def drawable(self) -> bool:
        return bool(self.series)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    x: Axis
    y: Axis
    left: int
    """Pixels at the left, for the axis."""
    labels: float
    """Pixels at the right, for the words at the ends of lines."""

    def at(self, point: tuple[float, float]) -> tuple[float, float]:
        """From the upper left."""
        return self.x.pixel(point[0]), self.y.length - self.y.pixel(point[1])


def chart_figure(chart: Chart, *, width: int = WIDE) -> Spec:
    """`width` pixels in all."""
    shown = ", ".join(series.label for series in chart.series if series.label)
    return page(chart_views([chart], width=width), description=f"{chart.title}. {shown}", width=width)


def chart_views(charts: Sequence[Chart], *, width: int = WIDE, height: int | None = None) -> list[Spec]:
    """Figures that are to stand below each other, the left ends of their axes in one line."""
    height = height or round((0.56 if width >= 480 else 0.8) * width)
    fields = [_field(chart, width, height, left=0) for chart in charts]
    left = max(field.y.label_space for field in fields)
    return [_view(chart, _field(chart, width, height, left=left), width) for chart in charts]


def _view(chart: Chart, field: _Field, width: int) -> Spec:
    taken: list[Box] = []
    ends = [*_end_labels(chart, field, taken)]
    marks = [*_marks(chart, field, taken)]
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
            *_point_labels(chart, field, taken),
        ],
    }


def _field(chart: Chart, width: int, height: int, *, left: int) -> _Field:
    if not chart.drawable:
        raise ValueError(f"{chart.name} has nothing to draw: {chart.why}")
    xs = [x for series in chart.series for x, _ in series.points] + [
        x for pair in chart.ranges for x in pair if x < math.inf
    ]
    xs += [] if chart.x_end is None else [chart.x_end]
    ys = [y for series in chart.series for _, y in series.points]
    ys += [end for series in chart.series for bar in (*series.bars, *_deviating(series)) for end in bar]
    if chart.log_y:
        ys = [y for y in ys if y > 0]
    y = build_axis(chart.y_quantity, ys, length=height, logarithmic=chart.log_y, from_zero=chart.y_from_zero, vertical=True)
    labels = max(
        (text_width(_short(s.label, width), bold=s.chosen) for s in chart.series if _at_the_end(s)), default=0.0
    )
    labels = math.ceil(labels) + _TO_LABEL if labels else EDGE
    left = max(left, y.label_space)
    length = width - left - labels - 2 * EDGE
    if chart.x_ticks:
        x = build_axis_with_ticks(chart.x_ticks, xs, length=length, logarithmic=chart.log_x)
    else:
        margin = 0.02 if any(series.joined for series in chart.series) else 0.05
        x = build_axis(chart.x_quantity, xs, length=length, logarithmic=chart.log_x, margin=margin)
    return _Field(x=x, y=y, left=left, labels=labels)


def _at_the_end(series: Series) -> bool:
    """Whether its label stands in the margin."""
    return series.joined and not series.inside and bool(series.label)


def _short(label: str, width: float) -> str:
    return shorten(label, 26 if width >= 480 else 17)


def _deviating(series: Series) -> Iterator[tuple[float, float]]:
    for (_, y), deviation in zip(series.points, series.deviations, strict=False):
        yield y - deviation, y + deviation


def _colour(series: Series) -> str:
    return ACCENT if series.chosen else STRONG


def _bars(series: Series) -> list[Spec]:
    bars = series.bars or tuple(_deviating(series))
    rows = [{"x": x, "low": low, "high": high} for (x, _), (low, high) in zip(series.points, bars, strict=False)]
    if not rows:
        return []
    mark = {"type": "rule", "color": _colour(series), "strokeWidth": 0.9, "clip": True, "aria": False}
    where = {"x": _number("x"), "y": _number("low"), "y2": {"field": "high"}}
    return [{"data": {"values": rows}, "mark": mark, "encoding": where}]


def _lines(series: Series) -> list[Spec]:
    """The whole line, and on it where it is the best."""
    if not series.joined or len(series.points) < 2:
        return []
    mark: Spec = {"type": "line", "color": _colour(series), "clip": True, "aria": False}
    dash = {"strokeDash": [5, 3]} if series.dashed else {}
    width = 2.2 if series.chosen and not series.heavy else 1.1
    layers = [_line(series.points, mark | dash | {"strokeWidth": width})]
    for low, high in series.heavy:
        within = [point for point in series.points if low <= point[0] <= high]
        layers.append(_line(within, mark | {"strokeWidth": 3.4, "strokeCap": "butt"}))
    return layers


def _line(points: Sequence[tuple[float, float]], mark: Spec) -> Spec:
    rows = [{"x": x, "y": y} for x, y in points]
    where = {"x": _number("x"), "y": _number("y"), "order": _number("x")}
    return {"data": {"values": rows}, "mark": mark, "encoding": where}


def _front(chart: Chart) -> list[Spec]:
    mark = {"type": "line", "color": ACCENT, "strokeWidth": 1.2, "aria": False}
    return [_line(chart.front, mark)] if chart.front else []


def _points(chart: Chart, field: _Field) -> Spec:
    """Every point; those of a long line cannot be seen, but tell what they are."""
    rows = []
    for series, symbol in _with_symbols(chart):
        unseen = not series.marked or (series.joined and len(series.points) > MARKED_UP_TO)
        symbols = series.symbols or (symbol,) * len(series.points)
        names = series.names or (series.label,) * len(series.points)
        told = series.told or tuple({"": name} for name in names)
        for (x, y), its, said in zip(series.points, symbols, told, strict=True):
            hollow = its == "ring" or not (series.chosen or series.symbols)
            rows.append(
                {
                    "x": x,
                    "y": y,
                    "symbol": {"ring": "circle", "x": _X}.get(its, its),
                    "stroke": _colour(series),
                    "fill": PAPER if hollow else _colour(series),
                    "size": _size(series, its),
                    "seen": 0 if unseen else 1,
                    **_told(said, chart, x, y),
                }
            )
    shown = list(dict.fromkeys(key for row in rows for key in row if key not in _DRAWN))
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
    """Square pixels of a point; many have to be small."""
    if len(series.points) > SMALL_FROM:
        return 16
    return 60 if series.chosen or symbol == "x" else 34


_DRAWN = ("x", "y", "symbol", "stroke", "fill", "size", "seen")


def _told(said: Spec, chart: Chart, x: float, y: float) -> Spec:
    if "" not in said:
        return said
    name = {"label": said[""]} if said[""] else {}
    return name | {chart.x or "x value": f"{x:.6g}", chart.y or "y value": f"{y:.6g}"}


def _axis_title(words: str, its: Axis, *, numbered: bool = False) -> str:
    return f"{words}, logarithmic" if its.logarithmic and not numbered else words


def _with_symbols(chart: Chart) -> Iterator[tuple[Series, Symbol]]:
    for place, series in enumerate(chart.series):
        yield series, SYMBOLS[place % len(SYMBOLS)]


def _end_labels(chart: Chart, field: _Field, taken: list[Box]) -> Iterator[Spec]:
    """Each in the margin beside the last point of its line, moved up or down until none lies on another."""
    every = [series for series in chart.series if _at_the_end(series)]
    ends = [field.at(max(series.points)) for series in every]
    heights = spread_apart([y for _, y in ends], least=0.0, most=field.y.length)
    margin = max(field.x.pixel(x) for series in chart.series for x, _ in series.points) + _TO_LABEL - 2
    rows, leaders = [], []
    for series, (x, y), height in zip(every, ends, heights, strict=True):
        words = _short(series.label, field.x.length + field.labels)
        rows.append({"label": words, "x": margin, "y": height + LABEL_SIZE / 3, "strong": series.chosen})
        taken.append((margin, height - 7, margin + text_width(words, bold=series.chosen), height + 7))
        if abs(height - y) > 4 or margin - x > 2 * _TO_LABEL:
            leaders.append({"x": x + _DOT, "y": y, "x2": margin - 3, "y2": height})
    yield from leader_layers(leaders)
    yield from text_layers(rows)


def _marks(chart: Chart, field: _Field, taken: list[Box]) -> Iterator[Spec]:
    """Upright lines; their words beside them at the top or, where lines or words are there, at the bottom."""
    rows = []
    for x, words in chart.marks:
        box = _place_of_mark(field.x.pixel(x), words, field, taken, _segments(chart, field))
        if box is None:
            continue
        taken.append(box)
        rows += [
            {"label": line, "x": box[0], "y": box[1] + LABEL_SIZE + i * LINE_HEIGHT}
            for i, line in enumerate(words.split("\n"))
        ]
    if chart.marks:
        mark = {"type": "rule", "color": STRONG, "strokeWidth": 0.9, "strokeDash": [2, 3], "aria": False}
        values = [{"x": x} for x, _ in chart.marks]
        yield {"data": {"values": values}, "mark": mark, "encoding": {"x": _number("x")}}
    yield from text_layers(rows)


def _place_of_mark(x: float, words: str, field: _Field, taken: Sequence[Box], lines: Sequence[LineSegment]) -> Box | None:
    """Right or left of its line, near an end of it; None where other words are everywhere."""
    said = words.split("\n")
    width, height = max(map(text_width, said)), LINE_HEIGHT * len(said)
    lowest = field.y.length - height - 3
    best, least = None, math.inf
    for top in (lowest * step / 16 for step in range(17)):
        for left in (x + 5, x - 5 - width):
            box = (left, top, left + width, top + height)
            if left < 0 or box[2] > field.x.length + 4 or any(overlap(box, other, 3) for other in taken):
                continue
            cost = 40 * sum(crosses(line, box) for line in lines) + min(top, lowest - top)
            if cost < least:
                best, least = box, cost
    return best


def _segments(chart: Chart, field: _Field) -> list[LineSegment]:
    """Where lines are."""
    joined = [sorted(series.points) for series in chart.series if series.joined]
    lines = [(*one, *other) for points in (*joined, chart.front) for one, other in pairwise(map(field.at, points))]
    vertical = [field.x.pixel(x) for x, _ in chart.marks]
    return [*lines, *((x, 0.0, x, field.y.length) for x in vertical)]


def _point_labels(chart: Chart, field: _Field, taken: Sequence[Box]) -> list[Spec]:
    """Of series that no line joins: one label a point, or one a series beside the point that has room for it."""
    dots = [box_around(*field.at(point), _DOT) for series in chart.series for point in series.points]
    box = (2.0, 0.0, field.x.length + field.labels, field.y.length - 2)
    placed: list[PlacedLabel] = []
    for series in chart.series:
        if _at_the_end(series) or not (series.label or series.names):
            continue
        groups = [(name, [point]) for name, point in zip(series.names, series.points, strict=False)]
        last_first = sorted(series.points, reverse=True)
        for label, points in groups or [(series.label, last_first[:1] if series.joined else last_first)]:
            words = [*taken, *(label.box for label in placed)]
            # Freely at one of them, or else as it must at the first.
            for point, required in [*((point, False) for point in points), (points[0], True)]:
                x, y = field.at(point)
                wanted = LabelRequest(lines=(label,), x=x, y=y, radius=_DOT, bold=series.chosen, required=required)
                found = place_labels([wanted], field=box, points=dots, lines=_segments(chart, field), taken=words)
                if found:
                    placed += found
                    break
    return label_layers(placed)


def _number(name: str) -> Spec:
    return {"field": name, "type": "quantitative"}
