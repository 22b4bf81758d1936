"""`trainfare schedule import`: a queue from a trace of jobs."""

from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.queue.trace import import_trace
from trainfare.cli.arguments import spell_arguments
from trainfare.cli.console import out, print_json, print_note, print_points
from trainfare.cli.options import Json
from trainfare.measurements.job_traces import TraceOptions
from trainfare.scheduler.simulation.trace_import import TraceImport
from trainfare.units import format_duration
from trainfare.views.schedule import excluded_sentences, trace_import_record

SHOWN = 5
"""Of the jobs that are left out."""


def add_to(app: typer.Typer) -> None:
    """Gives `trainfare schedule` the command."""
    app.command("import")(import_command)


def import_command(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A job a line, its fields divided by tabs (gavel).")],
    throughputs: Annotated[Path, typer.Option(metavar="FILE", help="CSV of measured steps a second.")],
    into: Annotated[Path, typer.Option(metavar="DIR", help="Where the queue is written.")],
    jobs: Annotated[int | None, typer.Option(metavar="J", help="The first so many alone.", show_default="all")] = None,
    gangs: Annotated[bool, typer.Option("--gangs", help="A job may go over several machines of one GPU.")] = False,
    asked_gpus: Annotated[
        bool, typer.Option("--asked-gpus", help="On as many GPUs as the trace says, and no others.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Of deadlines and what lateness costs.")] = 0,
    error: Annotated[
        float, typer.Option(min=0, metavar="SIGMA", help="Predictions are off by a lognormal factor.")
    ] = 0.0,
    force: Annotated[bool, typer.Option("--force", help="Write over the queue that is there.")] = False,
    json: Json = False,
) -> None:
    """Make a queue from a trace of jobs, with measured throughputs."""

    found = import_trace(
        trace,
        throughputs,
        TraceOptions(jobs=jobs, gangs=gangs, requested_gpus_only=asked_gpus, seed=seed, error=error),
        into=into,
        force=force,
    )
    if json:
        print_json(trace_import_record(found, str(into), seed=seed))
    else:
        _print_imported(found, into)


def _print_imported(found: TraceImport, folder: Path) -> None:
    jobs = len(found.instance.jobs)
    come = f"in {format_duration(found.last_seconds)}" if found.last_seconds else "at once"
    out().print(
        f"{jobs} job{'s' * (jobs > 1)} {come} on {len(found.instance.types)} machine types",
        markup=False,
        soft_wrap=True,
    )
    left_out = excluded_sentences(found.excluded, spell_arguments)
    print_points(left_out[:SHOWN])
    if len(left_out) > SHOWN:
        print_points([f"{len(left_out) - SHOWN} more jobs are left out: --json tells them all"])
    print_note(f"written: {folder}/jobs.csv, {folder}/times.csv")
    if found.load is not None:
        print_note(f"{found.nodes} node{'s' * (found.nodes > 1)} would have a load of {found.load:.2f}")
    print_note(f"next: trainfare schedule compare --instance {folder} --nodes {found.nodes}")
