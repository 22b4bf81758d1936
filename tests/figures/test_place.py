"""No label lies on another or on a point; the required ones are always there."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.figures.look import LINE_HEIGHT
from trainfare.figures.place import PlacedLabel, LineSegment, LabelRequest, spread_apart, box_around, crosses, overlap, place_labels

FIELD = (0.0, 0.0, 520.0, 360.0)

some_places = st.lists(st.tuples(st.floats(0, 520), st.floats(0, 360)), max_size=60)
some_words = st.text("abcxlarge-. 0123456789", min_size=1, max_size=28)


def wanted_of(places: list[tuple[float, float]], words: list[str]) -> list[LabelRequest]:
    return [LabelRequest(lines=(word,), x=x, y=y) for (x, y), word in zip(places, words, strict=False)]


@settings(max_examples=60, deadline=None)
@given(some_places, st.lists(some_words, max_size=12))
def test_labels_lie_neither_on_each_other_nor_on_points(places: list[tuple[float, float]], words: list[str]) -> None:
    points = [box_around(x, y, 3.0) for x, y in places]
    placed = place_labels(wanted_of(places, words), field=FIELD, points=points)
    assert not any(overlap(one.box, other.box) for one, other in combinations(placed, 2))
    for label in placed:
        strangers = [box for box in points if box != box_around(label.wanted.x, label.wanted.y, 3.0)]
        assert not any(overlap(label.box, point) for point in strangers)
        assert FIELD[0] <= label.box[0]
        assert label.box[2] <= FIELD[2]


@settings(max_examples=40, deadline=None)
@given(some_places, st.tuples(some_words, some_words))
def test_required_labels_are_there_however_crowded_it_is(
    places: list[tuple[float, float]], words: tuple[str, str]
) -> None:
    points = [box_around(x, y, 3.0) for x, y in places]
    required = [
        LabelRequest(lines=(word, "and its second line"), x=x, y=y, radius=6.0, bold=bold, required=True)
        for word, bold, (x, y) in zip(words, (True, False), [*places, (10.0, 10.0), (500.0, 300.0)], strict=False)
    ]
    others = wanted_of(places[2:], ["some machine"] * 10)
    placed = place_labels([*others, *required], field=FIELD, points=points)
    assert [label.wanted for label in placed if label.wanted.required] == required
    assert not any(overlap(one.box, other.box) for one, other in combinations(placed, 2))


def test_a_label_alone_stands_beside_its_point_and_needs_no_leader() -> None:
    (label,) = place_labels([LabelRequest(lines=("alone",), x=100, y=100)], field=FIELD)
    assert label.leader is None
    assert label.box[0] > 100
    assert label.box[1] < 100 < label.box[3]


def test_a_label_without_a_place_is_dropped() -> None:
    everywhere = [box_around(x, y, 3.0) for x in range(0, 520, 8) for y in range(0, 360, 8)]
    assert place_labels([LabelRequest(lines=("no room",), x=100, y=100)], field=FIELD, points=everywhere) == ()


def test_no_label_stands_where_other_words_are() -> None:
    words = (0.0, 0.0, 520.0, 150.0)
    (label,) = place_labels([LabelRequest(lines=("below",), x=100, y=145)], field=FIELD, taken=[words])
    assert not overlap(label.box, words)


def test_a_far_label_has_a_leader_that_runs_over_no_other_point() -> None:
    wall = [box_around(112.0, y, 3.0) for y in range(60, 141, 7)]
    (label,) = place_labels([LabelRequest(lines=("behind",), x=100, y=100)], field=FIELD, points=wall)
    assert label.leader is None or not any(crosses(label.leader, point) for point in wall)


def test_the_more_important_label_has_the_first_choice() -> None:
    first, second = (LabelRequest(lines=(word,), x=100, y=100) for word in ("first", "second"))
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
def test_a_segment_crosses_a_box_where_they_share_more_than_an_edge(segment: LineSegment, inside: bool) -> None:
    assert crosses(segment, (4, 4, 8, 8)) is inside


@given(st.lists(st.floats(0, 500), max_size=12))
def test_labels_end_up_apart_and_in_order(heights: list[float]) -> None:
    moved = spread_apart(heights)
    assert all(above - below >= LINE_HEIGHT - 1e-6 for below, above in pairwise(sorted(moved)))
    assert sorted(range(len(heights)), key=lambda i: heights[i]) == sorted(range(len(moved)), key=lambda i: moved[i])


@given(st.lists(st.integers(0, 20).map(lambda n: n * LINE_HEIGHT), max_size=12, unique=True))
def test_labels_that_do_not_touch_stay_where_they_are(heights: list[float]) -> None:
    assert spread_apart(heights) == pytest.approx(heights)


@given(st.lists(st.floats(-50, 250), max_size=10))
def test_labels_stay_within_their_bounds(heights: list[float]) -> None:
    moved = spread_apart(heights, least=0.0, most=200.0)
    assert all(-1e-6 <= height <= 200 + 1e-6 for height in moved)
    assert all(above - below >= LINE_HEIGHT - 1e-6 for below, above in pairwise(sorted(moved)))
