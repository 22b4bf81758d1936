"""The curve, the forms through it and where it settles, as a figure for a page or a paper."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from trainfare.app.epochs import EpochsReport, ProfileEpochs
from trainfare.cli.epochs_card import nearest_fit, range_words, run_length
from trainfare.cli.figure import ACCENT, FAINT, GROUND, TEXT, house_style
from trainfare.errors import AskedWrongly

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def require_format(path: Path) -> None:
    """Before anything is computed: a typo should not cost the answer."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise AskedWrongly(f"{path} cannot be drawn: its name must end in .png or .svg.")
    if not path.parent.is_dir():
        raise AskedWrongly(f"{path} cannot be drawn: there is no folder {path.parent}.")


def draw(report: EpochsReport, path: Path) -> None:
    """The leading profile's curve over its run; where it settles as shaded ground, direct labels, no legend."""
    leading = report.profiles[0]
    if leading.curve is None:
        raise AskedWrongly(
            f"there is nothing to draw: profile {leading.profile_id} has no whole epoch with a loss or a metric. "
            "Let it see some: trainfare profile --epochs 5 -- …"
        )
    from matplotlib import pyplot as plt

    with house_style():
        figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
        try:
            axes.grid(visible=False)
            _settles(axes, leading)
            _curve(axes, leading, run_length(leading))
            axes.set_xlim(0.5, run_length(leading) + 0.5)
            axes.set(xlabel="epoch", ylabel=leading.curve.metric, title=_title(leading))
            # No date: the same numbers give the same file.
            figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise AskedWrongly(f"{path} cannot be written: {error.strerror or error}.") from error
        finally:
            plt.close(figure)


def _curve(axes: "Axes", found: ProfileEpochs, length: int) -> None:
    curve, fit = found.curve, nearest_fit(found)
    if curve is None:
        return
    seen = [(epoch, value) for epoch, value in enumerate(curve.values, start=1) if math.isfinite(value)]
    if fit is not None:
        values = fit.values[:length]
        axes.plot(range(1, len(values) + 1), values, color=ACCENT, linewidth=1.4, linestyle=(0, (4, 2)), zorder=2)
        through = f", through {len(seen)} epochs" if len(values) > len(seen) else ""
        _label(axes, f"{fit.form}{through}", (len(values), values[-1]))
    if not seen:
        return
    axes.plot(*zip(*seen, strict=True), color=TEXT, linewidth=1.2, marker="o", markersize=2.6, zorder=3)
    if len(seen) < 0.7 * length:
        above = fit is not None and seen[-1][1] > fit.values[len(seen) - 1]
        axes.annotate(
            f"seen: {len(seen)} epochs",
            seen[-1],
            xytext=(4, 6) if above else (0, -14),
            # Below a falling curve there is room to the left, below a rising one to the right.
            ha="left" if above or curve.higher else "right",
            textcoords="offset points",
            color=TEXT,
            fontsize=9,
            zorder=4,
        )


def _label(axes: "Axes", text: str, point: tuple[float, float]) -> None:
    """Above its end: below it, a curve that falls would have the axis."""
    axes.annotate(
        text, point, xytext=(0, 8), textcoords="offset points", color=ACCENT, fontsize=9, ha="right", zorder=4
    )


def _settles(axes: "Axes", found: ProfileEpochs) -> None:
    needed = found.needed
    if needed.low is None or needed.high is None:
        return
    axes.axvspan(needed.low, needed.high, color=FAINT, alpha=0.6, zorder=0, linewidth=0)
    label = f"settles, 90 %: {range_words(needed)}"
    if needed.value is not None:
        axes.axvline(needed.value, color=GROUND, linewidth=1, zorder=1)
        label = f"{needed.whole} epochs\n90 %: {range_words(needed)}"
    # At the bottom of a rising curve and at the top of a falling one there is room.
    higher = found.curve is not None and found.curve.higher
    late = (needed.value or needed.high) > 0.7 * max(found.declared or 0, needed.high)
    axes.annotate(
        label,
        (needed.value or needed.low, 0.03 if higher else 0.97),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-6 if late else 6, 0),
        textcoords="offset points",
        ha="right" if late else "left",
        va="bottom" if higher else "top",
        color=TEXT,
        fontsize=9,
        linespacing=1.3,
    )


def _title(found: ProfileEpochs) -> str:
    size = f" at batch size {found.batch_size}" if found.batch_size else ""
    told = "nobody can tell yet when it settles" if found.needed.refused else "when it settles"
    return f"{found.program}{size}: {told}"
