"""Figures of the papers as files."""

from pathlib import Path

import pytest

from trainfare.cli.cards.figure import save_paper_figure
from trainfare.figures.chart import Chart, Series

FIGURE = Chart(
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


def test_the_same_numbers_give_the_same_file(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    (first,) = save_paper_figure(FIGURE, tmp_path / "one", formats=("svg",))
    (second,) = save_paper_figure(FIGURE, tmp_path / "two", formats=("svg",))
    assert first.read_bytes() == second.read_bytes()


def test_labels_are_text_in_the_file(tmp_path: Path) -> None:
    (path,) = save_paper_figure(FIGURE, tmp_path, formats=("svg",))
    drawn = path.read_text()
    assert all(f">{words}</text>" in drawn for words in ("slow", "fast", "another", "from 4 epochs on fast"))


def test_a_figure_without_numbers_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not printed"):
        save_paper_figure(Chart(name="f", title="t", note="not printed"), tmp_path)
