"""Our policy: a pattern MILP priced by look-ahead.

1. Times are corrected by what each job's progress has shown; a job not yet seen is planned at e^(0.5 σ) of its
   prediction.
2. Greedy's decision is the first candidate; F is its first end.
3. Capacity prices and values of jobs say what waiting and every slot cost from the next event on (lookahead.py).
4. The packing of least score at F, then waiting jobs onto what is free, smaller types, idle GPUs handed out
   (greedy.finished): a candidate, with an F of its own. Again with that F, at most `PASSES` times. Where there are
   types of which only a few can be had, jobs may rather wait for these (worth_renting.py).
5. The candidate of least score, each scored with its own F, is the decision: by this score never worse than Greedy.
6. Planned nodes become rented ones so that running jobs stay where they are (arranged.py, matching.py).

With more than `MANY` jobs something ends soon whatever is decided: one pass, and all are scored with Greedy's F. With
delays the time that jobs stand idle is in every cost (offers.py), types are the packing's own, and idle GPUs go only to
jobs that gain more than a restart.

What is certified: let F be the one that the decision is scored with. Were the next event min(Exp(λ_a), F) whatever is
decided, no decision would have a score below `bound_usd`; this one has the score `usd`. That says how well the decision
is packed, not how well the future is foreseen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainfare.model.queue import Decision, NodePlan, State
from trainfare.scheduler.highs import SolverError
from trainfare.scheduler.packing.arrange import arrange_nodes
from trainfare.scheduler.packing.matching import match_to_rented_nodes
from trainfare.scheduler.packing.pack import pack
from trainfare.scheduler.packing.pattern_model import Packing
from trainfare.scheduler.policies.greedy import fill_free_gpus, complete_plans, greedy_plans, give_idle_gpus
from trainfare.scheduler.pricing.lookahead import DecisionCosts, LookAhead
from trainfare.scheduler.pricing.available_slots import available_slots, seconds_until_end, feasible_seconds
from trainfare.scheduler.pricing.periods import limited_types
from trainfare.scheduler.pricing.reclaims import reclaims_per_second, expected_seconds_with_reclaims
from trainfare.scheduler.pricing.score import CandidatePlan, candidate_plan
from trainfare.scheduler.pricing.profitable_nodes import drop_unprofitable_nodes
from trainfare.scheduler.tables import corrected_remaining_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

PASSES = 3
MANY = 150
"""Jobs."""
GAP = 1e-3
CAUTION = 0.5
"""Times of jobs that have not been seen to work are planned at this many standard deviations above the prediction."""


def trainfare(state: State) -> Decision:
    """What to do now. A job for which no slot may be had, by the limits of types or its user's quota, waits.

    Where prices or times lie so far apart that the solver gives up, Greedy decides, and nothing is certified.
    """
    remaining = feasible_seconds(state, corrected_remaining_seconds(state, quantile=CAUTION))
    able = np.asarray(np.isfinite(remaining).any(axis=1))
    if not able.any():
        return Decision(nodes=(), usd=0.0, bound_usd=0.0)
    runnable = replace(state, jobs=tuple(each for each, can in zip(state.jobs, able.tolist(), strict=True) if can))
    try:
        search = _Search(runnable, remaining[able])
        best = min(search.candidates(), key=lambda each: each.usd)
        bound_usd = search.bound_usd(best.first_end_seconds)
    except SolverError:
        return Decision(nodes=match_to_rented_nodes(state, greedy_plans(runnable, remaining[able])))
    return Decision(
        nodes=match_to_rented_nodes(state, best.plan.nodes), usd=best.usd, bound_usd=min(best.usd, bound_usd)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredCandidate:
    """A plan, and its score with F = `first_end_seconds`."""

    plan: CandidatePlan
    usd: float
    first_end_seconds: float


class _Search:
    """Candidates for one decision, and the bounds that were proved on the way."""

    def __init__(self, state: State, remaining: "NDArray[np.float64]") -> None:
        self.state = state
        self.remaining = remaining
        self.limited = bool(limited_types(state.fleet))
        self.expected = expected_seconds_with_reclaims(remaining, reclaims_per_second(state.fleet), state.delays)
        self.available = available_slots(state)
        self.ends = seconds_until_end(self.available, self.remaining)
        self.ahead = LookAhead(state, self.available, self.remaining)
        self.users = [each.job.user for each in state.jobs]
        self._bounds: dict[float, float] = {}

    def candidates(self) -> list[ScoredCandidate]:
        """Greedy's, then that of each pass."""
        plan = self._plan(greedy_plans(self.state, self.remaining))
        if len(self.state.jobs) > MANY:
            first_end = plan.first_end_seconds(self.ends)
            return [self._scored(each, first_end) for each in (plan, self._packed(first_end))]
        found: list[ScoredCandidate] = []
        while math.isfinite(first_end := plan.first_end_seconds(self.ends)):
            found.append(self._scored(plan, first_end))
            if first_end in self._bounds or len(found) > PASSES:
                break
            plan = self._packed(first_end)
        return found

    def bound_usd(self, first_end: float) -> float:
        if first_end not in self._bounds:
            self._packed(first_end)
        return self._bounds[first_end]

    def _scored(self, plan: CandidatePlan, first_end: float) -> ScoredCandidate:
        return ScoredCandidate(plan=plan, usd=plan.usd(self.ahead.costs(first_end)), first_end_seconds=first_end)

    def _packed(self, first_end: float) -> CandidatePlan:
        costs = self.ahead.costs(first_end)
        packing = self._pack(costs)
        self._bounds[first_end] = packing.bound_usd
        if self.limited and not packing.nodes:  # it costs a boot to begin now, and will cost it later
            packing = self._pack(costs, least_nodes=1)
        packed = arrange_nodes(self.state, self.available, packing)
        plan = self._plan(self._finished(packed))
        if not self.limited:
            return plan
        worth = drop_unprofitable_nodes(self.state, self.remaining, plan, costs, packed=len(packed))
        return self._plan(worth) if worth else plan

    def _pack(self, costs: DecisionCosts, *, least_nodes: int = 0) -> Packing:
        return pack(
            self.available.fleet,
            costs.job_usd,
            costs.wait_usd,
            costs.node_usd,
            users=self.users,
            gap=GAP,
            least_nodes=least_nodes,
        )

    def _finished(self, nodes: Sequence[NodePlan]) -> list[NodePlan]:
        if not self.available.separates_new_nodes:
            return complete_plans(self.state, nodes, self.expected)
        # on nodes that are on: a job that keeps its slot goes on, one that changes it restarts
        until_end = self.available.idle_seconds[:, : self.remaining.shape[1]] + self.expected
        return give_idle_gpus(self.state, fill_free_gpus(self.state, nodes, until_end), until_end)

    def _plan(self, nodes: Sequence[NodePlan]) -> CandidatePlan:
        known = match_to_rented_nodes(self.state, nodes) if self.available.separates_new_nodes else tuple(nodes)
        return candidate_plan(self.state, self.available, known)
