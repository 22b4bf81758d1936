"""A schedule of many nodes as sums over time: GPUs that work, GPUs that are paid and idle, jobs that wait.

Time is cut into equal pieces; a height is the mean over its piece, so that areas are GPU time to the digit:

    mean of a piece = Σ stretches  GPUs · (overlap of stretch and piece) / length of the piece
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
from trainfare.model.schedule import ScheduleOutcome, Schedule
from trainfare.units import format_duration

PIECES = 240
"""Of time."""
SEEN = 1e-6
"""Jobs; what is less is rounding."""
IDLE = "#e3e0d8"
_WAITING = 0.38
"""The height of the second view, in parts of the first."""

Piece = tuple[float, float, float]
"""(start, end, height) of something that lasts."""


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
    """GPUs above; below, where there are such, jobs that wait or are late."""
    step = end_seconds / PIECES
    layers, top = _gpus(schedule, step)
    waiting = mean_heights(_waits(schedule), step)
    overdue = mean_heights(_overdue(schedule), step)
    vertical = build_axis("count", [top], length=height * 0.62, vertical=True)
    below = build_axis("count", [1.0, *waiting, *overdue], length=height * _WAITING, vertical=True)
    label_space = max(vertical.label_space, below.label_space, left)
    x = build_axis("seconds", [0.0, end_seconds], length=width - label_space - 2 * EDGE - 12, margin=0.0)
    title, subtitle = schedule_title(schedule, outcome, bound_usd)
    queue = [("jobs that wait", STRONG, waiting), ("jobs past their deadline", LATE, overdue)]
    shown = [each for each in queue if max(each[2]) > SEEN]
    legends = [
        legend_layers([Swatch(colour=colour, words=words) for words, colour, _ in each], width=x.length)
        for each in (layers, shown)
    ]
    how = "the GPUs of all nodes in sum" if shown else "the GPUs of all nodes in sum; no job waits, none is late"
    above = {
        "title": title_spec(title, f"{subtitle} · {how}", width),
        "width": x.length,
        "height": vertical.length,
        "layer": [*_areas(layers, step, x, vertical, label_space, since), *legends[0]],
    }
    jobs = {
        "width": x.length,
        "height": below.length,
        "layer": [*_lines(shown, step, x, below, label_space, since), *legends[1]],
    }
    return [above, jobs] if shown else [above]


def mean_heights(things: Iterable[Piece], step: float) -> list[float]:
    """Of the sum of their heights, piece by piece of `step` seconds; in one pass, by the differences."""
    change = [0.0] * (PIECES + 2)
    """Of the slope of the integral, at the edges of pieces, as two differences a thing's end."""
    whole = [0.0] * (PIECES + 2)
    for start, end, tall in things:
        for moment, sign in ((start, tall), (end, -tall)):
            place = min(max(moment / step, 0.0), float(PIECES))
            piece = int(place)
            # From this moment on the sum is higher by `sign`: its own piece has the rest of it, the later ones all.
            change[piece] += sign * (1 - (place - piece))
            whole[piece + 1] += sign
    sums = list(accumulate(whole))
    return [max(0.0, change[piece] + sums[piece]) for piece in range(PIECES)]


def _gpus(schedule: Schedule, step: float) -> tuple[list[tuple[str, str, list[float]]], float]:
    """Layers from below, each (words, colour, heights), and the highest sum."""
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
    idle = [max(0.0, all_of - sum(heights[i] for _, _, heights in found)) for i, all_of in enumerate(rented)]
    found.append(("paid and not working", IDLE, idle))
    return found, max(1.0, *rented)


def _waits(schedule: Schedule) -> list[Piece]:
    """From being submitted to the end, without what it spends at a place."""
    ended = dict(schedule.ended_seconds)
    there = [(job.submitted_seconds, ended[job.id], 1.0) for job in schedule.jobs if job.id in ended]
    return [*there, *((s.start_seconds, s.end_seconds, -1.0) for s in schedule.allocations)]


def _overdue(schedule: Schedule) -> list[Piece]:
    ended = dict(schedule.ended_seconds)
    return [
        (max(job.deadline_seconds, job.submitted_seconds), ended[job.id], 1.0)
        for job in schedule.jobs
        if ended.get(job.id, 0.0) > job.deadline_seconds
    ]


def _areas(
    layers: Sequence[tuple[str, str, list[float]]], step: float, x: Axis, y: Axis, label_space: int, since: str
) -> list[Spec]:
    """Each on those below it."""
    found = []
    base = [0.0] * PIECES
    for words, colour, heights in layers:
        rows = [
            {
                "x": round(i * step, 3),
                "y": round(base[i], 3),
                "y2": round(base[i] + heights[i], 3),
                "time": format_duration((i + 0.5) * step),
                words: f"{heights[i]:.3g} GPUs",
            }
            for i in range(PIECES)
        ]
        base = [low + high for low, high in zip(base, heights, strict=True)]
        found.append(
            {
                "data": {"values": [*rows, rows[-1] | {"x": round(PIECES * step, 3)}]},
                "mark": {"type": "area", "interpolate": "step-after", "color": colour, "opacity": 1.0},
                "encoding": {
                    "x": x.encoding("x", since),
                    "y": y.encoding("y", "GPUs", label_space=label_space),
                    "y2": {"field": "y2"},
                    "tooltip": [{"field": name, "type": "nominal"} for name in ("time", words)],
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
