"""The figure of predicted against observed times: one point per line of each run, with its 90% interval.

On the diagonal a prediction was exact; a bar that crosses it held the observed time.
"""

from collections.abc import Mapping

from trainfare.figures.chart import SYMBOLS, Chart, Series, chart_figure
from trainfare.figures.look import WIDE, Spec
from trainfare.runner.accuracy import Accuracy, ComparedLine, ComparedRun, LineName
from trainfare.units import format_duration, format_percent, plural

_GROUPS: Mapping[str, tuple[LineName, ...]] = {
    "in all": ("in all",),
    "boot, setup, collecting": ("boot", "setup", "collecting"),
    "start of the program": ("initialisation", "first iteration"),
    "iterations": ("steady iterations", "validation", "checkpoints"),
}
"""The series, by their labels."""


def accuracy_figure(accuracy: Accuracy, *, width: int = WIDE) -> Spec:
    """The figure of all lines that were predicted. `ValueError` if there is none."""
    return chart_figure(_chart(accuracy), width=width)


def _chart(accuracy: Accuracy) -> Chart:
    compared = [(run, line) for run in accuracy.runs for line in run.lines if _is_drawn(line)]
    series = tuple(
        _series(label, [pair for pair in compared if pair[1].line in names], number)
        for number, (label, names) in enumerate(_GROUPS.items())
        if any(line.line in names for _, line in compared)
    )
    ends = [x for one in series for x, _ in one.points]
    diagonal = Series(
        label="exact",
        points=((min(ends), min(ends)), (max(ends), max(ends))),
        dashed=True,
        marked=False,
    )
    return (
        Chart(
            name="accuracy",
            title="Predicted and observed times of your runs",
            subtitle=_subtitle(accuracy),
            x="observed",
            y="predicted, 90% interval",
            x_quantity="seconds",
            y_quantity="seconds",
            log_x=True,
            log_y=True,
            series=(diagonal, *series),
        )
        if series
        else Chart(name="accuracy", title="", note="no run was predicted")
    )


def _is_drawn(line: ComparedLine) -> bool:
    return line.error is not None


def _series(label: str, pairs: list[tuple[ComparedRun, ComparedLine]], number: int) -> Series:
    points, bars, tooltips = [], [], []
    for run, line in pairs:
        predicted = line.predicted_seconds
        if predicted is None:
            continue
        points.append((line.seconds, predicted.value))
        bars.append((max(predicted.low, predicted.value / 100), predicted.high))
        tooltips.append(_tooltip(run, line))
    return Series(
        label=label,
        points=tuple(points),
        bars=tuple(bars),
        chosen=label == "in all",
        joined=False,
        symbols=(SYMBOLS[number],) * len(points),
        tooltips=tuple(tooltips),
    )


def _tooltip(run: ComparedRun, line: ComparedLine) -> Spec:
    predicted = line.predicted_seconds
    return {
        "run": run.run.id,
        "machine": run.run.candidate.offer.vm_type.key,
        "line": line.line,
        "predicted": "" if predicted is None else format_duration(predicted.value),
        "observed": format_duration(line.seconds),
    }


def _subtitle(accuracy: Accuracy) -> str:
    whole = next((one for one in accuracy.summaries if (one.line, one.of) == ("in all", "time")), None)
    count = plural(len(accuracy.runs), "run")
    if whole is None:
        return count
    inside = format_percent(whole.share_inside)
    return f"{count} · mean error of the whole {format_percent(whole.mean_absolute_error)} · {inside} inside"
