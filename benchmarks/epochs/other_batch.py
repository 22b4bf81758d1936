"""epochs_other_batch: the epochs at a batch size, predicted from one, two or three known batch sizes.

Every subset of the batch sizes of a program is taken as known in turn, and every other size is predicted. Only the
program's own known sizes are used; the prior is learned from other programs. "Constant epochs" uses those of the
nearest known size, "root of the batch" lets them grow from there with √B, "least squares" fits the law E = α + β·B with
α, β ≥ 0 to the known points without a prior.
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

BUCKETS = ((2.0, "≤ 2x"), (4.0, "2–4x"), (8.0, "4–8x"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The predictions for one batch size."""

    distance: str
    truth: float
    constant: float
    root: float
    least_squares: float
    by_epochs: EpochsAnswer
    """The answer by the known epochs alone."""
    by_noise: EpochsAnswer
    """The answer with the gradient noise of the known runs where it was measured, as in the product."""


def fit_priors(asked: Iterable[str], learned_from: Mapping[str, BySize]) -> dict[str, EpochsPrior]:
    """The prior of each program, learned from the other programs."""
    return {
        program: fit_epochs_prior(
            [(of.known, of.samples) for name, of in sorted(learned_from.items()) if name != program]
        )
        for program in asked
    }


def rows(of: BySize, count: int, prior: EpochsPrior, *, max_ratio: float = MAX_BATCH_RATIO) -> Iterator[Row]:
    """The rows of one program with `count` known sizes; above `max_ratio` an answer is only a range."""
    points = of.known
    for chosen in combinations(range(len(points)), count):
        known = [points[i] for i in chosen]
        targets = [point for i, point in enumerate(points) if i not in chosen]
        # An epoch of a fixed number of samples is a unit that a batch may exceed.
        samples = of.samples if of.samples and all(point.batch_size <= of.samples for point in points) else None

        predict = partial(
            epochs_at_batches,
            batch_sizes=[target.batch_size for target in targets],
            samples=samples,
            max_ratio=max_ratio * 1.01,
            prior=prior,
        )
        by_epochs = predict([replace(k, gradient_noise=()) for k in known])
        by_noise = predict(known) if all(k.gradient_noise for k in known) else by_epochs
        for target in targets:
            size = target.batch_size
            near = min(known, key=lambda k: abs(log(k.batch_size / size)))
            ratio = max(near.batch_size / size, size / near.batch_size)
            distance = next((name for limit, name in BUCKETS if ratio <= limit * 1.01), None)
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
    """Least squares of relative errors; one point is constant."""
    import numpy as np
    from scipy.optimize import nnls

    if len(known) == 1:
        return known[0].epochs
    epochs = np.array([k.epochs for k in known])
    sizes = np.array([k.batch_size for k in known]) / batch_size
    (alpha, beta), _ = nnls(np.column_stack([1 / epochs, sizes / epochs]), np.ones(len(known)))
    return float(alpha + beta)


def rows_at_any_distance(of: BySize, count: int, prior: EpochsPrior) -> list[Row]:
    """The rows with a value at any distance, although the product gives only a range above a ratio of four."""
    return list(rows(of, count, prior, max_ratio=inf))
