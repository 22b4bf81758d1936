"""`trainfare results`: bring the results of a run to a folder."""

from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.running.results import fetch_results
from trainfare.cli.cards.run import print_files
from trainfare.cli.commands.run import RunId
from trainfare.cli.console import print_json, print_note
from trainfare.cli.options import Json, Store
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
    found = fetch_results(run_id, folder, settings=read_settings({"store": store}))
    if json:
        files = file_records(found.files)
        print_json({"run": run_id, "folder": str(found.folder), "complete": found.complete, "files": files})
        return
    print_files(found.files)
    size = format_large(sum(file.bytes for file in found.files.values()))
    so_far = "" if found.complete or found.lost else "; the program still runs, more may come"
    print_note(f"{plural(len(found.files), 'file')}, {size}B, in {found.folder}{so_far}")
    if found.lost:
        print_note(found.lost)
