"""Colours and words that the pictures of a schedule share."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.figures.look import LABEL_SIZE, TEXT, Spec, text_width
from trainfare.figures.marks import round_pixels
from trainfare.model.queue import Fleet, NodeType
from trainfare.model.schedule import ScheduleOutcome, Schedule
from trainfare.units import format_duration, format_usd

FIRST_SUBMISSION = "time since the first submission"
"""What second 0 of a simulated schedule is, below its axis."""
NOW = "time from now"
"""Of one that is planned."""
BARS = ("#8db4d8", "#f0be86", "#a5cfae", "#c4b0dd", "#e6a5ae", "#b9c07c", "#93cccb", "#d2b48c")
"""Jobs, one after the other: about equally light, so that letters are read on each."""
PREPARING = "#b4b4b4"
"""Its node boots, or it is restored."""
LATE = "#a3281b"
"""Darker than all others, in grey too."""
BACKGROUNDS = ("#e9e4d6", "#dfe6ee", "#e4ecdf", "#efe1e8", "#e6e6e6")
"""One a kind of GPU."""
LEGEND_ROOM = 18
"""Pixels of a row of the legend."""

_SWATCH, _TO_WORDS, _APART = 11, 5, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Swatch:
    """A colour and what it means; None: the words are enough."""

    colour: str | None
    words: str


def gpu_kinds(fleet: Fleet) -> list[str]:
    return list(dict.fromkeys(each.gpu for each in fleet.types))


def background_colour(fleet: Fleet, its: NodeType) -> str:
    return BACKGROUNDS[gpu_kinds(fleet).index(its.gpu) % len(BACKGROUNDS)]


def rented_types(schedule: Schedule) -> list[NodeType]:
    rented = {rental.type for rental in schedule.rentals}
    return [each for each in schedule.fleet.types if each.name in rented]


def rented_kinds(schedule: Schedule) -> list[tuple[int, str]]:
    """The place of each kind of GPU that was rented, and its types by name, as not every table names the GPU."""
    rented = rented_types(schedule)
    names = [
        (place, [each.name for each in rented if each.gpu == kind])
        for place, kind in enumerate(gpu_kinds(schedule.fleet))
    ]
    return [(place, ", ".join(mine)) for place, mine in names if mine]


def above_bound(total_usd: float, bound_usd: float) -> str:
    """`0.4 % above the bound`, and from twice as much on `10.5 × the bound`."""
    ratio = total_usd / bound_usd
    return f"{100 * (ratio - 1):.1f} % above the bound" if ratio < 2 else f"{ratio:.3g} × the bound"


def schedule_title(schedule: Schedule, outcome: ScheduleOutcome, bound_usd: float | None) -> tuple[str, str]:
    """`trainfare: 981.70 $ for 100 jobs on 10 nodes, 2 of them late`, and what that is made of."""
    late = "none late" if not outcome.late_jobs else f"{outcome.late_jobs} of them late"
    nodes = schedule.fleet.nodes
    title = (
        f"{schedule.policy}: {format_usd(outcome.total_usd)} for {outcome.jobs} job{'s' * (outcome.jobs != 1)} "
        f"on {nodes} node{'s' * (nodes != 1)}, {late}"
    )
    parts = [f"rent {format_usd(outcome.rental_usd)}, lateness {format_usd(outcome.tardiness_usd)}"]
    if bound_usd:
        parts.append(above_bound(outcome.total_usd, bound_usd))
    parts.append(f"{format_duration(outcome.makespan_seconds)} in all")
    return title, " · ".join(parts)


def legend_layers(swatches: Sequence[Swatch], *, width: float) -> list[Spec]:
    """In rows above the field."""
    rows: list[list[tuple[float, Swatch]]] = [[]]
    x = 0.0
    for swatch in swatches:
        needed = _mark_width(swatch) + text_width(swatch.words)
        if rows[-1] and x + needed > width:
            rows.append([])
            x = 0.0
        rows[-1].append((x, swatch))
        x += needed + _APART
    squares, words = [], []
    for place, row in enumerate(rows):
        y = -6.0 - LEGEND_ROOM * (len(rows) - 1 - place)
        for left, swatch in row:
            if swatch.colour is not None:
                squares.append({"x": left + _SWATCH / 2, "y": y - 4.5, "fill": swatch.colour})
            words.append({"label": swatch.words, "x": left + _mark_width(swatch), "y": y})
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
            "data": {"values": round_pixels(words)},
            "mark": {"type": "text", "align": "left", "baseline": "alphabetic", "fontSize": LABEL_SIZE, "color": TEXT}
            | at,
            "encoding": {"text": {"field": "label", "type": "nominal"}},
        },
    ]


def _mark_width(swatch: Swatch) -> float:
    return 0.0 if swatch.colour is None else _SWATCH + _TO_WORDS
