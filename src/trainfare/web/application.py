"""The application: pages, the REST API under `/api/v1`, and what all requests have in common."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.staticfiles import StaticFiles

from trainfare import __version__
from trainfare.app.serving.tokens import SESSION_SECONDS, exchange_link
from trainfare.app.serving.worker import BackgroundWorker
from trainfare.settings import Settings
from trainfare.web import api, pages
from trainfare.web.answering import AnswerMiddleware
from trainfare.web.metrics import Metrics
from trainfare.web.problems import add_problem_handlers
from trainfare.web.refusals import RequestRefusedError, refusal
from trainfare.web.visitors import COOKIE, AccessMiddleware, Admin

STATIC = Path(__file__).parent / "static"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


def create_app(
    settings: Settings, *, background: bool = True, hosts: frozenset[str] = LOOPBACK, secure: bool = False
) -> FastAPI:
    """The application for one store. With `background` it also takes profiles and attends runs. `hosts` are the names
    that it answers to; `secure` is for pages that come by HTTPS."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        worker = BackgroundWorker(settings) if background else None
        if worker is not None:
            worker.start()
        yield
        if worker is not None:
            await run_in_threadpool(worker.stop)

    # The documentation pages of FastAPI load scripts from elsewhere.
    app = FastAPI(
        title="Trainfare",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )
    app.state.settings, app.state.secure, app.state.metrics = settings, secure, Metrics()
    app.add_middleware(AccessMiddleware, settings=settings, hosts=hosts)
    app.add_middleware(AnswerMiddleware, metrics=app.state.metrics)  # around the other one, for what that refuses
    add_problem_handlers(app)
    app.add_exception_handler(RequestRefusedError, _refuse)
    app.include_router(api.router, prefix="/api/v1")
    app.add_api_route("/login", _login, include_in_schema=False, methods=["GET"])
    app.add_api_route("/healthz", _health, include_in_schema=False, methods=["GET"])
    app.add_api_route("/metrics", _metrics, include_in_schema=False, methods=["GET"])
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.include_router(pages.router, include_in_schema=False)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestRefusedError):
        raise error
    return refusal(request, error)


async def _login(request: Request, token: str = "") -> Response:
    """Exchange a link for a session, once."""
    settings: Settings = request.app.state.settings
    session = await run_in_threadpool(exchange_link, token, settings=settings)
    if session is None:
        if getattr(request.state, "visitor", None) is not None:
            return RedirectResponse("/", status_code=303)
        raise RequestRefusedError(401, "This link was used before or is too old. `trainfare serve` prints a new one.")
    answer = RedirectResponse("/", status_code=303)
    answer.set_cookie(
        COOKIE,
        session.secret,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        secure=request.app.state.secure,
        samesite="strict",
    )
    return answer


async def _health() -> PlainTextResponse:
    return PlainTextResponse("ok\n")


async def _metrics(request: Request, _visitor: Admin) -> PlainTextResponse:
    text: str = request.app.state.metrics.text()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
