"""Where things stand in a picture of a schedule: nodes in lanes, jobs on the GPUs of their node.

A fleet of N nodes rents many more than N one after the other. A lane is a place that one node after the other takes:
each goes to a lane that is free, of those first to one whose last node was of its type. So there are never more lanes
than nodes at once.

Inside a node each GPU is a band, counted from below. A job takes g bands beside each other where there are such, first
those that it had before in this lane, else any that are free.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.model.schedule import Rental, Schedule, Allocation

SAME_MOMENT_SECONDS = 1e-3
"""Seconds; what lies closer together is one moment: what ends makes room for what begins, and nothing is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A job on `bands` GPUs of one node, the first of them the `band`-th from below."""

    allocation: Allocation
    rental: Rental
    lane: int
    band: int
    bands: int


def from_first_submission(schedule: Schedule) -> Schedule:
    """The same with time counted from the first submission, wherever the queue's own clock begins."""
    first = min((job.submitted_seconds for job in schedule.jobs), default=0.0)
    return schedule.relative_to(first)


def lanes(rentals: Sequence[Rental]) -> dict[int, int]:
    """By node, counted from 0. A node that was given back at once has none."""
    found: dict[int, int] = {}
    last: list[Rental] = []
    """Of each lane."""
    for rental in sorted(_lasting(rentals), key=lambda each: (each.start_seconds, each.node)):
        free = [lane for lane, before in enumerate(last) if before.end_seconds <= rental.start_seconds + SAME_MOMENT_SECONDS]
        same = [lane for lane in free if last[lane].type == rental.type]
        lane = next(iter((*same, *free)), len(last))
        last[lane : lane + 1] = [rental]
        found[rental.node] = lane
    return found


def bars(schedule: Schedule) -> list[Bar]:
    """What is to be drawn, in the order of the beginnings; a gang has a bar on each of its nodes."""
    lane_of = lanes(schedule.rentals)
    gpus = {each.name: each.gpus for each in schedule.fleet.types}
    rental_of = {rental.node: rental for rental in schedule.rentals}
    busy_until = {rental.node: [rental.start_seconds] * gpus[rental.type] for rental in schedule.rentals}
    had: dict[tuple[str, int], int] = {}
    """The lowest band of a job in a lane, when it was there last."""
    found = []
    for allocation in schedule.allocations:
        if allocation.end_seconds <= allocation.start_seconds:
            continue
        for node in allocation.nodes:
            taken = _bands(busy_until[node], allocation, had.get((allocation.job, lane_of[node]), 0))
            had[allocation.job, lane_of[node]] = taken[0] if taken else 0
            for band in taken:
                busy_until[node][band] = allocation.end_seconds
            found += [
                Bar(allocation=allocation, rental=rental_of[node], lane=lane_of[node], band=first, bands=number)
                for first, number in _runs(taken)
            ]
    return found


def _lasting(rentals: Sequence[Rental]) -> list[Rental]:
    return [rental for rental in rentals if rental.end_seconds > rental.start_seconds]


def _bands(busy_until: Sequence[float], allocation: Allocation, before: int) -> list[int]:
    free = [band for band, end in enumerate(busy_until) if end <= allocation.start_seconds + SAME_MOMENT_SECONDS]
    for first in sorted(free, key=lambda band: band != before):
        beside = list(range(first, first + allocation.gpus))
        if set(beside) <= set(free):
            return beside
    return free[: allocation.gpus]


def _runs(taken: Sequence[int]) -> list[tuple[int, int]]:
    """(first, how many) of those that lie beside each other."""
    runs: list[tuple[int, int]] = []
    for band in taken:
        if runs and band == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((band, 1))
    return runs
