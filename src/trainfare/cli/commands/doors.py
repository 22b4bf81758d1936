"""`trainfare doors`: which machines can be reached, and what is missing for others."""

from typing import Annotated

import typer
from rich.text import Text

from trainfare.app.running.check_doors import RENTS, check_doors
from trainfare.app.running.setup_skypilot import DEFAULT_CLOUDS, set_up_skypilot
from trainfare.cli.console import err, new_table, out, print_json
from trainfare.cli.options import Json
from trainfare.errors import UsageError
from trainfare.settings import read_settings
from trainfare.units import format_duration
from trainfare.views.doors import door_record, setup_record

app = typer.Typer(help="Doors to machines: which are ready, what is missing.")


@app.callback(invoke_without_command=True)
def doors(context: typer.Context, json: Json = False) -> None:
    """Show which doors to machines are ready, what is missing, and what makes it ready."""
    if context.invoked_subcommand is not None:
        return
    found = check_doors(settings=read_settings(), on_progress=lambda line: err().print(Text(line, "dim")))
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


@app.command()
def setup(
    door: Annotated[str, typer.Argument(help="The door: skypilot.", metavar="DOOR")],
    clouds: Annotated[str, typer.Option(help="Clouds to rent from, separated by commas.", metavar="NAMES")] = ",".join(
        DEFAULT_CLOUDS
    ),
    json: Json = False,
) -> None:
    """Install what a door needs: SkyPilot, in an environment of its own (about 520 MB; half a minute with uv)."""
    if door != RENTS:
        raise UsageError(f"{door!r} needs no setup: the only door that does is {RENTS}.")
    names = [name.strip() for name in clouds.split(",") if name.strip()]
    found = set_up_skypilot(names, settings=read_settings(), on_line=lambda line: err().print(Text(line, "dim")))
    if json:
        print_json(setup_record(found))
        return
    took = "It was there already" if found.was_there else f"Installed in {format_duration(found.seconds)}"
    out().print(f"SkyPilot {found.version} in {found.folder}: {found.bytes / 1e6:.0f} MB. {took}.")
    for cloud in found.clouds:
        state = "ready" if cloud in found.enabled else "no credentials: trainfare doors says what to do"
        out().print(f"  {cloud}: {state}")
