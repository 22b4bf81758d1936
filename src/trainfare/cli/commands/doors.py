"""`trainfare doors`: which machines can be reached, and what is missing for others."""

import typer
from rich.text import Text

from trainfare.app.running.check_doors import check_doors
from trainfare.cli.console import new_table, out, print_json
from trainfare.cli.options import Json
from trainfare.settings import read_settings
from trainfare.views.doors import door_record

app = typer.Typer(help="Doors to machines: which are ready, what is missing.")


@app.callback(invoke_without_command=True)
def doors(context: typer.Context, json: Json = False) -> None:
    """Show which doors to machines are ready, what is missing, and what makes it ready."""
    if context.invoked_subcommand is not None:
        return
    found = check_doors(settings=read_settings())
    if json:
        print_json([door_record(status) for status in found])
        return
    table = new_table()
    for column in ("door", "ready"):
        table.add_column(column, no_wrap=True)
    table.add_column("", overflow="fold")
    for status in found:
        name = status.door if status.place is None else f"{status.door}/{status.place}"
        table.add_row(Text(name), "yes" if status.is_ready else "no", Text(status.text))
        if status.fix is not None:
            table.add_row("", "", Text(f"→ {status.fix}"))
    out().print(table)
