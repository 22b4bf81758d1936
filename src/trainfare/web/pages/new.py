"""A new training: the program, how long to train it, and the limits; or the built-in example."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, UploadFile
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from trainfare.app.running.status import page_runs
from trainfare.app.serving.demo import submit_demo
from trainfare.app.serving.tasks import list_tasks, submit_profile
from trainfare.app.serving.uploads import save_upload
from trainfare.errors import TrainfareError, UsageError
from trainfare.model.task import Task
from trainfare.settings import Settings
from trainfare.web.context import ServerSettings
from trainfare.web.pages.profile import offers_address
from trainfare.web.pages.question import Asked, parse_asked
from trainfare.web.rendering import page
from trainfare.web.visitors import Member, Viewer, Visitor

router = APIRouter()

TEXTS = ("source", "folder", "script", "arguments", "length", "samples", "max_seconds")
_FIELDS = {"command": "script", "upload": "upload", "folder": "folder", "batch_size": "batch"}
"""The field of the form for an argument of a use case."""


@router.get("/")
def home(_visitor: Viewer, settings: ServerSettings) -> Response:
    """Go on with what is under way, or with the last offers or runs; a first visit gets the form."""
    return RedirectResponse(_last_place(settings), status_code=303)


def _last_place(settings: Settings) -> str:
    try:
        tasks = list_tasks(settings=settings, limit=5)
        runs = page_runs(limit=1, settings=settings).runs
    except TrainfareError:  # there is no store yet
        return "/new"
    under_way = next((each for each in tasks if not each.has_ended), None)
    if under_way is not None:
        return f"/tasks/{under_way.task.id}"
    ready = next((each for each in tasks if each.profile_id is not None), None)
    if runs and (ready is None or runs[0].run.made_at > ready.task.made_at):
        return "/runs" if runs[0].life.state == "ended" else f"/runs/{runs[0].run.id}"
    return offers_address(ready) if ready is not None else "/new"


@router.get("/new")
def new(request: Request, visitor: Viewer) -> Response:
    """The form, filled in with what a link says."""
    return _form(request, visitor, request.query_params, parse_asked(request.query_params).errors)


@router.post("/new")
async def submit(request: Request, visitor: Member, settings: ServerSettings) -> Response:
    """Store the task and show it; or the form again with what is wrong."""
    form = await request.form()
    typed = {name: value for name, value in form.items() if isinstance(value, str)}
    upload = form.get("upload")
    asked = parse_asked(typed)
    errors = dict(asked.errors)
    if not errors:
        file = upload if isinstance(upload, UploadFile) or hasattr(upload, "file") else None
        try:
            task = await run_in_threadpool(_submit, typed, asked, file, visitor, settings)
        except TrainfareError as error:
            errors[_FIELDS.get(error.field or "", error.field or "script")] = _sentence(error)
        else:
            return RedirectResponse(f"/tasks/{task.id}", status_code=303)
    return _form(request, visitor, typed, errors, status_code=422)


@router.post("/new/example")
def example(visitor: Member, settings: ServerSettings) -> Response:
    """Profile the built-in example."""
    task = submit_demo(user=visitor.user, settings=settings)
    return RedirectResponse(f"/tasks/{task.id}", status_code=303)


def _submit(typed: Mapping[str, str], asked: Asked, upload: Any, visitor: Visitor, settings: Settings) -> Task:
    arguments = _words(typed.get("arguments", ""), "arguments")
    script = typed.get("script", "").strip()
    question = asked.fields()
    if typed.get("source") == "folder":
        if visitor.role != "admin":
            raise UsageError("Only an admin may name a folder of the server. Upload the program.", field="folder")
        folder = typed.get("folder", "").strip()
        if not folder:
            raise UsageError("Write the folder of the program on this server.", field="folder")
        if not script:
            raise UsageError("Write the script that starts the training, like train.py.", field="script")
        command = ["python3", script, *arguments] if script.endswith(".py") else [*shlex.split(script), *arguments]
        return submit_profile(
            command,
            folder=Path(folder),
            user=visitor.user,
            settings=settings,
            question=question,
            batch_size=asked.batch,
        )
    if upload is None or not upload.filename:
        raise UsageError("Choose a script, a zip or a wheel.", field="upload")
    words = arguments if upload.filename.endswith(".py") or not script else [script, *arguments]
    saved = save_upload(upload.filename, upload.file, words, settings=settings)
    return submit_profile(
        saved.program.command,
        folder=Path(saved.program.directory),
        user=visitor.user,
        settings=settings,
        question=question,
        batch_size=asked.batch,
    )


def _words(text: str, field: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError("A quotation mark is not closed.", field=field) from error


def _sentence(error: TrainfareError) -> str:
    return error.message[:1].upper() + error.message[1:]


def _form(
    request: Request, visitor: Visitor, typed: Mapping[str, str], errors: Mapping[str, str], *, status_code: int = 200
) -> Response:
    values = {name: typed.get(name, "") for name in (*TEXTS, *parse_asked({}).typed)}
    shown: dict[str, str] = {name: errors.get(name, "") for name in (*values, "upload")} | dict(errors)
    values["source"] = values["source"] or "upload"
    weight = parse_asked(typed).weight
    values["goal"] = values["goal"] or ("fastest" if weight >= 1 else "cheapest")
    values["length"] = values["length"] or ("epochs" if values["epochs"] else "steps" if values["steps"] else "program")
    return page(request, "new.html", visitor=visitor, values=values, errors=shown, status_code=status_code)
