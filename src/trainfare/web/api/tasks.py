"""`/tasks`: profiles that the server takes in the background."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from trainfare.app.serving.tasks import TaskStatus, cancel_task, list_tasks, show_task
from trainfare.web.api.ownership import require_own
from trainfare.web.api.paging import DEFAULT_LIMIT, Cursor, Limit, Page, page_of
from trainfare.web.api.records import TaskRecord
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Member, Viewer

router = APIRouter(tags=["profiles"])
TaskId = Annotated[str, Path(max_length=200)]
_LISTED = 1000


@router.get("/tasks", response_model=Page[TaskRecord])
def list_all(
    _visitor: Viewer, settings: ServerSettings, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, Any]:
    """List the newest tasks."""
    tasks = list_tasks(settings=settings, limit=_LISTED)
    return page_of(tasks, task_record, lambda each: each.task.id, limit=limit, cursor=cursor)


@router.get("/tasks/{task_id}", response_model=TaskRecord)
def show(_visitor: Viewer, settings: ServerSettings, task_id: TaskId) -> dict[str, Any]:
    """Show a task: how far it is, and the profile once it is taken."""
    return task_record(show_task(task_id, settings=settings))


@router.post("/tasks/{task_id}/cancel", response_model=TaskRecord)
def cancel(visitor: Member, settings: ServerSettings, task_id: TaskId) -> dict[str, Any]:
    """Ask for the end of a task of the user."""
    require_own(visitor, show_task(task_id, settings=settings).task.user, f"Task {task_id}")
    return task_record(cancel_task(task_id, settings=settings))


def task_record(status: TaskStatus) -> dict[str, Any]:
    task = status.task
    return {
        "id": task.id,
        "state": status.state,
        "user": task.user,
        "made_at": task.made_at.isoformat(),
        "command": list(task.program.command),
        "sandboxed": task.sandboxed,
        "message": status.message,
        "field": status.argument,
        "profile": status.profile_id,
        "events": [
            {
                "number": event.number,
                "seen_at": event.seen_at.isoformat(),
                "kind": event.kind,
                "text": event.text,
                "iterations": event.iterations,
                "iteration_seconds": event.iteration_seconds,
            }
            for event in status.events
        ],
    }
