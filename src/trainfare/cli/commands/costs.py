"""`trainfare costs`: what the runs have cost."""

import sys
from csv import writer
from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.figures import draw_costs, require_drawable
from trainfare.app.running.costs import CostReport
from trainfare.app.running.costs import costs as app_costs
from trainfare.cli.console import new_table, out, print_json, print_note
from trainfare.cli.options import Json, Plot, Store
from trainfare.errors import UsageError
from trainfare.runner.charges import CostGroup
from trainfare.settings import read_settings
from trainfare.units import format_usd
from trainfare.views.costs import CSV_COLUMNS, caps_record, caps_sentence, charge_cells, cost_cells, cost_row_record


def costs(
    by: Annotated[CostGroup, typer.Option(metavar="GROUP", help="day, month, program, machine or user.")] = "day",
    days: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The last N days alone.", show_default=False)
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every charge as CSV; - prints it.", show_default=False)
    ] = None,
    plot: Plot = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Show what your runs have cost, by day, month, program, machine or user.

    Days are those of this machine's time zone. Caps on costs are settings: max_usd_per_run, _day, _month, _user_month.
    """
    files = [require_drawable(path) for path in plot or ()]
    found = app_costs(by=by, days=days, settings=read_settings({"store": store}))
    if csv is not None:
        _write_csv(csv, found)
    for path in files if found.rows else ():
        draw_costs(found.rows, found.by).save(path)
    if json:
        print_json(_record(found))
    elif csv is None or str(csv) != "-":
        _print(found)
        for path in (*((csv,) if csv else ()), *(files if found.rows else ())):
            print_note(f"written: {path}")


def _write_csv(path: Path, found: CostReport) -> None:
    rows = [CSV_COLUMNS, *map(charge_cells, found.charges)]
    if str(path) == "-":
        writer(sys.stdout, lineterminator="\n").writerows(rows)
        return
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer(file, lineterminator="\n").writerows(rows)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", field="csv") from error


def _record(found: CostReport) -> dict[str, object]:
    return {
        "by": found.by,
        "since": None if found.since is None else found.since.isoformat(),
        "rows": [cost_row_record(row) for row in found.rows],
        "usd": found.usd,
        "reserved_usd": found.reserved_usd,
        "caps": caps_record(found.caps),
    }


def _print(found: CostReport) -> None:
    if not found.rows:
        print_note("No run has cost anything. Start one: trainfare train -- python train.py")
    else:
        table = new_table()
        for name in (found.by, "runs", "machine time", "cost"):
            table.add_column(name, justify="left" if name == found.by else "right")
        for row in found.rows:
            table.add_row(*cost_cells(row))
        table.add_row("in all", "", "", format_usd(found.usd), style="bold")
        out().print(table)
    if found.reserved_usd:
        print_note(f"Runs that have not ended may spend up to {format_usd(found.reserved_usd)} more.")
    sentence = caps_sentence(found.caps)
    if sentence is not None:
        print_note(sentence)
