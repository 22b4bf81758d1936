"""Posts a signed message to a URL of the operator's.

    X-Trainfare-Signature: t=1763470800,v1=…    HMAC-SHA256 by the shared secret of "<t>.<body>", in hexadecimal

The address is looked up once, and the connection goes to that address: a name that leads to a private network is
refused, and no redirect is followed.
"""

import hashlib
import hmac
import http.client
import socket
import ssl
import time
from urllib.parse import urlsplit

from trainfare.agent.supply import is_public
from trainfare.errors import ExternalError, UsageError

TIMEOUT_SECONDS = 10.0
_SHOWN = 200


def signature(secret: str, body: bytes, at: int) -> str:
    """The value of the header by which a receiver knows the sender."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def post_signed(url: str, body: bytes, *, secret: str, delivery: str, event: str, allow_private: bool = False) -> None:
    """Post a JSON body. `ExternalError` if it was not accepted with a status of 200 to 299."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is not the URL of a webhook.", field="webhook")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _public_address(parts.hostname, port, allow_private=allow_private)
    headers = {
        "Content-Type": "application/json",
        "Host": parts.netloc.rpartition("@")[2],
        "User-Agent": "trainfare",
        "X-Trainfare-Delivery": delivery,
        "X-Trainfare-Event": event,
        "X-Trainfare-Signature": signature(secret, body, int(time.time())),
    }
    connection = http.client.HTTPConnection(parts.hostname, port, timeout=TIMEOUT_SECONDS)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        plain = socket.create_connection((address, port), timeout=TIMEOUT_SECONDS)
        connection.sock = plain
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=parts.hostname)
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read(_SHOWN)
    except (OSError, http.client.HTTPException) as error:
        raise ExternalError(f"The webhook did not answer: {error}.") from error
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise ExternalError(f"The webhook answered with the status {answer.status}.")


def _public_address(host: str, port: int, *, allow_private: bool) -> str:
    """The first address of a host. `UsageError` if any of its addresses is not public."""
    try:
        found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        raise ExternalError(f"The host {host} of the webhook has no address: {error}.") from error
    for text in found:
        if not allow_private and not is_public(text):
            raise UsageError(
                f"The host {host} of the webhook has the private address {text}. Allow it by webhook_private.",
                field="webhook",
            )
    return found[0]
