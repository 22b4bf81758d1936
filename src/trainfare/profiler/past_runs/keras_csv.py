"""Reads files of Keras' `CSVLogger`: epoch, loss, metrics and the same with `val_`; no times."""

from pathlib import Path

from trainfare.errors import Remedy, UsageError
from trainfare.profiler.past_runs.csv_rows import columns, number, rows
from trainfare.profiler.past_runs.files import existing_path, modified_at
from trainfare.profiler.past_runs.metric_names import enumerate_names
from trainfare.profiler.past_runs.run_log import RunLog
from trainfare.profiler.past_runs.series import Scalars, parse_step
from trainfare.units import plural


def read(path: str | Path) -> RunLog:
    source = existing_path(path)
    names = columns(source)
    if "epoch" not in names:
        raise UsageError(
            f"{source} is not from Keras' CSVLogger: it has no column epoch. "
            f"Its columns are {enumerate_names(names) or 'empty'}.",
            field="path",
            remedies=[Remedy({"path": str(source)}, command="import csv")],
        )
    found, skipped = Scalars(), 0
    for row in rows(source):
        epoch = parse_step(number(row.get("epoch")))
        if epoch is None or epoch < 0:
            skipped += 1
            continue
        for name in names:
            value = number(row.get(name)) if name != "epoch" else None
            if value is not None:
                found.add(name, epoch, value)
    if not found:
        raise UsageError(f"{source} has no row with an epoch and a number.", field="path")
    return RunLog(
        origin="keras-csv",
        source=source,
        by_epoch=found,
        first_epoch=0,
        ended_at=modified_at(source),
        framework="keras",
        notes=(f"skipped {plural(skipped, 'row')} without an epoch.",) if skipped else (),
    )
