"""The page of settings: each with its origin, tokens for admins, and the doors to machines."""

from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from trainfare.app.running.check_doors import check_doors
from trainfare.app.serving.tokens import create_token, list_tokens, revoke_token
from trainfare.errors import TrainfareError, UsageError
from trainfare.model.access import ROLES, Role, role_includes
from trainfare.settings import NAMES, Settings
from trainfare.units import format_duration, format_usd
from trainfare.web.context import ServerSettings
from trainfare.web.rendering import page
from trainfare.web.visitors import Admin, Viewer, Visitor

router = APIRouter()
Text = Annotated[str, Form(max_length=200)]
_TEXTS = {
    "store": "Where the history is stored",
    "machines": "The file of your own machines and prices",
    "prices": "Imported price tables",
    "calibrations": "Coefficients that were fitted here",
    "logs": "Output of profiled programs",
    "runs": "Output and results of runs",
    "skypilot": "SkyPilot, which rents from clouds",
    "iterations": "Iterations that a profile measures",
    "stall_seconds": "A program without an iteration is stopped after",
    "lease_seconds": "A run without its supervisor is taken over after",
    "goal": "What is looked for if nothing is said",
    "boot_seconds": "Start of a rented machine",
    "setup_seconds": "Preparation of a rented machine",
    "max_usd_per_run": "Most that a run may cost",
    "max_usd_per_day": "Most that all runs may cost in a day",
    "max_usd_per_month": "Most that all runs may cost in a month",
    "max_usd_per_user_month": "Most that the runs of one user may cost in a month",
}


@router.get("/settings")
def show(request: Request, visitor: Viewer, settings: ServerSettings) -> HTMLResponse:
    """The settings that are in effect."""
    return _page(request, visitor, settings)


@router.get("/settings/doors")
def doors(request: Request, visitor: Viewer, settings: ServerSettings) -> HTMLResponse:
    """The machines that can be used, and what is missing for the others. Hosts and clouds are asked."""
    return _page(request, visitor, settings, doors=check_doors(settings=settings))


@router.post("/settings/tokens")
def create(
    request: Request,
    visitor: Admin,
    settings: ServerSettings,
    user: Text = "",
    role: Text = "member",
    days: Text = "",
    budget: Text = "",
) -> HTMLResponse:
    """A new token; its secret is shown on this page and never again."""
    try:
        made = create_token(
            user,
            _role(role),
            seconds=_number("days", days, 86400.0),
            budget_usd=_number("budget", budget, 1.0),
            settings=settings,
        )
    except TrainfareError as error:
        given = {"user": user, "role": role, "days": days, "budget": budget}
        return _page(request, visitor, settings, problem=error, given=given, status_code=422)
    return _page(request, visitor, settings, secret=made.secret)


@router.post("/settings/tokens/{token}/revoke")
def revoke(_visitor: Admin, settings: ServerSettings, token: Annotated[str, Path(max_length=200)]) -> Response:
    """End a token."""
    revoke_token(token, settings=settings)
    return RedirectResponse("/settings", status_code=303)


def _page(
    request: Request,
    visitor: Visitor,
    settings: Settings,
    *,
    doors: Any = None,
    secret: str = "",
    problem: TrainfareError | None = None,
    given: dict[str, str] | None = None,
    status_code: int = 200,
) -> HTMLResponse:
    is_admin = role_includes(visitor.role, "admin")
    return page(
        request,
        "settings.html",
        status_code=status_code,
        visitor=visitor,
        section="settings",
        rows=[(_TEXTS.get(name, name), name, _value(name, settings), _origin(name, settings)) for name in NAMES],
        tokens=list_tokens(settings=settings) if is_admin else None,
        roles=[(role, role) for role in ROLES],
        secret=secret,
        doors=doors,
        problem=problem.message if problem else "",
        errors={}
        if problem is None
        else {{"expires": "days"}.get(problem.field or "", problem.field or ""): problem.message},
        given=given or {"user": "", "role": "member", "days": "90", "budget": ""},
    )


def _value(name: str, settings: Settings) -> str:
    value = getattr(settings, name)
    if value is None:
        return "no limit" if name.startswith("max_") else "as usual"
    if name.endswith("_seconds"):
        return format_duration(value)
    if name.startswith("max_usd"):
        return format_usd(value)
    return _redacted(str(value))


def _redacted(text: str) -> str:
    """A URL without its password."""
    if "://" not in text:
        return text
    parts = urlsplit(text)
    if parts.password is None and not parts.query:
        return text
    host = parts.netloc.rpartition("@")[2]
    user = f"{parts.username}:…@" if parts.password is not None else f"{parts.username}@" if parts.username else ""
    return urlunsplit((parts.scheme, f"{user}{host}", parts.path, "…" if parts.query else "", ""))


def _origin(name: str, settings: Settings) -> str:
    origin = settings.origins.get(name, "default")
    return {"flag": "the command that started this server", "default": "default"}.get(origin, origin)


def _role(text: str) -> Role:
    role: Role | None = next((each for each in ROLES if each == text), None)
    if role is None:
        raise UsageError("Choose one of the roles.", field="role")
    return role


def _number(field: str, text: str, unit: float) -> float | None:
    if not text.strip():
        return None
    try:
        number = float(text.strip().removeprefix("$"))
    except ValueError:
        number = 0.0
    if not 0 < number < 1e7:
        raise UsageError("Write a number above 0, or leave it empty.", field=field)
    return number * unit
