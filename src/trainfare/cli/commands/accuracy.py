"""`trainfare accuracy`: predicted against observed and paid, over all own runs."""

from trainfare.app.figures import draw_accuracy, require_drawable
from trainfare.app.learning.accuracy import accuracy as app_accuracy
from trainfare.cli.console import new_table, out, print_json, print_note
from trainfare.cli.options import Json, Plot, Store
from trainfare.recommender.names import machine_name
from trainfare.runner.accuracy import Accuracy, ComparedRun
from trainfare.settings import read_settings
from trainfare.units import plural
from trainfare.views.accuracy import accuracy_record, compared_rows, summary_cells

RUNS_SHOWN = 10
"""Older runs are in the summary and in the JSON alone."""


def accuracy(plot: Plot = None, json: Json = False, store: Store = None) -> None:
    """Compare what was predicted with what your runs took and cost.

    Of a run that failed or was stopped, only the parts that ended are compared.
    """
    files = [require_drawable(path) for path in plot or ()]
    found = app_accuracy(settings=read_settings({"store": store}))
    compared = any(compared_rows(run) for run in found.runs)
    if compared:
        for path in files:
            draw_accuracy(found).save(path)
    if json:
        print_json(accuracy_record(found))
        return
    if not compared:
        print_note(_nothing_sentence(found))
        return
    _print_runs(found)
    _print_summaries(found)
    for path in files:
        print_note(f"drawn as {path}")


def _nothing_sentence(found: Accuracy) -> str:
    if found.runs:
        return (
            f"{plural(len(found.runs), 'run')} ended, without a prediction to compare. Profile the program first, so "
            "that its next run is predicted: trainfare profile -- python train.py"
        )
    return "No run has ended yet. Start one: trainfare train -- python train.py"


def _print_runs(found: Accuracy) -> None:
    table = new_table()
    for name in ("run", "machine", "line", "predicted (90% interval)", "observed", "error", "", "predicted", "paid"):
        table.add_column(name, justify="right" if name in ("observed", "error", "predicted", "paid") else "left")
    shown = [run for run in found.runs if compared_rows(run)]
    for run in shown[:RUNS_SHOWN]:
        for number, cells in enumerate(compared_rows(run)):
            first = _name_cells(run) if number == 0 else ("", "")
            table.add_row(*first, *cells, style="bold" if cells[0] == "in all" else None)
    out().print(table)
    if len(shown) > RUNS_SHOWN:
        print_note(f"{plural(len(shown) - RUNS_SHOWN, 'older run')}: --json has them")


def _name_cells(run: ComparedRun) -> tuple[str, str]:
    return run.run.id, machine_name(run.run.candidate.offer)


def _print_summaries(found: Accuracy) -> None:
    out().print()
    table = new_table()
    for name in ("line", "of", "runs", "mean error", "bias", "inside"):
        table.add_column(name, justify="left" if name in ("line", "of") else "right")
    for one in found.summaries:
        table.add_row(*summary_cells(one), style="bold" if one.line == "in all" else None)
    out().print(table)
