"""When did a curve come to rest? Three rules, each a function of the values, one an epoch.

    patience     the epoch after which nothing was better for `patience` epochs (Malta 2021, Keras' EarlyStopping)
    settled      the first epoch within 2 % of the total improvement, on the running median over 5 % of the run
    eye          Malta's stabilisation point of 2019; `profiler.stopping.stabilisation_point`, which needs it live

On 28 public curves of four programs, each at six to eight batch sizes, the settled epoch varies least from run to
run: by 6 % (coefficient of variation), Malta's point by 7 %, patience by 20 %. Patience also stops on the plateau
before a step of the learning rate. `python -m benchmarks.epochs` recomputes this.

Places are counted from 1. Both rules see only the order and the ratios of differences: values in another unit give
the same epoch.
"""

from collections.abc import Sequence
from statistics import median

PATIENCE = 5
"""Malta 2021, chapter 4."""

WITHIN = 0.02
WINDOW_SHARE = 0.05


def patience_epoch(values: Sequence[float], *, higher: bool, patience: int = PATIENCE) -> int | None:
    """The epoch at which early stopping ends the training: `patience` after the best one; None where it goes on."""
    best, best_at = None, 0
    for place, value in enumerate(_upward(values, higher), start=1):
        if best is None or value > best:
            best, best_at = value, place
        if place - best_at >= patience:
            return place
    return None


def settled_epoch(
    values: Sequence[float],
    *,
    higher: bool,
    run: int | None = None,
    within: float = WITHIN,
    window_share: float = WINDOW_SHARE,
) -> int:
    """The first epoch whose running median lies within `within` of the total improvement from the best one.

    The improvement is that of the running median from the first epoch to the best. `run` is the length of the whole
    training, where `values` are only its beginning; the window is a share of it.
    """
    if not values:
        raise ValueError("a curve needs at least one value")
    middle = running_median(_upward(values, higher), median_window(run or len(values), window_share))
    best = max(middle)
    return next(place for place, value in enumerate(middle, start=1) if best - value <= within * (best - middle[0]))


def median_window(run: int, window_share: float = WINDOW_SHARE) -> int:
    """An odd number of epochs: half of them before, half after."""
    return 2 * (round(window_share * run) // 2) + 1


def running_median(values: Sequence[float], window: int) -> list[float]:
    """Centred; at both ends over what is there."""
    half = window // 2
    return [median(values[max(0, place - half) : place + half + 1]) for place in range(len(values))]


def _upward(values: Sequence[float], higher: bool) -> list[float]:
    return [value if higher else -value for value in values]
