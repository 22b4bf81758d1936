"""A profile that is being taken: how far it is, and what to do if it failed."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from trainfare.app.serving.tasks import TaskStatus, cancel_task, show_task
from trainfare.web.context import ServerSettings
from trainfare.web.rendering import page, wants_fragment
from trainfare.web.visitors import Member, Viewer

router = APIRouter()


@router.get("/tasks/{task_id}")
def task(task_id: str, request: Request, visitor: Viewer, settings: ServerSettings) -> Response:
    """The task; once it has succeeded, the offers that it was taken for."""
    status = show_task(task_id, settings=settings)
    if status.profile_id is not None:
        address = offers_address(status)
        if wants_fragment(request):
            return Response(headers={"HX-Redirect": address})
        return RedirectResponse(address, status_code=303)
    template = "task_parts.html" if wants_fragment(request) else "task.html"
    return page(request, template, visitor=visitor, status=status, script=_script(status), again=_again(status))


@router.post("/tasks/{task_id}/cancel")
def cancel(task_id: str, _visitor: Member, settings: ServerSettings) -> Response:
    """Ask for the end of the task."""
    cancel_task(task_id, settings=settings)
    return RedirectResponse(f"/tasks/{task_id}", status_code=303)


def offers_address(status: TaskStatus) -> str:
    """The offers for the profile of a task, with the question that came with the program."""
    query = urlencode(status.task.question)
    return f"/profiles/{status.profile_id}/offers" + (f"?{query}" if query else "")


def _script(status: TaskStatus) -> str:
    words = status.task.program.command
    return next((word for word in words if word.endswith(".py")), words[0]).rsplit("/", 1)[-1]


def _again(status: TaskStatus) -> str:
    """The form with what was asked, so that only the program has to be given again."""
    query = urlencode(status.task.question)
    return "/new" + (f"?{query}" if query else "")
