"""How every plot of the project looks, and how one is drawn.

Labels stand at their lines instead of in a legend. What is chosen has the one colour and the heavy line; the rest is
grey, told apart by dashes and markers. Readable without colour and at 600 pixels.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainfare.app.reproduce.figure import Figure, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACCENT = "#0b6e4f"
GROUND = "#6b6b6b"
FAINT = "#d9d9d9"
TEXT = "#222222"

MARKERS = ("o", "s", "^", "D", "v", "P")

STYLE: dict[str, Any] = {
    "figure.figsize": (6.0, 4.0),
    "figure.dpi": 150,
    # Room for the labels at the right; a layout that asks each label for its size collapses on them.
    "figure.subplot.left": 0.11,
    "figure.subplot.right": 0.8,
    "figure.subplot.bottom": 0.13,
    "figure.subplot.top": 0.91,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": GROUND,
    "axes.labelcolor": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": GROUND,
    "ytick.color": GROUND,
    "text.color": TEXT,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    # The same file every time it is drawn.
    "svg.hashsalt": "trainfare",
    "savefig.facecolor": "white",
}

LINE_HEIGHT = 12.0
"""Points between two labels, so that none lies on another."""

LETTER_WIDTH = 5.6
"""Points that a letter of a label takes, on average."""

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points."""


@contextmanager
def house_style() -> Iterator[None]:
    """Everything drawn inside has the look of the house, on no screen."""
    import matplotlib as mpl

    mpl.use("agg")
    with mpl.rc_context(STYLE):  # type: ignore[arg-type] # its keys are spelled out one by one
        yield


def draw(figure: Figure, folder: Path, *, formats: Sequence[str] = ("png", "svg")) -> tuple[Path, ...]:
    """The files written, `<name>.<format>` each."""
    if not figure.drawable:
        raise ValueError(f"{figure.name} has nothing to draw: {figure.why}")
    from matplotlib import pyplot as plt

    with house_style():
        canvas, axes = plt.subplots()
        try:
            _axes(axes, figure)
            for place, series in enumerate(figure.series):
                _series(axes, series, MARKERS[place % len(MARKERS)])
            if figure.front:
                axes.plot(*zip(*figure.front, strict=True), color=ACCENT, linewidth=1.0, zorder=1)
            for x, words in figure.marks:
                _mark(axes, x, words)
            _limits(axes, figure)
            label_ends(axes, [series for series in figure.series if series.joined])
            label_points(axes, [series for series in figure.series if not series.joined])
            paths = tuple(folder / f"{figure.name}.{kind}" for kind in formats)
            for path in paths:
                # No date: the same numbers give the same file.
                canvas.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        finally:
            plt.close(canvas)
    return paths


def _axes(axes: "Axes", figure: Figure) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set(title=figure.title, xlabel=figure.x, ylabel=figure.y)
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    for axis, logarithmic, ticks in ((axes.xaxis, figure.log_x, figure.x_ticks), (axes.yaxis, figure.log_y, ())):
        if logarithmic:
            scale = axes.set_xscale if axis is axes.xaxis else axes.set_yscale
            scale("log")
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(plain)
        if ticks:
            axis.set_ticks(list(ticks))
            axis.set_ticks([], minor=True)


