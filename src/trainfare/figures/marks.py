"""Layers that several figures have: labels at their places, shaded ground beyond a limit."""

from collections.abc import Sequence

from trainfare.figures.look import ACCENT, LABEL_SIZE, LINE_HEIGHT, PAPER, STRONG, TEXT, Spec
from trainfare.figures.place import Placed

SHADE_OPACITY = 0.07


def label_layers(placed: Sequence[Placed]) -> list[Spec]:
    """Leaders below, words above; under the words their own shape in white, so that no line runs through them."""
    leaders = [
        {"x": x, "y": y, "x2": x2, "y2": y2}
        for x, y, x2, y2 in (label.leader for label in placed if label.leader is not None)
    ]
    rows = [
        {
            "label": list(label.wanted.lines) if len(label.wanted.lines) > 1 else label.wanted.lines[0],
            "x": label.box[2] - 1 if label.box[2] <= label.wanted.x else label.box[0] + 1,
            "align": "right" if label.box[2] <= label.wanted.x else "left",
            "y": label.box[1] + 1 + LABEL_SIZE,
            "strong": label.wanted.bold,
        }
        for label in placed
    ]
    return [*leader_layer(leaders), *text_layers(rows)]


def leader_layer(rows: Sequence[Spec]) -> list[Spec]:
    """Thin lines from pixel to pixel."""
    if not rows:
        return []
    pixel = {"type": "quantitative", "scale": None, "axis": None}
    return [
        {
            "data": {"values": rounded(rows)},
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
    """Words with their first base line at a pixel."""
    layers: list[Spec] = []
    for strong, align in ((False, "left"), (False, "right"), (True, "left"), (True, "right")):
        mine = [
            {key: row[key] for key in ("label", "x", "y")}
            for row in rows
            if bool(row.get("strong")) == strong and row.get("align", "left") == align
        ]
        if not mine:
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
        told: Spec = {"text": {"field": "label", "type": "nominal"}}
        data = {"values": rounded(mine)}
        layers += [
            {"data": data, "mark": mark | halo, "encoding": told},
            {"data": data, "mark": mark | {"color": ACCENT if strong else TEXT}, "encoding": told},
        ]
    return layers


def shade_layer(channel: str, start: float, end: float) -> list[Spec]:
    """The ground from `start` to `end` along one axis, and a line where it begins."""
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


def range_layer(low: float, high: float) -> list[Spec]:
    """Shaded ground between two values of x."""
    mark = {"type": "rect", "color": "black", "opacity": SHADE_OPACITY, "aria": False}
    data: Spec = {"values": [{}]}
    return [{"data": data, "mark": mark, "encoding": {"x": {"datum": low}, "x2": {"datum": high}}}]


def rounded(rows: Sequence[Spec]) -> list[Spec]:
    """Pixels to a tenth: the same figure is the same text."""
    return [{key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()} for row in rows]
