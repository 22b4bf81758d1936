"""`trainfare calibrate`: refit the coefficients, list the calibrations, go back to an earlier one."""

from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.catalog import calibrate as app
from trainfare.app.catalog.calibrate import CalibrationResult, StoredCalibration
from trainfare.cli.console import new_table, out, print_json, print_note, print_points
from trainfare.cli.options import Json, Store
from trainfare.errors import UsageError
from trainfare.settings import read_settings
from trainfare.units import format_count, format_percent, plural
from trainfare.views.calibration import (
    fitted_calibration_record,
    start_record,
    start_sentence,
    stored_calibration_record,
)


def calibrate(
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder of measurement tables.", show_default="your profiles alone"),
    ] = None,
    try_only: Annotated[bool, typer.Option("--try", help="Show what would change; store nothing.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the calibrations.")] = False,
    use: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use this calibration; `shipped` came with trainfare.")
    ] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Fit the prediction to your own measurements.

    Your profiles correct predictions that were off; profiles that cannot be right are left out. Nothing is
    overwritten: --list shows every calibration, --use goes back to one.
    """

    settings = read_settings({"store": store})
    if sum((listed, use is not None, data is not None or try_only)) > 1:
        raise UsageError("--list, --use and --data (or --try) exclude each other. Give one of them.")
    if use is not None:
        app.use_calibration(use, settings)
        print_note(f"calibration {use} is in use")
        return
    if listed:
        stored = app.list_calibrations(settings)
        if json:
            print_json([stored_calibration_record(one.name, one.calibration, in_use=one.in_use) for one in stored])
        else:
            _print_stored(stored)
        return
    found = app.calibrate(
        data=data, try_only=try_only, on_progress=lambda what: print_note(f"… {what}"), settings=settings
    )
    if json:
        print_json(
            fitted_calibration_record(
                found.name,
                found.calibration,
                left_out=found.left_out,
                learned=found.learned,
                changes=found.changes,
            )
            | {"starts": [start_record(one.machine, one.measured, one.rates) for one in found.starts]}
        )
    else:
        _print(found, try_only=try_only)


def _print(found: CalibrationResult, *, try_only: bool) -> None:
    learned = found.learned
    for part in found.left_out:
        before = "" if part.error_before is None else f", {_error(part.error_before)} with the coefficients in use"
        out().print(f"{part.part}: {_error(part.error)} error on {plural(part.rows, 'held-out row')}{before}")
    if learned.error_before is not None and learned.error_after is not None:
        verdict = "used" if learned.helps else "not used, because they do not reduce the error"
        out().print(
            f"your profiles: {learned.rows} on GPUs; on held-out programs {_error(learned.error_before)} error without "
            f"corrections, {_error(learned.error_after)} with them: {verdict}"
        )
    elif learned.rows:
        out().print(f"your profiles: {learned.rows} on GPUs, all of one program: too few to judge corrections")
    elif not learned.rejected:
        out().print("your profiles: none was measured on a known GPU with its operations traced")
    print_points(f"profile {one.run.profile_id} is left out. {one.reason}" for one in learned.rejected)
    for one in found.starts:
        out().print(f"your runs on {start_sentence(one.machine, one.measured, one.rates)}")
    out().print()
    print_points(found.changes or ["nothing has changed"])
    if found.name is not None:
        out().print(f"\nstored as {found.name} and in use; go back with: trainfare calibrate --use NAME")
    elif try_only and found.changes:
        out().print("\nnothing was stored; run without --try to store it")


def _error(percent: float) -> str:
    """An error that is stored in percent."""
    return format_percent(percent / 100)


def _print_stored(stored: tuple[StoredCalibration, ...]) -> None:
    table = new_table()
    for name in ("", "calibration", "made", "rows", "profiles", "by"):
        table.add_column(name, justify="right" if name in ("rows", "profiles") else "left")
    for one in stored:
        calibration = one.calibration
        table.add_row(
            "→" if one.in_use else "",
            one.name,
            f"{calibration.made_at:%Y-%m-%d}",
            format_count(sum(calibration.rows.values())),
            format_count(calibration.learned_from),
            calibration.command,
        )
    out().print(table)
