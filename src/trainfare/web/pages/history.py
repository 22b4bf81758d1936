"""The page of history: predicted against paid over all runs that have ended, and what they cost by day."""

import math
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse

from trainfare.app.learning.accuracy import accuracy
from trainfare.app.running.costs import costs
from trainfare.runner.accuracy import ComparedLine, ComparedRun
from trainfare.units import format_duration, format_percent, format_usd
from trainfare.views.costs import CSV_COLUMNS, caps_sentence, charge_cells
from trainfare.views.offers_page import machine_title
from trainfare.web.context import ServerSettings
from trainfare.web.pages.drawing import log_place
from trainfare.web.rendering import page
from trainfare.web.visitors import Viewer

router = APIRouter()
DAYS = 30
SHOWN = 100
_TIMES = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 8, 10, 12, 15, 20, 30, 60, 120, 300, 600, 1200, 1800),
    *(3600.0 * hours for hours in (1, 2, 4, 8, 12, 24, 48, 120, 240, 720)),
)


@router.get("/history")
def history(request: Request, visitor: Viewer, settings: ServerSettings) -> HTMLResponse:
    """The number of promises that were kept, the misses of the others, and the costs of runs."""
    found = accuracy(settings=settings)
    compared = [(run, line) for run in found.runs if (line := _whole(run)) is not None]
    paid = [(run, line) for run, line in compared if line.cost_error is not None]
    chosen, of_cost = (paid, True) if paid else (compared, False)
    kept = sum(bool(line.is_cost_inside if of_cost else line.is_inside) for _, line in chosen)
    errors = sorted(abs(_ratio(line, of_cost=of_cost) - 1) for _, line in chosen)
    report = costs(by="day", days=DAYS, settings=settings)
    most = max((row.usd for row in report.rows), default=0.0) or 1.0
    bases: dict[str, list[float]] = {}
    for run, line in chosen:
        if run.run.estimate is not None:
            bases.setdefault(run.run.estimate.basis, []).append(abs(_ratio(line, of_cost=of_cost) - 1))
    typical = {basis: sorted(values)[len(values) // 2] for basis, values in bases.items()}
    return page(
        request,
        "history.html",
        visitor=visitor,
        section="history",
        since=min((run.ended_at for run in found.runs), default=None),
        ended=len(found.runs),
        kept=kept,
        of_cost=of_cost,
        count=len(chosen),
        half=format_percent(round(errors[len(errors) // 2], 2)) if errors else None,
        usd=sum(line.usd for _, line in paid),
        points=_points(chosen, of_cost=of_cost),
        rows=[_row(run, line, of_cost=of_cost) for run, line in chosen[:SHOWN]],
        days=[(row.name, row.usd / most, format_usd(row.usd)) for row in report.rows[::-1] if row.usd][:14],
        days_usd=report.usd,
        caps=caps_sentence(report.caps),
        reserved=report.reserved_usd,
        bases=[
            (basis, min(1.0, error / max(typical.values() or [1.0])) if error else 0.0, format_percent(round(error, 2)))
            for basis, error in sorted(typical.items(), key=lambda item: item[1])
        ],
    )


@router.get("/history/costs.csv")
def costs_csv(_visitor: Viewer, settings: ServerSettings) -> PlainTextResponse:
    """The costs of every day, as a table for other programs."""
    lines = [CSV_COLUMNS, *(charge_cells(charge) for charge in costs(settings=settings).charges)]
    text = "".join(",".join(_cell(cell) for cell in line) + "\r\n" for line in lines)
    return PlainTextResponse(
        text, media_type="text/csv", headers={"Content-Disposition": 'attachment; filename="costs.csv"'}
    )


def _cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    text = f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") else text
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text


def _whole(run: ComparedRun) -> ComparedLine | None:
    return next((line for line in run.lines if line.line == "in all" and line.error is not None), None)


def _ratio(line: ComparedLine, *, of_cost: bool) -> float:
    """Observed by predicted."""
    error = (line.cost_error if of_cost else line.error) or 0.0
    return 1 / (1 + error)


def _row(run: ComparedRun, line: ComparedLine, *, of_cost: bool) -> dict[str, Any]:
    share = _ratio(line, of_cost=of_cost) - 1
    epochs = run.run.estimate.epochs if run.run.estimate else None
    predicted, observed = (line.predicted_usd, line.usd) if of_cost else (line.predicted_seconds, line.seconds)
    written = format_usd if of_cost else format_duration
    return {
        "id": run.run.id,
        "name": run.run.program.name,
        "epochs": epochs,
        "title": machine_title(run.run.candidate),
        "predicted": written(predicted.value) if predicted else "–",
        "observed": written(observed),
        "off_by": "0%" if abs(share) < 0.005 else f"{'+' if share > 0 else '−'}{abs(share) * 100:,.0f}%",
        "inside": bool(line.is_cost_inside if of_cost else line.is_inside),
        "ended_at": run.ended_at,
    }


def _points(chosen: list[tuple[ComparedRun, ComparedLine]], *, of_cost: bool) -> dict[str, Any] | None:
    """The places of runs on two equal logarithmic axes, predicted to the right and observed upwards."""
    found = []
    for run, line in chosen[:300]:
        predicted, observed = (line.predicted_usd, line.usd) if of_cost else (line.predicted_seconds, line.seconds)
        if predicted is not None and predicted.low > 0 and observed > 0:
            found.append((run, line, predicted, observed))
    if not found:
        return None
    values = [value for _, _, predicted, observed in found for value in (predicted.low, predicted.high, observed)]
    low, high = min(values) / 1.3, max(values) * 1.3
    ticks = _money_ticks(low, high) if of_cost else _time_ticks(low, high)
    written = format_usd if of_cost else format_duration
    return {
        "ticks": [(log_place(mark, low, high), written(mark)) for mark in ticks],
        "dots": [
            {
                "x": log_place(predicted.value, low, high),
                "y": 100 - log_place(observed, low, high),
                "low": log_place(predicted.low, low, high),
                "high": log_place(predicted.high, low, high),
                "inside": bool(line.is_cost_inside if of_cost else line.is_inside),
                "name": f"{run.run.program.name} {run.run.id}",
            }
            for run, line, predicted, observed in found
        ],
    }


def _money_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5)):
        ticks = [digit * 10.0**power for power in powers for digit in digits if low <= digit * 10.0**power <= high]
        if len(ticks) >= 3:
            break
    return ticks


def _time_ticks(low: float, high: float) -> list[float]:
    """Times that people name, at most six of them."""
    inside = [tick for tick in _TIMES if low <= tick <= high]
    return inside[:: math.ceil(len(inside) / 6)] if inside else []
