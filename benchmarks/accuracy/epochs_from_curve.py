"""epochs_from_curve: the settled epoch, predicted from the first 10, 25 or 50% of a validation curve.

The truth is the first epoch within 2% of the total improvement, on the running median. Each program is predicted with
constants from the other programs of the fit folder; of a tested program only the beginning of its curves is used, and
its schedule of learning rates where its source states one. The rules themselves were designed on the four programs of
the public table.
"""

from collections.abc import Iterator, Sequence
from math import nan
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.epochs.data import Run, public_runs
from benchmarks.epochs.from_curve import SEEN, Row, rows

TABLE = "data_parallel_t4"
FORM_NAMES = {"optimus": "Optimus", "pow3": "pow3", "vapour": "vapour"}


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    known = list(public_runs(fit / TABLE))
    tested = list(public_runs(test / TABLE)) if test else known
    unplanned = sorted({run.program for run in tested if not run.plan})
    note = f"; by curve alone: {', '.join(unplanned)}" if unplanned else ""
    broken = _broken((test or fit) / TABLE, tested)
    note += f"; left out, without a value in every epoch: {', '.join(broken)}" if broken else ""
    for seen in SEEN:
        found = list(rows(tested, seen, known))
        yield _one(f"epochs_from_curve/{TABLE}/{100 * seen:.0f}", found, note)


def _broken(folder: Path, runs: Sequence[Run]) -> list[str]:
    """Programs and batch sizes of curves without an end."""
    read = {f"{run.program} {run.name}" for run in runs}
    names = [f"{path.parent.name} {path.stem.partition('-')[2]}" for path in sorted(folder.glob("*/validation-*.csv"))]
    return [name for name in names if name not in read]


def _one(key: str, found: Sequence[Row], note: str) -> Judged:
    programs = list(dict.fromkeys(row.program for row in found))
    counts = ", ".join(f"{program} {sum(row.program == program for row in found)}" for program in programs)
    return Judged.of(
        key,
        [row.truth for row in found],
        [nan if row.ours.value is None else row.ours.value for row in found],
        [nan if row.ours.low is None else row.ours.low for row in found],
        [nan if row.ours.high is None else row.ours.high for row in found],
        baselines={
            **{name: [row.forms[form] for row in found] for form, name in FORM_NAMES.items()},
            "constant fraction": [row.constant for row in found],
        },
        note=counts + note,
    )
