"""Path relinking (after Filippini et al.): searches the decisions that lie between good decisions.

1. Elite: the five runs of the randomised greedy (`random_greedy`) with the most work per dollar, no two of them equal,
   and the one that it would choose.
2. Each is improved separately: one job at a time tries its other slots that end in time.
3. From the best to each other one and back: on the way one job after the other takes the slot that it has in the goal,
   each time the job for which the result has the most work per dollar. Every decision on the way can become the best.

A decision is better, as in `random_greedy`, if it has more work per dollar and no more lateness; the best is only
replaced by a better one, and begins as the choice of the randomised greedy.

A decision is written as an order of jobs and a slot that each tries first: filling nodes in this way (each job on that
slot if available, else on the first of its preference) always gives a valid decision. A job that waits in the goal
moves to the end of the order, one that waits here and runs there to its beginning.
"""

from collections.abc import Iterator, Sequence

from trainfare.model.queue import Decision, State
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.policies.random_greedy import BuiltLayout, LayoutBuilder, run_count
from trainfare.scheduler.pricing.objective import decision_usd

ELITE = 5
PLACED_JOBS = 10_000
"""The most jobs that are placed over the complete search, in addition to those of the randomised greedy."""


def path_relinking(state: State) -> Decision:
    if not state.jobs:
        return Decision(nodes=())
    search = _PathSearch(state)
    best = search.best()
    plans = best.layout.plans()
    return Decision(nodes=match_to_rented_nodes(state, plans), usd=decision_usd(state, plans))


class _PathSearch:
    """The search for one state; it stops when its budget of built layouts is used up."""

    def __init__(self, state: State) -> None:
        self._builder = LayoutBuilder(state)
        self._jobs = len(state.jobs)
        self._builds_left = PLACED_JOBS // self._jobs
        self._choices = [_slots_in_time(self._builder, row) for row in range(self._jobs)]

    def best(self) -> BuiltLayout:
        best, *others = [self._improve(each) for each in self._elite()]
        for other in others:
            if other.better_than(best):
                best = other
        for other in others:
            for start, goal in ((best, other), (other, best)):
                for other_layout in self._path_between(start, goal):
                    if other_layout.better_than(best):
                        best = other_layout
        return best

    def _elite(self) -> list[BuiltLayout]:
        """The choice of the randomised greedy, and then the others by work per dollar."""
        builder = self._builder
        runs = [builder.build(order, slots) for order, slots in builder.random_orders(run_count(self._jobs))]
        first = runs[0]
        for each in runs:
            if each.better_than(first):
                first = each
        found = {_signature(first): first}
        for each in sorted(runs, key=lambda each: -each.work_per_usd):
            found.setdefault(_signature(each), each)
            if len(found) > ELITE:
                break
        return list(found.values())

    def _build(self, order: Sequence[int], first: dict[int, int]) -> BuiltLayout:
        """Like `LayoutBuilder.build`, each job trying `first` before its preferred slots."""
        self._builds_left -= 1
        preferred = self._builder.preferred
        slots = [[first[row], *preferred[row]] if row in first else preferred[row] for row in range(self._jobs)]
        return self._builder.build(order, slots)

    def _improve(self, start: BuiltLayout) -> BuiltLayout:
        best = start
        for row in self._builder.pressing:
            for slot in self._choices[row]:
                if self._builds_left <= 0:
                    return best
                assigned = best.layout.assigned
                if assigned.get(row) != slot:
                    tried = self._build(best.order, {**assigned, row: slot})
                    if tried.better_than(best):
                        best = tried
        return best

    def _path_between(self, start: BuiltLayout, goal: BuiltLayout) -> Iterator[BuiltLayout]:
        """Every layout that is built on the way from start to goal."""
        current = start
        different = [
            row for row in range(self._jobs) if start.layout.assigned.get(row) != goal.layout.assigned.get(row)
        ]
        while different and self._builds_left >= len(different):
            steps = [(self._step(current, goal, row), row) for row in different]
            yield from (step for step, _ in steps)
            current, changed = max(steps, key=lambda step: step[0].work_per_usd)
            different.remove(changed)

    def _step(self, current: BuiltLayout, goal: BuiltLayout, row: int) -> BuiltLayout:
        """`current`, with this job as it is in the goal."""
        first, order = dict(current.layout.assigned), current.order
        runs_in_goal = row in goal.layout.assigned
        if not runs_in_goal or row not in first:
            others = [each for each in order if each != row]
            order = [row, *others] if runs_in_goal else [*others, row]
        first.pop(row, None)
        if runs_in_goal:
            first[row] = goal.layout.assigned[row]
        return self._build(order, first)


def _signature(build: BuiltLayout) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(build.layout.assigned.items()))


def _slots_in_time(builder: LayoutBuilder, row: int) -> list[int]:
    """The slots on which the job ends in time, one for each family and number of GPUs: others make no difference,
    because the type of a node follows from the jobs on it."""
    fleet, state = builder.context.fleet, builder.state
    found: dict[tuple[int, int, int], int] = {}
    for slot in builder.preferred[row]:
        if state.now_seconds + builder.context.remaining[row][slot] <= state.jobs[row].job.deadline_seconds:
            key = (fleet.family[fleet.slot_type[slot]], fleet.slot_gpus[slot], fleet.slot_nodes[slot])
            found.setdefault(key, slot)
    return list(found.values())
