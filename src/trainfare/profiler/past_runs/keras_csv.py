"""Files of Keras' `CSVLogger`: epoch, loss, metrics, and the same again with `val_`; no times."""

from pathlib import Path

from trainfare.errors import UsageError
from trainfare.profiler.past_runs.files import changed_at, existing
from trainfare.profiler.past_runs.run_log import Logged
from trainfare.profiler.past_runs.series import Scalars, whole_step
from trainfare.profiler.past_runs.csv_rows import columns, number, rows


def read(path: str | Path) -> Logged:
    source = existing(path)
    names = columns(source)
    if "epoch" not in names:
        raise UsageError(
            f"{source} is not from Keras' CSVLogger: it has no column epoch, but {', '.join(names[:8]) or 'nothing'}. "
            "For another table: trainfare import csv."
        )
    found, skipped = Scalars(), 0
    for row in rows(source):
        epoch = whole_step(number(row.get("epoch")))
        if epoch is None or epoch < 0:
            skipped += 1
            continue
        for name in names:
            value = number(row.get(name)) if name != "epoch" else None
            if value is not None:
                found.add(name, epoch, value)
    if not found:
        raise UsageError(f"{source} has no row with an epoch and a number.")
    return Logged(
        origin="keras-csv",
        source=source,
        by_epoch=found,
        first_epoch=0,
        ended_at=changed_at(source),
        framework="keras",
        notes=(f"{skipped} rows have no epoch; they were left out.",) if skipped else (),
    )
