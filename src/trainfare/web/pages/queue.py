"""The page of the queue: the jobs, the plan as one row a job, withdraw, and a change of the deadline."""

import math
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from trainfare.app.queue.change import change_deadline
from trainfare.app.queue.listing import cancel_jobs, list_queue
from trainfare.app.queue.plan import plan_queue
from trainfare.errors import TrainfareError, UsageError
from trainfare.model.submission import Submission
from trainfare.recommender.names import short_name
from trainfare.scheduler.queue_plan import PlannedJob, QueuePlan
from trainfare.settings import Settings
from trainfare.units import parse_duration, plural
from trainfare.views.offers_page import as_sentence, page_arguments
from trainfare.views.queue import deadline_margin, remark_sentence, unplanned_sentence
from trainfare.views.reasons import sentence
from trainfare.web.api.ownership import require_own
from trainfare.web.context import ServerSettings
from trainfare.web.rendering import page
from trainfare.web.visitors import Member, Viewer

router = APIRouter()
JobId = Annotated[str, Path(max_length=200)]
Text = Annotated[str, Form(max_length=60)]


@router.get("/queue")
def queue(request: Request, visitor: Viewer, settings: ServerSettings) -> HTMLResponse:
    """All jobs that wait, and the plan for them. Nothing is rented."""
    return _page(request, visitor, settings)


@router.post("/queue/{job}/withdraw")
def withdraw(visitor: Member, settings: ServerSettings, job: JobId) -> Response:
    """Take a job out of the queue."""
    _require_own_job(visitor, job, settings)
    cancel_jobs((job,), settings=settings)
    return RedirectResponse("/queue", status_code=303)


@router.post("/queue/{job}/deadline")
def deadline(request: Request, visitor: Member, settings: ServerSettings, job: JobId, within: Text = "") -> Response:
    """Give a job another deadline, or none."""
    _require_own_job(visitor, job, settings)
    try:
        change_deadline(job, _moment(within), settings=settings)
    except UsageError as error:
        return _page(request, visitor, settings, problem=error.message, status_code=422)
    return RedirectResponse("/queue", status_code=303)


def _moment(within: str) -> datetime | None:
    if not within.strip():
        return None
    try:
        return datetime.now(UTC) + timedelta(seconds=parse_duration(within))
    except (ValueError, OverflowError):
        raise UsageError("Write the time until the deadline, such as 3h or 2d.", field="within") from None


def _require_own_job(visitor: Member, job: str, settings: Settings) -> None:
    found = next((each for each in list_queue(settings=settings).submissions if each.id == job), None)
    require_own(visitor, found.user if found else None, f"Job {job}")


def _page(
    request: Request, visitor: Viewer, settings: Settings, *, problem: str = "", status_code: int = 200
) -> HTMLResponse:
    listed = list_queue(settings=settings)
    plan, why_not = None, ""
    if listed.submissions:
        try:
            plan = plan_queue(settings=settings)
        except TrainfareError as error:
            why_not = error.message
    jobs = plan.jobs if plan else ()
    return page(
        request,
        "queue.html",
        status_code=status_code,
        visitor=visitor,
        section="queue",
        problem=problem,
        why_not=why_not,
        submissions=listed.submissions,
        damaged=listed.damaged,
        plan=plan,
        chart=_chart(plan) if plan and jobs else None,
        ends_at=max((job.ends_at for job in jobs), default=None),
        late=sum(job.late_seconds > 0 for job in jobs),
        running=sum(job.node is not None for job in jobs),
        waiting=[
            (job.submission.program, job.submission.id, as_sentence(sentence(job.waits_because, page_arguments)))
            for job in jobs
            if job.waits_because
        ],
        unplanned=[as_sentence(unplanned_sentence(each, page_arguments)) for each in plan.unplanned] if plan else [],
        remarks=[as_sentence(remark_sentence(each, page_arguments)) for each in plan.table.remarks] if plan else [],
        own={each.id: visitor.role == "admin" or each.user == visitor.user for each in listed.submissions},
        length=_length,
    )


def _length(submission: Submission) -> str:
    if submission.epochs is not None:
        return plural(round(submission.epochs), "epoch")
    return plural(submission.steps, "step") if submission.steps is not None else "its own length"


def _chart(plan: QueuePlan) -> dict[str, Any]:
    """The places of all bars, in percent of the time from now to the last end or near deadline."""
    start = plan.made_at
    last = max(_late_end(job) for job in plan.jobs)
    width = (last - start) * 1.06
    seconds = max(60.0, width.total_seconds())

    def place(moment: datetime) -> float:
        return max(0.0, min(100.0, 100 * (moment - start).total_seconds() / seconds))

    hours = seconds / 3600
    step = next(
        (each for each in (0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 168, 720) if hours / each <= 6), math.ceil(hours / 6)
    )
    first = start.replace(minute=0, second=0, microsecond=0)
    marks = [first + timedelta(hours=step * count) for count in range(1, 14)]
    beyond = [
        job.submission.deadline_at
        for job in plan.jobs
        if job.submission.deadline_at and job.submission.deadline_at > start + width
    ]
    return {
        "ticks": [(mark, place(mark)) for mark in marks if start < mark < start + width],
        "dates": step >= 24,
        "beyond": len(beyond),
        "rows": [
            {
                "job": job,
                "machine": short_name(*job.slot.type.partition("/")[::2]),
                "begin": place(job.begins_at),
                "end": place(job.ends_at),
                "late_end": place(_late_end(job)),
                "deadline": None
                if job.submission.deadline_at is None or job.submission.deadline_at > start + width
                else place(job.submission.deadline_at),
                "runs": job.node is not None,
                "margin": deadline_margin(job) or "no deadline",
                "is_late": job.late_seconds > 0,
            }
            for job in plan.jobs
        ],
    }


def _late_end(job: PlannedJob) -> datetime:
    """The end at the high end of the interval of its time."""
    seconds = job.estimate.seconds
    share = seconds.high / seconds.value if seconds.value else 1.0
    return job.begins_at + (job.ends_at - job.begins_at) * share
