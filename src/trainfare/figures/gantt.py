"""The figure of a schedule: one lane per node, one bar per job. The height of a bar is its GPUs, its area is GPU time.

A pale background is a node that is paid for; the part without a bar is idle. Dark bars run after their deadline. With
more nodes than can be distinguished, `schedule_load` shows sums instead.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainfare.figures.axis import Axis, build_axis
from trainfare.figures.look import (
    EDGE,
    LABEL_SIZE,
    PAPER,
    STRONG,
    TEXT,
    WIDE,
    Spec,
    page,
    text_width,
    title_spec,
)
from trainfare.figures.marks import round_pixels
from trainfare.figures.schedule_lanes import SAME_MOMENT_SECONDS, Bar, bars, from_first_submission, lanes
from trainfare.figures.schedule_load import load_views
from trainfare.figures.schedule_look import (
    BACKGROUNDS,
    BARS,
    FIRST_SUBMISSION,
    LATE,
    PREPARING,
    Swatch,
    background_colour,
    legend_layers,
    rented_kinds,
    rented_types,
    schedule_title,
)
from trainfare.model.queue import Job
from trainfare.model.schedule import Schedule, ScheduleOutcome
from trainfare.units import format_duration, format_usd_per_hour, plural

MAX_LANES = 40
"""More lanes would be thinner than a label, and jobs could not be followed."""
MAX_BARS = 3000
"""A page with more bars is slow, and a bar would be narrower than a pixel."""

FILLED_SHARE = 0.86
"""The share of a lane that a node with the most GPUs fills."""
MAX_LANE_HEIGHT, MIN_LANE_HEIGHT = 60.0, 9.0
"""The height of a lane in pixels."""
HEIGHT = 340.0
"""The height of all lanes in pixels, within these limits per lane."""
BAR_FONT_SIZE = 10
"""The font size on a bar."""
LATE_LABELS = 5
"""The number of late jobs with a label, the latest first."""
THIN_STROKE_FROM = 600
"""With this many bars, normal lines between them would cover more than the bars."""
TOOLTIP_KEYS = ("job", "where", "from", "to", "done", "submitted", "deadline", "ended")
"""The titles in the tooltip of a bar."""
MIN_LATE_PIXELS = 2.0
"""The least width of a late part in pixels: a minute in a week must be visible."""
MIN_BAR_PIXELS = 0.4
"""The width in pixels below which a bar is not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _GanttField:
    x: Axis
    lanes: int
    lane: float
    """The height of one lane in pixels."""
    max_gpus: int
    """GPUs of the largest node."""

    @property
    def height(self) -> float:
        return self.lanes * self.lane

    def rows(self, lane: int, band: int, bands: int) -> tuple[float, float]:
        """The upper and lower pixel of `bands` GPUs from the `band`-th on."""
        bottom = (lane + 0.5 + FILLED_SHARE / 2) * self.lane
        gpu = FILLED_SHARE * self.lane / self.max_gpus
        return bottom - (band + bands) * gpu, bottom - band * gpu


def gantt_figure(
    schedule: Schedule,
    outcome: ScheduleOutcome,
    *,
    bound_usd: float | None = None,
    width: int = WIDE,
    since: str = FIRST_SUBMISSION,
) -> Spec:
    """The specification, `width` pixels wide; `since` is the title of the time axis."""
    views = gantt_views(schedule, outcome, bound_usd=bound_usd, width=width, since=since)
    title, subtitle = schedule_title(schedule, outcome, bound_usd)
    return page(views, description=f"{title}. {subtitle}.", width=width)


