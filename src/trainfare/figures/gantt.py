"""A schedule as a picture: a lane a node, a bar a job, its height the GPUs that it has; so area is GPU time.

Pale ground is a node that is paid for: what no bar covers is idle. Dark is what runs after its deadline. Of more nodes
than can be told apart, `schedule_load` shows the sums instead.
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
from trainfare.figures.schedule_lanes import SAME_MOMENT_SECONDS, Bar, bars, lanes, from_first_submission
from trainfare.figures.schedule_load import load_views
from trainfare.figures.schedule_look import (
    BARS,
    FIRST_SUBMISSION,
    BACKGROUNDS,
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
from trainfare.model.schedule import ScheduleOutcome, Schedule
from trainfare.units import format_duration

MOST_LANES = 40
"""More would be thinner than the words of a label, and nobody follows a job among them."""
MOST_BARS = 3000
"""A page with more is slow, and a bar is then narrower than a pixel."""

FILLED = 0.86
"""The part of a lane that its node has, at the most GPUs."""
TALLEST, LOWEST = 60.0, 9.0
"""Pixels of a lane."""
HEIGHT = 340.0
"""Pixels of all lanes, between these."""
SMALL = 10
"""Pixels of the letters on a bar."""
LABELLED_LATE = 5
"""Late jobs whose lateness is written at their end, the latest first."""
FINE_FROM = 600
"""Of so many bars, the lines between them would cover more than the bars."""
TOLD = ("job", "where", "from", "to", "done", "submitted", "deadline", "ended")
"""Of a bar, to who points at it."""
LATE_SEEN = 2.0
"""Pixels, at least, of what is late: by a minute in a week, it is still late."""
THIN = 0.4
"""Pixels; a narrower bar is not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    x: Axis
    lanes: int
    lane: float
    """Pixels of one."""
    most: int
    """GPUs of the largest node."""

    @property
    def height(self) -> float:
        return self.lanes * self.lane

    def rows(self, lane: int, band: int, bands: int) -> tuple[float, float]:
        """Upper and lower end in pixels of `bands` GPUs from the `band`-th on."""
        bottom = (lane + 0.5 + FILLED / 2) * self.lane
        gpu = FILLED * self.lane / self.most
        return bottom - (band + bands) * gpu, bottom - band * gpu


def gantt_figure(
    schedule: Schedule,
    outcome: ScheduleOutcome,
    *,
    bound_usd: float | None = None,
    width: int = WIDE,
    since: str = FIRST_SUBMISSION,
) -> Spec:
    """`width` pixels in all; `since` says what second 0 is."""
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
    """To stand below others; `end_seconds` is where x ends, since the first submission and if later than the schedule,
    `left` the pixels beside the field, if more than it needs."""
    schedule = from_first_submission(schedule)
    drawn = bars(schedule)
    end = max([end_seconds or 0.0, *(rental.end_seconds for rental in schedule.rentals)], default=0.0) or 1.0
    lane_of = lanes(schedule.rentals)
    number = max(lane_of.values(), default=0) + 1
    if number > MOST_LANES or len(drawn) > MOST_BARS:
        return load_views(
            schedule, outcome, bound_usd=bound_usd, width=width, end_seconds=end, height=height, left=left, since=since
        )
    label_space = max(_label_space(number), left)
    field = _Field(
        x=build_axis("seconds", [0.0, end], length=width - label_space - 2 * EDGE - 12, margin=0.0),
        lanes=number,
        lane=min(TALLEST, max(LOWEST, height / number)),
        most=max((each.gpus for each in rented_types(schedule)), default=1),
    )
    jobs = {job.id: job for job in schedule.jobs}
    ended = dict(schedule.ended_seconds)
    colours = {job.id: BARS[place % len(BARS)] for place, job in enumerate(_in_order(schedule))}
    rows = [row for bar in drawn for row in _bar_rows(bar, jobs[bar.allocation.job], ended, colours, field)]
    title, subtitle = schedule_title(schedule, outcome, bound_usd)
    legend = legend_layers(_swatches(schedule, rows), width=width - label_space - 2 * EDGE)
    return [
        {
            "title": title_spec(title, f"{subtitle} · a lane is a node, a bar a job, its height its GPUs", width),
            "width": field.x.length,
            "height": round(field.height, 1),
            "layer": [
                _ground(schedule, lane_of, field, label_space, since),
                _bars(rows),
                *_reclaimed(schedule, lane_of, field),
                *_names(rows, field),
                *_late_labels(drawn, jobs, ended, field),
                *legend,
            ],
        }
    ]


