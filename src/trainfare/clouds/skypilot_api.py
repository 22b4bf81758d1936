"""SkyPilot's API server on this machine: requests by HTTP, and the server's start.

    POST /status …            answers with the number of a request in a header
    GET /api/get?request_id=  answers when it is done: {"status": …, "return_value": JSON text, "error": JSON text}
    GET /api/status           lists requests, without waiting for any

Some fields hold base64 of Python's pickle, which can run code when it is decoded: none of them is decoded here.
"""

import fcntl
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from trainfare.errors import ExternalError
from trainfare.units import format_duration

VERSION = "0.14.1"
"""The release of SkyPilot that is installed, and whose answers are understood."""
API_VERSION = 62
"""The number of that release's API: a server answers older clients with older fields."""

_ENDPOINT, _PORT = "SKYPILOT_API_SERVER_ENDPOINT", "SKYPILOT_API_SERVER_LOCAL_PORT"
_DEFAULT_PORT = "46580"
_QUIET = {"SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
_START_SECONDS = 300.0
"""The time that the server has to start: it took 20 s on two idle cores, and a minute on busy ones."""
_LOG = "server.log"
"""The file with the output of its start, in the folder of the environment."""
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
_ACTIVE = ("PENDING", "WAITING", "RUNNING")


class SkyPilotError(ExternalError):
    """SkyPilot has answered that a request failed. `kind` is the name of its error."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class SkyPilotSilentError(ExternalError):
    """The API server did not answer, or could not be started."""


class SkyPilotStartingError(SkyPilotSilentError):
    """The API server was started, and does not answer yet."""

    def __init__(self, seconds: float, log: Path) -> None:
        super().__init__(
            f"SkyPilot's API server was started and does not answer after {format_duration(seconds)}. {log} says why."
        )
        self.log = log


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request that the server knows."""

    id: str
    name: str
    """Such as `sky.launch`."""
    status: str
    created_at: float = 0.0
    message: str | None = None

    @property
    def is_active(self) -> bool:
        return self.status in _ACTIVE


def server_url() -> str:
    """The address of the server, as SkyPilot's own variables state it."""
    return os.environ.get(_ENDPOINT) or f"http://127.0.0.1:{os.environ.get(_PORT, _DEFAULT_PORT)}"


class SkyPilotApi:
    """The API server of one installation. `environment` is the folder of its Python environment."""

    def __init__(self, environment: Path, url: str | None = None) -> None:
        self._environment = environment
        self.url = (url or server_url()).rstrip("/")

    @property
    def program(self) -> Path:
        """SkyPilot's command."""
        return self._environment / "bin" / "sky"

    def is_installed(self) -> bool:
        return self.program.is_file()

    def version(self) -> str | None:
        """The version of the server that answers; None if none does."""
        try:
            answer = self._open("GET", "/api/health", None, timeout_seconds=_CONNECT_SECONDS)[0]
        except (SkyPilotSilentError, SkyPilotError):
            return None
        return str(answer.get("version", "")) if isinstance(answer, dict) else None

    def require_running(
        self, *, within_seconds: float = _START_SECONDS, on_start: Callable[[], None] = lambda: None
    ) -> None:
        """Start the server if none answers; `on_start` is called before that. Its own start command may time out while
        the server comes up: only the server's answer counts. `SkyPilotStartingError` if there is none within the time;
        the start goes on."""
        if self.version() is not None:
            return
        if not self.is_installed():
            raise SkyPilotSilentError("SkyPilot is not installed: `trainfare doors setup skypilot` does it.")
        if urllib.parse.urlsplit(self.url).hostname not in ("127.0.0.1", "localhost", "::1"):
            raise SkyPilotSilentError(f"SkyPilot's API server at {self.url} does not answer.")
        on_start()
        deadline, is_started = time.monotonic() + within_seconds, False
        with (self._environment / "start.lock").open("w") as lock:
            while self.version() is None:
                if not is_started and _is_locked_by_us(lock):  # else another process is starting it
                    self.start_command(("api", "start"), log=_LOG)
                    is_started = True
                if time.monotonic() > deadline:
                    raise SkyPilotStartingError(within_seconds, self._environment / _LOG)
                time.sleep(min(0.5, within_seconds / 4))

    def start_command(self, words: Sequence[str], *, log: str) -> Path:
        """Start SkyPilot's command, which goes on if this process ends; returns the path of what it prints. A shell
        starts it and ends at once, so that it need not be waited for."""
        path = self._environment / log
        with path.open("wb") as output:
            subprocess.run(
                ["/bin/sh", "-c", '"$@" &', "sh", str(self.program), *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                check=True,
                env={**os.environ, **_QUIET},
            )
        return path

    def ask(self, path: str, body: Mapping[str, Any]) -> str:
        """Make a request; returns its number. It goes on in the server, whoever waits for it."""
        _, number = self._open_anyway("POST", path, body)
        if not number:
            raise ExternalError(f"SkyPilot's API server answered to {path} without the number of a request.")
        return number

    def call(self, path: str, body: Mapping[str, Any], *, timeout_seconds: float = 60.0) -> Any:
        """Make a request and wait for its value. `SkyPilotError` if it failed."""
        return self.result(self.ask(path, body), timeout_seconds=timeout_seconds)

    def result(self, number: str, *, timeout_seconds: float = 60.0) -> Any:
        """The value of a request, once it is done."""
        query = urllib.parse.urlencode({"request_id": number})
        answer, _ = self._open("GET", f"/api/get?{query}", None, timeout_seconds=timeout_seconds)
        return _value(answer)

    def requests_of(self, cluster: str) -> tuple[ApiRequest, ...]:
        """The requests about a cluster that the server remembers, the newest first."""
        fields = ("request_id", "name", "status", "created_at", "cluster_name", "status_msg")
        query = urllib.parse.urlencode({"cluster_name": cluster, "all_status": "true", "fields": fields}, doseq=True)
        answer, _ = self._open_anyway("GET", f"/api/status?{query}", None)
        return parse_requests(answer)

    def _open_anyway(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[Any, str]:
        """One HTTP request, after the start of the server if it does not run."""
        try:
            return self._open(method, path, body, timeout_seconds=_ANSWER_SECONDS)
        except SkyPilotSilentError:
            if self.version() is not None:  # it runs, and was slow: the request may have been taken on
                raise
            self.require_running()
            return self._open(method, path, body, timeout_seconds=_ANSWER_SECONDS)

    def _open(
        self, method: str, path: str, body: Mapping[str, Any] | None, *, timeout_seconds: float
    ) -> tuple[Any, str]:
        """One HTTP request; returns the JSON of the answer, and the number of the request that was made."""
        request = urllib.request.Request(  # noqa: S310 # the address is this machine's, or the user's own
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "X-SkyPilot-API-Version": str(API_VERSION),
                "X-SkyPilot-Version": VERSION,
            },
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=timeout_seconds) as answer:
                return json.loads(answer.read() or b"null"), answer.headers.get("X-Skypilot-Request-ID", "")
        except urllib.error.HTTPError as error:
            raise _http_error(error.code, error.read(), path) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise SkyPilotSilentError(f"SkyPilot's API server at {self.url} does not answer: {reason}.") from error


def _is_locked_by_us(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def parse_requests(answer: Any) -> tuple[ApiRequest, ...]:
    """The requests of an answer of `/api/status`."""
    found = [
        ApiRequest(
            id=str(each["request_id"]),
            name=str(each.get("name") or ""),
            status=str(each.get("status") or ""),
            created_at=float(each.get("created_at") or 0.0),
            message=each.get("status_msg") or None,
        )
        for each in answer or ()
    ]
    return tuple(sorted(found, key=lambda each: each.created_at, reverse=True))


def _value(answer: Any) -> Any:
    """The value in the answer about a request that is done. Its text is JSON, the rest is left alone."""
    error = json.loads(answer.get("error") or "null")
    if error:
        raise _failed(error)
    if answer.get("status") == "CANCELLED":
        raise SkyPilotError("The request was cancelled.", kind="RequestCancelled")
    return json.loads(answer.get("return_value") or "null")


def _http_error(code: int, content: bytes, path: str) -> ExternalError:
    try:
        detail = json.loads(content).get("detail")
    except (ValueError, AttributeError):
        detail = None
    if isinstance(detail, dict) and detail.get("error"):
        error = json.loads(detail["error"])
        if error:
            return _failed(error)
    said = detail if isinstance(detail, str) else content[:200].decode(errors="replace")
    return SkyPilotError(f"SkyPilot's API server answered {code} to {path}: {said}", kind=f"HTTP {code}")


def _failed(error: Mapping[str, Any]) -> SkyPilotError:
    """The plain fields of an error; the third, `object`, is a pickle."""
    return SkyPilotError(plain_reason(str(error.get("message") or "no reason is given")), kind=str(error.get("type")))


NO_CAPACITY = "There is no capacity, or no quota,"
"""The beginning of the reason of a launch that found no machine."""


def plain_reason(text: str) -> str:
    """The regions that have no machine, if that is the reason; else the first line that says something, without
    colours and tables."""
    if regions := dict.fromkeys(re.findall(r"acquire resources in all zones in ([\w-]+)", text)):
        return f"{NO_CAPACITY} in any zone of {', '.join(regions)}."
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip(" -=─│┌┐└┘")]
    return lines[0][:500] if lines else "no reason is given"
