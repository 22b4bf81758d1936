"""The figure of what runs have cost: one bar per day, month, program, machine or user."""

import math
from collections.abc import Sequence

from trainfare.figures.axis import Axis, build_axis
from trainfare.figures.look import ACCENT, EDGE, LABEL_SIZE, QUIET, WIDE, Spec, page, text_width, title_spec
from trainfare.figures.marks import bar_layer, text_layers
from trainfare.runner.charges import CostGroup, CostRow
from trainfare.units import format_duration, format_usd, plural

ROWS = 40
"""More rows are left out: the last days, or the most expensive of the others, are drawn."""
_ROW_HEIGHT = 22.0
_BAR_HEIGHT = 13.0


def costs_figure(rows: Sequence[CostRow], by: CostGroup, *, width: int = WIDE) -> Spec:
    """The bars; the most expensive one is marked. `ValueError` if there is no row."""
    if not rows:
        raise ValueError("no run has cost anything yet")
    total, shown = sum(row.usd for row in rows), list(rows[-ROWS:] if by in ("day", "month") else rows[:ROWS])
    left = math.ceil(max(text_width(row.name, bold=True) for row in shown)) + 10
    right = math.ceil(max(text_width(format_usd(row.usd), bold=True) for row in shown)) + 10
    x = build_axis("usd", [max(row.usd for row in shown) or 1.0], length=width - left - right - 2 * EDGE, margin=0.0)
    title = f"Your runs have cost {format_usd(total)}"
    left_out = f", {len(rows) - len(shown)} more not drawn" if len(rows) > len(shown) else ""
    view = {
        "title": title_spec(title, f"by {by}: {plural(len(shown), 'row')}{left_out}", width),
        "width": x.length,
        "height": len(shown) * _ROW_HEIGHT,
        "layer": [_bars(shown, x, left), *text_layers(_texts(shown, x))],
    }
    return page([view], description=f"{title}, by {by}.", width=width)


def _bars(shown: Sequence[CostRow], x: Axis, left: int) -> Spec:
    most = max(row.usd for row in shown)
    rows = [
        {
            "x": 0.0,
            "x2": row.usd,
            "y": place * _ROW_HEIGHT + (_ROW_HEIGHT - _BAR_HEIGHT) / 2,
            "y2": place * _ROW_HEIGHT + (_ROW_HEIGHT + _BAR_HEIGHT) / 2,
            "fill": ACCENT if row.usd == most else QUIET,
            "name": row.name,
            "cost": format_usd(row.usd),
            "runs": str(row.runs),
            "machine time": format_duration(row.machine_seconds),
        }
        for place, row in enumerate(shown)
    ]
    tooltip = ("name", "cost", "runs", "machine time")
    return bar_layer(rows, x, height=len(shown) * _ROW_HEIGHT, left=left, tooltip=tooltip)


def _texts(shown: Sequence[CostRow], x: Axis) -> list[Spec]:
    """The name to the left of its bar, and the cost to the right of it."""
    most, rows = max(row.usd for row in shown), []
    for place, row in enumerate(shown):
        y, strong = (place + 0.5) * _ROW_HEIGHT + LABEL_SIZE / 3, row.usd == most
        rows.append({"label": row.name, "x": -6.0, "y": y, "align": "right", "strong": strong})
        rows.append({"label": format_usd(row.usd), "x": x.pixel(row.usd) + 5, "y": y, "strong": strong})
    return rows