def gantt_views(
    schedule: Schedule,
    outcome: ScheduleOutcome,
    *,
    bound_usd: float | None = None,
    width: int = WIDE,
    end_seconds: float | None = None,
    height: float = HEIGHT,
    left: int = 0,
    since: str = FIRST_SUBMISSION,
) -> list[Spec]:
    """Views to stack with others. `end_seconds` is the end of the time axis, relative to the first submission, if it is
    later than the schedule; `left` is the space to the left of the field, if it is larger than needed."""
    schedule = from_first_submission(schedule)
    drawn = bars(schedule)
    end = max([end_seconds or 0.0, *(rental.end_seconds for rental in schedule.rentals)], default=0.0) or 1.0
    lane_of = lanes(schedule.rentals)
    number = max(lane_of.values(), default=0) + 1
    if number > MAX_LANES or len(drawn) > MAX_BARS:
        return load_views(
            schedule, outcome, bound_usd=bound_usd, width=width, end_seconds=end, height=height, left=left, since=since
        )
    label_space = max(_label_space(number), left)
    field = _GanttField(
        x=build_axis("seconds", [0.0, end], length=width - label_space - 2 * EDGE - 12, margin=0.0),
        lanes=number,
        lane=min(MAX_LANE_HEIGHT, max(MIN_LANE_HEIGHT, height / number)),
        max_gpus=max((each.gpus for each in rented_types(schedule)), default=1),
    )
    jobs = {job.id: job for job in schedule.jobs}
    ended = dict(schedule.ended_seconds)
    colours = {job.id: BARS[place % len(BARS)] for place, job in enumerate(_jobs_by_start(schedule))}
    rows = [row for bar in drawn for row in _bar_rows(bar, jobs[bar.allocation.job], ended, colours, field)]
    title, subtitle = schedule_title(schedule, outcome, bound_usd)
    legend = legend_layers(_swatches(schedule, rows), width=width - label_space - 2 * EDGE)
    return [
        {
            "title": title_spec(title, f"{subtitle} · one lane per node, one bar per job, height = GPUs", width),
            "width": field.x.length,
            "height": round(field.height, 1),
            "layer": [
                _rentals_layer(schedule, lane_of, field, label_space, since),
                _bars(rows),
                *_reclaimed(schedule, lane_of, field),
                *_job_names(rows, field),
                *_late_labels(drawn, jobs, ended, field),
                *legend,
            ],
        }
    ]


def _label_space(number: int) -> int:
    """Pixels for the lane numbers and the title."""
    return math.ceil(text_width(str(number))) + 8 + LABEL_SIZE + 8


def _jobs_by_start(schedule: Schedule) -> list[Job]:
    """The jobs by their first start, so that neighbouring bars differ in colour."""
    first: dict[str, float] = {}
    for allocation in schedule.allocations:
        first.setdefault(allocation.job, allocation.start_seconds)
    return sorted(schedule.jobs, key=lambda job: (first.get(job.id, math.inf), job.submitted_seconds, job.id))


def _rentals_layer(
    schedule: Schedule, lane_of: Mapping[int, int], field: _GanttField, label_space: int, since: str
) -> Spec:
    """The backgrounds of all rentals; this layer has the axes, because it always exists."""
    types = {each.name: each for each in schedule.fleet.types}
    rows = []
    for rental in schedule.rentals:
        if rental.node not in lane_of:
            continue
        node_type = types[rental.type]
        top, bottom = field.rows(lane_of[rental.node], 0, node_type.gpus)
        rows.append(
            {
                "x": rental.start_seconds,
                "x2": rental.end_seconds,
                "y": top,
                "y2": bottom,
                "fill": background_colour(schedule.fleet, node_type),
                "machine": node_type.name,
                "GPUs": f"{node_type.gpus} × {node_type.gpu}",
                "price": format_usd_per_hour(node_type.usd_per_hour),
                "rented": f"{format_duration(rental.end_seconds - rental.start_seconds)}",
            }
        )
    y = {
        "field": "y",
        "type": "quantitative",
        "scale": {"domain": [0, round(field.height, 1)], "reverse": True, "nice": False, "zero": False},
        "axis": _lane_axis(field, label_space),
    }
    return {
        "data": {"values": round_pixels(rows)},
        "mark": {"type": "rect"},
        "encoding": {
            "x": field.x.encoding("x", since),
            "x2": {"field": "x2"},
            "y": y,
            "y2": {"field": "y2"},
            "fill": {"field": "fill", "type": "nominal", "scale": None},
            "tooltip": [{"field": name, "type": "nominal"} for name in ("machine", "GPUs", "price", "rented")],
        },
    }


