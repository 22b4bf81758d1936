"""The connection to a Trainfare server: requests under its `/api/v1`, and its problem documents as the errors that they
were. `trainfare.Client` and the history of a server both ask through it.

    ~/.config/trainfare/tokens.toml    "https://train.example.org" = "tf_…", readable by its owner alone
"""

import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import platformdirs

from trainfare.errors import (
    ExternalError,
    InfeasibleError,
    NotFoundError,
    ProgramError,
    Remedy,
    StoreError,
    TrainfareError,
    UsageError,
)

if TYPE_CHECKING:
    import httpx

Record = dict[str, Any]

_ERRORS: Mapping[str, type[TrainfareError]] = {
    "usage": UsageError,
    "key-reused": UsageError,
    "program": ProgramError,
    "infeasible": InfeasibleError,
    "external": ExternalError,
    "store": StoreError,
}
"""The class of an error by the end of the type of its problem document."""
_TRIES = 4
"""The number of attempts without an answer, for requests that can be repeated."""
TOKEN_VARIABLE = "TRAINFARE_TOKEN"  # noqa: S105 # the name of the variable


def is_server(location: str) -> bool:
    """True if a store is the URL of a server."""
    return location.startswith(("http://", "https://"))


def tokens_file() -> Path:
    return platformdirs.user_config_path("trainfare") / "tokens.toml"


def read_token(url: str) -> str:
    """The token for a server, of the environment or of the file of tokens. `UsageError` if there is none."""
    if token := os.environ.get(TOKEN_VARIABLE):
        return token
    if token := _stored_tokens().get(url.rstrip("/")):
        return token
    raise UsageError(
        f"There is no token for {url}. Set {TOKEN_VARIABLE}, or store one: trainfare token save {url.rstrip('/')}",
        field="server",
    )


def save_token(url: str, token: str) -> Path:
    """Store the token for a server in a file that only its owner can read."""
    if not is_server(url):
        raise UsageError(f"{url!r} is not the URL of a server, such as http://localhost:8765.", field="url")
    if not token or not token.isascii() or not token.isprintable() or any(sign in token for sign in ' "\\'):
        raise UsageError("This is not a token; `trainfare token create` prints one.", field="token")
    path = tokens_file()
    known = _stored_tokens() | {url.rstrip("/"): token}
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.writelines(f'"{name}" = "{secret}"\n' for name, secret in known.items())
    return fresh.replace(path)


def _stored_tokens() -> dict[str, str]:
    path = tokens_file()
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"{path} can be read by others. Close it: chmod 600 {path}")
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"The tokens in {path} cannot be read: {error}. Fix or remove the file.") from error
    return {name: str(token) for name, token in found.items()}


class ServerConnection:
    """Sends requests to a server, with a token."""

    def __init__(self, url: str, token: str, *, timeout_seconds: float = 60.0) -> None:
        try:
            import httpx
        except ImportError as error:
            raise UsageError("A client needs one more package: pip install 'trainfare[web]'") from error
        if not is_server(url):
            raise UsageError(f"{url!r} is not the URL of a server, such as http://localhost:8765.", field="url")
        self._httpx = httpx
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_seconds,
        )

    def close(self) -> None:
        self._http.close()

    def record(self, method: str, path: str, body: Mapping[str, Any] | None = None, **options: Any) -> Record:
        """The JSON object that the server answers with; members of the body that are None are not sent."""
        if body is not None:
            options["json"] = {name: value for name, value in body.items() if value is not None}
        return document_of(self.send(method, path, **options))

    def pages(self, path: str, filters: Mapping[str, Any] | None = None) -> Iterator[Record]:
        """The pages of a list, one after the other."""
        given = {name: value for name, value in (filters or {}).items() if value is not None}
        cursor: str | None = None
        while True:
            page = self.record("GET", path, params=given | ({} if cursor is None else {"cursor": cursor}))
            yield page
            cursor = page["next"]
            if cursor is None:
                return

    def send(self, method: str, path: str, *, repeat: bool = False, **options: Any) -> "httpx.Response":
        """The answer. A request that only reads, or may be repeated, is sent again if there is none."""
        tries = _TRIES if repeat or method == "GET" else 1
        for number in range(tries):
            try:
                answer = self._http.request(method, path, **options)
                break
            except self._httpx.TransportError as error:
                if number + 1 == tries:
                    raise _unreachable(error) from error
                time.sleep(0.2 * 2**number)
        if answer.is_error:
            raise _error(answer)
        return answer

    @contextmanager
    def stream(self, path: str) -> Iterator["httpx.Response"]:
        """An answer whose body is read piece by piece."""
        try:
            with self._http.stream("GET", path) as answer:
                if answer.is_error:
                    answer.read()
                    raise _error(answer)
                yield answer
        except self._httpx.HTTPError as error:
            raise _unreachable(error) from error


def quoted(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def document_of(answer: "httpx.Response") -> Record:
    """The JSON object of an answer."""
    try:
        found = answer.json()
    except ValueError as error:
        raise ExternalError(f"{answer.url} is not a Trainfare server: its answer is not JSON.") from error
    if not isinstance(found, dict):
        raise ExternalError(f"{answer.url} is not a Trainfare server: its answer is no object.")
    return found


def _unreachable(error: Exception) -> ExternalError:
    return ExternalError(f"The server does not answer: {error}. Check its address, and that it runs.")


def _error(answer: "httpx.Response") -> TrainfareError:
    """The error that a problem document describes."""
    problem = document_of(answer)
    kind = str(problem.get("type", "")).rpartition(":")[2]
    detail, field = str(problem.get("detail", answer.reason_phrase)), problem.get("field")
    remedies = [
        Remedy(arguments=each.get("arguments", {}), command=each.get("use_case"))
        for each in problem.get("remedies", [])
    ]
    if answer.status_code == 404:
        found = NotFoundError("such thing", "", (), field=field)
        found.message = detail
        found.args = (detail,)
        return found
    if kind in _ERRORS:
        return _ERRORS[kind](detail, field=field, remedies=remedies)
    if answer.is_server_error:
        return ExternalError(detail, field=field, remedies=remedies)
    return UsageError(detail, field=field, remedies=remedies)
