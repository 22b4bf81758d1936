"""The pages of runs: the list, Confirm, Watch, and Results with the receipt."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse

from trainfare.app.running.curves import Curves, read_curves
from trainfare.app.running.downloads import find_download, list_downloads, zip_results
from trainfare.app.running.last_lines import last_lines
from trainfare.app.running.run import RunOptions, agree, ask_to_stop
from trainfare.app.running.start_for_user import start_for_user, starter_of
from trainfare.app.running.status import page_runs, read_output, show_run
from trainfare.errors import InfeasibleError, TrainfareError, UsageError
from trainfare.model.run import Run
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings
from trainfare.units import format_size, parse_duration
from trainfare.views import run_page
from trainfare.views.offers_page import machine_title
from trainfare.web.api.ownership import require_own
from trainfare.web.context import ServerSettings
from trainfare.web.pages.drawing import line_chart, spark_points
from trainfare.web.pages.rendering import environment, page
from trainfare.web.visitors import Member, Viewer, Visitor

router = APIRouter()
RunId = Annotated[str, Path(max_length=200)]
Text = Annotated[str, Form(max_length=200)]
PAGE = 25
LINES = 40


@router.get("/runs")
def runs(request: Request, visitor: Viewer, settings: ServerSettings, after: str | None = None) -> HTMLResponse:
    """The runs, the newest first."""
    found = page_runs(limit=PAGE, after=after, settings=settings)
    rows = [_row(status) for status in found.runs]
    return page(
        request,
        "runs.html",
        visitor=visitor,
        section="runs",
        rows=rows,
        following=found.following,
        after=after,
        damaged=found.damaged,
    )


@router.get("/runs/new")
def confirm(
    request: Request,
    visitor: Member,
    settings: ServerSettings,
    plan: Annotated[str | None, Query(max_length=200)] = None,
    on: Annotated[str | None, Query(max_length=200)] = None,
    profile: Annotated[str | None, Query(max_length=200)] = None,
    budget: Annotated[str, Query(max_length=40)] = "",
    deadline: Annotated[str, Query(max_length=40)] = "",
    longest: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    """The terms of a run, with its price and its cap: nothing has started."""
    given = {
        "plan": plan or "",
        "on": on or "",
        "profile": profile or "",
        "budget": budget,
        "deadline": deadline,
        "longest": longest,
    }
    return _confirm_page(request, visitor, settings, given, key=secrets.token_urlsafe(16))


@router.post("/runs")
def start(
    request: Request,
    visitor: Member,
    settings: ServerSettings,
    key: Text,
    plan: Text = "",
    on: Text = "",
    profile: Text = "",
    budget: Text = "",
    deadline: Text = "",
    longest: Text = "",
    recalculate: Text = "",
) -> Response:
    """Start the run once, however often the form is sent."""
    given = {"plan": plan, "on": on, "profile": profile, "budget": budget, "deadline": deadline, "longest": longest}
    if recalculate:
        return _confirm_page(request, visitor, settings, given, key=key)
    limited = _within_budget(settings, visitor)

    def agreed() -> Run:
        return agree(None, _options(given), settings=limited)

    try:
        what = "\0".join(f"{name}={value}" for name, value in sorted(given.items()))
        run_id = start_for_user(agreed, user=visitor.user, key=key, request=what.encode(), settings=limited)
    except (UsageError, InfeasibleError) as error:
        return _confirm_page(request, visitor, settings, given, key=secrets.token_urlsafe(16), error=error)
    return RedirectResponse(f"/runs/{run_id}", status_code=303)


@router.get("/runs/{run_id}")
def show(request: Request, visitor: Viewer, settings: ServerSettings, run_id: RunId) -> HTMLResponse:
    """A run as it is now: Watch while it runs, Results when it has ended."""
    status = show_run(run_id, settings=settings)
    shared: dict[str, Any] = {
        "visitor": visitor,
        "section": "runs",
        "links": _links(status.run),
        "may_change": visitor.role == "admin" or visitor.user == starter_of(run_id, settings=settings),
    }
    if status.life.state == "ended":
        return page(request, "results.html", **shared, **_results(status, settings))
    return page(
        request,
        "watch.html",
        **shared,
        **watch_context(
            status,
            read_curves(run_id, status.life.attempt, settings=settings),
            last_lines(status, settings=settings, count=LINES),
        ),
    )


@router.get("/runs/{run_id}/stop")
def ask(request: Request, visitor: Member, settings: ServerSettings, run_id: RunId) -> HTMLResponse:
    """The price of stopping, before it is done."""
    status = show_run(run_id, settings=settings)
    return page(
        request,
        "stop.html",
        visitor=visitor,
        section="runs",
        run=status.run,
        links=_links(status.run),
        sentence=run_page.stop_sentence(status),
    )


@router.post("/runs/{run_id}/stop")
def stop(visitor: Member, settings: ServerSettings, run_id: RunId) -> Response:
    """Ask for the end of a run; the server brings it about."""
    show_run(run_id, settings=settings)
    require_own(visitor, starter_of(run_id, settings=settings), f"Run {run_id}")
    ask_to_stop(run_id, settings=settings)
    return RedirectResponse(f"/runs/{run_id}", status_code=303)


@router.get("/runs/{run_id}/output")
def output(_visitor: Viewer, settings: ServerSettings, run_id: RunId) -> Response:
    """The whole output of the program, as text."""
    return Response(read_output(run_id, settings=settings), media_type="text/plain; charset=utf-8")


@router.get("/runs/{run_id}/files/{number}")
def download(
    _visitor: Viewer, settings: ServerSettings, run_id: RunId, number: Annotated[int, Path(ge=0, le=10**9)]
) -> FileResponse:
    """One result file by its number."""
    found = find_download(run_id, number, settings=settings)
    return FileResponse(found.path, filename=PurePath(found.name).name, media_type="application/octet-stream")


@router.get("/runs/{run_id}/results.zip")
def download_all(_visitor: Viewer, settings: ServerSettings, run_id: RunId) -> StreamingResponse:
    """All result files and the output in one archive."""
    parts = zip_results(run_id, settings=settings)
    name = "".join(letter for letter in run_id if letter.isascii() and letter.isalnum())
    return StreamingResponse(
        parts, media_type="application/zip", headers={"Content-Disposition": f'attachment; filename="{name}.zip"'}
    )


def watch_context(status: RunStatus, curves: Curves, lines: list[str]) -> dict[str, Any]:
    """The values that the page and its live parts show of a run that has not ended."""
    run, progress, left = status.run, status.progress, status.progress.remaining_seconds
    losses = curves.loss
    return {
        "run": run,
        "status": status,
        "title": machine_title(status.life.candidate or run.candidate),
        "word": run_page.state_word(status),
        "headline": run_page.headline(status),
        "left": left if status.life.state == "training" and status.life.stop_reason is None else None,
        "rough": run_page.rough_duration,
        "lead": run_page.pace_sentence(status),
        "stop_sentence": run_page.stop_sentence(status),
        "elapsed": run_page.elapsed_seconds(status),
        "epoch": _epoch(status),
        "bars": run_page.forecast(status),
        "loss_chart": line_chart(
            [point.iteration for point in losses], [point.loss for point in losses], x_end=progress.total_iterations
        ),
        "loss_spark": spark_points([point.loss for point in losses]),
        "loss_least": min(losses, key=lambda point: point.loss) if losses else None,
        "machine_rows": _machine_rows(curves),
        "events": run_page.events_of(status.facts)[::-1],
        "rows": run_page.receipt_rows(status.receipt),
        "lines": lines,
        "costs": bool((status.life.candidate or run.candidate).usd_per_hour),
    }


def live_fragment(context: Mapping[str, Any]) -> str:
    """The parts of the page that change, as HTML; each replaces the element of its id."""
    return environment().get_template("watch_live.html").render(**context)


def _results(status: RunStatus, settings: Settings) -> dict[str, Any]:
    run = status.run
    files = list_downloads(run.id, settings=settings)
    lines = last_lines(status, settings=settings, count=LINES)
    curves = read_curves(run.id, status.life.attempt, settings=settings)
    total = status.receipt.total
    costs = bool(run.candidate.usd_per_hour)
    predicted, observed = (total.predicted_usd, total.paid_usd) if costs else (total.predicted_seconds, total.seconds)
    return {
        "run": run,
        "status": status,
        "title": machine_title(run.candidate),
        "word": run_page.state_word(status),
        "headline": run_page.result_headline(status),
        "lead": run_page.result_lead(status),
        "next_step": run_page.next_step(status),
        "rows": run_page.receipt_rows(status.receipt),
        "costs": costs,
        "predicted": predicted,
        "observed": observed,
        "began_at": status.facts[0].seen_at if status.facts else run.made_at,
        "ended_at": status.facts[-1].seen_at,
        "files": files,
        "size": format_size,
        "bytes": sum(each.bytes for each in files),
        "lines": lines,
        "events": run_page.events_of(status.facts),
        "loss_chart": line_chart([point.iteration for point in curves.loss], [point.loss for point in curves.loss]),
        "last_loss": curves.loss[-1].loss if curves.loss else None,
    }


def _row(status: RunStatus) -> dict[str, Any]:
    word, kind = run_page.state_word(status)
    run, left = status.run, status.progress.remaining_seconds
    total = status.receipt.total
    return {
        "id": run.id,
        "name": run.program.name,
        "title": machine_title(status.life.candidate or run.candidate),
        "word": word,
        "kind": kind,
        "share": status.progress.share if status.life.state == "training" else None,
        "left": left,
        "seconds": total.seconds,
        "predicted": total.predicted_usd if run.candidate.usd_per_hour else None,
        "paid": total.paid_usd,
        "costs": bool(run.candidate.usd_per_hour),
        "made_at": run.made_at,
    }


def _epoch(status: RunStatus) -> tuple[int, int] | None:
    """The epoch that it is in, and how many there are; None if iterations cannot be counted in epochs."""
    estimate, progress = status.run.estimate, status.progress
    if estimate is None or not progress.total_iterations or not estimate.epochs or estimate.epochs < 2:
        return None
    done = int(progress.iterations / progress.total_iterations * estimate.epochs)
    return min(done + 1, int(estimate.epochs)), int(estimate.epochs)


def _machine_rows(curves: Curves) -> list[dict[str, Any]]:
    """The uses of the machine that were measured: a name, a line, and the last value."""
    uses = curves.machine
    measures = (
        ("GPU", [each.gpu_percent for each in uses], 100.0, lambda value: f"{value:.0f}%"),
        ("GPU memory", [each.gpu_memory_bytes for each in uses], None, format_size),
        ("CPU", [each.cpu_cores for each in uses], None, lambda value: f"{value:.1f} cores"),
        ("Memory", [each.memory_bytes for each in uses], None, format_size),
        (
            "Disk read",
            [each.read_bytes_per_second for each in uses],
            None,
            _rate,
        ),
    )
    rows = []
    for name, values, high, written in measures:
        points, known = spark_points(values, high=high), [value for value in values if value is not None]
        if points is not None and (known[-1] or name in ("CPU", "GPU")):
            rows.append({"name": name, "points": points, "value": written(known[-1])})
    return rows


def _rate(number: float) -> str:
    return f"{format_size(number)}/s"


def _links(run: Run) -> dict[str, str]:
    links = {"Program": "/new", "Run": f"/runs/{run.id}"}
    if run.estimate is not None:
        links |= {
            "Profile": f"/profiles/{run.estimate.profile_id}",
            "Offers": f"/profiles/{run.estimate.profile_id}/offers",
        }
    return links


def _confirm_page(
    request: Request,
    visitor: Visitor,
    settings: Settings,
    given: dict[str, str],
    *,
    key: str,
    error: TrainfareError | None = None,
) -> HTMLResponse:
    try:
        run = agree(None, _options(given), settings=_within_budget(settings, visitor))
    except (UsageError, InfeasibleError) as problem:
        error = error or problem
        run = None
    errors = {} if error is None else {_FIELDS.get(error.field or "", error.field or ""): error.message}
    if run is None and error is not None and _FIELDS.get(error.field or "") is not None:
        try:  # the other fields are right: show the offer next to the one that is not
            run = agree(None, _options({**given, "budget": "", "deadline": "", "longest": ""}), settings=settings)
        except (UsageError, InfeasibleError):
            run = None
    if run is None:
        return page(
            request,
            "confirm_problem.html",
            status_code=409 if isinstance(error, InfeasibleError) else 422,
            visitor=visitor,
            section="new",
            problem=error.message if error else "",
        )
    cap = run_page.default_cap_usd(run)
    limits = replace(run.limits, budget_usd=cap)
    return page(
        request,
        "confirm.html",
        status_code=200 if error is None else 422,
        visitor=visitor,
        section="new",
        run=run,
        links={name: link for name, link in _links(run).items() if name != "Run"},
        title=machine_title(run.candidate),
        usd=run_page.predicted_usd(run),
        seconds=run_page.predicted_seconds(run),
        cap=cap,
        key=key,
        given=given,
        early=run_page.early_stop_sentence(replace(run, limits=limits), cap),
        errors=errors,
        problem="" if error is None or set(errors) & {"budget", "deadline", "longest"} else error.message,
        caps_note=_caps_note(settings, visitor),
    )


_FIELDS = {"budget": "budget", "deadline": "deadline", "longest": "longest"}


def _options(given: Mapping[str, str]) -> RunOptions:
    return RunOptions(
        plan_id=given["plan"] or None,
        profile_id=given["profile"] or None,
        on=given["on"] or None,
        budget_usd=_usd(given["budget"]),
        deadline_seconds=_seconds("deadline", given["deadline"]),
        longest_seconds=_seconds("longest", given["longest"]),
    )


def _usd(text: str) -> float | None:
    text = text.strip().removeprefix("$").replace(",", "")
    if not text:
        return None
    try:
        usd = float(text)
    except ValueError:
        usd = 0.0
    if not 0 < usd < 1e9:
        raise UsageError("Write an amount of dollars above 0, such as 12.50.", field="budget")
    return usd


def _seconds(field: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        seconds = parse_duration(text)
    except ValueError:
        raise UsageError("Write a time such as 45min, 3h or 2d.", field=field) from None
    if seconds > 3660 * 86400:
        raise UsageError("Write a time below ten years.", field=field)
    return seconds


def _within_budget(settings: Settings, visitor: Visitor) -> Settings:
    """The settings with the budget of the visitor as a cap on the costs of a month, if it is the lower one."""
    caps = [usd for usd in (settings.max_usd_per_user_month, visitor.budget_usd) if usd is not None]
    return replace(settings, max_usd_per_user_month=min(caps)) if caps else settings


def _caps_note(settings: Settings, visitor: Visitor) -> float | None:
    caps = [usd for usd in (settings.max_usd_per_user_month, visitor.budget_usd) if usd is not None]
    return min(caps) if caps else None
