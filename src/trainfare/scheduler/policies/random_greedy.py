"""Greedy repeated with small random changes, and the best of these runs (after Filippini et al.).

The first run is Greedy; in each other run

    the order of jobs is by pressure + N(0, (0.05 · min t)²): jobs of nearly equal pressure change places,
    a job's slots are in an order drawn with probability ∝ (c·t)^-20 of those in time, then t^-20 of the rest,

and idle GPUs go to a job on every node that has any. A run replaces the best so far if it has more work per dollar and
no more lateness:

    work per $ = Σ_j runs  max_k t_jk / (c_n · t_j · g_j / Σ_i on n g_i  +  w_j · max(0, now + t_j - d_j))
    lateness   = the lateness in `objective.decision_usd`: that of running jobs and 100 times the worst of waiting jobs

Work per dollar is the measure that Filippini et al. use in their search: for each running job its work (as seconds on
its slowest slot) divided by its cost to its end, which is its part of the node's price, by the GPUs in use there, and
its lateness. Alone, this measure may sacrifice one job to others, since no more than its own term can be lost: the
better the search, the more jobs were late (1381 and 2111 $ where Greedy has none). The cost until the first end, the
complete `decision_usd`, prefers decisions in which a job ends soon to those that get work done: chosen by it, random
runs lost to Greedy on all four published instances.

The random numbers depend only on the number of jobs so far and the time: the same state gives the same decision.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Decision, NodePlan, State
from trainfare.scheduler.packing.layout import Layout, PackingContext, layout_from_plans
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.packing.preferences import rows_by_pressure, slot_preferences
from trainfare.scheduler.pricing.objective import decision_usd, late_usd, postponed_usd
from trainfare.scheduler.tables import remaining_seconds, slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUNS = 200
PLACED_JOBS = 12_000
"""The most jobs that are placed over all runs, so that a long queue is not searched for minutes."""
MIN_RUNS = 4
SELECTIVITY = 20.0
"""Slots are drawn with probability ∝ cost^-SELECTIVITY."""
ORDER_NOISE = 0.05
"""Standard deviation of the noise on a job's pressure, as a fraction of its shortest time. With 0.3 jobs were late."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BuiltLayout:
    """A layout with its work per dollar and its cost of lateness."""

    order: Sequence[int]
    """The rows of the jobs, in the order in which they were placed."""
    layout: Layout
    work_per_usd: float
    lateness_usd: float

    def better_than(self, other: "BuiltLayout") -> bool:
        """True if this layout has more work per dollar and no more lateness."""
        return self.work_per_usd > other.work_per_usd * (
            1 + ROUNDING
        ) and self.lateness_usd <= other.lateness_usd + ROUNDING * (1 + other.lateness_usd)


class LayoutBuilder:
    """Builds layouts for one state from any order of jobs and slots, and measures them."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.remaining = remaining_seconds(state)
        self.context = PackingContext(state, self.remaining)
        self.preferred: list[list[int]] = slot_preferences(state, self.remaining).tolist()
        self.pressing: list[int] = rows_by_pressure(state, self.remaining).tolist()
        self._late_usd: list[list[float]] = late_usd(state, self.remaining).tolist()
        self._wait_usd: list[float] = postponed_usd(state, self.remaining).tolist()
        self._all_wait_usd: float = sum(self._wait_usd)
        self._slowest_seconds: list[float] = (
            np.where(np.isfinite(self.remaining), self.remaining, 0.0).max(axis=1).tolist()
        )

    def build(self, order: Sequence[int], slots: Sequence[Iterable[int]]) -> BuiltLayout:
        """The layout with jobs in this order, each on its first available slot; then shrunk, with idle GPUs given."""
        layout = Layout(self.context)
        for row in order:
            layout.place(row, slots[row])
            if layout.is_full():
                break
        layout.shrink()
        layout.give_idle(jobs=None)
        return BuiltLayout(order, layout, self.work_per_usd(layout), self.lateness_usd(layout))

    def work_per_usd(self, layout: Layout) -> float:
        """The formula above. A gang pays for all its nodes."""
        fleet, assigned = self.context.fleet, layout.assigned
        total = 0.0
        for number, rows in zip(layout.types, layout.rows, strict=True):
            used = sum([fleet.slot_gpus[assigned[row]] for row in rows])
            for row in rows:
                slot = assigned[row]
                nodes = fleet.slot_nodes[slot]
                part = fleet.slot_gpus[slot] / used * nodes
                cost = (
                    fleet.usd_per_second[number] * self.context.remaining[row][slot] * part + self._late_usd[row][slot]
                )
                total += self._slowest_seconds[row] / cost / nodes
        return total

    def work_per_usd_of(self, plans: Sequence[NodePlan]) -> float:
        return self.work_per_usd(layout_from_plans(self.state, self.context, plans))

    def lateness_usd(self, layout: Layout) -> float:
        return self._all_wait_usd + sum(
            [self._late_usd[row][slot] - self._wait_usd[row] for row, slot in layout.assigned.items()]
        )

    def random_orders(self, runs: int) -> Iterator[tuple[list[int], list[list[int]]]]:
        """Yields (order of jobs, slots by row); the first is that of Greedy."""
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
            # Sorting by log cost less a Gumbel variable draws without replacement with probability ∝ cost^-SELECTIVITY.
            drawn = cost - rng.gumbel(0.0, 1 / SELECTIVITY, cost.shape)
            slots: NDArray[np.int64] = np.lexsort((drawn, ~in_time), axis=-1)
            yield np.argsort(-(pressure + noise), kind="stable").tolist(), slots.tolist()


def run_count(jobs: int) -> int:
    return max(MIN_RUNS, min(RUNS, PLACED_JOBS // jobs))


def random_greedy(state: State) -> Decision:
    if not state.jobs:
        return Decision(nodes=())
    builder = LayoutBuilder(state)
    runs = (builder.build(order, slots) for order, slots in builder.random_orders(run_count(len(state.jobs))))
    best = next(runs)
    for each in runs:
        if each.better_than(best):
            best = each
    plans = best.layout.plans()
    return Decision(nodes=match_to_rented_nodes(state, plans), usd=decision_usd(state, plans))
