from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.app.reproduce.figure import Figure, Series
from trainfare.cli.figure import LINE_HEIGHT, apart, draw

FIGURE = Figure(
    name="a-figure",
    title="Two machines",
    x="epochs",
    y="time in seconds",
    series=(
        Series(label="slow", points=((1, 3), (10, 30)), dashed=True),
        Series(label="fast", points=((1, 5), (10, 12)), chosen=True),
        Series(label="", points=((2, 2), (4, 4)), names=("one", "another"), joined=False),
    ),
    marks=((4.0, "from 4 epochs on fast"),),
)


@given(st.lists(st.floats(0, 500), max_size=12))
def test_labels_end_up_apart_and_in_order(heights: list[float]) -> None:
    moved = apart(heights)
    ordered = sorted(moved)
    assert all(above - below >= LINE_HEIGHT - 1e-6 for below, above in pairwise(ordered))
    assert sorted(range(len(heights)), key=lambda i: heights[i]) == sorted(range(len(moved)), key=lambda i: moved[i])


@given(st.lists(st.integers(0, 20).map(lambda n: n * LINE_HEIGHT), max_size=12, unique=True))
def test_labels_that_do_not_touch_stay_where_they_are(heights: list[float]) -> None:
    assert apart(heights) == pytest.approx(heights)


def test_the_same_numbers_give_the_same_file(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    (first,) = draw(FIGURE, tmp_path / "one", formats=("svg",))
    (second,) = draw(FIGURE, tmp_path / "two", formats=("svg",))
    assert first.read_bytes() == second.read_bytes()


def test_a_figure_without_numbers_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere printed"):
        draw(Figure(name="f", title="t", why="nowhere printed"), tmp_path)
