"""The prior of a program's critical batch size, learned from other programs.

Each program with enough known batch sizes gives, under a vague prior, the probability p that its epochs do not depend
on the batch size (flat), and otherwise its S_min and B_c. Over n programs, each with the weight 1 − p where flat ones
do not count:

    flat  = (2 + Σ p)/(6 + n)                    one in three of six pseudo-programs
    means = those of log S_min, and of log(B_c/B) over the batch sizes B that were tried
    deviations² = (2·d₀² + Σ (1 − p)·(x − mean)²)/(2 + Σ (1 − p))        d₀ = 1 and 1.5, of two pseudo-programs

Eight programs are few: without the pseudo-programs, leaving out the only flat one would rule out flat ones.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from trainfare.estimator.epochs.by_batch import DEFAULT_EPOCHS_PRIOR, EpochsPrior, KnownEpochs, posterior_means

VAGUE_PRIOR = EpochsPrior(steps_mean=7.0, steps_deviation=3.0, room_mean=2.0, room_deviation=2.0, flat=1 / 3)
MIN_SIZES = 4
"""Known batch sizes that a program needs to contribute."""
STEPS_DEVIATION, ROOM_DEVIATION, PSEUDO_PROGRAMS = 1.0, 1.5, 2.0
FLAT_PSEUDO_PROGRAMS = (2, 6)
"""Flat ones, and all."""


def fit_epochs_prior(programs: Iterable[tuple[Sequence[KnownEpochs], int | None]]) -> EpochsPrior:
    """The prior from the known epochs by batch size and the samples of each program.

    Without a program that has enough known batch sizes it is the default prior.
    """
    weights: list[float] = []
    steps: list[float] = []
    rooms: list[list[float]] = []
    for known, samples in programs:
        if samples is None or len({k.batch_size for k in known}) < MIN_SIZES:
            continue
        flat, log_critical, log_steps = posterior_means(known, samples, VAGUE_PRIOR)
        weights.append(1 - flat)
        steps.append(log_steps)
        rooms.append([log_critical - math.log(k.batch_size) for k in known])
    if not math.fsum(weights):
        return DEFAULT_EPOCHS_PRIOR
    steps_mean, steps_deviation = _mean_and_deviation(weights, [[x] for x in steps], STEPS_DEVIATION)
    room_mean, room_deviation = _mean_and_deviation(weights, rooms, ROOM_DEVIATION)
    flat_programs, all_programs = FLAT_PSEUDO_PROGRAMS
    return EpochsPrior(
        steps_mean=steps_mean,
        steps_deviation=steps_deviation,
        room_mean=room_mean,
        room_deviation=room_deviation,
        flat=(flat_programs + math.fsum(1 - weight for weight in weights)) / (all_programs + len(weights)),
    )


def _mean_and_deviation(
    weights: Sequence[float], values: Sequence[Sequence[float]], prior_deviation: float
) -> tuple[float, float]:
    """Mean and standard deviation; every program counts by its weight, however many values it has."""
    total = math.fsum(weights)
    mean = math.fsum(w * fmean(xs) for w, xs in zip(weights, values, strict=True)) / total
    squares = math.fsum(w * fmean((x - mean) ** 2 for x in xs) for w, xs in zip(weights, values, strict=True))
    return mean, math.sqrt((PSEUDO_PROGRAMS * prior_deviation**2 + squares) / (PSEUDO_PROGRAMS + total))
