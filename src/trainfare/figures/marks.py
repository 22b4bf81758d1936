"""Layers that several figures share: placed labels, and shaded areas outside a limit."""

from collections.abc import Sequence

from trainfare.figures.axis import Axis
from trainfare.figures.look import ACCENT, LABEL_SIZE, LINE_HEIGHT, PAPER, STRONG, TEXT, Spec
from trainfare.figures.place import PlacedLabel

SHADE_OPACITY = 0.07


def label_layers(placed: Sequence[PlacedLabel]) -> list[Spec]:
    """Leader lines below, labels above; each label has a white outline, so that no line runs through it."""
    leaders = [
        {"x": x, "y": y, "x2": x2, "y2": y2}
        for x, y, x2, y2 in (label.leader for label in placed if label.leader is not None)
    ]
    rows = [
        {
            "label": list(label.request.lines) if len(label.request.lines) > 1 else label.request.lines[0],
            "x": label.box[2] - 1 if label.box[2] <= label.request.x else label.box[0] + 1,
            "align": "right" if label.box[2] <= label.request.x else "left",
            "y": label.box[1] + 1 + LABEL_SIZE,
            "strong": label.request.bold,
        }
        for label in placed
    ]
    return [*leader_layers(leaders), *text_layers(rows)]


def bar_layer(rows: Sequence[Spec], x: Axis, *, height: float, left: int, tooltip: Sequence[str]) -> Spec:
    """Horizontal bars from `x` to `x2` dollars and from `y` to `y2` pixels, with `left` pixels for their names. Dollars
    are not rounded: a bar may be worth less than a cent."""
    pixels = {"domain": [0, height], "reverse": True, "nice": False, "zero": False}
    axis = {"title": None, "labels": False, "ticks": False, "domain": False, "grid": False}
    y = {"field": "y", "type": "quantitative", "scale": pixels, "axis": axis | {"minExtent": left, "maxExtent": left}}
    return {
        "data": {"values": list(rows)},
        "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 0.5},
        "encoding": {
            "x": x.encoding("x", "cost"),
            "x2": {"field": "x2"},
            "y": y,
            "y2": {"field": "y2"},
            "fill": {"field": "fill", "type": "nominal", "scale": None},
            "tooltip": [{"field": name, "type": "nominal"} for name in tooltip],
        },
    }


def leader_layers(rows: Sequence[Spec]) -> list[Spec]:
    """Thin dotted lines between two pixels each."""
    if not rows:
        return []
    pixel = {"type": "quantitative", "scale": None, "axis": None}
    return [
        {
            "data": {"values": round_pixels(rows)},
            "mark": {"type": "rule", "color": STRONG, "strokeWidth": 0.8, "strokeDash": [1, 2], "aria": False},
            "encoding": {
                "x": {"field": "x", **pixel},
                "y": {"field": "y", **pixel},
                "x2": {"field": "x2"},
                "y2": {"field": "y2"},
            },
        }
    ]


def text_layers(rows: Sequence[Spec]) -> list[Spec]:
    """Texts whose first base line is at a pixel."""
    layers: list[Spec] = []
    for strong, align in ((False, "left"), (False, "right"), (True, "left"), (True, "right")):
        group = [
            {key: row[key] for key in ("label", "x", "y")}
            for row in rows
            if bool(row.get("strong")) == strong and row.get("align", "left") == align
        ]
        if not group:
            continue
        mark: Spec = {
            "type": "text",
            "align": align,
            "baseline": "alphabetic",
            "fontSize": LABEL_SIZE,
            "lineHeight": LINE_HEIGHT,
            "fontWeight": "bold" if strong else "normal",
            "x": {"expr": "datum.x"},
            "y": {"expr": "datum.y"},
        }
        halo = {"stroke": PAPER, "strokeWidth": 3, "strokeJoin": "round", "fill": PAPER, "aria": False}
        text: Spec = {"text": {"field": "label", "type": "nominal"}}
        data = {"values": round_pixels(group)}
        layers += [
            {"data": data, "mark": mark | halo, "encoding": text},
            {"data": data, "mark": mark | {"color": ACCENT if strong else TEXT}, "encoding": text},
        ]
    return layers


def shade_layers(channel: str, start: float, end: float) -> list[Spec]:
    """A shaded area from `start` to `end` along one axis, and a line at its start."""
    data: Spec = {"values": [{}]}
    return [
        {
            "data": data,
            "mark": {"type": "rect", "color": "black", "opacity": SHADE_OPACITY, "aria": False},
            "encoding": {channel: {"datum": start}, f"{channel}2": {"datum": end}},
        },
        {
            "data": data,
            "mark": {"type": "rule", "color": STRONG, "strokeWidth": 1, "strokeDash": [3, 3], "aria": False},
            "encoding": {channel: {"datum": start}},
        },
    ]


def range_layers(low: float, high: float) -> list[Spec]:
    """A shaded area between two values of x."""
    mark = {"type": "rect", "color": "black", "opacity": SHADE_OPACITY, "aria": False}
    data: Spec = {"values": [{}]}
    return [{"data": data, "mark": mark, "encoding": {"x": {"datum": low}, "x2": {"datum": high}}}]


def round_pixels(rows: Sequence[Spec]) -> list[Spec]:
    """The rows with pixels rounded to a tenth, so that equal figures have equal specifications."""
    return [{key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()} for row in rows]
