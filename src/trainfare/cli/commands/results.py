"""`trainfare results`: bring the results of a run to a folder."""

from pathlib import Path
from typing import Annotated

import typer

from trainfare.cli.cards.run import print_files
from trainfare.cli.commands.run import RunId
from trainfare.cli.console import print_json, print_note
from trainfare.cli.options import Json, Store
from trainfare.cli.use_cases import fetch_results
from trainfare.settings import read_settings
from trainfare.units import format_large, plural
from trainfare.views.runs import file_records


def results(
    run_id: RunId,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="It is made if it does not exist.")],
    json: Json = False,
    store: Store = None,
) -> None:
    """Bring the results of a run to a folder, verified.

    Those of a program that still runs are fetched as they are now.
    """
    found, complete, lost = fetch_results(run_id, folder, settings=read_settings({"store": store}))
    if json:
        files = file_records(found)
        print_json({"run": run_id, "folder": str(folder), "complete": complete, "files": files})
        return
    print_files(found)
    size = format_large(sum(file.bytes for file in found.values()))
    so_far = "" if complete or lost else "; the program still runs, more may come"
    print_note(f"{plural(len(found), 'file')}, {size}B, in {folder}{so_far}")
    if lost:
        print_note(lost)
