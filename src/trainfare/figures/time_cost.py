"""Time against cost, a point a machine: what is chosen, what it was chosen from, and where the limits are."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainfare.figures.axis import Axis, build_axis, format_tick_duration, needs_log_scale, format_tick_usd
from trainfare.figures.look import ACCENT, EDGE, LABEL_SIZE, PAPER, QUIET, STRONG, WIDE, Spec, page, text_width, title_spec
from trainfare.figures.marks import label_layers, shade_layers, text_layers
from trainfare.figures.place import Box, PlacedLabel, LineSegment, LabelRequest, box_around, overlap, place_labels
from trainfare.figures.labels import TOOLTIP, Named, gpu_name, machine_labels, shorten, tooltip
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.units import format_duration, format_usd

BARS_FOR_ALL = 12
"""With more points than these, only the chosen one and the front have bars."""

LABELS = 14
"""At most so many are tried beside the required ones; half of them on a phone."""

RUNNERS_UP = 3
"""Of many points so many off the front are labelled, the best; of few all."""

LETTERS = 24
"""Longer names are cut, but for the chosen one; the tooltip has them whole."""

LIMIT_WITHIN = 3.0
"""A limit farther than so many times the largest value is told in words: drawn, it would press all else into a
corner."""

_RADIUS = {"chosen": 7.0, "knee": 5.5, "front": 3.6, "other": 2.4}
"""Pixels of a mark, by what it stands for."""


_ALONG = (0.0, 1.0, 0.25, 0.75, 0.5)
"""Where along its line the words of a limit may stand, the ends first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    estimate: Estimate
    label: str
    role: str
    """`chosen`, `knee`, `front` or `other`."""
    barred: bool

    @property
    def radius(self) -> float:
        return _RADIUS[self.role]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """From `value` on along a channel it is forbidden ground; `box` is where its words are."""

    channel: str
    value: float
    words: str
    box: Box | None
    """None where there is no room for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    x: Axis
    y: Axis

    def at(self, estimate: Estimate) -> tuple[float, float]:
        """Where a point stands, from the upper left."""
        return self.x.pixel(estimate.seconds.value), self.y.length - self.y.pixel(estimate.usd.value)

    @property
    def box(self) -> Box:
        """A little more to the right: there is nothing there."""
        return 2.0, 0.0, self.x.length + EDGE, self.y.length - 2


def time_cost_figure(
    estimates: Sequence[Estimate],
    *,
    chosen: Estimate,
    named: Named,
    front: Sequence[Estimate] = (),
    knee: Estimate | None = None,
    goal: Goal | None = None,
    title: str | None = None,
    width: int = WIDE,
) -> Spec:
    """`width` pixels in all. `estimates` are what there was to choose from, best first, one a machine and market;
    the chosen one and the front are drawn whether they are among them or not.

    Both axes start at zero, or both are logarithmic where one quantity differs more than eightfold.
    """
    goal = goal or Goal()
    points = _points(estimates, chosen, knee, front, named)
    field = _field(points, goal, width)
    first = _labels([point for point in points if point.role in ("chosen", "knee")], points, field)
    limits = tuple(_limits(goal, field, points, first))
    labels = (*first, *_labels(_worth_a_label(points, field), points, field, first, limits))
    x, y = field.x, field.y
    view: Spec = {
        "title": title_spec(title or _title(chosen, named), _subtitle(points, goal, field, limits), width),
        "width": x.length,
        "height": y.length,
        "layer": [
            *(layer for limit in limits for layer in shade_layers(limit.channel, limit.value, _end(limit, field))),
            *_bars(points, goal),
            *_front_line(front),
            _dots(points, named, goal, field),
            *_limit_words(limits),
            *label_layers(labels),
        ],
    }
    return page([view], description=_description(chosen, named, points), width=width)


def _points(
    estimates: Sequence[Estimate], chosen: Estimate, knee: Estimate | None, front: Sequence[Estimate], named: Named
) -> tuple[_Point, ...]:
    """The chosen one first, then the knee, the front and the others, each once; what does not fit is no choice."""
    roles: dict[object, tuple[str, Estimate]] = {chosen.candidate: ("chosen", chosen)}
    if knee is not None:
        roles.setdefault(knee.candidate, ("knee", knee))
    for estimate in front:
        roles.setdefault(estimate.candidate, ("front", estimate))
    for estimate in estimates:
        if estimate.fits is not False:
            roles.setdefault(estimate.candidate, ("other", estimate))
    found = list(roles.values())
    labels = machine_labels([estimate for _, estimate in found], named)
    return tuple(
        _Point(estimate=estimate, label=label, role=role, barred=len(found) <= BARS_FOR_ALL or role != "other")
        for (role, estimate), label in zip(found, labels, strict=True)
    )


def _field(points: Sequence[_Point], goal: Goal, width: int) -> _Field:
    """Holds every point, every bar that is drawn, and the limits that are near."""
    seconds, usd = [], []
    for point in points:
        ends = [point.estimate.seconds, point.estimate.usd]
        if point.barred:
            ends = [end.at_confidence(goal.confidence) for end in ends]
            seconds += [ends[0].low, ends[0].high]
            usd += [ends[1].low, ends[1].high]
        seconds.append(ends[0].value)
        usd.append(ends[1].value)
    logarithmic = any(
        needs_log_scale(values)
        for values in ([p.estimate.seconds.value for p in points], [p.estimate.usd.value for p in points])
    )
    for limit, values in ((goal.deadline_seconds, seconds), (goal.budget_usd, usd)):
        if limit is not None and limit <= LIMIT_WITHIN * max(values):
            values.append(1.08 * limit)
    height = round(0.62 * width) if width >= 480 else round(0.95 * width)
    y = build_axis("usd", usd, length=height, logarithmic=logarithmic, vertical=True)
    x = build_axis("seconds", seconds, length=width - y.label_space - 3 * EDGE, logarithmic=logarithmic)
    return _Field(x=x, y=y)


def _limits(goal: Goal, field: _Field, points: Sequence[_Point], labels: Sequence[PlacedLabel]) -> Iterator[_Limit]:
    """Those inside of the field; their words along their line where they cover the fewest points, and no label."""
    dots = [(box_around(*field.at(p.estimate), p.radius), 1 if p.role == "other" else 20) for p in points]
    taken = [label.box for label in labels]
    width, height, line_height = field.x.length, field.y.length, LABEL_SIZE + 3
    if goal.deadline_seconds is not None and field.x.low < goal.deadline_seconds < field.x.high:
        words = f"deadline {format_tick_duration(goal.deadline_seconds)}"
        line, size = field.x.pixel(goal.deadline_seconds), text_width(words)
        left = line + 4 if line + 4 + size <= width + EDGE else line - 4 - size
        tops = [2 + share * (height - line_height - 6) for share in _ALONG]
        box = _emptiest([(left, top, left + size, top + line_height) for top in tops], dots, taken)
        taken += [box] if box else []
        yield _Limit(channel="x", value=goal.deadline_seconds, words=words, box=box)
    if goal.budget_usd is not None and field.y.low < goal.budget_usd < field.y.high:
        words = f"budget {format_tick_usd(goal.budget_usd)}"
        line, size = height - field.y.pixel(goal.budget_usd), text_width(words)
        top = line - line_height - 3 if line > line_height + 3 else line + 3
        lefts = [4 + share * (width - size - 8) for share in _ALONG]
        box = _emptiest([(left, top, left + size, top + line_height) for left in lefts], dots, taken)
        yield _Limit(channel="y", value=goal.budget_usd, words=words, box=box)


def _emptiest(boxes: Sequence[Box], dots: Sequence[tuple[Box, int]], taken: Sequence[Box]) -> Box | None:
    free = [box for box in boxes if not any(overlap(box, other, 2) for other in taken)]
    return min(free, key=lambda box: sum(weight for dot, weight in dots if overlap(box, dot, 2)), default=None)


def _end(limit: _Limit, field: _Field) -> float:
    return field.x.high if limit.channel == "x" else field.y.high


def _limit_words(limits: Sequence[_Limit]) -> list[Spec]:
    return text_layers([{"label": x.words, "x": x.box[0], "y": x.box[1] + LABEL_SIZE} for x in limits if x.box])


def _worth_a_label(points: Sequence[_Point], field: _Field) -> list[_Point]:
    """Beside the required ones: the front, then the best of the others, of few all."""
    most = LABELS if field.x.length >= 400 else LABELS // 2
    others = [point for point in points if point.role == "other"]
    few = len(points) <= BARS_FOR_ALL
    return [*(p for p in points if p.role == "front"), *(others if few else others[:RUNNERS_UP])][:most]


def _labels(
    told: Sequence[_Point],
    points: Sequence[_Point],
    field: _Field,
    before: Sequence[PlacedLabel] = (),
    limits: Sequence[_Limit] = (),
) -> tuple[PlacedLabel, ...]:
    """Of some of the points, with a place clear of all of them."""
    wanted = []
    for point in told:
        x, y = field.at(point.estimate)
        chosen = point.role == "chosen"
        lines, required = _lines(point, field), chosen or point.role == "knee"
        wanted.append(LabelRequest(lines=lines, x=x, y=y, radius=point.radius, bold=chosen, required=required))
    return place_labels(
        wanted,
        field=field.box,
        points=[box_around(*field.at(point.estimate), point.radius) for point in points],
        taken=[limit.box for limit in limits if limit.box],
        before=before,
        lines=[*_front_segments(points, field), *_bar_segments(points, field)],
    )


def _lines(point: _Point, field: _Field) -> tuple[str, ...]:
    """The chosen one with its numbers, the others with their GPU."""
    label = shorten(point.label, int(field.x.length / LABEL_SIZE / 0.65))
    offer = point.estimate.candidate.offer
    if point.role == "chosen":
        return label, f"{format_duration(point.estimate.seconds.value)}, {format_usd(point.estimate.usd.value)}"
    if point.role == "knee":
        return shorten(label, LETTERS), "the knee"
    if offer.vm_type.gpu is None:
        return (shorten(label, LETTERS),)
    return _with_gpu(shorten(label, LETTERS), gpu_name(offer))


def _with_gpu(machine: str, gpu: str) -> tuple[str, ...]:
    return (machine, gpu) if len(machine) + len(gpu) > LETTERS else (f"{machine} · {gpu}",)


def _front_segments(points: Sequence[_Point], field: _Field) -> list[LineSegment]:
    """About where the line of the front runs; the chosen one may lie off it, which does no harm here."""
    front = sorted(field.at(point.estimate) for point in points if point.role != "other")
    return [(*one, *other) for one, other in pairwise(front)]


def _bar_segments(points: Sequence[_Point], field: _Field) -> list[LineSegment]:
    segments = []
    for point in points:
        if point.role != "other":
            x, y = field.at(point.estimate)
            seconds, usd = point.estimate.seconds, point.estimate.usd
            segments += [
                (field.x.pixel(seconds.low), y, field.x.pixel(seconds.high), y),
                (x, field.y.length - field.y.pixel(usd.low), x, field.y.length - field.y.pixel(usd.high)),
            ]
    return segments


def _bars(points: Sequence[_Point], goal: Goal) -> list[Spec]:
    """Thin, those of the chosen one less so."""
    rows = []
    for point in reversed([point for point in points if point.barred]):
        seconds, usd = (end.at_confidence(goal.confidence) for end in (point.estimate.seconds, point.estimate.usd))
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
        {"x": _field_of("seconds_low"), "x2": {"field": "seconds_high"}, "y": _field_of("usd")},
        {"y": _field_of("usd_low"), "y2": {"field": "usd_high"}, "x": _field_of("seconds")},
    )
    return [
        {"data": {"values": rows}, "mark": {"type": "rule", "clip": True, "aria": False}, "encoding": kind | drawn}
        for kind in kinds
    ]


def _front_line(front: Sequence[Estimate]) -> list[Spec]:
    if len(front) < 2:
        return []
    rows = [{"seconds": e.seconds.value, "usd": e.usd.value} for e in front]
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "line", "color": STRONG, "strokeWidth": 1.3, "aria": False},
            "encoding": {"x": _field_of("seconds"), "y": _field_of("usd"), "order": _field_of("seconds")},
        }
    ]


def _dots(points: Sequence[_Point], named: Named, goal: Goal, field: _Field) -> Spec:
    """The chosen one filled and large, the knee a ring, the front dark, the others small and grey."""
    rows = [
        {
            "seconds": point.estimate.seconds.value,
            "usd": point.estimate.usd.value,
            "role": point.role,
            **tooltip(point.estimate, named, goal.confidence),
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
            "tooltip": TOOLTIP,
        },
    }


def _by_role(values: dict[str, str] | dict[str, float], otherwise: str | float) -> Spec:
    """A property that depends on what the point stands for; without a scale, hence without a legend."""
    conditions = [{"test": f"datum.role === '{role}'", "value": value} for role, value in values.items()]
    return {"condition": conditions, "value": otherwise}


def _field_of(name: str) -> Spec:
    return {"field": name, "type": "quantitative"}


def _title(chosen: Estimate, named: Named) -> str:
    return f"{named(chosen.candidate.offer)}: {format_duration(chosen.seconds.value)}, {format_usd(chosen.usd.value)}"


def _subtitle(points: Sequence[_Point], goal: Goal, field: _Field, limits: Sequence[_Limit]) -> str:
    """How to read it, and the limits that are not told in the field."""
    epochs = points[0].estimate.epochs
    parts = [f"{epochs} epoch{'s' if epochs != 1 else ''}"]
    if len(points) > 1:
        parts.append(f"each of the {len(points)} points a machine")
    if sum(point.role in ("chosen", "knee", "front") for point in points) > 1:
        parts.append("the line joins those that no other beats in both")
    parts.append(f"bars hold {100 * goal.confidence:.4g} %")
    parts += [f"shaded: beyond the {limit.words}" for limit in limits if limit.box is None]
    if goal.deadline_seconds is not None and goal.deadline_seconds >= field.x.high:
        parts.append(f"the deadline of {format_tick_duration(goal.deadline_seconds)} lies beyond the right edge")
    if goal.budget_usd is not None and goal.budget_usd >= field.y.high:
        parts.append(f"the budget of {format_tick_usd(goal.budget_usd)} lies above the upper edge")
    return " · ".join(parts)


def _description(chosen: Estimate, named: Named, points: Sequence[_Point]) -> str:
    """For who does not see it."""
    return (
        f"Time against cost of {len(points)} machines. Chosen: {_title(chosen, named)}. "
        + "On the front: "
        + (", ".join(point.label for point in points if point.role in ("knee", "front")) or "nothing else")
        + "."
    )
