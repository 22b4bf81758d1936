"""Where labels go, so that none lies on another nor on a point. In pixels, x to the right and y down.

Labels are placed one after the other, the most important first. Each tries places around its point, nearer ones first,
and takes the one that costs least:

    cost = distance from the point + CROSSING for every line under the label + NEAR for every other point beside it

Places outside of the field, on another label, on a leader or on a point are not taken, nor those whose own leader
would run over another point. A label for which none is left is dropped, unless it is required: then it may stand
anywhere, and points may lie under it, at a price. Greedy: a label is never moved for a less important one.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainfare.figures.look import LABEL_SIZE, LINE_HEIGHT, text_width

CROSSING = 7.0
COVERED = 60.0
"""What a point under a required label costs."""
NEAR = 8.0
"""What another point so near that the label might be taken for its own costs."""
REACH = 45.0
"""Pixels that a label may be from its point, where it is not required."""
GAP = 3.0
"""Pixels between two labels, at least."""
LEADER_FROM = 9.0
"""A label farther than this from its point has a line that leads to it."""

_DISTANCES = (3.0, 9.0, 17.0, 28.0, 42.0, 60.0, 84.0, 115.0)
_GRID = 14
"""Pixels between the places of the whole field that a required label tries too."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Segment = tuple[float, float, float, float]
"""From x, y to x, y."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Words at a point that is drawn with this radius."""

    lines: tuple[str, ...]
    x: float
    y: float
    radius: float = 3.0
    bold: bool = False
    required: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """A little more than the letters take: not every screen has the same."""
        width = max(text_width(line, bold=self.bold) for line in self.lines)
        return 1.04 * width + 2, LINE_HEIGHT * (len(self.lines) - 1) + LABEL_SIZE + 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where the words of `wanted` stand; the leader, where there is one, goes from the point to the box."""

    wanted: Wanted
    box: Box
    leader: Segment | None = None
    cost: float = 0.0


def place_labels(
    wanted: Sequence[Wanted],
    *,
    field: Box,
    points: Sequence[Box] = (),
    lines: Sequence[Segment] = (),
    taken: Sequence[Box] = (),
    before: Sequence[Placed] = (),
) -> tuple[Placed, ...]:
    """Those that have a place, in the order in which they are wanted; the required ones go first, in the order
    or against it, whichever costs less.

    `taken` is where other words stand already, `before` are labels that were placed earlier.
    """
    nothing = Wanted(lines=("",), x=0, y=0)
    words = [Placed(wanted=nothing, box=box) for box in taken]
    # The points of required labels weigh ten times: covered, they could not be led to.
    weighed = [*points, *(around(w.x, w.y, w.radius) for w in wanted if w.required for _ in range(9))]

    def placed(order: Sequence[int], before: Sequence[Placed]) -> dict[int, Placed]:
        found: dict[int, Placed] = {}
        for i in order:
            others = [*words, *before, *found.values()]
            place = _best_place(wanted[i], field, weighed, lines, others)
            if place is None and wanted[i].required:
                place = _best_place(wanted[i], field, weighed, lines, others, led=False)
            if place is not None:
                found[i] = place
        return found

    required = [i for i, label in enumerate(wanted) if label.required]
    orders = [placed(order, before) for order in (required, required[::-1])]
    first = max(orders, key=lambda found: (len(found), -sum(place.cost for place in found.values())))
    rest = placed([i for i, label in enumerate(wanted) if not label.required], [*before, *first.values()])
    every = first | rest
    return tuple(every[i] for i in sorted(every))


def apart(
    heights: Sequence[float], gap: float = LINE_HEIGHT, *, least: float = -math.inf, most: float = math.inf
) -> list[float]:
    """The heights with at least `gap` between any two, in the same order, moved as little as a group can be.

    Labels that would touch become a block about the mean of where they want to be; blocks that touch become one. None
    leaves what is between `least` and `most`, while there is room for all.
    """
    blocks: list[list[int]] = []

    def spread(block: list[int]) -> list[float]:
        length = gap * (len(block) - 1)
        start = sum(heights[i] for i in block) / len(block) - length / 2
        start = max(min(start, most - length), least)
        return [start + gap * place for place in range(len(block))]

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
    return one[0] < other[2] + gap and other[0] < one[2] + gap and one[1] < other[3] + gap and other[1] < one[3] + gap


def around(x: float, y: float, radius: float) -> Box:
    return x - radius, y - radius, x + radius, y + radius


def crosses(segment: Segment, box: Box) -> bool:
    """Whether any of the segment lies in the box (Liang and Barsky)."""
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
    label: Wanted,
    field: Box,
    points: Sequence[Box],
    lines: Sequence[Segment],
    others: Sequence[Placed],
    *,
    led: bool = True,
) -> Placed | None:
    """None where none is left; not `led`, leaders may run where they must, as where words lie on its point."""
    own = around(label.x, label.y, label.radius)
    strangers = [box for box in points if box != own]
    best, least = None, math.inf
    for distance, box in (*_places(label), *(_everywhere(label, field) if label.required else ())):
        if distance >= least or (distance > REACH and not label.required) or not _inside(box, field):
            continue
        leader = _leader(label, box)
        if not (_free(box, leader, others) if led else not any(overlap(box, other.box, GAP) for other in others)):
            continue
        beside = [point for point in strangers if overlap(box, point, 6.0)]
        covered, near = sum(overlap(box, point, 1.0) for point in beside), len(beside)
        if covered and not label.required:
            continue
        if leader is not None and distance + COVERED * covered < least:
            covered += sum(crosses(leader, point) for point in _near(leader, strangers))
        if covered and not label.required:
            continue
        under = sum(crosses(line, box) for line in lines)
        cost = distance + COVERED * covered + NEAR * near + CROSSING * under
        if cost < least:
            best, least = Placed(wanted=label, box=box, leader=leader, cost=cost), cost
    return best


def _near(segment: Segment, boxes: Sequence[Box]) -> list[Box]:
    """Those that a segment might cross."""
    x, y, x2, y2 = segment
    bounds = (min(x, x2), min(y, y2), max(x, x2), max(y, y2))
    return [box for box in boxes if overlap(bounds, box)]


def _places(label: Wanted) -> Iterator[tuple[float, Box]]:
    """Nearer ones first; of equally near ones beside it, then below and above."""
    width, height = label.size
    for distance in _DISTANCES:
        for eighth in range(16 if distance > LEADER_FROM else 8):
            angle = eighth * math.tau / (16 if distance > LEADER_FROM else 8)
            x, y = math.cos(angle), math.sin(angle)
            reach = label.radius + distance
            left = label.x + x * reach + width / 2 * (_side(x) - 1)
            top = label.y + y * reach + height / 2 * (_side(y) - 1)
            sloping = 0.0 if eighth == 0 else 1.0
            yield distance + sloping, (left, top, left + width, top + height)


def _everywhere(label: Wanted, field: Box) -> Iterator[tuple[float, Box]]:
    """On a grid over the field."""
    width, height = label.size
    for left in range(math.ceil(field[0]), math.floor(field[2] - width) + 1, _GRID):
        for top in range(math.ceil(field[1]), math.floor(field[3] - height) + 1, _GRID):
            box = (float(left), float(top), left + width, top + height)
            x, y = _nearest(label, box)
            distance = math.hypot(x - label.x, y - label.y)
            if distance > label.radius:
                yield distance, box


def _nearest(label: Wanted, box: Box) -> tuple[float, float]:
    """Of the box to the point."""
    return min(max(label.x, box[0]), box[2]), min(max(label.y, box[1]), box[3])


def _side(share: float) -> float:
    return math.copysign(1.0, share) if abs(share) > 0.3 else share / 0.3


def _inside(box: Box, field: Box) -> bool:
    return box[0] >= field[0] and box[1] >= field[1] and box[2] <= field[2] and box[3] <= field[3]


def _leader(label: Wanted, box: Box) -> Segment | None:
    """From the rim of the point to the nearest of the box."""
    x, y = _nearest(label, box)
    far = math.hypot(x - label.x, y - label.y)
    if far - label.radius <= LEADER_FROM:
        return None
    share = (label.radius + 1) / far
    return label.x + share * (x - label.x), label.y + share * (y - label.y), x, y


def _free(box: Box, leader: Segment | None, others: Iterable[Placed]) -> bool:
    """Of other labels and their leaders."""
    for other in others:
        if overlap(box, other.box, GAP) or (other.leader is not None and crosses(other.leader, box)):
            return False
        if leader is not None and (crosses(leader, other.box) or _meet(leader, other.leader)):
            return False
    return True


def _meet(one: Segment, other: Segment | None) -> bool:
    """Whether two segments cross."""
    if other is None:
        return False

    def turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
        return (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0])

    a, b, c, d = one[:2], one[2:], other[:2], other[2:]
    return turn(a, c, d) != turn(b, c, d) and turn(a, b, c) != turn(a, b, d)
