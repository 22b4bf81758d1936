"""Path relinking (after Filippini et al.): between good decisions lie others, and some are better than both.

1. Elite: the five runs of the randomised greedy (`random_greedy`) that are worth most, no two of them alike, and the
   one that it would take.
2. Each is improved by itself: one job at a time tries its other slots that end in time.
3. From the best to each other and back: on the way one job after the other takes the slot that it has in the goal,
   each time the job for which the result is worth most. Everything met on the way may become the best.

A decision is better, as in `random_greedy`, if it is worth more and makes nobody later; the best is only ever replaced
by a better one, and begins as what the randomised greedy takes.

A decision is written as an order of jobs and a slot that each tries first: filling nodes by it (each job on that slot
if it can be had, else on the first of its preference) always gives something that can be done. A job that waits in the
goal goes to the end of the order, one that waits here and runs there to its beginning.
"""

from collections.abc import Iterator, Sequence

from trainfare.model.queue import Decision, State
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.policies.random_greedy import LayoutBuilder, BuiltLayout, runs_for
from trainfare.scheduler.pricing.objective import decision_usd

ELITE = 5
PLACED_JOBS = 10_000
"""At most so many jobs are placed over the whole search, besides those of the randomised greedy."""


def path_relinking(state: State) -> Decision:
    if not state.jobs:
        return Decision(nodes=())
    search = _Search(state)
    best = search.best()
    plans = best.layout.plans()
    return Decision(nodes=match_to_rented_nodes(state, plans), usd=decision_usd(state, plans))


class _Search:
    """The search for one state; it counts what it builds and stops when that is enough."""

    def __init__(self, state: State) -> None:
        self._builder = LayoutBuilder(state)
        self._jobs = len(state.jobs)
        self._builds_left = PLACED_JOBS // self._jobs
        self._choices = [_in_time(self._builder, row) for row in range(self._jobs)]

    def best(self) -> BuiltLayout:
        best, *others = [self._improved(each) for each in self._elite()]
        for other in others:
            if other.better_than(best):
                best = other
        for other in others:
            for start, goal in ((best, other), (other, best)):
                for met in self._between(start, goal):
                    if met.better_than(best):
                        best = met
        return best

    def _elite(self) -> list[BuiltLayout]:
        """What the randomised greedy takes, and then the others by worth."""
        builder = self._builder
        runs = [builder.build(order, slots) for order, slots in builder.draws(runs_for(self._jobs))]
        first = runs[0]
        for each in runs:
            if each.better_than(first):
                first = each
        found = {_written(first): first}
        for each in sorted(runs, key=lambda each: -each.work_per_usd):
            found.setdefault(_written(each), each)
            if len(found) > ELITE:
                break
        return list(found.values())

    def _built(self, order: Sequence[int], first: dict[int, int]) -> BuiltLayout:
        """As `LayoutBuilder.built`, each job trying `first` before its preferred slots."""
        self._builds_left -= 1
        preferred = self._builder.preferred
        slots = [[first[row], *preferred[row]] if row in first else preferred[row] for row in range(self._jobs)]
        return self._builder.build(order, slots)

    def _improved(self, begun: BuiltLayout) -> BuiltLayout:
        best = begun
        for row in self._builder.pressing:
            for slot in self._choices[row]:
                if self._builds_left <= 0:
                    return best
                assigned = best.layout.assigned
                if assigned.get(row) != slot:
                    tried = self._built(best.order, {**assigned, row: slot})
                    if tried.better_than(best):
                        best = tried
        return best

    def _between(self, start: BuiltLayout, goal: BuiltLayout) -> Iterator[BuiltLayout]:
        """All that is met, or looked at, on the way from start to goal."""
        here = start
        ahead = [row for row in range(self._jobs) if start.layout.assigned.get(row) != goal.layout.assigned.get(row)]
        while ahead and self._builds_left >= len(ahead):
            steps = [(self._step(here, goal, row), row) for row in ahead]
            yield from (step for step, _ in steps)
            here, taken = max(steps, key=lambda step: step[0].work_per_usd)
            ahead.remove(taken)

    def _step(self, here: BuiltLayout, goal: BuiltLayout, row: int) -> BuiltLayout:
        """`here`, with this job as it is in the goal."""
        first, order = dict(here.layout.assigned), here.order
        runs_there = row in goal.layout.assigned
        if not runs_there or row not in first:
            others = [each for each in order if each != row]
            order = [row, *others] if runs_there else [*others, row]
        first.pop(row, None)
        if runs_there:
            first[row] = goal.layout.assigned[row]
        return self._built(order, first)


def _written(build: BuiltLayout) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(build.layout.assigned.items()))


def _in_time(builder: LayoutBuilder, row: int) -> list[int]:
    """The slots on which the job ends in time, one of each family and number of GPUs: the rest makes no difference, as
    the type of a node follows from what is on it."""
    fleet, state = builder.context.fleet, builder.state
    found: dict[tuple[int, int, int], int] = {}
    for slot in builder.preferred[row]:
        if state.now_seconds + builder.context.remaining[row][slot] <= state.jobs[row].job.deadline_seconds:
            alike = (fleet.family[fleet.slot_type[slot]], fleet.slot_gpus[slot], fleet.slot_nodes[slot])
            found.setdefault(alike, slot)
    return list(found.values())
