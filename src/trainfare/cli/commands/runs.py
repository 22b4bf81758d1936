"""`trainfare runs`: the stored runs."""

import typer

from trainfare.app.running.status import list_runs, show_run
from trainfare.cli.cards.run import print_files, print_receipt, print_runs
from trainfare.cli.commands.run import RunId
from trainfare.cli.console import out, print_json, print_note
from trainfare.cli.leftovers import read_run_settings
from trainfare.cli.options import Json, Store
from trainfare.cli.use_cases import result_files
from trainfare.views.runs import file_records, run_record, state_sentence

app = typer.Typer(help="Runs: list, show.", no_args_is_help=True)


@app.command("list")
def list_command(json: Json = False, store: Store = None) -> None:
    """List the runs, the newest first."""
    stored = list_runs(settings=read_run_settings(store))
    for sentence in stored.damaged:
        print_note(f"note: {sentence}")
    if json:
        print_json([run_record(status) for status in stored.runs])
    elif stored.runs:
        print_runs(stored.runs)
    elif not stored.damaged:
        print_note("There are no runs yet. Start one: trainfare run --on local/here -- python train.py")


@app.command("show")
def show_command(run_id: RunId, json: Json = False, store: Store = None) -> None:
    """Show a run: its state, what happened, and its receipt up to now."""
    settings = read_run_settings(store)
    status, files = show_run(run_id, settings=settings), result_files(run_id, settings=settings)
    if json:
        print_json(run_record(status) | {"result_files": file_records(files)})
        return
    out().print(f"{status.run.id}: {state_sentence(status)}")
    for fact in status.facts:
        text = f": {fact.text}" if fact.text else ""
        out().print(f"  {fact.seen_at:%H:%M:%S}  {fact.kind}{text}", markup=False)
    print_receipt(status.receipt)
    if files:
        out().print(f"results in {status.run.results_directory}:", markup=False)
        print_files(files)
