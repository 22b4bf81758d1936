"""Downloads a file, or says why it could not: the only part of the catalog that uses the network.

Proxies are those of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
"""

import http.client
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import date
from email.utils import parsedate_to_datetime

from trainfare.errors import ExternalError

MOST_BYTES = 200 * 1024 * 1024
"""A catalog has a few megabytes."""
MOST_SECONDS = 600.0
"""A server that sends a byte now and then does not hold the command longer than this."""

_CHUNK = 64 * 1024


class UnreachableError(ExternalError):
    """The server did not answer at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """The contents of a file on a server."""

    content: bytes
    changed_on: date | None
    """The day on which the server says it was changed; None if it does not say."""


def download(url: str, *, timeout_seconds: float) -> Download:
    """The complete file; an `ExternalError` if it cannot be had.

    `timeout_seconds` is how long the server may be silent.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is not an address on the network")
    request = urllib.request.Request(url, headers={"User-Agent": "trainfare"})  # noqa: S310 # checked above
    opener = urllib.request.build_opener()  # not the shared one, which keeps the proxies of its first use
    try:
        with opener.open(request, timeout=timeout_seconds) as answer:
            content = _read(answer, url)
            expected = answer.headers.get("Content-Length")
            if expected is not None and len(content) != int(expected):
                raise ExternalError(f"{url} ended after {len(content)} of {expected} bytes.")
            return Download(content=content, changed_on=_day(answer.headers.get("Last-Modified")))
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection
            raise ExternalError(f"{url} answered {error.code} {error.reason}.") from error
    except urllib.error.URLError as error:
        raise UnreachableError(f"{url} cannot be reached: {_why(error.reason, timeout_seconds)}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ExternalError(f"{url} could not be read: {_why(error, timeout_seconds)}") from error


def _read(answer: http.client.HTTPResponse, url: str) -> bytes:
    content, started = bytearray(), time.monotonic()
    while chunk := answer.read(_CHUNK):
        content += chunk
        if len(content) > MOST_BYTES:
            raise ExternalError(f"{url} has more than {MOST_BYTES // 1024**2} MiB: that is no price table.")
        if time.monotonic() - started > MOST_SECONDS:
            raise ExternalError(f"{url} was not complete after {MOST_SECONDS:g} s.")
    return bytes(content)


def _why(reason: object, timeout_seconds: float) -> str:
    if isinstance(reason, TimeoutError):
        return f"no answer within {timeout_seconds:g} s."
    if isinstance(reason, socket.gaierror):
        return "its name is not known here. Is this machine online? Behind a proxy, set HTTPS_PROXY."
    if isinstance(reason, http.client.IncompleteRead):
        return f"it ended after {len(reason.partial)} bytes."
    return f"{getattr(reason, 'strerror', None) or reason}."


def _day(header: str | None) -> date | None:
    try:
        return parsedate_to_datetime(header).date() if header else None
    except ValueError:
        return None
