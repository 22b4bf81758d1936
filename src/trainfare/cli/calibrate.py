"""`trainfare calibrate`: fit the coefficients anew, look at those there are, go back to earlier ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainfare.cli.options import Json, Store

if TYPE_CHECKING:
    from trainfare.app.catalog.calibrate import Calibrated, Kept


def calibrate(
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder of measurement tables.", show_default="your profiles alone"),
    ] = None,
    try_only: Annotated[bool, typer.Option("--try", help="Show what would change; keep nothing.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="The calibrations there are.")] = False,
    use: Annotated[
        str | None, typer.Option(metavar="NAME", help="Go back to this one; `shipped` came with trainfare.")
    ] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Learn from your own profiles and from tables.

    Predictions that your profiles have shown to be off are corrected; those that cannot be right are set aside.
    Nothing is overwritten: --list shows every calibration, --use goes back.
    """
    from trainfare.app.catalog import calibrate as app
    from trainfare.cli.console import print_json, print_note
    from trainfare.errors import UsageError
    from trainfare.settings import read_settings

    settings = read_settings({"store": store})
    if sum((listed, use is not None, data is not None or try_only)) > 1:
        raise UsageError("--list, --use and --data exclude one another. Give one of them.")
    if use is not None:
        app.use_calibration(use, settings)
        print_note(f"calibration {use} is in use")
        return
    if listed:
        kept = app.list_calibrations(settings)
        if json:
            print_json([_kept_record(one) for one in kept])
        else:
            _print_kept(kept)
        return
    found = app.calibrate(
        data=data, try_only=try_only, on_progress=lambda what: print_note(f"… {what}"), settings=settings
    )
    if json:
        print_json(_record(found))
    else:
        _print(found, try_only=try_only)


def _record(found: "Calibrated") -> dict[str, object]:
    from dataclasses import asdict

    learned = found.learned
    return {
        "name": found.name,
        "fingerprint": found.calibration.fingerprint,
        "rows": dict(found.calibration.rows),
        "left_out": [asdict(part) for part in found.left_out],
        "history": {
            "rows": learned.rows,
            "error_before": learned.error_before,
            "error_after": learned.error_after,
            "taken": learned.helps,
            "set_aside": [{"profile": one.seen.profile_id, "why": one.why} for one in learned.set_aside],
        },
        "changes": list(found.changes),
    }


def _kept_record(one: "Kept") -> dict[str, object]:
    return {
        "name": one.name,
        "in_use": one.in_use,
        "made_at": one.calibration.made_at.isoformat(),
        "command": one.calibration.command,
        "fingerprint": one.calibration.fingerprint,
        "rows": dict(one.calibration.rows),
        "profiles": one.calibration.learned_from,
    }


def _print(found: "Calibrated", *, try_only: bool) -> None:
    from trainfare.cli.console import out, print_points

    learned = found.learned
    for part in found.left_out:
        before = "" if part.error_before is None else f", by the coefficients in use {part.error_before:.1f} %"
        out().print(f"{part.part}: {part.error:.1f} % off on {part.rows} rows{before}", highlight=False)
    if learned.error_before is not None and learned.error_after is not None:
        verdict = "taken" if learned.helps else "not taken: they do not help programs that were left out"
        out().print(
            f"your profiles: {learned.rows} on GPUs; {learned.error_before:.1f} % off without corrections, "
            f"{learned.error_after:.1f} % with them, on programs left out: {verdict}"
        )
    elif learned.rows:
        out().print(f"your profiles: {learned.rows} on GPUs, of one program: too few to tell what they are worth")
    else:
        out().print("your profiles: none was taken on a GPU that we know, with its operations")
    print_points(f"set aside: profile {one.seen.profile_id}: {one.why}" for one in learned.set_aside)
    out().print()
    print_points(found.changes or ["nothing has changed"])
    if found.name is not None:
        out().print(f"\nkept as {found.name}, in use from now on; back with: trainfare calibrate --use NAME")
    elif try_only and found.changes:
        out().print("\nnothing was kept: leave --try out for that")


def _print_kept(kept: "tuple[Kept, ...]") -> None:
    from rich.table import Table

    from trainfare.cli.console import out

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("", "calibration", "made", "rows", "profiles", "by"):
        table.add_column(name, justify="right" if name in ("rows", "profiles") else "left")
    for one in kept:
        calibration = one.calibration
        table.add_row(
            "→" if one.in_use else "",
            one.name,
            f"{calibration.made_at:%Y-%m-%d}",
            str(sum(calibration.rows.values())),
            str(calibration.learned_from),
            calibration.command,
        )
    out().print(table)
