"""The layout of a schedule's figure: nodes in lanes, jobs on the GPUs of their node.

A fleet of N nodes rents many more than N nodes one after the other. A lane holds one node after the other: each node
goes to a free lane, preferably to one whose last node had its type. So there are never more lanes than nodes at once.

Inside a node each GPU is a band, counted from below. A job gets adjacent bands if possible, preferably those that it
had before in this lane, else any free ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.model.schedule import Allocation, NodeRental, Schedule

SAME_MOMENT_SECONDS = 1e-3
"""Moments that are closer together count as one: an ending job frees its GPUs for a starting one, and is not late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A job on `bands` GPUs of one node, from the `band`-th from below on."""

    allocation: Allocation
    rental: NodeRental
    lane: int
    band: int
    bands: int


def from_first_submission(schedule: Schedule) -> Schedule:
    """The schedule with times relative to the first submission."""
    first = min((job.submitted_seconds for job in schedule.jobs), default=0.0)
    return schedule.relative_to(first)


def lanes(rentals: Sequence[NodeRental]) -> dict[int, int]:
    """The lane of each node, counted from 0. A node that was returned at once has none."""
    found: dict[int, int] = {}
    last: list[NodeRental] = []
    """The last rental of each lane."""
    for rental in sorted(_nonempty(rentals), key=lambda each: (each.start_seconds, each.node)):
        free = [
            lane for lane, before in enumerate(last) if before.end_seconds <= rental.start_seconds + SAME_MOMENT_SECONDS
        ]
        same = [lane for lane in free if last[lane].type == rental.type]
        lane = next(iter((*same, *free)), len(last))
        last[lane : lane + 1] = [rental]
        found[rental.node] = lane
    return found


def bars(schedule: Schedule) -> list[Bar]:
    """The bars to draw, by their start; a job on several nodes has a bar on each of them."""
    lane_of = lanes(schedule.rentals)
    gpus = {each.name: each.gpus for each in schedule.fleet.types}
    rental_of = {rental.node: rental for rental in schedule.rentals}
    busy_until = {rental.node: [rental.start_seconds] * gpus[rental.type] for rental in schedule.rentals}
    previous_band: dict[tuple[str, int], int] = {}
    """The lowest band of a job when it was last in a lane."""
    found = []
    for allocation in schedule.allocations:
        if allocation.end_seconds <= allocation.start_seconds:
            continue
        for node in allocation.nodes:
            used = _bands(busy_until[node], allocation, previous_band.get((allocation.job, lane_of[node]), 0))
            previous_band[allocation.job, lane_of[node]] = used[0] if used else 0
            for band in used:
                busy_until[node][band] = allocation.end_seconds
            found += [
                Bar(allocation=allocation, rental=rental_of[node], lane=lane_of[node], band=first, bands=number)
                for first, number in _adjacent_runs(used)
            ]
    return found


def _nonempty(rentals: Sequence[NodeRental]) -> list[NodeRental]:
    return [rental for rental in rentals if rental.end_seconds > rental.start_seconds]


def _bands(busy_until: Sequence[float], allocation: Allocation, before: int) -> list[int]:
    free = [band for band, end in enumerate(busy_until) if end <= allocation.start_seconds + SAME_MOMENT_SECONDS]
    for first in sorted(free, key=lambda band: band != before):
        adjacent = list(range(first, first + allocation.gpus))
        if set(adjacent) <= set(free):
            return adjacent
    return free[: allocation.gpus]


def _adjacent_runs(used: Sequence[int]) -> list[tuple[int, int]]:
    """The first band and the number of bands of each adjacent run."""
    runs: list[tuple[int, int]] = []
    for band in used:
        if runs and band == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((band, 1))
    return runs
