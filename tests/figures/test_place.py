"""No label overlaps another or a point; required labels are always placed."""

import math
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.figures.look import LINE_HEIGHT
from trainfare.figures.place import (
    LabelRequest,
    LineSegment,
    PlacedLabel,
    box_around,
    crosses,
    overlap,
    place_labels,
    spread_apart,
)

FIELD = (0.0, 0.0, 520.0, 360.0)

some_places = st.lists(st.tuples(st.floats(0, 520), st.floats(0, 360)), max_size=60)
some_texts = st.text("abcxlarge-. 0123456789", min_size=1, max_size=28)


def requests_at(places: list[tuple[float, float]], texts: list[str]) -> list[LabelRequest]:
    return [LabelRequest(lines=(text,), x=x, y=y) for (x, y), text in zip(places, texts, strict=False)]


@settings(max_examples=60, deadline=None)
@given(some_places, st.lists(some_texts, max_size=12))
def test_labels_overlap_neither_each_other_nor_points(places: list[tuple[float, float]], texts: list[str]) -> None:
    points = [box_around(x, y, 3.0) for x, y in places]
    placed = place_labels(requests_at(places, texts), field=FIELD, points=points)
    assert not any(overlap(one.box, other.box) for one, other in combinations(placed, 2))
    for label in placed:
        other_points = [box for box in points if box != box_around(label.request.x, label.request.y, 3.0)]
        assert not any(overlap(label.box, point) for point in other_points)
        assert FIELD[0] <= label.box[0]
        assert label.box[2] <= FIELD[2]


@settings(max_examples=40, deadline=None)
@given(some_places, st.tuples(some_texts, some_texts))
def test_required_labels_are_placed_in_any_crowd(places: list[tuple[float, float]], texts: tuple[str, str]) -> None:
    points = [box_around(x, y, 3.0) for x, y in places]
    required = [
        LabelRequest(lines=(text, "and its second line"), x=x, y=y, radius=6.0, bold=bold, required=True)
        for text, bold, (x, y) in zip(texts, (True, False), [*places, (10.0, 10.0), (500.0, 300.0)], strict=False)
    ]
    others = requests_at(places[2:], ["some machine"] * 10)
    placed = place_labels([*others, *required], field=FIELD, points=points)
    assert [label.request for label in placed if label.request.required] == required
    assert not any(overlap(one.box, other.box) for one, other in combinations(placed, 2))


def test_a_single_label_is_next_to_its_point_without_a_leader() -> None:
    (label,) = place_labels([LabelRequest(lines=("alone",), x=100, y=100)], field=FIELD)
    assert label.leader is None
    assert label.box[0] > 100
    assert label.box[1] < 100 < label.box[3]


def test_a_label_without_a_place_is_dropped() -> None:
    everywhere = [box_around(x, y, 3.0) for x in range(0, 520, 8) for y in range(0, 360, 8)]
    assert place_labels([LabelRequest(lines=("no room",), x=100, y=100)], field=FIELD, points=everywhere) == ()


def test_no_label_overlaps_other_texts() -> None:
    texts = (0.0, 0.0, 520.0, 150.0)
    (label,) = place_labels([LabelRequest(lines=("below",), x=100, y=145)], field=FIELD, occupied=[texts])
    assert not overlap(label.box, texts)


def test_a_leader_avoids_other_points() -> None:
    """A ring of eight points keeps the label away; a ninth one is put on the leader that it then has."""
    request = LabelRequest(lines=("behind",), x=100, y=100)
    angles = [math.tau * (eighth + 0.5) / 8 for eighth in range(8)]
    ring = [box_around(100 + 14 * math.cos(angle), 100 + 14 * math.sin(angle), 3.0) for angle in angles]
    (direct,) = place_labels([request], field=FIELD, points=ring)
    assert direct.leader is not None
    x, y, x2, y2 = direct.leader
    obstacle = box_around((x + x2) / 2, (y + y2) / 2, 2.0)
    (label,) = place_labels([request], field=FIELD, points=[*ring, obstacle])
    assert label.leader is not None
    assert not any(crosses(label.leader, point) for point in (*ring, obstacle))


def test_the_more_important_label_has_the_first_choice() -> None:
    first, second = (LabelRequest(lines=(text,), x=100, y=100) for text in ("first", "second"))
    alone: tuple[PlacedLabel, ...] = place_labels([first], field=FIELD)
    assert place_labels([first, second], field=FIELD)[0] == alone[0]


@pytest.mark.parametrize(
    ("segment", "inside"),
    [
        ((0, 0, 10, 10), True),
        ((0, 9, 3, 9), False),
        ((5, 0, 5, 20), True),
        ((0, 20, 20, 20), False),
        ((5, 5, 6, 6), True),
    ],
)
def test_a_segment_crosses_a_box_if_they_share_more_than_an_edge(segment: LineSegment, inside: bool) -> None:
    assert crosses(segment, (4, 4, 8, 8)) is inside


@given(st.lists(st.floats(0, 500), max_size=12))
def test_spread_labels_have_gaps_and_keep_their_order(heights: list[float]) -> None:
    moved = spread_apart(heights)
    assert all(above - below >= LINE_HEIGHT - 1e-6 for below, above in pairwise(sorted(moved)))
    assert sorted(range(len(heights)), key=lambda i: heights[i]) == sorted(range(len(moved)), key=lambda i: moved[i])


@given(st.lists(st.integers(0, 20).map(lambda n: n * LINE_HEIGHT), max_size=12, unique=True))
def test_labels_that_do_not_touch_stay_where_they_are(heights: list[float]) -> None:
    assert spread_apart(heights) == pytest.approx(heights)


@given(st.lists(st.floats(-50, 250), max_size=10))
def test_labels_stay_within_their_bounds(heights: list[float]) -> None:
    moved = spread_apart(heights, lowest=0.0, highest=200.0)
    assert all(-1e-6 <= height <= 200 + 1e-6 for height in moved)
    assert all(above - below >= LINE_HEIGHT - 1e-6 for below, above in pairwise(sorted(moved)))
