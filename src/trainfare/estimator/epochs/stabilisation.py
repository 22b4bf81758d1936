"""The epoch at which a curve settled. Each rule is a function of the values, one per epoch.

    patience     the epoch after which nothing was better for `patience` epochs (Malta 2021, Keras' EarlyStopping)
    settled      the first epoch within 2% of the total improvement, on the running median over 5% of the run
    eye          Malta's stabilisation point of 2019: `model.stability.stabilisation_point`

On 28 public curves of four programs, each at six to eight batch sizes, the settled epoch varies least from run to
run: by 6% (coefficient of variation), Malta's point by 7%, patience by 20%. Patience also stops on the plateau
before a step of the learning rate. `python -m benchmarks.epochs` recomputes these figures.

Epochs are counted from 1. Both rules use only the order and the ratios of differences: values in another unit give
the same epoch.
"""

from collections.abc import Sequence
from statistics import median

from trainfare.model.stability import PATIENCE

SETTLED_WITHIN = 0.02
WINDOW_SHARE = 0.05


def patience_epoch(values: Sequence[float], *, higher: bool, patience: int = PATIENCE) -> int | None:
    """The epoch at which early stopping ends the training, `patience` after the best; None where it goes on."""
    best, best_at = None, 0
    for epoch, value in enumerate(_upward(values, higher), start=1):
        if best is None or value > best:
            best, best_at = value, epoch
        if epoch - best_at >= patience:
            return epoch
    return None


def settled_epoch(
    values: Sequence[float],
    *,
    higher: bool,
    run_epochs: int | None = None,
    within: float = SETTLED_WITHIN,
    window_share: float = WINDOW_SHARE,
) -> int:
    """The first epoch whose running median lies within `within` of the total improvement from the best one.

    The improvement is that of the running median from the first epoch to the best. `run_epochs` is the length of the
    complete training, where `values` are only its beginning; the window is a share of it.
    """
    if not values:
        raise ValueError("a curve needs at least one value")
    middle = running_median(_upward(values, higher), median_window(run_epochs or len(values), window_share))
    best = max(middle)
    return next(epoch for epoch, value in enumerate(middle, start=1) if best - value <= within * (best - middle[0]))


def median_window(run_epochs: int, window_share: float = WINDOW_SHARE) -> int:
    """The length of the window in epochs, an odd number."""
    return 2 * (round(window_share * run_epochs) // 2) + 1


def running_median(values: Sequence[float], window: int) -> list[float]:
    """The centred running median; at both ends over the part of the window that has values."""
    half = window // 2
    return [median(values[max(0, place - half) : place + half + 1]) for place in range(len(values))]


def _upward(values: Sequence[float], higher: bool) -> list[float]:
    return [value if higher else -value for value in values]
