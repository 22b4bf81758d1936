"""Path relinking (after Filippini et al.): between good decisions lie others, and some are better than both.

1. Elite: the five runs of the randomised greedy (`random_greedy`) that are worth most, no two of them alike.
2. Each is improved by itself: one job at a time is given another slot, as long as that is worth more.
3. From the best to each other and back: on the way one job after the other takes the slot that it has in the goal,
   each time the job for which the result is worth most; the best decision on the way is kept, and improved as in 2.

A decision is written as an order of jobs and a slot that each tries first: filling nodes by it (each job on that slot
if it can be had, else on the first of its preference) always gives something that can be done. A job that waits in the
goal goes to the end of the order, one that waits here and runs there to its beginning. "Worth" is as in
`random_greedy`. Never worth less than what the randomised greedy finds.
"""

from collections.abc import Sequence

from trainfare.model.queue import Decision, State
from trainfare.scheduler.matching import matched
from trainfare.scheduler.objective import decision_usd
from trainfare.scheduler.random_greedy import Builder, Built, runs_for

ELITE = 5
PLACED_JOBS = 40_000
"""At most so many jobs are placed over the whole search, besides those of the randomised greedy."""
BETTER = 1 + 1e-9
"""By how much a worth must be higher to be more."""


def path_relinking(state: State) -> Decision:
    if not state.jobs:
        return Decision(nodes=())
    search = _Search(state)
    best = search.best()
    plans = best.layout.plans()
    return Decision(nodes=matched(state, plans), usd=decision_usd(state, plans))


class _Search:
    """The search for one state; it counts what it builds and stops when that is enough."""

    def __init__(self, state: State) -> None:
        self._builder = Builder(state)
        self._jobs = len(state.jobs)
        self._builds_left = PLACED_JOBS // self._jobs
        self._choices = [_unlike(self._builder, slots) for slots in self._builder.preferred]

    def best(self) -> Built:
        elite = [self._improved(each) for each in self._elite()]
        best = max(elite, key=lambda each: each.worth)
        for other in [each for each in elite if each is not best]:
            for start, goal in ((best, other), (other, best)):
                found = self._best_between(start, goal)
                if found.worth > best.worth * BETTER:
                    best = self._improved(found)
        return best

    def _elite(self) -> list[Built]:
        builder = self._builder
        runs = [builder.built(order, slots) for order, slots in builder.draws(runs_for(self._jobs))]
        runs.sort(key=lambda each: -each.worth)
        found: dict[tuple[tuple[int, int], ...], Built] = {}
        for each in runs:
            found.setdefault(tuple(sorted(each.layout.given.items())), each)
            if len(found) == ELITE:
                break
        return list(found.values())

    def _built(self, order: Sequence[int], first: dict[int, int]) -> Built:
        """As `Builder.built`, each job trying `first` before its preferred slots."""
        self._builds_left -= 1
        preferred = self._builder.preferred
        slots = [[first[row], *preferred[row]] if row in first else preferred[row] for row in range(self._jobs)]
        return self._builder.built(order, slots)

    def _improved(self, begun: Built) -> Built:
        best = begun
        for row in self._builder.pressing:
            for slot in self._choices[row]:
                if self._builds_left <= 0:
                    return best
                given = best.layout.given
                if given.get(row) != slot:
                    tried = self._built(best.order, {**given, row: slot})
                    if tried.worth > best.worth * BETTER:
                        best = tried
        return best

    def _best_between(self, start: Built, goal: Built) -> Built:
        """The best on the way from start to goal, both ends among them."""
        here, best = start, max(start, goal, key=lambda each: each.worth)
        ahead = [row for row in range(self._jobs) if start.layout.given.get(row) != goal.layout.given.get(row)]
        while ahead and self._builds_left >= len(ahead):
            steps = [(self._step(here, goal, row), row) for row in ahead]
            here, taken = max(steps, key=lambda step: step[0].worth)
            ahead.remove(taken)
            best = max(best, here, key=lambda each: each.worth)
        return best

    def _step(self, here: Built, goal: Built, row: int) -> Built:
        """`here`, with this job as it is in the goal."""
        first, order = dict(here.layout.given), here.order
        runs_there = row in goal.layout.given
        if not runs_there or row not in first:
            others = [each for each in order if each != row]
            order = [row, *others] if runs_there else [*others, row]
        first.pop(row, None)
        if runs_there:
            first[row] = goal.layout.given[row]
        return self._built(order, first)


def _unlike(builder: Builder, slots: list[int]) -> list[int]:
    """The slots that make a difference: as types of one GPU are chosen by what is on a node, one of each GPU count."""
    kinds = builder.board.kinds
    found: dict[tuple[int, int, int], int] = {}
    for slot in slots:
        found.setdefault((kinds.family[kinds.slot_type[slot]], kinds.slot_gpus[slot], kinds.slot_nodes[slot]), slot)
    return list(found.values())
