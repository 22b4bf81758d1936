"""`trainfare serve`: the pages and the REST API."""

import getpass
from typing import Annotated

import typer
from rich.text import Text

from trainfare.cli.console import out, print_json, print_note
from trainfare.cli.options import Json, Store
from trainfare.errors import UsageError
from trainfare.settings import read_settings


def serve(
    port: Annotated[int, typer.Option(metavar="N", help="Port; 0 takes a free one.")] = 8765,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name by which others reach it (repeatable).", show_default=False),
    ] = None,
    secure: Annotated[bool, typer.Option("--secure", help="It is reached by HTTPS, through a proxy.")] = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Serve the pages and the REST API until Ctrl-C. It also takes profiles and attends runs."""
    try:
        from trainfare.web.server import serve as serve_until_interrupted
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("trainfare"):
            raise
        raise UsageError(f"The server needs more packages ({error.name}): pip install 'trainfare[web]'") from error

    def print_link(link: str) -> None:
        if json:
            print_json({"url": link})
            return
        out().print(Text(f"Open {link}"), soft_wrap=True)
        print_note("The link signs one browser in, within 15 minutes. Ctrl-C ends the server; runs go on.")

    serve_until_interrupted(
        read_settings({"store": store}),
        host=host,
        port=port,
        names=tuple(name or ()),
        secure=secure,
        user=getpass.getuser(),
        on_ready=print_link,
    )
