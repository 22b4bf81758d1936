"""Greedy many times with a little chance in it, and the best of these (after Filippini et al.'s randomised greedy).

The first run is Greedy; in each other run

    the order of jobs is by pressure + N(0, (0.05 · min t)²): jobs that press about equally change places,
    a job's slots stand in an order drawn with probability ∝ (c·t)^-20 of those in time, then t^-20 of the rest,

and idle GPUs go to a job on every node that has some. A run takes the place of the best so far if it is worth more
and makes nobody later:

    worth    = Σ_j runs  max_k t_jk / (c_n · t_j · g_j / Σ_i on n g_i  +  w_j · max(0, now + t_j - d_j))
    lateness = what `objective.decision_usd` has of it, that of running jobs and 100 times the worst of those that wait

Worth is work for the money, the measure that Filippini et al. use in their search: for each running job its work (as
seconds on its slowest slot) by what it costs to its end, which is its part of the node's price, by the GPUs in use
there, and its lateness. Worth alone may sacrifice a job to others, as the most that can be lost is its own worth: the
better the search, the more jobs came late (1381 and 2111 $ where Greedy has none). The cost until the first end,
`decision_usd` whole, prefers decisions in which something ends soon to those that get work done: taken by it, random
runs lost to Greedy on all four published instances.

Chance is drawn from the number of jobs seen and the time: the same state always gives the same decision.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Decision, NodePlan, State
from trainfare.scheduler.packing.layout import PackingContext, Layout, layout_from_plans
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.packing.slot_preferences import rows_by_pressure, slot_preferences
from trainfare.scheduler.pricing.objective import decision_usd, late_usd, postponed_usd
from trainfare.scheduler.tables import remaining_seconds, slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUNS = 200
PLACED_JOBS = 12_000
"""At most so many jobs are placed over all runs, so that a long queue is not searched for minutes."""
FEWEST_RUNS = 4
PICKY = 20.0
"""Slots are drawn with probability ∝ cost^-PICKY."""
ORDER_NOISE = 0.05
"""Standard deviation of the noise on a job's pressure, as a part of its shortest time. With 0.3 jobs came late."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BuiltLayout:
    """One way to fill the nodes, what it is worth and what lateness it costs."""

    order: Sequence[int]
    """Rows of the jobs, in the order in which they were placed."""
    layout: Layout
    work_per_usd: float
    lateness_usd: float

    def better_than(self, other: "BuiltLayout") -> bool:
        """Worth more, and no later."""
        return self.work_per_usd > other.work_per_usd * (
            1 + ROUNDING
        ) and self.lateness_usd <= other.lateness_usd + ROUNDING * (1 + other.lateness_usd)


class LayoutBuilder:
    """Fills nodes for one state in any order of jobs and slots, and says what that is worth."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.remaining = remaining_seconds(state)
        self.context = PackingContext(state, self.remaining)
        self.preferred: list[list[int]] = slot_preferences(state, self.remaining).tolist()
        self.pressing: list[int] = rows_by_pressure(state, self.remaining).tolist()
        self._late: list[list[float]] = late_usd(state, self.remaining).tolist()
        self._waits: list[float] = postponed_usd(state, self.remaining).tolist()
        self._all_wait: float = sum(self._waits)
        self._longest: list[float] = np.where(np.isfinite(self.remaining), self.remaining, 0.0).max(axis=1).tolist()

    def build(self, order: Sequence[int], slots: Sequence[Iterable[int]]) -> BuiltLayout:
        """Jobs in this order, each on the first of its slots that can be had; then shrunk, idle GPUs given."""
        layout = Layout(self.context)
        for row in order:
            layout.place(row, slots[row])
            if layout.full():
                break
        layout.shrink()
        layout.give_idle(jobs=None)
        return BuiltLayout(order, layout, self.work_per_usd(layout), self.lateness_usd(layout))

    def work_per_usd(self, layout: Layout) -> float:
        """The formula at the top. A gang pays all its nodes."""
        fleet, assigned = self.context.fleet, layout.assigned
        total = 0.0
        for number, rows in zip(layout.types, layout.rows, strict=True):
            used = sum([fleet.slot_gpus[assigned[row]] for row in rows])
            for row in rows:
                slot = assigned[row]
                many = fleet.slot_nodes[slot]
                part = fleet.slot_gpus[slot] / used * many
                cost = fleet.usd_per_second[number] * self.context.remaining[row][slot] * part + self._late[row][slot]
                total += self._longest[row] / cost / many
        return total

    def work_per_usd_of(self, plans: Sequence[NodePlan]) -> float:
        return self.work_per_usd(layout_from_plans(self.state, self.context, plans))

    def lateness_usd(self, layout: Layout) -> float:
        return self._all_wait + sum([self._late[row][slot] - self._waits[row] for row, slot in layout.assigned.items()])

    def draws(self, runs: int) -> Iterator[tuple[list[int], list[list[int]]]]:
        """(order, slots by row), the first as Greedy has them."""
        state, remaining = self.state, self.remaining
        yield self.pressing, self.preferred
        rng = np.random.default_rng((state.arrivals.jobs, int(state.now_seconds), len(state.jobs)))
        deadlines = np.array([each.job.deadline_seconds for each in state.jobs])
        shortest = remaining.min(axis=1)
        pressure = state.now_seconds + shortest - deadlines
        in_time = np.isfinite(remaining) & (state.now_seconds + remaining <= deadlines[:, None])
        cost = np.log(np.where(in_time, slot_table(state.fleet).usd_per_second * remaining, remaining))
        for _ in range(1, runs):
            noise = rng.normal(0.0, ORDER_NOISE, len(shortest)) * shortest
            # Sorting by log cost less a Gumbel variable draws without replacement with probability ∝ cost^-PICKY.
            drawn = cost - rng.gumbel(0.0, 1 / PICKY, cost.shape)
            slots: NDArray[np.int64] = np.lexsort((drawn, ~in_time), axis=-1)
            yield np.argsort(-(pressure + noise), kind="stable").tolist(), slots.tolist()


def runs_for(jobs: int) -> int:
    return max(FEWEST_RUNS, min(RUNS, PLACED_JOBS // jobs))


def random_greedy(state: State) -> Decision:
    if not state.jobs:
        return Decision(nodes=())
    builder = LayoutBuilder(state)
    runs = (builder.build(order, slots) for order, slots in builder.draws(runs_for(len(state.jobs))))
    best = next(runs)
    for each in runs:
        if each.better_than(best):
            best = each
    plans = best.layout.plans()
    return Decision(nodes=match_to_rented_nodes(state, plans), usd=decision_usd(state, plans))
