"""What one believes of a program's critical batch size before anything is known of it, learned from other programs.

Each program with enough known sizes says by itself, from a vague belief, how likely it is flat (p), and where not, its
S_min and B_c. Over n programs, each counting 1 − p where it must not be flat:

    flat  = (2 + Σ p)/(6 + n)                    one in three, as if of six more programs
    means = those of log S_min, and of log(B_c/B) over the sizes B that were tried
    deviations² = (2·d₀² + Σ (1 − p)·(x − mean)²)/(2 + Σ (1 − p))        d₀ = 1 and 1.5, as if of two more programs

Eight programs are few: without the only one that is flat, nobody would believe in flat ones but for the first line.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from trainfare.estimator.epochs.by_batch import SHIPPED, EpochsPrior, KnownEpochs, believed

VAGUE = EpochsPrior(steps_mean=7.0, steps_deviation=3.0, room_mean=2.0, room_deviation=2.0, flat=1 / 3)
ENOUGH = 4
"""Known sizes of a program."""
STEPS_DEVIATION, ROOM_DEVIATION, ASSUMED = 1.0, 1.5, 2.0
ASSUMED_FLAT = (2, 6)


def fit_epochs_prior(programs: Iterable[tuple[Sequence[KnownEpochs], int | None]]) -> EpochsPrior:
    """From known epochs by batch size and the samples of each program; what ships, where none has enough of them."""
    grows: list[float] = []
    steps: list[float] = []
    rooms: list[list[float]] = []
    for known, samples in programs:
        if samples is None or len({k.batch_size for k in known}) < ENOUGH:
            continue
        flat, log_critical, log_steps = believed(known, samples, VAGUE)
        grows.append(1 - flat)
        steps.append(log_steps)
        rooms.append([log_critical - math.log(k.batch_size) for k in known])
    if not math.fsum(grows):
        return SHIPPED
    steps_mean, steps_deviation = _spread(grows, [[x] for x in steps], STEPS_DEVIATION)
    room_mean, room_deviation = _spread(grows, rooms, ROOM_DEVIATION)
    return EpochsPrior(
        steps_mean=steps_mean,
        steps_deviation=steps_deviation,
        room_mean=room_mean,
        room_deviation=room_deviation,
        flat=(ASSUMED_FLAT[0] + math.fsum(1 - share for share in grows)) / (ASSUMED_FLAT[1] + len(grows)),
    )


def _spread(weights: Sequence[float], values: Sequence[Sequence[float]], assumed: float) -> tuple[float, float]:
    """Mean and deviation, every program counting by its weight however many values it has."""
    total = math.fsum(weights)
    mean = math.fsum(w * fmean(xs) for w, xs in zip(weights, values, strict=True)) / total
    squares = math.fsum(w * fmean((x - mean) ** 2 for x in xs) for w, xs in zip(weights, values, strict=True))
    return mean, math.sqrt((ASSUMED * assumed**2 + squares) / (ASSUMED + total))