def _lane_axis(field: _GanttField, label_space: int) -> Spec:
    """The axis of lane numbers; without enough space, only every second, fifth or tenth number."""
    step = next(step for step in (1, 2, 5, 10, 20) if step * field.lane >= LABEL_SIZE + 1)
    shown = [lane for lane in range(field.lanes) if step == 1 or (lane + 1) % step == 0]
    values = [round((lane + 0.5) * field.lane, 1) for lane in shown]
    labels = ", ".join(f"'{lane + 1}'" for lane in shown)
    return {
        "title": "nodes",
        "values": values,
        "tickCount": len(values),  # else the renderer leaves out every second
        "labelExpr": f"[{labels}][indexof({values!r}, datum.value)]",
        "labelOverlap": False,
        "grid": False,
        "ticks": False,
        "domain": False,
        "minExtent": label_space - LABEL_SIZE - 4,
        "maxExtent": label_space - LABEL_SIZE - 4,
    }


def _bar_rows(
    bar: Bar, job: Job, ended: Mapping[str, float], colours: Mapping[str, str], field: _GanttField
) -> Iterator[Spec]:
    """Up to three parts of a bar: preparation, work before the deadline, work after it."""
    allocation = bar.allocation
    works = min(allocation.work_start_seconds, allocation.end_seconds)
    due = min(max(job.deadline_seconds, works), allocation.end_seconds)
    top, bottom = field.rows(bar.lane, bar.band, bar.bands)
    end = ended.get(job.id)
    tooltip = {
        "job": job.id,
        "where": f"{plural(allocation.gpus, 'GPU')} of {bar.rental.type}"
        + (f" on each of {len(allocation.nodes)} nodes" if len(allocation.nodes) > 1 else ""),
        "from": _format_moment(allocation.start_seconds),
        "to": _format_moment(allocation.end_seconds),
        "done": f"{100 * allocation.done_before:.0f}% → {100 * allocation.done_after:.0f}%",
        "submitted": _format_moment(job.submitted_seconds),
        "deadline": _format_moment(job.deadline_seconds),
        "ended": "not yet" if end is None else _format_moment(end) + _lateness(job, end),
    }
    parts = (
        (allocation.start_seconds, works, "prepares"),
        (works, due, "works"),
        (due, allocation.end_seconds, "late"),
    )
    second = field.x.length / (field.x.high - field.x.low)
    for start, stop, part in parts:
        late = part == "late" and stop - start > SAME_MOMENT_SECONDS
        if late or (stop - start) * second >= MIN_BAR_PIXELS:
            yield {
                "x": min(start, stop - MIN_LATE_PIXELS / second) if late else start,
                "x2": stop,
                "y": top,
                "y2": bottom,
                "fill": {"prepares": PREPARING, "works": colours[job.id], "late": LATE}[part],
                "part": part,
                **tooltip,
            }


def _format_moment(seconds: float) -> str:
    return "none" if math.isinf(seconds) else format_duration(seconds) if seconds > 0 else "0"


def _lateness(job: Job, end: float) -> str:
    late = end - job.deadline_seconds
    return f", {format_duration(late)} late" if late > 0 else ""


def _bars(rows: Sequence[Spec]) -> Spec:
    return {
        "data": {"values": round_pixels(rows)},
        "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 0.7 if len(rows) < THIN_STROKE_FROM else 0.3},
        "encoding": {
            **_corners(),
            "fill": {"field": "fill", "type": "nominal", "scale": None},
            "tooltip": _tooltip(),
        },
    }


def _tooltip() -> list[Spec]:
    return [{"field": name, "type": "nominal"} for name in TOOLTIP_KEYS]


def _corners() -> Spec:
    return {
        "x": {"field": "x", "type": "quantitative"},
        "x2": {"field": "x2"},
        "y": {"field": "y", "type": "quantitative"},
        "y2": {"field": "y2"},
    }


def _job_names(rows: Sequence[Spec], field: _GanttField) -> list[Spec]:
    """The names of jobs, on bars with enough space."""
    names = []
    for row in rows:
        left, right = (field.x.pixel(row[end]) for end in ("x", "x2"))
        if right - left >= text_width(row["job"], BAR_FONT_SIZE) + 4 and row["y2"] - row["y"] >= BAR_FONT_SIZE - 1:
            tooltip = {name: row[name] for name in TOOLTIP_KEYS}
            on_dark = row["part"] == "late"
            names.append(_BarText(row["job"], (left + right) / 2, (row["y"] + row["y2"]) / 2, on_dark, tooltip))
    return _texts(names, align="center")


