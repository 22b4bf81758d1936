"""The figure of time and cost: one point per machine, the chosen one, the Pareto front and the limits."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainfare.figures.axis import Axis, build_axis, needs_log_scale
from trainfare.figures.labels import TOOLTIP_FIELDS, gpu_name, machine_labels, shorten, tooltip
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
from trainfare.figures.marks import label_layers, shade_layers, text_layers
from trainfare.figures.place import Box, LabelRequest, LineSegment, PlacedLabel, box_around, overlap, place_labels
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.names import machine_name
from trainfare.units import format_duration, format_percent, format_usd, plural

MAX_BARRED_POINTS = 12
"""With more points, only the chosen one and the front have bars."""

MAX_LABELS = 14
"""The largest number of labels in addition to the required ones; half as many on a phone."""

LABELLED_OTHERS = 3
"""Labelled points off the front if there are many points, best first; of few points all are labelled."""

MAX_LETTERS = 28
"""Longer names are cut, except that of the chosen machine; the tooltip has the complete name."""

MAX_LIMIT_RATIO = 3.0
"""A limit more than this many times the largest value is only mentioned in the subtitle: drawn, it would squeeze all
points into a corner."""

_RADIUS = {"chosen": 7.0, "knee": 5.5, "front": 3.6, "other": 2.4}
"""The radius of a point in pixels, by its role."""


_LIMIT_LABEL_POSITIONS = (0.0, 1.0, 0.25, 0.75, 0.5)
"""Positions of the label of a limit along its line, the ends first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _MachinePoint:
    estimate: Estimate
    label: str
    role: str
    """`chosen`, `knee`, `front` or `other`."""
    has_bars: bool
    usd: Interval
    """The cost at which it is drawn: its own, or the foot of a logarithmic axis if it costs nothing."""

    @property
    def radius(self) -> float:
        return _RADIUS[self.role]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LimitLine:
    """A limit at `value` along a channel, and the box of its label."""

    channel: str
    value: float
    label: str
    box: Box | None
    """The box of the label; None if there is no space for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimeCostField:
    x: Axis
    y: Axis

    def at(self, point: _MachinePoint) -> tuple[float, float]:
        """The pixels of a point, from the upper left."""
        return self.x.pixel(point.estimate.seconds.value), self.y.length - self.y.pixel(point.usd.value)

    @property
    def box(self) -> Box:
        """The area for labels; it extends slightly to the right of the axes, where there is nothing else."""
        return 2.0, 0.0, self.x.length + EDGE, self.y.length - 2


def time_cost_figure(
    estimates: Sequence[Estimate],
    *,
    chosen: Estimate,
    front: Sequence[Estimate] = (),
    knee: Estimate | None = None,
    goal: Goal | None = None,
    title: str | None = None,
    width: int = WIDE,
) -> Spec:
    """The figure, `width` pixels wide. `estimates` are the alternatives, best first, one per machine and market; the
    chosen one and the front are drawn even if they are not among them.

    Both axes start at zero, or both are logarithmic if one quantity differs by more than a factor of eight. A machine
    that costs nothing is then drawn at the foot of the axis.
    """
    goal = goal or Goal()
    points = _points(estimates, chosen, knee, front)
    field = _field(points, goal, width)
    first = _labels([point for point in points if point.role in ("chosen", "knee")], points, field)
    limits = tuple(_limits(goal, field, points, first))
    labels = (*first, *_labels(_labelled_points(points, field), points, field, first, limits))
    x, y = field.x, field.y
    view: Spec = {
        "title": title_spec(title or _title(chosen), _subtitle(points, goal, field, limits), width),
        "width": x.length,
        "height": y.length,
        "layer": [
            *(layer for limit in limits for layer in shade_layers(limit.channel, limit.value, _end(limit, field))),
            *_bars(points, goal),
            *_front_line(points, front),
            _dots(points, goal, field),
            *_limit_labels(limits),
            *label_layers(labels),
        ],
    }
    return page([view], description=_description(chosen, points), width=width)


def _points(
    estimates: Sequence[Estimate], chosen: Estimate, knee: Estimate | None, front: Sequence[Estimate]
) -> tuple[_MachinePoint, ...]:
    """The chosen machine first, then the knee, the front and the others, each once; machines that are too small for the
    program are left out."""
    roles: dict[object, tuple[str, Estimate]] = {chosen.candidate: ("chosen", chosen)}
    if knee is not None:
        roles.setdefault(knee.candidate, ("knee", knee))
    for estimate in front:
        roles.setdefault(estimate.candidate, ("front", estimate))
    for estimate in estimates:
        if estimate.fits is not False:
            roles.setdefault(estimate.candidate, ("other", estimate))
    found = list(roles.values())
    labels = machine_labels([estimate for _, estimate in found])
    foot = _foot([estimate for _, estimate in found])
    return tuple(
        _MachinePoint(
            estimate=estimate,
            label=label,
            role=role,
            has_bars=len(found) <= MAX_BARRED_POINTS or role != "other",
            usd=estimate.usd if estimate.usd.value else Interval.exactly(foot),
        )
        for (role, estimate), label in zip(found, labels, strict=True)
    )


def _foot(estimates: Sequence[Estimate]) -> float:
    """The cost at which free machines are drawn: zero, or half of the least cost on a logarithmic axis."""
    if not _is_logarithmic(estimates):
        return 0.0
    return min((e.usd.value for e in estimates if e.usd.value), default=1.0) / 2


def _is_logarithmic(estimates: Sequence[Estimate]) -> bool:
    quantities = ([e.seconds.value for e in estimates], [e.usd.value for e in estimates])
    return any(needs_log_scale(values) for values in quantities) and any(quantities[1])


def _field(points: Sequence[_MachinePoint], goal: Goal, width: int) -> _TimeCostField:
    """Axes that hold every point, every bar that is drawn, and the limits that are near."""
    seconds, usd = [], []
    for point in points:
        ends = [point.estimate.seconds, point.usd]
        if point.has_bars:
            ends = [end.at_confidence(goal.confidence) for end in ends]
            seconds += [ends[0].low, ends[0].high]
            usd += [ends[1].low, ends[1].high]
        seconds.append(ends[0].value)
        usd.append(ends[1].value)
    logarithmic = _is_logarithmic([point.estimate for point in points])
    for limit, values in ((goal.deadline_seconds, seconds), (goal.budget_usd, usd)):
        if limit is not None and limit <= MAX_LIMIT_RATIO * max(values):
            values.append(1.08 * limit)
    height = round(0.62 * width) if width >= 480 else round(0.95 * width)
    y = build_axis("usd", usd, length=height, logarithmic=logarithmic, vertical=True)
    x = build_axis("seconds", seconds, length=width - y.label_space - 3 * EDGE, logarithmic=logarithmic)
    return _TimeCostField(x=x, y=y)


def _limits(
    goal: Goal, field: _TimeCostField, points: Sequence[_MachinePoint], labels: Sequence[PlacedLabel]
) -> Iterator[_LimitLine]:
    """The limits inside the field; their labels are where they cover the fewest points and no other label."""
    dots = [(box_around(*field.at(p), p.radius), 1 if p.role == "other" else 20) for p in points]
    occupied = [label.box for label in labels]
    width, height, line_height = field.x.length, field.y.length, LABEL_SIZE + 3
    if goal.deadline_seconds is not None and field.x.low < goal.deadline_seconds < field.x.high:
        label = f"deadline {format_duration(goal.deadline_seconds)}"
        line, size = field.x.pixel(goal.deadline_seconds), text_width(label)
        left = line + 4 if line + 4 + size <= width + EDGE else line - 4 - size
        tops = [2 + share * (height - line_height - 6) for share in _LIMIT_LABEL_POSITIONS]
        box = _least_covering([(left, top, left + size, top + line_height) for top in tops], dots, occupied)
        occupied += [box] if box else []
        yield _LimitLine(channel="x", value=goal.deadline_seconds, label=label, box=box)
    if goal.budget_usd is not None and field.y.low < goal.budget_usd < field.y.high:
        label = f"budget {format_usd(goal.budget_usd)}"
        line, size = height - field.y.pixel(goal.budget_usd), text_width(label)
        top = line - line_height - 3 if line > line_height + 3 else line + 3
        lefts = [4 + share * (width - size - 8) for share in _LIMIT_LABEL_POSITIONS]
        box = _least_covering([(left, top, left + size, top + line_height) for left in lefts], dots, occupied)
        yield _LimitLine(channel="y", value=goal.budget_usd, label=label, box=box)


def _least_covering(boxes: Sequence[Box], dots: Sequence[tuple[Box, int]], occupied: Sequence[Box]) -> Box | None:
    free = [box for box in boxes if not any(overlap(box, other, 2) for other in occupied)]
    return min(free, key=lambda box: sum(weight for dot, weight in dots if overlap(box, dot, 2)), default=None)


def _end(limit: _LimitLine, field: _TimeCostField) -> float:
    return field.x.high if limit.channel == "x" else field.y.high


def _limit_labels(limits: Sequence[_LimitLine]) -> list[Spec]:
    return text_layers([{"label": x.label, "x": x.box[0], "y": x.box[1] + LABEL_SIZE} for x in limits if x.box])


def _labelled_points(points: Sequence[_MachinePoint], field: _TimeCostField) -> list[_MachinePoint]:
    """The points with a label in addition to the required ones: the front, then the best of the others, or all if there
    are few."""
    most = MAX_LABELS if field.x.length >= 400 else MAX_LABELS // 2
    others = [point for point in points if point.role == "other"]
    few = len(points) <= MAX_BARRED_POINTS
    return [*(p for p in points if p.role == "front"), *(others if few else others[:LABELLED_OTHERS])][:most]


def _labels(
    labelled: Sequence[_MachinePoint],
    points: Sequence[_MachinePoint],
    field: _TimeCostField,
    placed: Sequence[PlacedLabel] = (),
    limits: Sequence[_LimitLine] = (),
) -> tuple[PlacedLabel, ...]:
    """The labels of some points, placed clear of all points."""
    requests = []
    for point in labelled:
        x, y = field.at(point)
        chosen = point.role == "chosen"
        lines, required = _label_lines(point, field), chosen or point.role == "knee"
        requests.append(LabelRequest(lines=lines, x=x, y=y, radius=point.radius, bold=chosen, required=required))
    return place_labels(
        requests,
        field=field.box,
        points=[box_around(*field.at(point), point.radius) for point in points],
        occupied=[limit.box for limit in limits if limit.box],
        placed=placed,
        lines=[*_front_segments(points, field), *_bar_segments(points, field)],
    )


def _label_lines(point: _MachinePoint, field: _TimeCostField) -> tuple[str, ...]:
    """The lines of a label: the chosen machine with its numbers, the others with their GPU."""
    label = shorten(point.label, int(field.x.length / LABEL_SIZE / 0.65))
    offer = point.estimate.candidate.offer
    if point.role == "chosen":
        return label, f"{format_duration(point.estimate.seconds.value)}, {format_usd(point.estimate.usd.value)}"
    if point.role == "knee":
        return shorten(label, MAX_LETTERS), "knee of the front"
    if offer.vm_type.gpu is None:
        return (f"{shorten(label, MAX_LETTERS)}{'' if point.estimate.usd.value else ', $0'}",)
    return _with_gpu(shorten(label, MAX_LETTERS), gpu_name(offer))


def _with_gpu(machine: str, gpu: str) -> tuple[str, ...]:
    return (machine, gpu) if len(machine) + len(gpu) > MAX_LETTERS else (f"{machine} · {gpu}",)


def _front_segments(points: Sequence[_MachinePoint], field: _TimeCostField) -> list[LineSegment]:
    """The approximate line of the front; the chosen machine may be off it, which does not matter here."""
    front = sorted(field.at(point) for point in points if point.role != "other")
    return [(*one, *other) for one, other in pairwise(front)]


def _bar_segments(points: Sequence[_MachinePoint], field: _TimeCostField) -> list[LineSegment]:
    segments = []
    for point in points:
        if point.role != "other":
            x, y = field.at(point)
            seconds, usd = point.estimate.seconds, point.usd
            segments += [
                (field.x.pixel(seconds.low), y, field.x.pixel(seconds.high), y),
                (x, field.y.length - field.y.pixel(usd.low), x, field.y.length - field.y.pixel(usd.high)),
            ]
    return segments


def _bars(points: Sequence[_MachinePoint], goal: Goal) -> list[Spec]:
    """The bars of the intervals: thin, those of the chosen machine thicker."""
    rows = []
    for point in reversed([point for point in points if point.has_bars]):
        seconds, usd = (end.at_confidence(goal.confidence) for end in (point.estimate.seconds, point.usd))
        rows.append(
            {
                "seconds": seconds.value,
                "usd": usd.value,
                "seconds_low": seconds.low,
                "seconds_high": seconds.high,
                "usd_low": usd.low,
                "usd_high": usd.high,
                "role": point.role,
            }
        )
    drawn: Spec = {
        "color": _by_role({"chosen": ACCENT, "knee": STRONG}, QUIET),
        "strokeWidth": _by_role({"chosen": 1.4}, 0.7),
        "opacity": _by_role({"chosen": 1.0}, 0.7),
    }
    kinds = (
        {"x": _quantitative("seconds_low"), "x2": {"field": "seconds_high"}, "y": _quantitative("usd")},
        {"y": _quantitative("usd_low"), "y2": {"field": "usd_high"}, "x": _quantitative("seconds")},
    )
    return [
        {"data": {"values": rows}, "mark": {"type": "rule", "clip": True, "aria": False}, "encoding": kind | drawn}
        for kind in kinds
    ]


def _front_line(points: Sequence[_MachinePoint], front: Sequence[Estimate]) -> list[Spec]:
    if len(front) < 2:
        return []
    drawn = {point.estimate.candidate: point for point in points}
    rows = [{"seconds": e.seconds.value, "usd": drawn[e.candidate].usd.value} for e in front]
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "line", "color": STRONG, "strokeWidth": 1.3, "aria": False},
            "encoding": {"x": _quantitative("seconds"), "y": _quantitative("usd"), "order": _quantitative("seconds")},
        }
    ]


def _dots(points: Sequence[_MachinePoint], goal: Goal, field: _TimeCostField) -> Spec:
    """The points: the chosen machine large and filled, the knee a ring, the front dark, the others small and grey."""
    rows = [
        {
            "seconds": point.estimate.seconds.value,
            "usd": point.usd.value,
            "role": point.role,
            **tooltip(point.estimate, goal.confidence),
        }
        for point in reversed(points)
    ]
    scale = ", logarithmic" if field.x.logarithmic else ""
    areas = {role: round(math.pi * radius**2, 1) for role, radius in _RADIUS.items()}
    return {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "opacity": 1, "strokeWidth": 1.2},
        "encoding": {
            "x": field.x.encoding("seconds", f"time{scale}"),
            "y": field.y.encoding("usd", f"cost{scale}", label_space=field.y.label_space),
            "fill": _by_role({"chosen": ACCENT, "knee": PAPER, "front": STRONG}, QUIET),
            "stroke": _by_role({"knee": STRONG}, PAPER),
            "strokeWidth": _by_role({"knee": 2.0, "other": 0.5}, 1.0),
            "size": _by_role({role: area for role, area in areas.items() if role != "other"}, areas["other"]),
            "tooltip": TOOLTIP_FIELDS,
        },
    }


def _by_role(values: dict[str, str] | dict[str, float], otherwise: str | float) -> Spec:
    """A property that depends on the role of the point; it has no scale and hence no legend."""
    conditions = [{"test": f"datum.role === '{role}'", "value": value} for role, value in values.items()]
    return {"condition": conditions, "value": otherwise}


def _quantitative(name: str) -> Spec:
    return {"field": name, "type": "quantitative"}


def _title(chosen: Estimate) -> str:
    name = machine_name(chosen.candidate.offer)
    return f"{name}: {format_duration(chosen.seconds.value)}, {format_usd(chosen.usd.value)}"


def _subtitle(points: Sequence[_MachinePoint], goal: Goal, field: _TimeCostField, limits: Sequence[_LimitLine]) -> str:
    """A legend in words, and the limits that are not labelled in the figure."""
    parts = [plural(points[0].estimate.epochs, "epoch")]
    if len(points) > 1:
        parts.append(f"{plural(len(points), 'point')}, one per machine")
    if sum(point.role in ("chosen", "knee", "front") for point in points) > 1:
        parts.append("the line is the Pareto front")
    parts.append(f"bars are {format_percent(goal.confidence)} intervals")
    if field.y.logarithmic and any(not point.estimate.usd.value for point in points):
        parts.append("what costs nothing is at the foot")
    parts += [f"shaded: outside the {limit.label}" for limit in limits if limit.box is None]
    if goal.deadline_seconds is not None and goal.deadline_seconds >= field.x.high:
        parts.append(f"the deadline of {format_duration(goal.deadline_seconds)} is to the right of the figure")
    if goal.budget_usd is not None and goal.budget_usd >= field.y.high:
        parts.append(f"the budget of {format_usd(goal.budget_usd)} is above the figure")
    return " · ".join(parts)


def _description(chosen: Estimate, points: Sequence[_MachinePoint]) -> str:
    """The text alternative of the figure."""
    return (
        f"Time and cost of {plural(len(points), 'machine')}. Chosen: {_title(chosen)}. "
        + "On the front: "
        + (", ".join(point.label for point in points if point.role in ("knee", "front")) or "no other machine")
        + "."
    )
