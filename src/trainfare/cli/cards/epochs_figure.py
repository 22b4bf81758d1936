"""Draws the curve, the form fitted to it and where it is expected to be stable."""

import math
from dataclasses import replace
from pathlib import Path

from trainfare.app.figures import Figure, require_drawable
from trainfare.cli.cards.epochs import nearest_fit, range_words, run_length
from trainfare.errors import Remedy, UsageError
from trainfare.estimator.epochs.profile_epochs import EpochsReport, ProfileEpochs
from trainfare.figures.chart import Chart, Series, chart_figure
from trainfare.figures.look import NARROW


def require_format(path: Path) -> None:
    """Check the file format before anything is computed."""
    require_drawable(path)


def draw(report: EpochsReport, path: Path) -> None:
    """Draw the curve of the leading profile, with the interval in which it becomes stable or reaches its target."""
    leading = report.profiles[0]
    if leading.curve is None:
        raise UsageError(
            f"there is nothing to draw: profile {leading.profile_id} has no complete epoch with a loss or a metric.",
            remedies=[Remedy({"epochs": 5}, command="profile", program="python train.py")],
        )
    if report.answer.rule == "target":
        leading = replace(leading, needed=report.answer)
    chart = curve_chart(leading)
    Figure(spec=chart_figure(chart), narrow=chart_figure(chart, width=NARROW)).save(path)


def curve_chart(found: ProfileEpochs) -> Chart:
    needed, curve = found.needed, found.curve
    settles: tuple[tuple[float, str], ...] = ()
    ground: tuple[tuple[float, float], ...] = ()
    if needed.low is not None and needed.high is not None:
        ground = ((needed.low, needed.high),)
        settles = ((needed.low, f"90%: {range_words(needed)}"),)
        if needed.value is not None:
            settles = ((needed.value, f"{needed.rounded} epochs\n90%: {range_words(needed)}"),)
    return Chart(
        name="epochs",
        title=_title(found),
        x="epoch",
        x_quantity="count",
        y=curve.metric if curve else "",
        y_from_zero=False,
        series=_series(found, run_length(found)),
        x_end=float(run_length(found)),
        marks=settles,
        ranges=ground,
    )


def _series(found: ProfileEpochs, length: int) -> tuple[Series, ...]:
    curve, fit = found.curve, nearest_fit(found)
    values = curve.values if curve else ()
    seen = tuple((float(epoch), value) for epoch, value in enumerate(values, start=1) if math.isfinite(value))
    drawn = tuple((float(epoch), value) for epoch, value in enumerate(fit.values[:length], start=1)) if fit else ()
    series = []
    if fit is not None and drawn:
        through = f", through {len(seen)} epochs" if len(drawn) > len(seen) else ""
        label = f"{fit.form}{through}"
        series.append(Series(label=label, points=drawn, chosen=True, dashed=True, marked=False, inside=True))
    if seen:
        label = f"measured: {len(seen)} epochs" if len(seen) < 0.7 * length or fit is None else ""
        series.append(Series(label=label, points=seen, symbols=tuple("circle" for _ in seen), inside=True))
    return tuple(series)


def _title(found: ProfileEpochs) -> str:
    size = f" at batch size {found.batch_size}" if found.batch_size else ""
    what = "reaches its target" if found.needed.rule == "target" else "is stable"
    when = f"not known yet when it {what}" if found.needed.refused else f"when it {what}"
    return f"{found.program}{size}: {when}"
