"""epochs_other_batch: epochs are known at one, two or three batch sizes; how many at another?

Every subset of the batch sizes of a program is taken for known in turn, and every other size is foretold. Only the
program's own known sizes are looked at. "Constant" takes the epochs of the nearest known size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import inf, log
from statistics import fmean

from trainfare.estimator.epochs_by_batch import KnownEpochs, epochs_at_batch_size

BUCKETS = ((2.0, "≤ 2×"), (4.0, "2–4×"), (8.0, "4–8×"))


@dataclass
class Score:
    """Of one program and one distance: errors in %; `noise` with the gradient's noise of the known runs."""

    constant: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)
    noise_inside: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)


def judge(points: Sequence[KnownEpochs], count: int) -> dict[str, Score]:
    """By distance to the nearest known size."""
    scores = {name: Score() for _, name in BUCKETS}
    for chosen in combinations(range(len(points)), count):
        known = [points[i] for i in chosen]
        for target in (point for i, point in enumerate(points) if i not in chosen):
            near = min(known, key=lambda k: abs(log(k.batch_size / target.batch_size)))
            ratio = max(near.batch_size / target.batch_size, target.batch_size / near.batch_size)
            bucket = next((name for most, name in BUCKETS if ratio <= most * 1.01), None)
            if bucket is not None:
                _add(scores[bucket], known, near, target)
    return scores


def _add(score: Score, known: Sequence[KnownEpochs], near: KnownEpochs, target: KnownEpochs) -> None:
    score.constant.append(_error(near.epochs, target))
    plain = [replace(k, gradient_noise=()) for k in known]
    value, low, high = _answer(plain, target)
    score.ours.append(_error(value, target))
    score.inside.append(low <= target.epochs <= high)
    score.widths.append(high / low)
    if all(k.gradient_noise for k in known):
        value, low, high = _answer(known, target)
        score.noise.append(_error(value, target))
        score.noise_inside.append(low <= target.epochs <= high)


def _answer(known: Sequence[KnownEpochs], target: KnownEpochs) -> tuple[float, float, float]:
    # Users get no number beyond four times; it is judged all the same.
    answer = epochs_at_batch_size(target.batch_size, known, farthest=inf)
    return answer.value or 0.0, answer.low or 0.0, answer.high or 0.0


def _error(epochs: float, target: KnownEpochs) -> float:
    return 100 * abs(epochs / target.epochs - 1)


def mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
