"""The figure that compares policies: bars of rent and cost of lateness, the cheapest first, and the lower bound.

Some policies cost twenty times as much as others. The axis ends at twice the cheapest, so that close competitors can be
distinguished; a longer bar is cut, with its number next to it.
"""

import math
from collections.abc import Sequence

from trainfare.figures.axis import Axis, build_axis
from trainfare.figures.gantt import gantt_views
from trainfare.figures.look import (
    ACCENT,
    EDGE,
    LABEL_SIZE,
    QUIET,
    STRONG,
    WIDE,
    Spec,
    page,
    text_width,
    title_spec,
)
from trainfare.figures.marks import bar_layer, text_layers
from trainfare.figures.schedule_lanes import from_first_submission
from trainfare.figures.schedule_look import LATE, Swatch, legend_layers
from trainfare.model.schedule import Schedule, ScheduleOutcome
from trainfare.units import format_count, format_usd, plural

MAX_RATIO = 2.0
"""The end of the axis relative to the cheapest policy."""
MIN_LABEL_SPACE = 64
"""The least number of pixels to the left of a field."""
_ROW_HEIGHT = 26.0
"""Pixels from one bar to the next."""
_BAR_HEIGHT = 16.0


def policies_figure(
    outcomes: Sequence[ScheduleOutcome],
    schedules: Sequence[tuple[Schedule, ScheduleOutcome]],
    *,
    bound_usd: float | None = None,
    width: int = WIDE,
) -> Spec:
    """The cost of each policy, the cheapest first, and below it some of their schedules, over the same time."""
    ordered = sorted(outcomes, key=lambda each: each.total_usd)
    left = _label_space(ordered)
    costs = policy_costs_view(ordered, bound_usd=bound_usd, width=width)
    end = max(
        (rental.end_seconds for schedule, _ in schedules for rental in from_first_submission(schedule).rentals),
        default=0.0,
    )
    below = [
        view
        for schedule, outcome in schedules
        for view in gantt_views(
            schedule, outcome, bound_usd=bound_usd, width=width, end_seconds=end, height=240, left=left
        )
    ]
    return page([costs, *below], description=f"{_title(ordered)}.", width=width)


def policy_costs_view(ordered: Sequence[ScheduleOutcome], *, bound_usd: float | None, width: int) -> Spec:
    """The bars of the policies, which are `ordered` by their total cost."""
    totals = [each.total_usd for each in ordered]
    end = min(max(totals), MAX_RATIO * totals[0]) or 1.0
    left = _label_space(ordered)
    right = math.ceil(max(text_width(_cost_label(each, bound_usd, end), bold=True) for each in ordered)) + 10
    x = build_axis("usd", [end], length=width - left - right - 2 * EDGE, margin=0.0)
    legend = [Swatch(colour=QUIET, label="rent")]
    if any(each.tardiness_usd > 0 for each in ordered):
        legend.append(Swatch(colour=LATE, label="cost of lateness"))
    return {
        "title": title_spec(_title(ordered), _subtitle(ordered, bound_usd, end), width),
        "width": x.length,
        "height": len(ordered) * _ROW_HEIGHT,
        "layer": [
            _bars(ordered, x, end, left),
            *_bound(bound_usd, end),
            *text_layers(
                [row for place, each in enumerate(ordered) for row in _texts_of_policy(each, place, x, end, bound_usd)]
            ),
            *legend_layers(legend, width=x.length),
        ],
    }


def _label_space(ordered: Sequence[ScheduleOutcome]) -> int:
    """Pixels for the names of the policies; at least as many as a vertical axis has, so that all fields are aligned."""
    return max(MIN_LABEL_SPACE, math.ceil(max(text_width(each.policy, bold=True) for each in ordered)) + 10)


def _title(ordered: Sequence[ScheduleOutcome]) -> str:
    """`trainfare is the cheapest of 8 policies: $981.68, 2.0% below greedy`."""
    best = ordered[0]
    if len(ordered) == 1:
        return f"{best.policy}: {format_usd(best.total_usd)}"
    second = ordered[1]
    less = 100 * (1 - best.total_usd / second.total_usd) if second.total_usd else 0.0
    difference = f"{less:.1f}% below {second.policy}" if less >= 0.05 else f"the same as {second.policy}"
    return f"{best.policy} is the cheapest of {len(ordered)} policies: {format_usd(best.total_usd)}, {difference}"


def _subtitle(ordered: Sequence[ScheduleOutcome], bound_usd: float | None, end: float) -> str:
    parts = [plural(ordered[0].jobs, "job")]
    if bound_usd:
        parts.append(f"dashed line: lower bound of {format_usd(bound_usd)}")
    if any(each.total_usd > end for each in ordered):
        parts.append("… marks a bar that is cut")
    return " · ".join(parts)


def _bars(ordered: Sequence[ScheduleOutcome], x: Axis, end: float, left: int) -> Spec:
    rows = []
    for place, each in enumerate(ordered):
        top = place * _ROW_HEIGHT + (_ROW_HEIGHT - _BAR_HEIGHT) / 2
        parts = (
            (0.0, each.rental_usd, ACCENT if place == 0 else QUIET),
            (each.rental_usd, each.total_usd, LATE),
        )
        rows += [
            {
                "x": start,
                "x2": min(stop, end),
                "y": top,
                "y2": top + _BAR_HEIGHT,
                "fill": colour,
                "policy": each.policy,
                "rent": format_usd(each.rental_usd),
                "cost of lateness": format_usd(each.tardiness_usd),
                "late jobs": f"{each.late_jobs} of {each.jobs}",
                "migrations": format_count(each.migrations),
            }
            for start, stop, colour in parts
            if start < end and stop > start
        ]
    tooltip = ("policy", "rent", "cost of lateness", "late jobs", "migrations")
    return bar_layer(rows, x, height=len(ordered) * _ROW_HEIGHT, left=left, tooltip=tooltip)


def _bound(bound_usd: float | None, end: float) -> list[Spec]:
    if not bound_usd or bound_usd > end:
        return []
    mark = {"type": "rule", "color": STRONG, "strokeWidth": 1.2, "strokeDash": [3, 3], "aria": False}
    return [{"data": {"values": [{}]}, "mark": mark, "encoding": {"x": {"datum": bound_usd}}}]


def _texts_of_policy(each: ScheduleOutcome, place: int, x: Axis, end: float, bound_usd: float | None) -> list[Spec]:
    """The name to the left of its bar, and the cost to the right of it."""
    y = (place + 0.5) * _ROW_HEIGHT + LABEL_SIZE / 3
    return [
        {"label": each.policy, "x": -6.0, "y": y, "align": "right", "strong": place == 0},
        {
            "label": _cost_label(each, bound_usd, end),
            "x": x.pixel(min(each.total_usd, end)) + 5,
            "y": y,
            "strong": place == 0,
        },
    ]


def _cost_label(each: ScheduleOutcome, bound_usd: float | None, end: float) -> str:
    """`$981.68, +0.5%`: the cost and, below twice the bound, its excess over it; starts with `…` if the bar is cut."""
    cut = "… " if each.total_usd > end else ""
    above = ""
    if bound_usd and each.total_usd <= MAX_RATIO * bound_usd:
        above = f", +{100 * (each.total_usd / bound_usd - 1):.1f}%"
    return f"{cut}{format_usd(each.total_usd)}{above}"
