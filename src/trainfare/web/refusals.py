"""Requests that are refused before any use case is asked: as a problem document, or as a short page for browsers."""

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from trainfare.views.offers_page import as_sentence
from trainfare.web.rendering import environment

_TITLES = {
    401: "Sign in first",
    403: "Not allowed",
    404: "There is no such page",
    411: "The length is missing",
    413: "Too large",
    421: "Another host",
}


class RequestRefusedError(Exception):
    """A request that is refused, with the status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def wants_page(request: Request) -> bool:
    """True for a browser that shows a page, and not for a program."""
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")


def refusal(request: Request, error: RequestRefusedError) -> Response:
    """The answer to a refused request."""
    title = _TITLES.get(error.status, "Refused")
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if wants_page(request):
        template = environment().get_template("refusal.html")
        visitor = request.scope.get("state", {}).get("visitor")
        text = as_sentence(error.message) if visitor is not None else error.message
        content = template.render(request=request, visitor=visitor, title=title, text=text)
        return HTMLResponse(content, status_code=error.status, headers=headers)
    problem = {"type": "about:blank", "title": title, "status": error.status, "detail": error.message}
    return JSONResponse(problem, status_code=error.status, headers=headers, media_type="application/problem+json")
