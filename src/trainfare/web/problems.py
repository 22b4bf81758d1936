"""Errors as problem documents (RFC 9457, `application/problem+json`), the same for every route of the API.

    UsageError        422    the caller: an argument is not right; `field` names it
    NotFoundError     404    … it names something that does not exist
    KeyReusedError    409    … its idempotency key was used for another request
    ProgramError      422    the author of the training program
    InfeasibleError   409    no machine satisfies the request, or a cap on costs would be broken
    ExternalError     502    a provider or the network
    StoreError        503    the history cannot be read or written
    NotFiniteError    500    the authors of Trainfare

A browser that asks for a page gets a short one instead. Neither has a traceback.
`request_id` stands in the log of the server too.
"""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from trainfare.app.running.start_for_user import KeyReusedError
from trainfare.errors import (
    ExternalError,
    InfeasibleError,
    NotFiniteError,
    NotFoundError,
    ProgramError,
    Remedy,
    StoreError,
    TrainfareError,
    UsageError,
)
from trainfare.web.refusals import RequestRefusedError, refusal, wants_page

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:trainfare:problem:"

_KINDS: tuple[tuple[type[TrainfareError], int, str, str], ...] = (
    (KeyReusedError, 409, "key-reused", "The idempotency key was used for another request"),
    (NotFoundError, 404, "not-found", "There is no such thing"),
    (UsageError, 422, "usage", "An argument is not right"),
    (ProgramError, 422, "program", "The training program failed"),
    (InfeasibleError, 409, "infeasible", "No machine satisfies the request"),
    (StoreError, 503, "store", "The history cannot be used"),
    (ExternalError, 502, "external", "A provider or the network failed"),
    (NotFiniteError, 500, "not-finite", "An estimate is not a number"),
    (TrainfareError, 409, "conflict", "The request cannot be carried out now"),
)
"""The first class that an error is of decides: the status, the end of its type and its title."""

_PLAIN_KINDS: Mapping[int, str] = {
    400: "bad-request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    500: "internal",
}

log = logging.getLogger("trainfare.web")


class Problem(BaseModel):
    """Why a request was refused or failed."""

    type: str = Field(description="The kind of problem: a URN that stays the same.", examples=[f"{TYPE_PREFIX}usage"])
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened, to which thing, and what to do next.")
    field: str | None = Field(default=None, description="The argument at fault.")
    remedies: list[dict[str, Any]] = Field(
        default_factory=list,
        description="What would help: `arguments` with their values, of this request or of another `use_case`.",
    )
    request_id: str | None = Field(default=None, description="Names this request in the log of the server.")


_REFUSALS = {
    400: "The request cannot be read.",
    401: "No valid token was shown.",
    403: "The role of the token does not allow it, or the thing belongs to another user.",
    404: "There is no such thing.",
    409: "It cannot be carried out in the present state, or the idempotency key was used for another request.",
    422: "An argument is not right; `field` names it.",
    502: "A provider or the network failed.",
    503: "The history cannot be used.",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}
    for status, text in _REFUSALS.items()
}
"""The problems that every route can answer with, for the OpenAPI document."""


def problem_of(error: TrainfareError, *, request_id: str) -> Problem:
    """The problem document of an error of ours."""
    status, kind, title = next((row[1], row[2], row[3]) for row in _KINDS if isinstance(error, row[0]))
    return Problem(
        type=f"{TYPE_PREFIX}{kind}",
        title=title,
        status=status,
        detail=_sentence(error.message),
        field=error.field,
        remedies=[_remedy(remedy) for remedy in error.remedies],
        request_id=request_id,
    )


def request_id_of(request: Request) -> str:
    """The id of a request, made when it is first asked for."""
    found = getattr(request.state, "request_id", None)
    if found is None:
        found = request.state.request_id = uuid4().hex[:16]
    return str(found)


def plain_problem(status: int, detail: str, *, request_id: str, field: str | None = None) -> Problem:
    """A problem that is no error of ours: a missing token, an unknown path, a body that cannot be read."""
    phrase = HTTPStatus(status).phrase
    kind = _PLAIN_KINDS.get(status, phrase.lower().replace(" ", "-"))
    return Problem(
        type=f"{TYPE_PREFIX}{kind}", title=phrase, status=status, detail=detail, field=field, request_id=request_id
    )


def problem_response(request: Request, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The document, or a short page for a browser."""
    if wants_page(request):
        return refusal(request, RequestRefusedError(problem.status, problem.detail))
    return JSONResponse(
        problem.model_dump(mode="json"), status_code=problem.status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


def trainfare_problem(request: Request, error: TrainfareError) -> Response:
    """The answer to an error of ours."""
    problem = problem_of(error, request_id=request_id_of(request))
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("request %s failed: %s", problem.request_id, problem.detail)
    return problem_response(request, problem)


def validation_problem(request: Request, error: RequestValidationError) -> Response:
    """The answer to a request that its route cannot read: the first argument at fault, and how many more there are."""
    return problem_response(request, problem_of_validation(error.errors(), request_id=request_id_of(request)))


def problem_of_validation(errors: Sequence[Mapping[str, Any]], *, request_id: str) -> Problem:
    first = errors[0]
    field = ".".join(str(part) for part in first["loc"][1:]) or None
    more = f" {len(errors) - 1} more of the arguments are not right." if len(errors) > 1 else ""
    if first["type"] == "json_invalid":
        return plain_problem(422, f"The body is not JSON: {first['ctx']['error']}.", request_id=request_id)
    return Problem(
        type=f"{TYPE_PREFIX}usage",
        title="An argument is not right",
        status=422,
        detail=f"{_sentence(str(first['msg']))}{more}",
        field=field,
        request_id=request_id,
    )


def http_problem(request: Request, error: HTTPException) -> Response:
    """The answer to an error of the framework: 401, 403, 404, 405."""
    detail = str(error.detail or HTTPStatus(error.status_code).phrase)
    problem = plain_problem(error.status_code, _sentence(detail), request_id=request_id_of(request))
    return problem_response(request, problem, error.headers)


def unexpected_problem(request: Request, error: Exception) -> Response:
    """The answer to a fault of the server: the log has its traceback, the answer has not."""
    request_id = request_id_of(request)
    log.error("request %s failed: %s %s", request_id, request.method, request.url.path, exc_info=error)
    return problem_response(
        request,
        plain_problem(
            500,
            f"The server failed. Its log has the cause under the request id {request_id}.",
            request_id=request_id,
        ),
    )


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every error of an app with a problem document."""
    app.add_exception_handler(TrainfareError, trainfare_problem)  # type: ignore[arg-type] # called with this class only
    app.add_exception_handler(RequestValidationError, validation_problem)  # type: ignore[arg-type] # called with this class only
    app.add_exception_handler(HTTPException, http_problem)  # type: ignore[arg-type] # called with this class only
    app.add_exception_handler(Exception, unexpected_problem)


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {"arguments": {**remedy.arguments}, "use_case": remedy.command}


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
