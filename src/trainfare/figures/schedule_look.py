"""Colours, titles and legends of the figures of a schedule."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.figures.look import LABEL_SIZE, TEXT, Spec, text_width
from trainfare.figures.marks import round_pixels
from trainfare.model.queue import Fleet, NodeType
from trainfare.model.schedule import Schedule, ScheduleOutcome
from trainfare.units import format_count, format_duration, format_ratio, format_usd, plural

FIRST_SUBMISSION = "time since the first submission"
"""The axis title of a simulated schedule."""
NOW = "time from now"
"""The axis title of a planned schedule."""
BARS = ("#8db4d8", "#f0be86", "#a5cfae", "#c4b0dd", "#e6a5ae", "#b9c07c", "#93cccb", "#d2b48c")
"""The colours of jobs, in turn: about equally light, so that text is readable on each."""
PREPARING = "#b4b4b4"
"""The node boots, or the job is restored."""
LATE = "#a3281b"
"""Darker than all other colours, also in greyscale."""
BACKGROUNDS = ("#e9e4d6", "#dfe6ee", "#e4ecdf", "#efe1e8", "#e6e6e6")
"""One background per kind of GPU."""
LEGEND_ROOM = 18
"""The height of a legend row in pixels."""

_SWATCH, _SWATCH_LABEL_GAP, _SWATCH_GAP = 11, 5, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Swatch:
    """A colour and its meaning; without a colour the label is enough."""

    colour: str | None
    label: str


def gpu_kinds(fleet: Fleet) -> list[str]:
    return list(dict.fromkeys(each.gpu for each in fleet.types))


def background_colour(fleet: Fleet, node_type: NodeType) -> str:
    return BACKGROUNDS[gpu_kinds(fleet).index(node_type.gpu) % len(BACKGROUNDS)]


def rented_types(schedule: Schedule) -> list[NodeType]:
    rented = {rental.type for rental in schedule.rentals}
    return [each for each in schedule.fleet.types if each.name in rented]


def rented_kinds(schedule: Schedule) -> list[tuple[int, str]]:
    """The index of each kind of GPU that was rented, and the names of its types; not every table names the GPU."""
    rented = rented_types(schedule)
    names = [
        (place, [each.name for each in rented if each.gpu == kind])
        for place, kind in enumerate(gpu_kinds(schedule.fleet))
    ]
    return [(place, ", ".join(names_of_kind)) for place, names_of_kind in names if names_of_kind]


def above_bound(total_usd: float, bound_usd: float) -> str:
    """`0.4% above the lower bound`, and from twice as much on `11x the lower bound`."""
    ratio = total_usd / bound_usd
    return f"{100 * (ratio - 1):.1f}% above the lower bound" if ratio < 2 else f"{format_ratio(ratio)} the lower bound"


def schedule_title(schedule: Schedule, outcome: ScheduleOutcome, bound_usd: float | None) -> tuple[str, str]:
    """The title `trainfare: $981.70 for 100 jobs on 10 nodes, 2 of them late`, and the subtitle with its parts."""
    late = "none late" if not outcome.late_jobs else f"{format_count(outcome.late_jobs)} of them late"
    title = (
        f"{schedule.policy}: {format_usd(outcome.total_usd)} for {plural(outcome.jobs, 'job')} "
        f"on {plural(schedule.fleet.nodes, 'node')}, {late}"
    )
    parts = [f"rent {format_usd(outcome.rental_usd)}, lateness {format_usd(outcome.tardiness_usd)}"]
    if bound_usd:
        parts.append(above_bound(outcome.total_usd, bound_usd))
    parts.append(f"{format_duration(outcome.makespan_seconds)} in total")
    return title, " · ".join(parts)


def legend_layers(swatches: Sequence[Swatch], *, width: float) -> list[Spec]:
    """The legend in rows above the field."""
    rows: list[list[tuple[float, Swatch]]] = [[]]
    x = 0.0
    for swatch in swatches:
        needed = _mark_width(swatch) + text_width(swatch.label)
        if rows[-1] and x + needed > width:
            rows.append([])
            x = 0.0
        rows[-1].append((x, swatch))
        x += needed + _SWATCH_GAP
    squares, label = [], []
    for place, row in enumerate(rows):
        y = -6.0 - LEGEND_ROOM * (len(rows) - 1 - place)
        for left, swatch in row:
            if swatch.colour is not None:
                squares.append({"x": left + _SWATCH / 2, "y": y - 4.5, "fill": swatch.colour})
            label.append({"label": swatch.label, "x": left + _mark_width(swatch), "y": y})
    at = {"x": {"expr": "datum.x"}, "y": {"expr": "datum.y"}}
    return [
        {
            "data": {"values": round_pixels(squares)},
            "mark": {
                "type": "point",
                "shape": "square",
                "filled": True,
                "opacity": 1,
                "size": _SWATCH**2,
                "aria": False,
            }
            | at,
            "encoding": {
                "fill": {"field": "fill", "type": "nominal", "scale": None},
            },
        },
        {
            "data": {"values": round_pixels(label)},
            "mark": {"type": "text", "align": "left", "baseline": "alphabetic", "fontSize": LABEL_SIZE, "color": TEXT}
            | at,
            "encoding": {"text": {"field": "label", "type": "nominal"}},
        },
    ]


def _mark_width(swatch: Swatch) -> float:
    return 0.0 if swatch.colour is None else _SWATCH + _SWATCH_LABEL_GAP
