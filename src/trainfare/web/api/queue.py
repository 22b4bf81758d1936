"""`/queue`: the trainings that wait: list, submit, withdraw."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path

from trainfare.app.queue.listing import cancel_jobs, list_queue
from trainfare.app.queue.submit import submit_job
from trainfare.errors import NotFoundError
from trainfare.views.queue import submission_record, submission_result_record
from trainfare.web.api.bodies import SubmissionBody
from trainfare.web.api.ownership import require_own
from trainfare.web.api.paging import DEFAULT_LIMIT, Cursor, Limit, Page, page_of
from trainfare.web.api.records import SubmissionRecord
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Member, Viewer

router = APIRouter(tags=["queue"])


@router.get("/queue", response_model=Page[SubmissionRecord])
def list_all(
    _visitor: Viewer, settings: ServerSettings, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, Any]:
    """List the queue, the newest training first."""
    listing = list_queue(settings=settings)
    return page_of(
        listing.submissions[::-1],
        submission_record,
        lambda each: each.id,
        limit=limit,
        cursor=cursor,
        damaged=listing.damaged,
    )


@router.post("/queue", status_code=201, response_model=SubmissionRecord)
def submit(visitor: Member, settings: ServerSettings, body: SubmissionBody) -> dict[str, Any]:
    """Submit a training to the queue."""
    found = submit_job(
        body.profiles,
        gpus=body.gpus,
        deadline=None if body.deadline_seconds is None else timedelta(seconds=body.deadline_seconds),
        late_usd_per_hour=body.late_usd_per_hour,
        user=visitor.user,
        settings=settings,
        **body.keywords,
    )
    return submission_result_record(found)


@router.delete("/queue/{submission_id}", status_code=204)
def withdraw(visitor: Member, settings: ServerSettings, submission_id: Annotated[str, Path(max_length=200)]) -> None:
    """Withdraw a training of the user from the queue."""
    submissions = {each.id: each for each in list_queue(settings=settings).submissions}
    if submission_id not in submissions:
        raise NotFoundError("training in the queue", submission_id, submissions)
    require_own(visitor, submissions[submission_id].user, f"Training {submission_id}")
    cancel_jobs([submission_id], settings=settings)
