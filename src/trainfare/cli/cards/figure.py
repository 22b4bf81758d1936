"""Writes the figures of the papers as files."""

from collections.abc import Sequence
from pathlib import Path

from trainfare.app.figures import save_figure
from trainfare.figures.chart import Chart, chart_figure


def save_paper_figure(figure: Chart, folder: Path, *, formats: Sequence[str] = ("png", "svg")) -> tuple[Path, ...]:
    """Draw a figure into `<folder>/<name>.<format>` for each format, and return these paths."""
    spec = chart_figure(figure)
    return tuple(save_figure(spec, folder / f"{figure.name}.{kind}") for kind in formats)
