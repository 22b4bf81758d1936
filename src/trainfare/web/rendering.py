"""The Jinja environment of the pages: templates, filters, and the answer to a request."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from trainfare.units import format_count, format_duration, format_percent, format_usd, plural

STATIC = Path(__file__).parent / "static"
HTMX = "vendor/htmx.min.js"
_FORMATS = {"time": "%H:%M UTC", "date": "%-d %b %Y", "datetime": "%-d %b %Y %H:%M UTC", "ago": "%-d %b %Y %H:%M UTC"}


def page(
    request: Request,
    template: str,
    *,
    status_code: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: Any,
) -> HTMLResponse:
    """The page of a template. `context` has at least the visitor, whose CSRF token the forms post."""
    content = environment().get_template(template).render(request=request, **context)
    return HTMLResponse(content, status_code=status_code, headers=dict(headers or {}) | {"Vary": "HX-Request"})


def wants_fragment(request: Request) -> bool:
    """True if htmx asks for a part of a page; a reload or the back button asks for all of it."""
    return request.headers.get("HX-Request") == "true" and request.headers.get("HX-History-Restore-Request") != "true"


@cache
def environment() -> Environment:
    """The templates of the package. Everything is escaped, and an unknown name is an error."""
    made = Environment(
        loader=PackageLoader("trainfare.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "usd": format_usd,
        "duration": format_duration,
        "percent": format_percent,
        "count": format_count,
        "plural": plural,
        "iso": iso_moment,
        "utc": utc_text,
    }
    made.globals |= {"asset": asset, "has_htmx": has_htmx}
    return made


def iso_moment(moment: datetime) -> str:
    """The moment for the attribute of a <time> element."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def utc_text(moment: datetime, style: str = "datetime") -> str:
    """The moment in words, for readers without scripts."""
    return moment.astimezone(UTC).strftime(_FORMATS[style])


def asset(name: str) -> str:
    """The address of a static file, with a part that changes when the file does."""
    return f"/static/{name}?{_digest(name, _modified(name))}"


def has_htmx() -> bool:
    """False in a checkout without the downloaded script; the pages then work as plain forms."""
    return (STATIC / HTMX).is_file()


def _modified(name: str) -> float:
    file = STATIC / name
    return file.stat().st_mtime if file.is_file() else 0.0


@cache
def _digest(name: str, _modified: float) -> str:
    file = STATIC / name
    return sha256(file.read_bytes()).hexdigest()[:10] if file.is_file() else "0"
