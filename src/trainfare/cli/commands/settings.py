"""`trainfare settings`: the value of each setting, and where it was set."""

from trainfare.cli.console import new_table, out, print_json, print_note
from trainfare.cli.options import Json
from trainfare.settings import NAMES, read_settings


def settings(json: Json = False) -> None:
    """Show the settings, and where each was set: by default, in the environment or in a file."""

    found = read_settings()
    rows = [(name, getattr(found, name), found.origins.get(name, "default")) for name in NAMES]
    if json:
        print_json({name: {"value": value, "origin": origin} for name, value, origin in rows})
        return

    table = new_table(gap=3)
    for column in ("setting", "value", "set by"):
        table.add_column(column, overflow="fold")
    for name, value, origin in rows:
        table.add_row(name, "–" if value is None else str(value), origin)
    out().print(table)
    print_note("In the environment, TRAINFARE_STORE sets the store, and so on for each of them.")
