"""`trainfare schedule import`: a queue from a trace of jobs."""

from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.queue.trace import import_trace
from trainfare.cli.arguments import spell_arguments
from trainfare.cli.cards.schedule import print_excluded, print_next
from trainfare.cli.console import out, print_json, print_note
from trainfare.cli.options import Json
from trainfare.measurements.job_traces import TraceOptions
from trainfare.scheduler.simulation.trace_import import TraceImport
from trainfare.units import format_duration, plural
from trainfare.views.schedule import excluded_sentences, trace_import_record


def add_to(app: typer.Typer) -> None:
    """Add the command to `trainfare schedule`."""
    app.command("import")(import_command)


def import_command(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="One job per line, fields separated by tabs (gavel).")],
    throughputs: Annotated[Path, typer.Option(metavar="FILE", help="CSV of measured steps per second.")],
    into: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    jobs: Annotated[int | None, typer.Option(metavar="J", help="Only the first J jobs.", show_default="all")] = None,
    gangs: Annotated[bool, typer.Option("--gangs", help="Jobs can use several machines of one GPU.")] = False,
    asked_gpus: Annotated[bool, typer.Option("--asked-gpus", help="Use only the number of GPUs in the trace.")] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of deadlines and lateness costs.")] = 0,
    error: Annotated[float, typer.Option(min=0, metavar="SIGMA", help="Spread of log(true / predicted time).")] = 0.0,
    force: Annotated[bool, typer.Option("--force", help="Replace a queue in that folder.")] = False,
    json: Json = False,
) -> None:
    """Import a queue from a trace of jobs and measured throughputs."""

    found = import_trace(
        trace,
        throughputs,
        TraceOptions(jobs=jobs, gangs=gangs, requested_gpus_only=asked_gpus, seed=seed, error=error),
        into=into,
        force=force,
    )
    if json:
        print_json(trace_import_record(found, str(into), seed=seed, spell=spell_arguments))
    else:
        _print_imported(found, into)


def _print_imported(found: TraceImport, folder: Path) -> None:
    submitted = f"within {format_duration(found.last_seconds)}" if found.last_seconds else "at once"
    out().print(
        f"{plural(len(found.instance.jobs), 'job')}, submitted {submitted}, on "
        f"{plural(len(found.instance.types), 'machine type')}",
        markup=False,
        soft_wrap=True,
    )
    print_excluded(excluded_sentences(found.excluded, spell_arguments))
    if found.load is not None:
        print_note(f"{plural(found.nodes, 'node')} would have a load of {found.load:.2f}")
    print_next(folder, found.nodes)
