"""Policies side by side: a bar each, rent and lateness, the cheapest above; and the bound that none can be below.

Some policies cost twenty times as much as others. The axis ends at twice the cheapest, so that those that compete are
told apart; a bar that goes on has an open end and its number beside it.
"""

import math
from collections.abc import Sequence

from trainfare.figures.axis import Axis, build_axis
from trainfare.figures.gantt import gantt_views
from trainfare.figures.look import (
    ACCENT,
    EDGE,
    LABEL_SIZE,
    PAPER,
    QUIET,
    STRONG,
    WIDE,
    Spec,
    page,
    text_width,
    title_spec,
)
from trainfare.figures.marks import round_pixels, text_layers
from trainfare.figures.schedule_lanes import from_first_submission
from trainfare.figures.schedule_look import LATE, Swatch, legend_layers
from trainfare.model.schedule import ScheduleOutcome, Schedule
from trainfare.units import format_usd

FARTHEST = 2.0
"""Times the cheapest, where the axis ends."""
MIN_LABEL_SPACE = 64
"""Pixels left of a field."""
_LINE = 26.0
"""Pixels from one bar to the next."""
_BAR = 16.0


def policies_figure(
    outcomes: Sequence[ScheduleOutcome],
    schedules: Sequence[tuple[Schedule, ScheduleOutcome]],
    *,
    bound_usd: float | None = None,
    width: int = WIDE,
) -> Spec:
    """What each policy costs, the cheapest first, and some of their schedules below, over the same time."""
    ordered = sorted(outcomes, key=lambda each: each.total_usd)
    left = _label_space(ordered)
    costs = policy_costs_view(ordered, bound_usd=bound_usd, width=width)
    end = max(
        (rental.end_seconds for schedule, _ in schedules for rental in from_first_submission(schedule).rentals), default=0.0
    )
    below = [
        view
        for schedule, outcome in schedules
        for view in gantt_views(
            schedule, outcome, bound_usd=bound_usd, width=width, end_seconds=end, height=240, left=left
        )
    ]
    return page([costs, *below], description=f"{_who_wins(ordered)}.", width=width)


def policy_costs_view(ordered: Sequence[ScheduleOutcome], *, bound_usd: float | None, width: int) -> Spec:
    """`ordered` by total."""
    totals = [each.total_usd for each in ordered]
    end = min(max(totals), FARTHEST * totals[0]) or 1.0
    left = _label_space(ordered)
    right = math.ceil(max(text_width(_told(each, bound_usd, end), bold=True) for each in ordered)) + 10
    x = build_axis("usd", [end], length=width - left - right - 2 * EDGE, margin=0.0)
    legend = [Swatch(colour=QUIET, words="rent")]
    if any(each.tardiness_usd > 0 for each in ordered):
        legend.append(Swatch(colour=LATE, words="lateness"))
    return {
        "title": title_spec(_who_wins(ordered), _how_to_read(ordered, bound_usd, end), width),
        "width": x.length,
        "height": len(ordered) * _LINE,
        "layer": [
            _bars(ordered, x, end, left),
            *_bound(bound_usd, end),
            *text_layers([row for place, each in enumerate(ordered) for row in _words(each, place, x, end, bound_usd)]),
            *legend_layers(legend, width=x.length),
        ],
    }


def _label_space(ordered: Sequence[ScheduleOutcome]) -> int:
    """Pixels for the names of the policies; as many as an axis has, so that all fields begin in one line."""
    return max(MIN_LABEL_SPACE, math.ceil(max(text_width(each.policy, bold=True) for each in ordered)) + 10)


