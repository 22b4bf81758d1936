"""Figures of the documents as files."""

from collections.abc import Sequence
from pathlib import Path

from trainfare.app.figures import save_figure
from trainfare.figures.chart import chart_figure
from trainfare.papers.figure import Figure


def draw(figure: Figure, folder: Path, *, formats: Sequence[str] = ("png", "svg")) -> tuple[Path, ...]:
    """The files written, `<name>.<format>` each."""
    spec = chart_figure(figure)
    return tuple(save_figure(spec, folder / f"{figure.name}.{kind}") for kind in formats)
