"""epochs_other_batch: the epochs at a batch size that was not tried, predicted from one, two or three that were.

The known sizes are those of the tested program. The prior of its critical batch size is learned from the other programs
of the fit folder, both tables together. The form of the prior and the noise were chosen on these tables
(`docs/experiments/0097-epochs-prior.md`).

    <table>/<2x|4x|8x>                  three known sizes; by the ratio to the nearest of them
    …/two_known, …/one_known            two, or one
    …/epochs_only                       without the gradient noise, where the table has it
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import nan
from pathlib import Path

from benchmarks.accuracy.judged import Judged
from benchmarks.epochs.data import BySize, public_sizes, reference_points
from benchmarks.epochs.other_batch import BUCKETS, Row, fit_priors, rows
from trainfare.estimator.epochs.by_batch import EpochsPrior
from trainfare.model.epochs import EpochsAnswer

PARTS = {3: "", 2: "/two_known", 1: "/one_known"}
NAMES = {distance: f"{limit:.0f}x" for limit, distance in BUCKETS}
ADASCALE = "these runs scaled their learning rate by AdaScale, which follows the law of the gradient noise"


READERS: Mapping[str, Callable[[Path], dict[str, BySize]]] = {
    "data_parallel_t4": public_sizes,
    "epochs_to_target": lambda folder: reference_points(folder / "reference_points.csv"),
}


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    learned_from: dict[str, BySize] = {}
    for table, read in READERS.items():
        with suppress(FileNotFoundError):
            learned_from |= read(fit / table)
    missing = []
    for table, read in READERS.items():
        try:
            sets = read((test or fit) / table)
        except FileNotFoundError as error:
            missing.append(error)
            continue
        yield from _judged(table, sets, fit_priors(sets, learned_from))
    if missing:
        raise missing[0]


def _judged(table: str, sets: Mapping[str, BySize], priors: Mapping[str, EpochsPrior]) -> Iterator[Judged]:
    for count, part in PARTS.items():
        found = {program: list(rows(of, count, priors[program])) for program, of in sets.items()}
        few = [program for program, of in sets.items() if len(of.known) <= count]
        too_few = f"; too few sizes: {', '.join(few)}" if few else ""
        for distance, name in NAMES.items():
            near = {program: [row for row in its if row.distance == distance] for program, its in found.items()}
            every = [row for its in near.values() for row in its]
            if not every:
                continue
            key = f"epochs_other_batch/{table}/{name}{part}"
            by_noise = any(row.by_noise is not row.by_epochs for row in every)
            note = _note(near) + too_few
            yield _one(key, every, [row.by_noise for row in every], note + (f"; {ADASCALE}" if by_noise else ""))
            if by_noise:
                yield _one(f"{key}/epochs_only", every, [row.by_epochs for row in every], note)


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
    """The number of rows by program: a program with many sizes has many subsets of them."""
    return ", ".join(f"{program} {len(its)}" for program, its in near.items() if its)
