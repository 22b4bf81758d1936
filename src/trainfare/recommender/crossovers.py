"""The number of epochs from which another machine wins: below n epochs A, from n on B (Malta 2021, section 5.4).

Time and cost are straight lines in the number of epochs, a + b·N: a machine that starts slowly and runs fast wins
only if there is enough to run. The best of many lines is their lower envelope, followed here from left to right.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal

MOST_EPOCHS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WinningRange:
    """The range of epochs, or of another unit, `first` to `last`, in which this candidate is the best; `last` is None
    if it has no end."""

    first: int
    last: int | None
    estimate: Estimate


def winning_ranges(
    once: Sequence[Estimate], twice: Sequence[Estimate], goal: Goal, *, units_per_epoch: float = 1.0
) -> tuple[WinningRange, ...]:
    """The winners in ascending order of epochs, from unrounded estimates of the same candidates, in the same order, for
    one epoch and for two. The ranges are in units of which an epoch has `units_per_epoch`, such as steps. Where several
    cost the same, the fastest of them wins."""
    read: Callable[[Estimate], float] = (
        (lambda e: e.usd.value) if goal.kind == "cheapest" else (lambda e: e.seconds.value)
    )
    # The slope is what one unit adds, the intercept what precedes the first.
    lines = [
        ((read(two) - read(one)) / units_per_epoch, 2 * read(one) - read(two))
        for one, two in zip(once, twice, strict=True)
    ]
    found: list[tuple[int, int]] = []
    epochs = 1
    best = min(range(len(lines)), key=lambda i: (_at(lines[i], 1), lines[i][0], twice[i].seconds.value))
    while True:
        found.append((epochs, best))
        following = _next_to_win(lines, best, epochs)
        if following is None or following[0] > MOST_EPOCHS * units_per_epoch:
            break
        epochs, best = following
    ends = [epochs - 1 for epochs, _ in found[1:]]
    return tuple(
        WinningRange(first=first, last=last, estimate=once[i])
        for (first, i), last in zip(found, [*ends, None], strict=True)
    )


def _at(line: tuple[float, float], epochs: int) -> float:
    return line[0] * epochs + line[1]


def _next_to_win(lines: Sequence[tuple[float, float]], best: int, after: int) -> tuple[int, int] | None:
    """The first number of epochs at which another line lies below the best, and the index of that line."""
    slope, intercept = lines[best]
    crossings = []
    for i, (other_slope, other_intercept) in enumerate(lines):
        if other_slope < slope:
            crossing = (other_intercept - intercept) / (slope - other_slope)
            epochs = max(after + 1, math.floor(crossing) + 1)
            crossings.append((epochs, _at(lines[i], epochs), i))
    if not crossings:
        return None
    epochs, _, winner = min(crossings)
    return epochs, winner
