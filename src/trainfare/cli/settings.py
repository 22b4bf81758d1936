"""`trainfare settings`: what is set, and where it was set."""

from typing import Annotated

import typer
from rich.table import Table

from trainfare.cli.console import out, print_json
from trainfare.settings import NAMES, read_settings


def settings(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """What is set, and by which flag, variable or file."""

    found = read_settings()
    rows = [(name, getattr(found, name), found.origins.get(name, "default")) for name in NAMES]
    if as_json:
        print_json({name: {"value": value, "origin": origin} for name, value, origin in rows})
        return

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for column in ("setting", "value", "set by", "variable"):
        table.add_column(column, overflow="fold")
    for name, value, origin in rows:
        table.add_row(name, "–" if value is None else str(value), origin, f"TRAINFARE_{name.upper()}")
    out().print(table)
