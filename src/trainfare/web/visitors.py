"""Who sends a request. `AccessMiddleware` finds it out before anything of the body is read; routes say which role they
need by the type of an argument: `visitor: Member`.

A program shows a token in the header `Authorization: Bearer …`. A browser has a cookie, and must then show with every
request that changes something that our own page sent it: by `Origin` or `Sec-Fetch-Site`, and by a token in the header
`X-CSRF-Token` or the form field `csrf`.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from trainfare.app.serving.tokens import authenticate
from trainfare.model.access import Role, role_includes
from trainfare.settings import Settings
from trainfare.web.refusals import RequestRefusedError, refusal

COOKIE = "trainfare_session"
SAFE = ("GET", "HEAD", "OPTIONS")
PUBLIC = ("/login", "/healthz", "/static/")
SIGN_IN = "Sign in first: open the link that `trainfare serve` prints, or send a token."
MAX_BODY_BYTES = 210_000_000
"""Above the largest upload, for the other fields of its form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A user in a role, who came with a token."""

    user: str
    role: Role
    token_id: str
    csrf: str
    """The token that forms of a page must send back; empty for programs."""
    budget_usd: float | None = None


class AccessMiddleware:
    """Refuses requests to another host, from another site, without a token, or with too large a body."""

    def __init__(self, app: ASGIApp, *, settings: Settings, hosts: frozenset[str]) -> None:
        self._app, self._settings, self._hosts = app, settings, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            self._check_host(request)
            self._check_size(request)
            visitor, by_cookie = await self._visitor(request)
            if visitor is None and not _is_public(request.url.path):
                raise RequestRefusedError(401, SIGN_IN)
            if by_cookie and request.method not in SAFE:
                self._check_origin(request)
        except RequestRefusedError as error:
            await refusal(request, error)(scope, receive, send)
            return
        scope.setdefault("state", {})["visitor"] = visitor
        scope["state"]["by_cookie"] = by_cookie
        await self._app(scope, receive, send)

    def _check_host(self, request: Request) -> None:
        """Refuse a name that the DNS of others points here."""
        if _host_name(request.headers.get("host", "")) not in self._hosts:
            raise RequestRefusedError(421, "This server does not answer to that name.")

    def _check_size(self, request: Request) -> None:
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            raise RequestRefusedError(413, f"A request may have at most {MAX_BODY_BYTES // 10**6} MB.")
        if "transfer-encoding" in request.headers:
            raise RequestRefusedError(411, "The length of the request must be stated.")

    def _check_origin(self, request: Request) -> None:
        origin = request.headers.get("origin")
        if origin is None:
            same = request.headers.get("sec-fetch-site") in ("same-origin", "none")
        else:
            same = urlsplit(origin).netloc == request.headers.get("host")
        if not same:
            raise RequestRefusedError(403, "The request came from another site.")

    async def _visitor(self, request: Request) -> tuple[Visitor | None, bool]:
        """The visitor, and whether it came with a cookie."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        by_cookie = scheme.lower() != "bearer"
        if by_cookie:
            secret = request.cookies.get(COOKIE, "")
        if not secret:
            return None, False
        token = await run_in_threadpool(authenticate, secret, settings=self._settings)
        if token is None:
            return None, False
        csrf = csrf_token(secret) if by_cookie else ""
        visitor = Visitor(user=token.user, role=token.role, token_id=token.id, csrf=csrf, budget_usd=token.budget_usd)
        return visitor, by_cookie


def csrf_token(secret: str) -> str:
    """A value that only our own pages know, for one session."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def _is_public(path: str) -> bool:
    return path in PUBLIC or any(path.startswith(each) for each in PUBLIC if each.endswith("/"))


def _host_name(host: str) -> str:
    """The host without its port: `localhost` of `localhost:8765`, `[::1]` of `[::1]:8765`."""
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0].lower()


def needs(role: Role) -> Callable[[Request], Awaitable[Visitor]]:
    """A dependency that gives the visitor if it has the role."""

    async def visitor_with_role(request: Request) -> Visitor:
        visitor: Visitor | None = getattr(request.state, "visitor", None)
        if visitor is None:
            raise RequestRefusedError(401, SIGN_IN)
        if not role_includes(visitor.role, role):
            raise RequestRefusedError(403, f"A {visitor.role} may not do this; it needs the role {role}.")
        if request.state.by_cookie and request.method not in SAFE:
            await _check_csrf(request, visitor)
        return visitor

    return visitor_with_role


async def _check_csrf(request: Request, visitor: Visitor) -> None:
    sent: object = request.headers.get("x-csrf-token")
    is_form = request.headers.get("content-type", "").startswith(
        ("multipart/form-data", "application/x-www-form-urlencoded")
    )
    if sent is None and is_form:
        sent = (await request.form()).get("csrf")
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode(), visitor.csrf.encode()):
        raise RequestRefusedError(403, "The form is not one of this page, or is too old. Reload the page, and send it.")


Viewer = Annotated[Visitor, Depends(needs("viewer"))]
Member = Annotated[Visitor, Depends(needs("member"))]
Admin = Annotated[Visitor, Depends(needs("admin"))]
