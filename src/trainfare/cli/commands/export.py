"""`trainfare export skypilot RUN`: a run or a plan as a file by which another tool carries it out."""

from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.running.export import export as export_training
from trainfare.cli.console import print_json, print_note
from trainfare.cli.options import Json, Store
from trainfare.errors import UsageError
from trainfare.model.training_export import ExportFormat
from trainfare.settings import read_settings


def export(
    to: Annotated[ExportFormat, typer.Argument(metavar="skypilot|slurm|script", help="The tool that will run it.")],
    name: Annotated[str, typer.Argument(metavar="RUN|PLAN", help="The id of a run or a plan.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.", show_default="stdout")
    ] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Write a run or a plan as a SkyPilot task, a Slurm script or a bash script."""
    found = export_training(name, to, settings=read_settings({"store": store}))
    if json:
        print_json({"id": found.id, "format": found.format, "text": found.text})
    elif output is None:
        typer.echo(found.text, nl=False)
    else:
        try:
            output.write_text(found.text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {error.strerror}.", field="output") from error
        print_note(f"{output} written")
