"""Listens on an address until it is interrupted."""

import socket
from collections.abc import Callable

import uvicorn

from trainfare.app.serving.tokens import LINK_SECONDS, create_token, list_tokens
from trainfare.errors import ExternalError, Remedy, UsageError
from trainfare.settings import Settings
from trainfare.web.application import LOOPBACK, create_app

DEFAULT_PORT = 8765
_LOOPBACK_ADDRESSES = ("127.0.0.1", "::1", "localhost")


def serve(
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    names: tuple[str, ...] = (),
    secure: bool = False,
    user: str,
    on_ready: Callable[[str], None],
) -> None:
    """Serve pages and the API until it is interrupted. `on_ready` gets a link that signs a browser in, once.

    An address that others can reach needs a token of a user first, and the names by which they reach it.
    """
    is_local = host in _LOOPBACK_ADDRESSES
    if not is_local and not any(token.purpose == "api" for token in list_tokens(settings=settings)):
        raise UsageError(
            f"{host} can be reached by others, and no user has a token yet. Create one for each user first.",
            field="host",
            remedies=[Remedy({"role": "admin"}, command="token create", program=user)],
        )
    link = create_token(user, "admin", purpose="link", seconds=LINK_SECONDS, settings=settings)
    app = create_app(settings, hosts=LOOPBACK | {host, *names}, secure=secure)
    with _listener(host, port) as listener:
        address = f"[{host}]" if ":" in host else host
        shown = f"{'https' if secure else 'http'}://{names[0] if names else address}"
        if not secure:
            shown += f":{listener.getsockname()[1]}"
        on_ready(f"{shown}/login?token={link.secret}")
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3
        )
        uvicorn.Server(config).run(sockets=[listener])


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OverflowError as error:
        listener.close()
        raise UsageError(f"A port is a number from 0 to 65535, got {port}.", field="port") from error
    except OSError as error:
        listener.close()
        raise ExternalError(
            f"{host}:{port} cannot be listened on: {error.strerror or error}. Is another server running there?",
            field="port",
            remedies=[Remedy({"port": 0})],
        ) from error
    return listener
