"""The machines that are worth pairing in a split plan."""

import math
from collections.abc import Sequence

from trainfare.estimator.cost.timing import STARTUP_PHASES
from trainfare.model.estimate import Estimate
from trainfare.recommender.split.search import EpochLine

SHORTLIST = 40
"""Machines that are paired with one another: 1,560 ordered pairs."""


def shortlist(estimates: Sequence[Estimate], *, early_epochs: int | None = None) -> tuple[Estimate, ...]:
    """At most 40 machines: for some number of epochs, no other machine at that batch size is faster and cheaper.

    These are the Pareto fronts at all epochs, a half, a quarter and those of the early target, and the front of the
    time and cost that one epoch adds.
    """
    listed: dict[int, None] = {}
    by_batch: dict[int | None, list[tuple[int, EpochLine, EpochLine]]] = {}
    for index, estimate in enumerate(estimates):
        by_batch.setdefault(estimate.candidate.batch_size, []).append((index, *_lines_of(estimate)))
    for group in by_batch.values():
        n = estimates[group[0][0]].epochs
        for epochs in dict.fromkeys((n, n / 2, n / 4, early_epochs or n)):
            listed.update(dict.fromkeys(_front([(i, s.at(epochs), u.at(epochs)) for i, s, u in group])))
        listed.update(dict.fromkeys(_front([(i, s.per_epoch, u.per_epoch) for i, s, u in group])))
    return tuple(estimates[index] for index in list(listed)[:SHORTLIST])


def _lines_of(estimate: Estimate) -> tuple[EpochLine, EpochLine]:
    """Seconds and dollars as lines in the number of epochs, from the phases of the estimate.

    Dollars are taken as proportional to the time; this ignores the charges for disk and egress.
    """
    start = sum(phase.seconds.value for phase in estimate.phases if phase.name in STARTUP_PHASES)
    seconds = EpochLine(start=start, per_epoch=(estimate.seconds.value - start) / estimate.epochs)
    price = estimate.usd.value / estimate.seconds.value
    return seconds, EpochLine(start=seconds.start * price, per_epoch=seconds.per_epoch * price)


def _front(points: Sequence[tuple[int, float, float]]) -> list[int]:
    """The indices of the points (index, seconds, dollars) on the Pareto front, the fastest first."""
    found, cheapest = [], math.inf
    for index, _, usd in sorted(points, key=lambda point: (point[1], point[2])):
        if usd < cheapest:
            found.append(index)
            cheapest = usd
    return found