def _limits(axes: "Axes", figure: Figure) -> None:
    """Both from zero, or both logarithmic; and a step of 1, 2, 5 where it is logarithmic."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    for axis, logarithmic, ticks in ((axes.xaxis, figure.log_x, figure.x_ticks), (axes.yaxis, figure.log_y, ())):
        low, high = axis.get_view_interval()
        if not logarithmic:
            axis.set_view_interval(0.0, 1.05 * high, ignore=True)
            axis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
        elif not ticks and high / low < 1000:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def _series(axes: "Axes", series: Series, marker: str) -> None:
    colour = ACCENT if series.chosen else GROUND
    x, y = zip(*series.points, strict=True)
    many = len(series.points) > 20
    axes.plot(
        x,
        y,
        color=colour,
        linestyle=("--" if series.dashed else "-") if series.joined else "none",
        linewidth=2.2 if series.chosen else 1.2,
        marker="" if many else marker,
        markerfacecolor=colour if series.chosen else "white",
        zorder=3 if series.chosen else 2,
    )
    if series.deviations:
        axes.errorbar(x, y, yerr=series.deviations, fmt="none", ecolor=colour, elinewidth=0.8)


def _mark(axes: "Axes", x: float, words: str) -> None:
    axes.axvline(x, color=ACCENT, linewidth=0.8, linestyle=":")
    axes.annotate(
        words,
        (x, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-4, -4),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=9,
        color=ACCENT,
    )


def label_ends(axes: "Axes", every: Sequence[Series]) -> None:
    """Each label in the margin beside its last point, moved up or down until none lies on another."""
    ends = [max(series.points) for series in every]
    places = _places(axes, ends)
    margin = max((x for x, _ in places), default=0.0) + 8.0
    moved = apart([y for _, y in places])
    for series, point, (x, y), height in zip(every, ends, places, moved, strict=True):
        _label(axes, series.label, point, (margin - x, height - y), series.chosen)


def label_points(axes: "Axes", every: Sequence[Series]) -> None:
    """Labels of points that no line joins: beside one of them, where neither a point nor another label is.

    A series has one label, or one a point. Where every place is taken, it stands at the right of the last.
    """
    markers = _places(axes, [point for series in every for point in series.points])
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in markers]
    for series in every:
        names = series.names or (series.label,)
        groups = [[point] for point in series.points] if series.names else [sorted(series.points, reverse=True)]
        for name, points in zip(names, groups, strict=True):
            width = LETTER_WIDTH * len(name)
            around = [
                (point, offset, (x + offset[0], y + offset[1] - 6, x + offset[0] + width, y + offset[1] + 6))
                for point, (x, y) in zip(points, _places(axes, points), strict=True)
                for offset in ((8.0, 0.0), (-8.0 - width, 0.0), (-width / 2, 11.0), (-width / 2, -11.0))
            ]
            free = [place for place in around if not any(_overlap(place[2], other) for other in taken)]
            point, offset, box = (free or around)[0]
            taken.append(box)
            _label(axes, name, point, offset, series.chosen)


def _label(axes: "Axes", words: str, point: tuple[float, float], offset: tuple[float, float], chosen: bool) -> None:
    far = offset[0] > 0 and (abs(offset[1]) > LINE_HEIGHT / 3 or offset[0] > LINE_HEIGHT)
    axes.annotate(
        words,
        point,
        xytext=offset,
        textcoords="offset points",
        va="center",
        fontsize=9,
        fontweight="bold" if chosen else "normal",
        color=ACCENT if chosen else TEXT,
        annotation_clip=False,
        arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 2} if far else None,
    )


def _places(axes: "Axes", points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Where data stand on the page, in points."""
    canvas = axes.get_figure(root=True)
    if canvas is None:
        raise ValueError("these axes are on no figure")
    scale = 72.0 / canvas.dpi
    return [(float(x) * scale, float(y) * scale) for x, y in map(axes.transData.transform, points)]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def apart(heights: Sequence[float], gap: float = LINE_HEIGHT) -> list[float]:
    """The heights with at least `gap` between any two, in the same order, moved as little as a group can be.

    Labels that would touch become a block about the mean of where they want to be; blocks that touch become one.
    """
    blocks: list[list[int]] = []
    order = sorted(range(len(heights)), key=lambda i: heights[i])

    def placed(block: list[int]) -> list[float]:
        middle = sum(heights[i] for i in block) / len(block)
        return [middle + gap * (place - (len(block) - 1) / 2) for place in range(len(block))]

    for i in order:
        blocks.append([i])
        while len(blocks) > 1 and placed(blocks[-1])[0] - placed(blocks[-2])[-1] < gap - 1e-9:
            last = blocks.pop()
            blocks[-1] += last
    moved = [0.0] * len(heights)
    for block in blocks:
        for i, height in zip(block, placed(block), strict=True):
            moved[i] = height
    return moved