def _late_labels(
    drawn: Sequence[Bar], jobs: Mapping[str, Job], ended: Mapping[str, float], field: _GanttField
) -> list[Spec]:
    """The lateness of the latest jobs, to the right of their last bar if there is space; it is also in the tooltip."""
    late = {name: end - jobs[name].deadline_seconds for name, end in ended.items()}
    latest = sorted((name for name in late if late[name] > 0), key=lambda name: -late[name])[:LATE_LABELS]
    texts = []
    for name in latest:
        last = max((bar for bar in drawn if bar.allocation.job == name), key=lambda bar: bar.allocation.end_seconds)
        top, bottom = field.rows(last.lane, last.band, last.bands)
        text = f"{name}: {format_duration(late[name])} late"
        x = field.x.pixel(last.allocation.end_seconds) + 4
        if _is_free(last, x + text_width(text, BAR_FONT_SIZE, bold=True), drawn, field):
            texts.append(_BarText(text, x, (top + bottom) / 2, on_dark=False, tooltip={}))
    return _texts(texts, align="left", strong=True)


def _is_free(last: Bar, right: float, drawn: Sequence[Bar], field: _GanttField) -> bool:
    """True if no other bar lies between the end of this bar and that pixel."""
    return right <= field.x.length + EDGE and not any(
        bar.lane == last.lane
        and bar.allocation.end_seconds > last.allocation.end_seconds
        and field.x.pixel(bar.allocation.start_seconds) < right
        and bar.band < last.band + last.bands
        and last.band < bar.band + bar.bands
        for bar in drawn
    )


class _BarText(NamedTuple):
    label: str
    x: float
    y: float
    on_dark: bool
    """True if the text is on a dark bar."""
    tooltip: Spec
    """The tooltip of its bar."""


def _texts(texts: Sequence[_BarText], *, align: str, strong: bool = False) -> list[Spec]:
    layers = []
    for on_dark in (False, True):
        group = [each for each in texts if each.on_dark == on_dark]
        if not group:
            continue
        mark = {
            "type": "text",
            "align": align,
            "baseline": "middle",
            "fontSize": BAR_FONT_SIZE,
            "fontWeight": "bold" if strong else "normal",
            "color": LATE if strong else PAPER if on_dark else TEXT,
            "x": {"expr": "datum.x"},
            "y": {"expr": "datum.y"},
        }
        encoding: Spec = {"text": {"field": "label", "type": "nominal"}}
        if group[0].tooltip:  # else the text would hide the tooltip of its bar
            encoding["tooltip"] = _tooltip()
        rows = [{"label": each.label, "x": each.x, "y": each.y, **each.tooltip} for each in group]
        layers.append({"data": {"values": round_pixels(rows)}, "mark": mark, "encoding": encoding})
    return layers


def _reclaimed(schedule: Schedule, lane_of: Mapping[int, int], field: _GanttField) -> list[Spec]:
    gpus = {each.name: each.gpus for each in schedule.fleet.types}
    rows = []
    for rental in schedule.rentals:
        if rental.reclaimed and rental.node in lane_of:
            top, bottom = field.rows(lane_of[rental.node], 0, gpus[rental.type])
            rows.append({"x": field.x.pixel(rental.end_seconds), "y": (top + bottom) / 2, "label": "×"})
    if not rows:
        return []
    mark = {
        "type": "text",
        "fontSize": LABEL_SIZE + 3,
        "fontWeight": "bold",
        "baseline": "middle",
        "color": STRONG,
        "x": {"expr": "datum.x"},
        "y": {"expr": "datum.y"},
    }
    encoding = {"text": {"field": "label", "type": "nominal"}}
    return [{"data": {"values": round_pixels(rows)}, "mark": mark, "encoding": encoding}]


def _swatches(schedule: Schedule, rows: Sequence[Spec]) -> list[Swatch]:
    """The legend of backgrounds and dark bars, as far as they occur."""
    parts = {row["part"] for row in rows}
    found = [
        Swatch(colour=BACKGROUNDS[place % len(BACKGROUNDS)], label=f"{names}, paid and idle")
        for place, names in rented_kinds(schedule)
    ]
    if "prepares" in parts:
        found.append(Swatch(colour=PREPARING, label="boot or restore"))
    if "late" in parts:
        found.append(Swatch(colour=LATE, label="after the deadline"))
    if any(rental.reclaimed for rental in schedule.rentals):
        found.append(Swatch(colour=None, label="× spot interruption"))
    return found
