"""epochs_other_batch: how many epochs at a batch size that was not tried, from one, two or three that were?

Nothing is fitted here: the belief about the critical batch size and the noise ship with the product, and the known
sizes are the judged program's own. So a folder to test on is judged by itself. The belief was chosen in sight of these
tables (`docs/decisions/0086-epochs-judged.md`).

    <table>/<2x|4x|8x>                  three sizes are known; by the ratio to the nearest of them
    …/two_known, …/one_known            two, or one
    …/epochs_only                       without the noise of the gradient, where the table has it
"""

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.epochs.data import public_runs, reference_points
from benchmarks.epochs.other_batch import BUCKETS, Row, rows
from trainfare.estimator.epochs_by_batch import KnownEpochs
from trainfare.model.epochs import EpochsAnswer

PARTS = {3: "", 2: "/two_known", 1: "/one_known"}
NAMES = {distance: f"{most:.0f}x" for most, distance in BUCKETS}
ADASCALE = "these runs scaled their learning rate by AdaScale, which follows the law of the gradient's noise"


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    folder = test or fit
    missing = []
    for table, read in (("data_parallel_t4", _single_runs), ("epochs_to_target", _reference_points)):
        try:
            sets = read(folder / table)
        except FileNotFoundError as error:
            missing.append(error)
            continue
        yield from _judged(table, sets)
    if missing:
        raise missing[0]


def _single_runs(folder: Path) -> Mapping[str, Sequence[KnownEpochs]]:
    runs = list(public_runs(folder))
    return {name: [run.known for run in runs if run.program == name] for name in dict.fromkeys(r.program for r in runs)}


def _reference_points(folder: Path) -> Mapping[str, Sequence[KnownEpochs]]:
    return reference_points(folder / "reference_points.csv")


def _judged(table: str, sets: Mapping[str, Sequence[KnownEpochs]]) -> Iterator[Judged]:
    for count, part in PARTS.items():
        found = {program: list(rows(points, count)) for program, points in sets.items()}
        for distance, name in NAMES.items():
            near = {program: [row for row in its if row.distance == distance] for program, its in found.items()}
            every = [row for its in near.values() for row in its]
            if not every:
                continue
            key = f"epochs_other_batch/{table}/{name}{part}"
            by_noise = any(row.by_noise is not row.by_epochs for row in every)
            note = _note(near) + (f"; {ADASCALE}" if by_noise else "")
            yield _one(key, every, [row.by_noise for row in every], note)
            if by_noise:
                yield _one(f"{key}/epochs_only", every, [row.by_epochs for row in every], _note(near))


def _one(key: str, every: Sequence[Row], answers: Sequence[EpochsAnswer], note: str) -> Judged:
    return Judged.of(
        key,
        [row.truth for row in every],
        [nan if answer.value is None else answer.value for answer in answers],
        [nan if answer.low is None else answer.low for answer in answers],
        [nan if answer.high is None else answer.high for answer in answers],
        baselines={
            "constant epochs": [row.constant for row in every],
            "root of the batch": [row.root for row in every],
            "least squares": [row.least_squares for row in every],
        },
        note=note,
    )


def _note(near: Mapping[str, Sequence[Row]]) -> str:
    """Rows by program: a program with many sizes has many subsets of them."""
    return ", ".join(f"{program} {len(its)}" for program, its in near.items() if its)
