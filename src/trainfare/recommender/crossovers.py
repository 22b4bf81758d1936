"""The number of epochs from which another machine wins: below n epochs A, from n on B (Malta 2021, section 5.4).

Time and cost are straight lines in the number of epochs, a + b·N: a machine that starts slowly and runs fast wins
only if there is enough to run. The best of many lines is their lower envelope, followed here from left to right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.model.plan import Goal
from trainfare.recommender.options import Rankable, as_options

MOST_EPOCHS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WinningRange:
    """The range of epochs, or of another unit, `first` to `last`, in which this candidate is the best; `last` is None
    if it has no end."""

    first: int
    last: int | None
    estimate: Rankable


def winning_ranges(
    once: Sequence[Rankable], twice: Sequence[Rankable], goal: Goal, *, units_per_epoch: float = 1.0
) -> tuple[WinningRange, ...]:
    """The winners in ascending order of epochs, from unrounded estimates of the same candidates, in the same order, for
    one epoch and for two. The ranges are in units of which an epoch has `units_per_epoch`, such as steps. Where several
    cost the same, the fastest of them wins."""
    one, two = as_options(once), as_options(twice)
    first, second = (one.usd, two.usd) if goal.kind == "cheapest" else (one.seconds, two.seconds)
    # The slope is what one unit adds, the intercept what precedes the first.
    lines = [((b - a) / units_per_epoch, 2 * a - b) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    found: list[tuple[int, int]] = []
    epochs = 1
    best = min(range(len(lines)), key=lambda i: (_at(lines[i], 1), lines[i][0], two.seconds[i]))
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
