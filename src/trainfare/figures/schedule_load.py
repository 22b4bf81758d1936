"""The figure of a schedule with many nodes as sums over time: working GPUs, idle GPUs, waiting jobs.

Time is divided into equal intervals; a height is the mean over its interval, so that areas are exact GPU times:

    mean of an interval = Σ allocations  GPUs · (overlap of allocation and interval) / length of the interval
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from trainfare.figures.axis import Axis, build_axis
from trainfare.figures.look import EDGE, STRONG, WIDE, Spec, title_spec
from trainfare.figures.schedule_look import (
    BARS,
    FIRST_SUBMISSION,
    LATE,
    Swatch,
    gpu_kinds,
    legend_layers,
    rented_kinds,
    schedule_title,
)
from trainfare.model.schedule import Schedule, ScheduleOutcome
from trainfare.units import format_duration

INTERVALS = 240
"""Intervals of time."""
VISIBLE_JOBS = 1e-6
"""A smaller number of jobs is a rounding error."""
IDLE = "#e3e0d8"
_QUEUE_HEIGHT = 0.38
"""The height of the second view as a share of the total height."""

LoadPiece = tuple[float, float, float]
"""Start, end and height of one contribution to a sum."""


def load_views(
    schedule: Schedule,
    outcome: ScheduleOutcome,
    *,
    bound_usd: float | None = None,
    width: int = WIDE,
    end_seconds: float,
    height: float,
    left: int = 0,
    since: str = FIRST_SUBMISSION,
) -> list[Spec]:
    """The GPUs; and below them the waiting and late jobs, if there are any."""
    step = end_seconds / INTERVALS
    layers, top = _gpus(schedule, step)
    waiting = mean_heights(_waiting_pieces(schedule), step)
    overdue = mean_heights(_overdue_pieces(schedule), step)
    gpus = build_axis("count", [top], length=height * 0.62, vertical=True)
    below = build_axis("count", [1.0, *waiting, *overdue], length=height * _QUEUE_HEIGHT, vertical=True)
    label_space = max(gpus.label_space, below.label_space, left)
    x = build_axis("seconds", [0.0, end_seconds], length=width - label_space - 2 * EDGE - 12, margin=0.0)
    title, subtitle = schedule_title(schedule, outcome, bound_usd)
    queue = [("waiting jobs", STRONG, waiting), ("jobs after their deadline", LATE, overdue)]
    shown = [each for each in queue if max(each[2]) > VISIBLE_JOBS]
    legends = [
        legend_layers([Swatch(colour=colour, label=label) for label, colour, _ in each], width=x.length)
        for each in (layers, shown)
    ]
    note = "GPUs of all nodes" if shown else "GPUs of all nodes; no job waits, none is late"
    above = {
        "title": title_spec(title, f"{subtitle} · {note}", width),
        "width": x.length,
        "height": gpus.length,
        "layer": [*_areas(layers, step, x, gpus, label_space, since), *legends[0]],
    }
    jobs = {
        "width": x.length,
        "height": below.length,
        "layer": [*_lines(shown, step, x, below, label_space, since), *legends[1]],
    }
    return [above, jobs] if shown else [above]


def mean_heights(pieces: Iterable[LoadPiece], step: float) -> list[float]:
    """The mean of the sum of heights in each interval of `step` seconds, in one pass over their changes."""
    partial = [0.0] * (INTERVALS + 2)
    """The change of the mean in the interval of a start or an end."""
    full = [0.0] * (INTERVALS + 2)
    """The change of the mean from an interval on."""
    for start, end, height in pieces:
        for moment, change in ((start, height), (end, -height)):
            position = min(max(moment / step, 0.0), float(INTERVALS))
            interval = int(position)
            # From this moment on the sum is higher by `change`: in a part of its interval, and in all later ones.
            partial[interval] += change * (1 - (position - interval))
            full[interval + 1] += change
    sums = list(accumulate(full))
    return [max(0.0, partial[interval] + sums[interval]) for interval in range(INTERVALS)]


def _gpus(schedule: Schedule, step: float) -> tuple[list[tuple[str, str, list[float]]], float]:
    """Layers from below, each with label, colour and heights, and the highest sum."""
    types = {each.name: each for each in schedule.fleet.types}
    type_of = {rental.node: types[rental.type] for rental in schedule.rentals}
    kinds = gpu_kinds(schedule.fleet)
    found: list[tuple[str, str, list[float]]] = []
    for place, names in rented_kinds(schedule):
        worked = [
            (each.work_start_seconds, each.end_seconds, float(each.gpus))
            for each in schedule.allocations
            for node in each.nodes
            if type_of[node].gpu == kinds[place] and each.end_seconds > each.work_start_seconds
        ]
        found.append((f"{names}: working", BARS[place % len(BARS)], mean_heights(worked, step)))
    rented = mean_heights(
        [(each.start_seconds, each.end_seconds, float(types[each.type].gpus)) for each in schedule.rentals], step
    )
    idle = [max(0.0, paid - sum(heights[i] for _, _, heights in found)) for i, paid in enumerate(rented)]
    found.append(("paid but not working", IDLE, idle))
    return found, max(1.0, *rented)


def _waiting_pieces(schedule: Schedule) -> list[LoadPiece]:
    """The time from submission to the end of each job, minus the time on nodes."""
    ended = dict(schedule.ended_seconds)
    present = [(job.submitted_seconds, ended[job.id], 1.0) for job in schedule.jobs if job.id in ended]
    return [*present, *((s.start_seconds, s.end_seconds, -1.0) for s in schedule.allocations)]


def _overdue_pieces(schedule: Schedule) -> list[LoadPiece]:
    ended = dict(schedule.ended_seconds)
    return [
        (max(job.deadline_seconds, job.submitted_seconds), ended[job.id], 1.0)
        for job in schedule.jobs
        if ended.get(job.id, 0.0) > job.deadline_seconds
    ]


def _areas(
    layers: Sequence[tuple[str, str, list[float]]], step: float, x: Axis, y: Axis, label_space: int, since: str
) -> list[Spec]:
    """Areas stacked on top of each other."""
    found = []
    base = [0.0] * INTERVALS
    for label, colour, heights in layers:
        rows = [
            {
                "x": round(i * step, 3),
                "y": round(base[i], 3),
                "y2": round(base[i] + heights[i], 3),
                "time": format_duration((i + 0.5) * step),
                label: f"{heights[i]:.3g} GPUs",
            }
            for i in range(INTERVALS)
        ]
        base = [low + high for low, high in zip(base, heights, strict=True)]
        found.append(
            {
                "data": {"values": [*rows, rows[-1] | {"x": round(INTERVALS * step, 3)}]},
                "mark": {"type": "area", "interpolate": "step-after", "color": colour, "opacity": 1.0},
                "encoding": {
                    "x": x.encoding("x", since),
                    "y": y.encoding("y", "GPUs", label_space=label_space),
                    "y2": {"field": "y2"},
                    "tooltip": [{"field": name, "type": "nominal"} for name in ("time", label)],
                },
            }
        )
    return found


def _lines(
    shown: Sequence[tuple[str, str, list[float]]], step: float, x: Axis, y: Axis, label_space: int, since: str
) -> list[Spec]:
    return [
        {
            "data": {"values": [{"x": round(i * step, 3), "y": round(high, 3)} for i, high in enumerate(heights)]},
            "mark": {"type": "line", "interpolate": "step-after", "color": colour, "strokeWidth": 1.6},
            "encoding": {
                "x": x.encoding("x", since),
                "y": y.encoding("y", "jobs", label_space=label_space),
            },
        }
        for _, colour, heights in shown
    ]