def _who_wins(ordered: Sequence[ScheduleOutcome]) -> str:
    """`trainfare is the cheapest of 8 policies: 981.68 $, 2.0 % below greedy`."""
    best = ordered[0]
    if len(ordered) == 1:
        return f"{best.policy}: {format_usd(best.total_usd)}"
    second = ordered[1]
    less = 100 * (1 - best.total_usd / second.total_usd) if second.total_usd else 0.0
    against = f"{less:.1f} % below {second.policy}" if less >= 0.05 else f"as {second.policy}"
    return f"{best.policy} is the cheapest of {len(ordered)} policies: {format_usd(best.total_usd)}, {against}"


def _how_to_read(ordered: Sequence[ScheduleOutcome], bound_usd: float | None, end: float) -> str:
    parts = [f"{ordered[0].jobs} job{'s' * (ordered[0].jobs != 1)}"]
    if bound_usd:
        parts.append(f"the line: no schedule costs less than {format_usd(bound_usd)}")
    if any(each.total_usd > end for each in ordered):
        parts.append("a bar that is cut goes on")
    return " · ".join(parts)


def _bars(ordered: Sequence[ScheduleOutcome], x: Axis, end: float, left: int) -> Spec:
    rows = []
    for place, each in enumerate(ordered):
        top = place * _LINE + (_LINE - _BAR) / 2
        parts = (
            (0.0, each.rental_usd, ACCENT if place == 0 else QUIET),
            (each.rental_usd, each.total_usd, LATE),
        )
        rows += [
            {
                "x": start,
                "x2": min(stop, end),
                "y": top,
                "y2": top + _BAR,
                "fill": colour,
                "policy": each.policy,
                "rent": format_usd(each.rental_usd),
                "lateness": format_usd(each.tardiness_usd),
                "late jobs": f"{each.late_jobs} of {each.jobs}",
                "moves": str(each.migrations),
            }
            for start, stop, colour in parts
            if start < end and stop > start
        ]
    height = len(ordered) * _LINE
    pixels = {"domain": [0, height], "reverse": True, "nice": False, "zero": False}
    extent = {"title": None, "labels": False, "ticks": False, "domain": False, "grid": False}
    return {
        "data": {"values": round_pixels(rows)},
        "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 0.5},
        "encoding": {
            "x": x.encoding("x", "cost"),
            "x2": {"field": "x2"},
            "y": {
                "field": "y",
                "type": "quantitative",
                "scale": pixels,
                "axis": extent | {"minExtent": left, "maxExtent": left},
            },
            "y2": {"field": "y2"},
            "fill": {"field": "fill", "type": "nominal", "scale": None},
            "tooltip": [
                {"field": name, "type": "nominal"} for name in ("policy", "rent", "lateness", "late jobs", "moves")
            ],
        },
    }


def _bound(bound_usd: float | None, end: float) -> list[Spec]:
    if not bound_usd or bound_usd > end:
        return []
    mark = {"type": "rule", "color": STRONG, "strokeWidth": 1.2, "strokeDash": [3, 3], "aria": False}
    return [{"data": {"values": [{}]}, "mark": mark, "encoding": {"x": {"datum": bound_usd}}}]


def _words(each: ScheduleOutcome, place: int, x: Axis, end: float, bound_usd: float | None) -> list[Spec]:
    """The name left of its bar, what it comes to right of it."""
    y = (place + 0.5) * _LINE + LABEL_SIZE / 3
    return [
        {"label": each.policy, "x": -6.0, "y": y, "align": "right", "strong": place == 0},
        {
            "label": _told(each, bound_usd, end),
            "x": x.pixel(min(each.total_usd, end)) + 5,
            "y": y,
            "strong": place == 0,
        },
    ]


def _told(each: ScheduleOutcome, bound_usd: float | None, end: float) -> str:
    """`981.68 $, +0.5 %`; from twice the bound on without what it is above, and after `…` where the bar is cut."""
    cut = "… " if each.total_usd > end else ""
    above = ""
    if bound_usd and each.total_usd <= FARTHEST * bound_usd:
        above = f", +{100 * (each.total_usd / bound_usd - 1):.1f} %"
    return f"{cut}{format_usd(each.total_usd)}{above}"
