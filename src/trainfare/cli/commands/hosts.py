"""`trainfare hosts`: what is kept on your servers for later runs."""

from typing import Annotated

import typer

from trainfare.app.running.hosts import HostCache, clean_caches, list_caches
from trainfare.cli.console import out, print_json, print_note
from trainfare.cli.options import Json
from trainfare.cli.parsing import parse_seconds
from trainfare.settings import read_settings
from trainfare.views.hosts import cache_record, place_sentence, removed_sentence

app = typer.Typer(help="Your servers: what is kept there, and clean it.", no_args_is_help=True)

Machines = Annotated[
    list[str] | None, typer.Argument(metavar="[MACHINE]...", help="ssh/name or local/here.", show_default="all")
]


@app.command("list")
def list_command(machines: Machines = None, json: Json = False) -> None:
    """List the environments and data that are kept on your servers and here."""
    found = list_caches(machines or (), settings=read_settings())
    if json:
        print_json([cache_record(cache) for cache in found])
        return
    for cache in found:
        _print_heading(cache)
        for place in cache.places:
            out().print(f"  {place_sentence(place)}", markup=False)


@app.command("clean")
def clean_command(
    machines: Machines = None,
    unused: Annotated[str, typer.Option(metavar="TIME", help="Remove what was not used for so long.")] = "30d",
    keep: Annotated[
        float | None, typer.Option(metavar="GB", help="Keep at most so much of the rest.", show_default=False, min=0)
    ] = None,
    json: Json = False,
) -> None:
    """Remove environments and data that no run uses any more."""
    seconds = 0.0 if unused.strip() in ("0", "0s") else parse_seconds("unused", unused)
    found = clean_caches(
        machines or (),
        unused_seconds=seconds,
        keep_bytes=None if keep is None else keep * 1e9,
        settings=read_settings(),
    )
    if json:
        print_json([cache_record(cache) for cache in found])
        return
    for cache in found:
        if cache.error is not None:
            _print_heading(cache)
        else:
            out().print(removed_sentence(cache.machine, cache.places), markup=False)


def _print_heading(cache: HostCache) -> None:
    if cache.error is not None:
        print_note(f"note: {cache.machine}: {cache.error}")
    else:
        out().print(f"{cache.machine}: {cache.bytes / 1e9:.2f} GB", markup=False)
