"""epochs_other_batch: epochs are known at one, two or three batch sizes; how many at another?

Every subset of the batch sizes of a program is taken for known in turn, and every other size is foretold. Only the
program's own known sizes are looked at; the prior that goes with them is learned from other programs. "Constant
epochs" takes those of the nearest known size, "root of the batch" lets them grow from there with √B, "least squares"
puts the law E = α + β·B with α, β ≥ 0 through the known points without any prior.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import inf, log, sqrt

from benchmarks.epochs.data import BySize
from trainfare.estimator.epochs.batch_prior import fit_epochs_prior
from trainfare.estimator.epochs.by_batch import MAX_BATCH_RATIO, EpochsPrior, KnownEpochs, epochs_at_batches
from trainfare.model.epochs import EpochsAnswer

BUCKETS = ((2.0, "≤ 2×"), (4.0, "2–4×"), (8.0, "4–8×"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One size foretold."""

    distance: str
    truth: float
    constant: float
    root: float
    least_squares: float
    by_epochs: EpochsAnswer
    """By the known epochs alone."""
    by_noise: EpochsAnswer
    """With the gradient's noise of the known runs, where it was measured: what a user gets."""


def beliefs(asked: Iterable[str], learned_from: Mapping[str, BySize]) -> dict[str, EpochsPrior]:
    """For each program what the others say."""
    return {
        program: fit_epochs_prior(
            [(of.known, of.samples) for name, of in sorted(learned_from.items()) if name != program]
        )
        for program in asked
    }


def rows(of: BySize, count: int, prior: EpochsPrior, *, max_ratio: float = MAX_BATCH_RATIO) -> Iterator[Row]:
    """Of one program, from `count` known sizes; beyond `max_ratio` times an answer has only its ends."""
    points = of.known
    for chosen in combinations(range(len(points)), count):
        known = [points[i] for i in chosen]
        targets = [point for i, point in enumerate(points) if i not in chosen]
        # An epoch of resolution samples is a unit that a batch may exceed.
        samples = of.samples if of.samples and all(point.batch_size <= of.samples for point in points) else None

        asked = partial(
            epochs_at_batches,
            batch_sizes=[target.batch_size for target in targets],
            samples=samples,
            max_ratio=max_ratio * 1.01,
            prior=prior,
        )
        by_epochs = asked([replace(k, gradient_noise=()) for k in known])
        by_noise = asked(known) if all(k.gradient_noise for k in known) else by_epochs
        for target in targets:
            size = target.batch_size
            near = min(known, key=lambda k: abs(log(k.batch_size / size)))
            ratio = max(near.batch_size / size, size / near.batch_size)
            distance = next((name for most, name in BUCKETS if ratio <= most * 1.01), None)
            if distance is None:
                continue
            yield Row(
                distance=distance,
                truth=target.epochs,
                constant=near.epochs,
                root=near.epochs * sqrt(size / near.batch_size),
                least_squares=_least_squares(known, size),
                by_epochs=by_epochs[size],
                by_noise=by_noise[size],
            )


def _least_squares(known: Sequence[KnownEpochs], batch_size: int) -> float:
    """On relative errors; one point is taken as constant."""
    import numpy as np
    from scipy.optimize import nnls

    if len(known) == 1:
        return known[0].epochs
    epochs = np.array([k.epochs for k in known])
    sizes = np.array([k.batch_size for k in known]) / batch_size
    (alpha, beta), _ = nnls(np.column_stack([1 / epochs, sizes / epochs]), np.ones(len(known)))
    return float(alpha + beta)


def everywhere(of: BySize, count: int, prior: EpochsPrior) -> list[Row]:
    """With a number at any distance: users get none beyond four times, it is judged all the same."""
    return list(rows(of, count, prior, max_ratio=inf))
