"""Placement of labels so that none overlaps another label or a point. In pixels, x to the right and y down.

Labels are placed one after the other, the most important first. Each tries places around its point, nearer ones first,
and takes the one with the lowest cost:

    cost = distance from the point + LINE_COST per line under the label + NEAR_POINT_COST per other point next to it

A place outside the field, on another label, on a leader or on a point is not used, nor one whose own leader would run
over another point. A label without a place is dropped, unless it is required: then it may be anywhere in the field and
may cover points, at a cost. The search is greedy: a placed label is never moved for a less important one.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainfare.figures.look import LABEL_SIZE, LINE_HEIGHT, text_width

LINE_COST = 7.0
COVERED_POINT_COST = 60.0
"""The cost of a point under a required label."""
NEAR_POINT_COST = 8.0
"""The cost of another point that is so near that the label could be mistaken for its label."""
MAX_DISTANCE = 45.0
"""The largest distance in pixels of a label that is not required from its point."""
GAP = 3.0
"""The least number of pixels between two labels."""
LEADER_FROM = 9.0
"""A label with a larger distance from its point has a leader line."""

_DISTANCES = (3.0, 9.0, 17.0, 28.0, 42.0, 60.0, 84.0, 115.0)
_GRID = 14
"""Pixels between the places all over the field that a required label tries in addition."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
LineSegment = tuple[float, float, float, float]
"""From x, y to x, y."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequest:
    """A label to place near a point that is drawn with this radius."""

    lines: tuple[str, ...]
    x: float
    y: float
    radius: float = 3.0
    bold: bool = False
    required: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, slightly larger than the text: fonts differ between screens."""
        width = max(text_width(line, bold=self.bold) for line in self.lines)
        return 1.04 * width + 2, LINE_HEIGHT * (len(self.lines) - 1) + LABEL_SIZE + 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedLabel:
    """The box of a label; its leader, if it has one, goes from the point to the box."""

    request: LabelRequest
    box: Box
    leader: LineSegment | None = None
    cost: float = 0.0


def place_labels(
    requests: Sequence[LabelRequest],
    *,
    field: Box,
    points: Sequence[Box] = (),
    lines: Sequence[LineSegment] = (),
    occupied: Sequence[Box] = (),
    placed: Sequence[PlacedLabel] = (),
) -> tuple[PlacedLabel, ...]:
    """The labels that have a place, in the order of the requests.

    Required labels are placed first, in their order or in the reverse order, whichever costs less. `occupied` are the
    boxes of other texts, `placed` are labels that were placed earlier.
    """
    empty = LabelRequest(lines=("",), x=0, y=0)
    texts = [PlacedLabel(request=empty, box=box) for box in occupied]
    # The points of required labels count ten times: if they were covered, no leader could reach them.
    weighted = [*points, *(box_around(r.x, r.y, r.radius) for r in requests if r.required for _ in range(9))]

    def place_in_order(order: Sequence[int], earlier: Sequence[PlacedLabel]) -> dict[int, PlacedLabel]:
        found: dict[int, PlacedLabel] = {}
        for i in order:
            others = [*texts, *earlier, *found.values()]
            place = _best_place(requests[i], field, weighted, lines, others)
            if place is None and requests[i].required:
                place = _best_place(requests[i], field, weighted, lines, others, clear_leader=False)
            if place is not None:
                found[i] = place
        return found

    required = [i for i, request in enumerate(requests) if request.required]
    orders = [place_in_order(order, placed) for order in (required, required[::-1])]
    first = max(orders, key=lambda found: (len(found), -sum(place.cost for place in found.values())))
    others = [i for i, request in enumerate(requests) if not request.required]
    every = first | place_in_order(others, [*placed, *first.values()])
    return tuple(every[i] for i in sorted(every))


def spread_apart(
    heights: Sequence[float], gap: float = LINE_HEIGHT, *, lowest: float = -math.inf, highest: float = math.inf
) -> list[float]:
    """The heights with at least `gap` between any two, in the same order, moved as little as possible.

    Labels that would touch form a block around the mean of their heights; blocks that touch are merged. All stay
    between `lowest` and `highest` as long as there is space for all.
    """
    blocks: list[list[int]] = []

    def spread(block: list[int]) -> list[float]:
        length = gap * (len(block) - 1)
        start = sum(heights[i] for i in block) / len(block) - length / 2
        start = max(min(start, highest - length), lowest)
        return [start + gap * position for position in range(len(block))]

    for i in sorted(range(len(heights)), key=lambda i: heights[i]):
        blocks.append([i])
        while len(blocks) > 1 and spread(blocks[-1])[0] - spread(blocks[-2])[-1] < gap - 1e-9:
            last = blocks.pop()
            blocks[-1] += last
    moved = [0.0] * len(heights)
    for block in blocks:
        for i, height in zip(block, spread(block), strict=True):
            moved[i] = height
    return moved


def overlap(one: Box, other: Box, gap: float = 0.0) -> bool:
    """True if two boxes overlap, or have less than `gap` between them."""
    return one[0] < other[2] + gap and other[0] < one[2] + gap and one[1] < other[3] + gap and other[1] < one[3] + gap


def box_around(x: float, y: float, radius: float) -> Box:
    """The box of a point that is drawn with this radius."""
    return x - radius, y - radius, x + radius, y + radius


