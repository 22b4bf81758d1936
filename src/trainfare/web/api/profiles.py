"""`/profiles`: list, show, take one as a task, remove."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Response, UploadFile
from fastapi import Path as InPath

from trainfare.app.profiling.profiles import list_profiles, remove_profiles, show_log, show_profile
from trainfare.app.serving.tasks import list_tasks, show_task, submit_profile
from trainfare.app.serving.uploads import save_upload
from trainfare.views.profile import profile_record
from trainfare.web.api.bodies import ProfileBody, Text
from trainfare.web.api.ownership import require_own
from trainfare.web.api.paging import DEFAULT_LIMIT, Cursor, Limit, Page, page_of
from trainfare.web.api.records import LogRecord, ProfileRecord, TaskRecord
from trainfare.web.api.tasks import task_record
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Admin, Member, Viewer

router = APIRouter(tags=["profiles"])
ProfileId = Annotated[str, InPath(max_length=200)]
_TASKS_SEARCHED = 1000
"""The newest tasks, among which the one that took a profile is looked for."""


@router.get("/profiles", response_model=Page[ProfileRecord])
def list_all(
    _visitor: Viewer, settings: ServerSettings, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, Any]:
    """List the profiles, the newest first."""
    stored = list_profiles(settings=settings)
    return page_of(
        stored.profiles, profile_record, lambda each: each.id, limit=limit, cursor=cursor, damaged=stored.damaged
    )


@router.post("/profiles", status_code=202, response_model=TaskRecord)
def take_of_command(visitor: Admin, settings: ServerSettings, body: ProfileBody, response: Response) -> dict[str, Any]:
    """Profile a command on the server, in the background.

    It runs as the user of the server, so only an admin may ask for it. Others upload their program.
    """
    task = submit_profile(
        body.command,
        user=visitor.user,
        settings=settings,
        folder=None if body.folder is None else Path(body.folder),
        batch_size=body.batch_size,
        samples=body.samples,
        steps=body.steps,
        max_seconds=body.max_seconds,
    )
    return _accepted(task.id, settings, response)


@router.post("/profiles/uploads", status_code=202, response_model=TaskRecord)
def take_of_upload(
    visitor: Member,
    settings: ServerSettings,
    response: Response,
    file: Annotated[UploadFile, File(description="A script, a zip or a wheel.")],
    arguments: Annotated[
        list[Text] | None, Form(description="The main script in an archive, and arguments of the program.")
    ] = None,
    batch_size: Annotated[int | None, Form(ge=1, le=10**9)] = None,
    samples: Annotated[int | None, Form(ge=1, le=10**12)] = None,
    steps: Annotated[int | None, Form(ge=1, le=10**12)] = None,
) -> dict[str, Any]:
    """Upload a program and profile it in a sandbox, in the background."""
    upload = save_upload(file.filename or "", file.file, arguments or (), settings=settings)
    task = submit_profile(
        upload.program.command,
        user=visitor.user,
        settings=settings,
        folder=Path(upload.program.directory),
        batch_size=batch_size,
        samples=samples,
        steps=steps,
    )
    return _accepted(task.id, settings, response)


@router.get("/profiles/{profile_id}", response_model=ProfileRecord)
def show(_visitor: Viewer, settings: ServerSettings, profile_id: ProfileId) -> dict[str, Any]:
    """Show what a profile measured."""
    return profile_record(show_profile(profile_id, settings=settings))


@router.get("/profiles/{profile_id}/log", response_model=LogRecord)
def show_output(_visitor: Viewer, settings: ServerSettings, profile_id: ProfileId) -> dict[str, Any]:
    """Show what the program printed while it was measured."""
    return {"profile": profile_id, "log": show_log(profile_id, settings=settings)}


@router.delete("/profiles/{profile_id}", status_code=204)
def remove(visitor: Member, settings: ServerSettings, profile_id: ProfileId) -> None:
    """Remove a profile that the user took. Plans that are based on it can still be shown."""
    show_profile(profile_id, settings=settings)
    tasks = list_tasks(settings=settings, limit=_TASKS_SEARCHED)
    user = next((each.task.user for each in tasks if each.profile_id == profile_id), None)
    require_own(visitor, user, f"Profile {profile_id}")
    remove_profiles([profile_id], settings=settings)


def _accepted(task_id: str, settings: ServerSettings, response: Response) -> dict[str, Any]:
    response.headers["Location"] = f"/api/v1/tasks/{task_id}"
    return task_record(show_task(task_id, settings=settings))
