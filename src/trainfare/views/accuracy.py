"""The JSON records and the cells of predicted against observed."""

from typing import Any

from trainfare.model.interval import Interval
from trainfare.runner.accuracy import Accuracy, AccuracySummary, ComparedLine, ComparedRun
from trainfare.units import format_duration, format_percent, format_usd
from trainfare.views.estimates import spread


def accuracy_record(accuracy: Accuracy) -> dict[str, Any]:
    """All runs line by line, and the summaries."""
    return {
        "runs": [_run_record(run) for run in accuracy.runs],
        "summary": [
            {
                "line": one.line,
                "of": one.of,
                "runs": one.runs,
                "mean_absolute_error": one.mean_absolute_error,
                "bias": one.bias,
                "share_inside": one.share_inside,
            }
            for one in accuracy.summaries
        ],
    }


def compared_rows(run: ComparedRun) -> list[tuple[str, ...]]:
    """The cells of a run: line, predicted time, observed time, error, inside or not, predicted cost, paid. Only lines
    that were predicted."""
    return [_cells(line) for line in run.lines if line.predicted_seconds is not None]


def summary_cells(one: AccuracySummary) -> tuple[str, ...]:
    """The cells of a summary: line, time or cost, number of runs, mean error, bias, share inside."""
    return (
        one.line,
        one.of,
        str(one.runs),
        format_percent(one.mean_absolute_error),
        signed_percent(one.bias),
        format_percent(one.share_inside),
    )


def signed_percent(share: float) -> str:
    """`+12%` for a prediction that was too high."""
    text = format_percent(abs(share))
    return text if text == "0%" else f"{'+' if share > 0 else '−'}{text}"


def _cells(line: ComparedLine) -> tuple[str, ...]:
    error, costs = line.error, line.cost_error is not None
    return (
        line.line,
        _range(line.predicted_seconds),
        format_duration(line.seconds),
        "" if error is None else signed_percent(error),
        {True: "inside", False: "outside", None: ""}[line.is_inside],
        format_usd(line.predicted_usd.value) if costs and line.predicted_usd else "",
        format_usd(line.usd) if costs else "",
    )


def _range(predicted: Interval | None) -> str:
    if predicted is None:
        return ""
    return f"{format_duration(predicted.value)} ({format_duration(predicted.low)} – {format_duration(predicted.high)})"


def _run_record(run: ComparedRun) -> dict[str, Any]:
    return {
        "run": run.run.id,
        "machine": run.run.candidate.offer.vm_type.key,
        "program": list(run.run.program.command),
        "ended_at": run.ended_at.isoformat(),
        "outcome": run.outcome,
        "lines": [_line_record(line) for line in run.lines],
    }


def _line_record(line: ComparedLine) -> dict[str, Any]:
    return {
        "line": line.line,
        **_optional("predicted_seconds", line.predicted_seconds),
        "seconds": line.seconds,
        "error": line.error,
        "inside": line.is_inside,
        **_optional("predicted_usd", line.predicted_usd),
        "usd": line.usd,
        "cost_error": line.cost_error,
        "cost_inside": line.is_cost_inside,
    }


def _optional(name: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {**spread(name, interval)}