def _label_space(number: int) -> int:
    """Pixels for the numbers of the lanes and the title."""
    return math.ceil(text_width(str(number))) + 8 + LABEL_SIZE + 8


def _in_order(schedule: Schedule) -> list[Job]:
    """By their first beginning, so that bars beside each other differ in colour."""
    first: dict[str, float] = {}
    for allocation in schedule.allocations:
        first.setdefault(allocation.job, allocation.start_seconds)
    return sorted(schedule.jobs, key=lambda job: (first.get(job.id, math.inf), job.submitted_seconds, job.id))


def _ground(schedule: Schedule, lane_of: Mapping[int, int], field: _Field, label_space: int, since: str) -> Spec:
    """Every rental; it has the axes, as it is always there."""
    types = {each.name: each for each in schedule.fleet.types}
    rows = []
    for rental in schedule.rentals:
        if rental.node not in lane_of:
            continue
        its = types[rental.type]
        top, bottom = field.rows(lane_of[rental.node], 0, its.gpus)
        rows.append(
            {
                "x": rental.start_seconds,
                "x2": rental.end_seconds,
                "y": top,
                "y2": bottom,
                "fill": background_colour(schedule.fleet, its),
                "machine": its.name,
                "GPUs": f"{its.gpus} × {its.gpu}",
                "price": f"{its.usd_per_hour:.4g} $/h",
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


def _lane_axis(field: _Field, label_space: int) -> Spec:
    """The numbers of the lanes; where they have no room, of every second, fifth or tenth."""
    step = next(step for step in (1, 2, 5, 10, 20) if step * field.lane >= LABEL_SIZE + 1)
    shown = [lane for lane in range(field.lanes) if step == 1 or (lane + 1) % step == 0]
    values = [round((lane + 0.5) * field.lane, 1) for lane in shown]
    words = ", ".join(f"'{lane + 1}'" for lane in shown)
    return {
        "title": "nodes",
        "values": values,
        "tickCount": len(values),  # else the renderer leaves out every second
        "labelExpr": f"[{words}][indexof({values!r}, datum.value)]",
        "labelOverlap": False,
        "grid": False,
        "ticks": False,
        "domain": False,
        "minExtent": label_space - LABEL_SIZE - 4,
        "maxExtent": label_space - LABEL_SIZE - 4,
    }


def _bar_rows(
    bar: Bar, job: Job, ended: Mapping[str, float], colours: Mapping[str, str], field: _Field
) -> Iterator[Spec]:
    """In up to three parts: what it needs to get on, in time, after its deadline."""
    allocation = bar.allocation
    works = min(allocation.work_start_seconds, allocation.end_seconds)
    due = min(max(job.deadline_seconds, works), allocation.end_seconds)
    top, bottom = field.rows(bar.lane, bar.band, bar.bands)
    end = ended.get(job.id)
    told = {
        "job": job.id,
        "where": f"{allocation.gpus} GPU{'s' * (allocation.gpus > 1)} of {bar.rental.type}"
        + (f" on each of {len(allocation.nodes)} nodes" if len(allocation.nodes) > 1 else ""),
        "from": _moment(allocation.start_seconds),
        "to": _moment(allocation.end_seconds),
        "done": f"{100 * allocation.done_before:.0f} → {100 * allocation.done_after:.0f} %",
        "submitted": _moment(job.submitted_seconds),
        "deadline": _moment(job.deadline_seconds),
        "ended": "not yet" if end is None else _moment(end) + _lateness(job, end),
    }
    parts = (
        (allocation.start_seconds, works, "prepares"),
        (works, due, "works"),
        (due, allocation.end_seconds, "late"),
    )
    second = field.x.length / (field.x.high - field.x.low)
    for start, stop, part in parts:
        late = part == "late" and stop - start > SAME_MOMENT_SECONDS
        if late or (stop - start) * second >= THIN:
            yield {
                "x": min(start, stop - LATE_SEEN / second) if late else start,
                "x2": stop,
                "y": top,
                "y2": bottom,
                "fill": {"prepares": PREPARING, "works": colours[job.id], "late": LATE}[part],
                "part": part,
                **told,
            }


def _moment(seconds: float) -> str:
    return "none" if math.isinf(seconds) else format_duration(seconds) if seconds > 0 else "0"


def _lateness(job: Job, end: float) -> str:
    late = end - job.deadline_seconds
    return f", {format_duration(late)} late" if late > 0 else ""


def _bars(rows: Sequence[Spec]) -> Spec:
    return {
        "data": {"values": round_pixels(rows)},
        "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 0.7 if len(rows) < FINE_FROM else 0.3},
        "encoding": {
            **_corners(),
            "fill": {"field": "fill", "type": "nominal", "scale": None},
            "tooltip": _tooltip(),
        },
    }


def _tooltip() -> list[Spec]:
    return [{"field": name, "type": "nominal"} for name in TOLD]


def _corners() -> Spec:
    return {
        "x": {"field": "x", "type": "quantitative"},
        "x2": {"field": "x2"},
        "y": {"field": "y", "type": "quantitative"},
        "y2": {"field": "y2"},
    }


def _names(rows: Sequence[Spec], field: _Field) -> list[Spec]:
    """Of jobs, on the bars that have room."""
    named = []
    for row in rows:
        left, right = (field.x.pixel(row[end]) for end in ("x", "x2"))
        if right - left >= text_width(row["job"], SMALL) + 4 and row["y2"] - row["y"] >= SMALL - 1:
            told = {name: row[name] for name in TOLD}
            on_dark = row["part"] == "late"
            named.append(_Words(row["job"], (left + right) / 2, (row["y"] + row["y2"]) / 2, on_dark, told))
    return _texts(named, align="center")


def _late_labels(
    drawn: Sequence[Bar], jobs: Mapping[str, Job], ended: Mapping[str, float], field: _Field
) -> list[Spec]:
    """How late the latest are, right of their last bar where that node has nothing more to do; else the end of the
    bar tells it to who points there."""
    late = {name: end - jobs[name].deadline_seconds for name, end in ended.items()}
    latest = sorted((name for name in late if late[name] > 0), key=lambda name: -late[name])[:LABELLED_LATE]
    words = []
    for name in latest:
        last = max((bar for bar in drawn if bar.allocation.job == name), key=lambda bar: bar.allocation.end_seconds)
        top, bottom = field.rows(last.lane, last.band, last.bands)
        said = f"{name}: {format_duration(late[name])} late"
        x = field.x.pixel(last.allocation.end_seconds) + 4
        if _is_free(last, x + text_width(said, SMALL, bold=True), drawn, field):
            words.append(_Words(said, x, (top + bottom) / 2, on_dark=False, told={}))
    return _texts(words, align="left", strong=True)


def _is_free(last: Bar, right: float, drawn: Sequence[Bar], field: _Field) -> bool:
    """Whether from the end of this bar as far as that pixel no bar lies beside it."""
    return right <= field.x.length + EDGE and not any(
        bar.lane == last.lane
        and bar.allocation.end_seconds > last.allocation.end_seconds
        and field.x.pixel(bar.allocation.start_seconds) < right
        and bar.band < last.band + last.bands
        and last.band < bar.band + bar.bands
        for bar in drawn
    )


class _Words(NamedTuple):
    label: str
    x: float
    y: float
    on_dark: bool
    """It stands on a dark bar."""
    told: Spec
    """Of the bar that it stands on or belongs to."""


def _texts(words: Sequence[_Words], *, align: str, strong: bool = False) -> list[Spec]:
    layers = []
    for on_dark in (False, True):
        mine = [each for each in words if each.on_dark == on_dark]
        if not mine:
            continue
        mark = {
            "type": "text",
            "align": align,
            "baseline": "middle",
            "fontSize": SMALL,
            "fontWeight": "bold" if strong else "normal",
            "color": LATE if strong else PAPER if on_dark else TEXT,
            "x": {"expr": "datum.x"},
            "y": {"expr": "datum.y"},
        }
        encoding: Spec = {"text": {"field": "label", "type": "nominal"}}
        if mine[0].told:  # else the word would hide what its bar tells
            encoding["tooltip"] = _tooltip()
        rows = [{"label": each.label, "x": each.x, "y": each.y, **each.told} for each in mine]
        layers.append({"data": {"values": round_pixels(rows)}, "mark": mark, "encoding": encoding})
    return layers


def _reclaimed(schedule: Schedule, lane_of: Mapping[int, int], field: _Field) -> list[Spec]:
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
    """What the grounds and the darker bars mean; only of what there is."""
    parts = {row["part"] for row in rows}
    found = [
        Swatch(colour=BACKGROUNDS[place % len(BACKGROUNDS)], words=f"{names}, paid and idle")
        for place, names in rented_kinds(schedule)
    ]
    if "prepares" in parts:
        found.append(Swatch(colour=PREPARING, words="boots or is restored"))
    if "late" in parts:
        found.append(Swatch(colour=LATE, words="after its deadline"))
    if any(rental.reclaimed for rental in schedule.rentals):
        found.append(Swatch(colour=None, words="× taken back"))
    return found