def crosses(segment: LineSegment, box: Box) -> bool:
    """True if a part of the segment is inside the box (Liang and Barsky)."""
    x, y, dx, dy = segment[0], segment[1], segment[2] - segment[0], segment[3] - segment[1]
    enters, leaves = 0.0, 1.0
    for start, step, low, high in ((x, dx, box[0], box[2]), (y, dy, box[1], box[3])):
        if abs(step) < 1e-12:
            if not low < start < high:
                return False
            continue
        near, far = sorted(((low - start) / step, (high - start) / step))
        enters, leaves = max(enters, near), min(leaves, far)
    return enters < leaves


def _best_place(
    request: LabelRequest,
    field: Box,
    points: Sequence[Box],
    lines: Sequence[LineSegment],
    others: Sequence[PlacedLabel],
    *,
    clear_leader: bool = True,
) -> PlacedLabel | None:
    """The place with the lowest cost; None if there is none. Without `clear_leader` leaders may cross other labels."""
    own = box_around(request.x, request.y, request.radius)
    other_points = [box for box in points if box != own]
    best, lowest = None, math.inf
    for distance, box in (*_places_around(request), *(_grid_places(request, field) if request.required else ())):
        if distance >= lowest or (distance > MAX_DISTANCE and not request.required) or not _is_inside(box, field):
            continue
        leader = _leader(request, box)
        if not (_is_clear(box, leader, others) if clear_leader else _has_gap(box, others)):
            continue
        near_points = [point for point in other_points if overlap(box, point, 6.0)]
        covered = sum(overlap(box, point, 1.0) for point in near_points)
        if covered and not request.required:
            continue
        if leader is not None and distance + COVERED_POINT_COST * covered < lowest:
            covered += sum(crosses(leader, point) for point in _boxes_near(leader, other_points))
        if covered and not request.required:
            continue
        lines_under = sum(crosses(line, box) for line in lines)
        cost = distance + COVERED_POINT_COST * covered + NEAR_POINT_COST * len(near_points) + LINE_COST * lines_under
        if cost < lowest:
            best, lowest = PlacedLabel(request=request, box=box, leader=leader, cost=cost), cost
    return best


def _boxes_near(segment: LineSegment, boxes: Sequence[Box]) -> list[Box]:
    """The boxes that a segment might cross."""
    x, y, x2, y2 = segment
    bounds = (min(x, x2), min(y, y2), max(x, x2), max(y, y2))
    return [box for box in boxes if overlap(bounds, box)]


def _places_around(request: LabelRequest) -> Iterator[tuple[float, Box]]:
    """Distances and boxes around the point, nearer ones first; of equally near ones, that to the right first."""
    width, height = request.size
    for distance in _DISTANCES:
        directions = 16 if distance > LEADER_FROM else 8
        for direction in range(directions):
            angle = direction * math.tau / directions
            x, y = math.cos(angle), math.sin(angle)
            reach = request.radius + distance
            left = request.x + x * reach + width / 2 * (_side(x) - 1)
            top = request.y + y * reach + height / 2 * (_side(y) - 1)
            penalty = 0.0 if direction == 0 else 1.0
            yield distance + penalty, (left, top, left + width, top + height)


def _grid_places(request: LabelRequest, field: Box) -> Iterator[tuple[float, Box]]:
    """Distances and boxes on a grid over the field."""
    width, height = request.size
    for left in range(math.ceil(field[0]), math.floor(field[2] - width) + 1, _GRID):
        for top in range(math.ceil(field[1]), math.floor(field[3] - height) + 1, _GRID):
            box = (float(left), float(top), left + width, top + height)
            x, y = _nearest_point(request, box)
            distance = math.hypot(x - request.x, y - request.y)
            if distance > request.radius:
                yield distance, box


def _nearest_point(request: LabelRequest, box: Box) -> tuple[float, float]:
    """The point of the box that is nearest to the labelled point."""
    return min(max(request.x, box[0]), box[2]), min(max(request.y, box[1]), box[3])


def _side(share: float) -> float:
    return math.copysign(1.0, share) if abs(share) > 0.3 else share / 0.3


def _is_inside(box: Box, field: Box) -> bool:
    return box[0] >= field[0] and box[1] >= field[1] and box[2] <= field[2] and box[3] <= field[3]


def _leader(request: LabelRequest, box: Box) -> LineSegment | None:
    """The line from the edge of the point to the nearest point of the box; None if the box is near."""
    x, y = _nearest_point(request, box)
    distance = math.hypot(x - request.x, y - request.y)
    if distance - request.radius <= LEADER_FROM:
        return None
    share = (request.radius + 1) / distance
    return request.x + share * (x - request.x), request.y + share * (y - request.y), x, y


def _has_gap(box: Box, others: Iterable[PlacedLabel]) -> bool:
    return not any(overlap(box, other.box, GAP) for other in others)


def _is_clear(box: Box, leader: LineSegment | None, others: Iterable[PlacedLabel]) -> bool:
    """True if neither the box nor its leader touches another label or leader."""
    for other in others:
        if overlap(box, other.box, GAP) or (other.leader is not None and crosses(other.leader, box)):
            return False
        if leader is not None and (crosses(leader, other.box) or _segments_cross(leader, other.leader)):
            return False
    return True


def _segments_cross(one: LineSegment, other: LineSegment | None) -> bool:
    if other is None:
        return False

    def turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
        return (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0])

    a, b, c, d = one[:2], one[2:], other[:2], other[2:]
    return turn(a, c, d) != turn(b, c, d) and turn(a, b, c) != turn(a, b, d)
