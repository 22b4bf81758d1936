"""`/runs`: agree on one, start it once, list, show, stop, and read its output, results and receipt."""

import codecs
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import FileResponse

from trainfare.app.running.downloads import find_download, list_downloads
from trainfare.app.running.run import agree, ask_to_stop
from trainfare.app.running.start_for_user import MAX_KEY, start_for_user, starter_of
from trainfare.app.running.status import page_runs, read_output, show_run
from trainfare.errors import InfeasibleError
from trainfare.model.document import to_document
from trainfare.model.run import Run
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings
from trainfare.units import format_usd
from trainfare.views.estimates import estimate_record
from trainfare.views.runs import offer_sentence, receipt_record, run_record, state_sentence
from trainfare.web.api.bodies import StartBody, TermsBody
from trainfare.web.api.ownership import require_own, within_budget
from trainfare.web.api.paging import DEFAULT_LIMIT, Cursor, Limit, Page
from trainfare.web.api.records import FileList, OfferRecord, OutputRecord, ReceiptRecord, RunRecord, RunSummary
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Member, Viewer

router = APIRouter(tags=["runs"])
RunId = Annotated[str, Path(max_length=200)]
OUTPUT_BYTES = 256 * 1024
"""The most output of one answer."""


@router.get("/runs", response_model=Page[RunSummary])
def list_all(
    _visitor: Viewer, settings: ServerSettings, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, Any]:
    """List the runs, the newest first."""
    page = page_runs(limit=limit, after=cursor, settings=settings)
    return {
        "items": [_summary(status) for status in page.runs],
        "next": page.following,
        "damaged": list(page.damaged),
    }


@router.post("/runs/offers", response_model=OfferRecord)
def offer(visitor: Member, settings: ServerSettings, body: TermsBody) -> dict[str, Any]:
    """Show the terms under which a run would be started: the machine, its price and the prediction. Nothing starts."""
    return _offer_record(agree(None, body.options(visitor.user), settings=within_budget(settings, visitor)))


@router.post("/runs", status_code=201, response_model=RunRecord)
def start(
    visitor: Member,
    settings: ServerSettings,
    body: StartBody,
    response: Response,
    key: Annotated[str, Header(alias="Idempotency-Key", min_length=1, max_length=MAX_KEY, pattern=r"^[!-~]+$")],
) -> dict[str, Any]:
    """Start a run; the server attends it.

    The same request under the same `Idempotency-Key` leads to the same run, however often it is sent; another request
    under a key that was used is refused.
    """
    settings = within_budget(settings, visitor)

    def agreed() -> Run:
        run = agree(None, body.options(visitor.user), settings=settings)
        most, price = body.at_most_usd_per_hour, run.candidate.usd_per_hour
        if most is not None and price > most:
            raise InfeasibleError(
                f"The machine costs {format_usd(price)} an hour now, more than the {format_usd(most)} that were agreed "
                "to. Nothing was started.",
                field="at_most_usd_per_hour",
            )
        return run

    request = body.model_dump_json(exclude_defaults=True).encode()
    run_id = start_for_user(agreed, user=visitor.user, key=key, request=request, settings=settings)
    response.headers["Location"] = f"/api/v1/runs/{run_id}"
    return _record(show_run(run_id, settings=settings), settings)


@router.get("/runs/{run_id}", response_model=RunRecord)
def show(_visitor: Viewer, settings: ServerSettings, run_id: RunId) -> dict[str, Any]:
    """Show a run: its state, its progress and what happened."""
    return _record(show_run(run_id, settings=settings), settings)


@router.post("/runs/{run_id}/stop", response_model=RunRecord)
def stop(visitor: Member, settings: ServerSettings, run_id: RunId) -> dict[str, Any]:
    """Ask for the end of a run: its program saves, results are fetched, its machines end."""
    show_run(run_id, settings=settings)
    require_own(visitor, starter_of(run_id, settings=settings), f"Run {run_id}")
    return _record(ask_to_stop(run_id, settings=settings), settings)


@router.get("/runs/{run_id}/output", response_model=OutputRecord)
def output(
    _visitor: Viewer,
    settings: ServerSettings,
    run_id: RunId,
    offset: Annotated[
        int, Query(ge=0, le=10**15, description="Bytes to leave out; `next_offset` of the part before.")
    ] = 0,
) -> dict[str, Any]:
    """Read what the program printed, from an offset on."""
    status = show_run(run_id, settings=settings)
    part = read_output(run_id, settings=settings, offset=offset)[:OUTPUT_BYTES]
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(part)
    unread = len(decoder.getstate()[0])  # the beginning of a letter whose other bytes come with the next part
    return {
        "offset": offset,
        "next_offset": offset + len(part) - unread,
        "text": text,
        "ended": status.life.state == "ended",
    }


@router.get("/runs/{run_id}/files", response_model=FileList)
def files(_visitor: Viewer, settings: ServerSettings, run_id: RunId) -> dict[str, Any]:
    """List the result files."""
    return {
        "files": [
            {
                "number": each.number,
                "path": each.name,
                "bytes": each.bytes,
                "sha256": each.sha256,
                "available": each.is_here,
            }
            for each in list_downloads(run_id, settings=settings)
        ]
    }


@router.get(
    "/runs/{run_id}/files/{number}",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}},
)
def download(
    _visitor: Viewer,
    settings: ServerSettings,
    run_id: RunId,
    number: Annotated[int, Path(ge=0, le=10**9, description="As the list of files has it.")],
) -> FileResponse:
    """Download a result file."""
    found = find_download(run_id, number, settings=settings)
    return FileResponse(found.path, filename=PurePath(found.name).name, media_type="application/octet-stream")


@router.get("/runs/{run_id}/receipt", response_model=ReceiptRecord)
def receipt(_visitor: Viewer, settings: ServerSettings, run_id: RunId) -> dict[str, Any]:
    """Show predicted against paid, line by line, up to now."""
    return receipt_record(show_run(run_id, settings=settings).receipt)


def _record(status: RunStatus, settings: Settings) -> dict[str, Any]:
    user = starter_of(status.run.id, settings=settings)
    return {**run_record(status), "sentence": state_sentence(status), "user": user}


def _summary(status: RunStatus) -> dict[str, Any]:
    run, life = status.run, status.life
    candidate = life.candidate or run.candidate
    return {
        "id": run.id,
        "state": life.state,
        "outcome": life.outcome,
        "sentence": state_sentence(status),
        "name": run.program.name,
        "machine": candidate.offer.vm_type.key,
        "nodes": candidate.nodes,
        "made_at": run.made_at.isoformat(),
        "plan": run.plan_id,
        "paid_usd": status.receipt.total.paid_usd,
    }


def _offer_record(run: Run) -> dict[str, Any]:
    offered, limits = run.candidate.offer, run.limits
    return {
        "sentence": offer_sentence(run),
        "machine": offered.vm_type.key,
        "region": offered.region,
        "market": offered.market,
        "nodes": run.candidate.nodes,
        "usd_per_hour": run.candidate.usd_per_hour,
        "estimate": None if run.estimate is None else estimate_record(run.estimate),
        "budget_usd": limits.budget_usd,
        "deadline": None if limits.deadline is None else limits.deadline.isoformat(),
        "document": to_document(run),
    }
